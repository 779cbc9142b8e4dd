// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// sequences are what a terminal does not show: CSI, OSC and the like.
var sequences = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-_]|\x1b[ -/]*[0-~]`)

// Lines returns the non-empty lines of a log, without terminal sequences. Of a line
// that was overwritten, the last text stays.
func Lines(b []byte) []string {
	out := []string{}
	for l := range strings.SplitSeq(sequences.ReplaceAllString(string(b), ""), "\n") {
		l = strings.TrimRight(l, "\r \t")
		l = l[strings.LastIndexByte(l, '\r')+1:]
		if strings.TrimSpace(l) != "" {
			out = append(out, Clip(l))
		}
	}
	return out
}

// maxUses is the number of directories that are named.
const maxUses = 6

// Biggest picks the directories that explain a full disk. It leaves out small ones, and
// a directory whose space is almost all in one directory below it.
func Biggest(all []DiskUse) []DiskUse {
	slices.SortFunc(all, func(a, b DiskUse) int { return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Path, b.Path)) })
	all = all[:min(len(all), 200)]
	var out []DiskUse
	for _, u := range all {
		mostly := slices.ContainsFunc(all, func(o DiskUse) bool {
			return o.Path != u.Path && within(o.Path, u.Path) && o.Bytes*10 >= u.Bytes*8
		})
		if !mostly && len(out) < maxUses && u.Bytes*20 >= all[0].Bytes {
			out = append(out, u)
		}
	}
	return out
}
