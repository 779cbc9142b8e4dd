// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package pathrule

import (
	"strings"

	"github.com/warren-vm/warren/vm"
)

// letters stand for the actions in Encode.
var letters = map[vm.PathAction]string{vm.PathAllow: "a", vm.PathReadOnly: "r", vm.PathAsk: "q", vm.PathDeny: "d", vm.PathHide: "h"}

// Encode writes rules in a short form, a line each: a letter and the pattern.
func Encode(list []vm.PathRule) string {
	var b strings.Builder
	for _, r := range list {
		b.WriteString(letters[r.Action] + r.Path + "\n")
	}
	return b.String()
}

// Decode compiles what Encode wrote. Kinds: as Check.
func Decode(text string) (*Set, error) {
	var list []vm.PathRule
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		r := vm.PathRule{Path: line[min(1, len(line)):]}
		for action, letter := range letters {
			if strings.HasPrefix(line, letter) {
				r.Action = action
			}
		}
		list = append(list, r)
	}
	return Compile(list)
}
