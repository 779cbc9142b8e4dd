// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// Digest names a recipe by everything that it would put into an image, the contents of its
// files included: "sha256:" and 64 hex digits.
func (r Recipe) Digest() (string, error) {
	data, err := json.Marshal(r)
	if err != nil {
		return "", vm.Errorf(vm.Internal, r.Name, "the recipe cannot be encoded: %w", err)
	}
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// Says lists what a recipe does, completely but for the contents of files, which the digest
// covers. The texts are the recipe's and must be treated as hostile.
func (r Recipe) Says() []string {
	from := r.From
	if from == "" {
		from = "base"
	}
	out := []string{"name: " + r.Name, "builds on: " + from}
	if r.Dockerfile != "" {
		out[1] = "builds " + r.Dockerfile + " in a VM with the internet:\n" + r.Instructions
		for _, name := range slices.Sorted(maps.Keys(r.Args)) {
			out = append(out, "with the ARG "+name+"="+r.Args[name])
		}
	}
	if len(r.Packages) > 0 {
		out = append(out, "installs packages: "+strings.Join(r.Packages, " "))
	}
	for _, d := range r.Downloads {
		out = append(out, "downloads "+d.From+" to "+d.To+" ("+d.Digest+")")
	}
	for _, f := range r.Files {
		sum := sha256.Sum256([]byte(f.Content))
		out = append(out, fmt.Sprintf("writes %s, %d bytes, mode %s, sha256 %s", f.Path, len(f.Content), orDefault(f.Mode, "0644"), hex.EncodeToString(sum[:])))
	}
	for _, u := range r.Users {
		out = append(out, "makes the user "+u.Name+inGroups(u.Groups))
	}
	for _, s := range r.Services {
		switch {
		case s.Unit != "":
			out = append(out, "writes the service "+s.Name+":\n"+s.Unit)
		case s.Enable != nil && !*s.Enable:
			out = append(out, "disables the service "+s.Name)
		default:
			out = append(out, "enables the service "+s.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Env)) {
		out = append(out, "sets "+name+"="+r.Env[name])
	}
	for _, run := range r.Run {
		out = append(out, "runs as root in the image, with this host's network:\n"+run)
	}
	return out
}

func orDefault(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

func inGroups(groups []string) string {
	if len(groups) == 0 {
		return ""
	}
	return " in the groups " + strings.Join(groups, ", ")
}
