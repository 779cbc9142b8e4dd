// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/warren-vm/warren/vm"
)

const maxRefName = 200 // bytes of a branch's or tag's short name

var objectID = vm.NewPattern(`^[0-9a-f]{40}$`)

// checkBranch refuses what cannot be the short name of a branch.
func checkBranch(name string) error {
	shown := vm.GuestPath(vm.Clip(name, 2*maxRefName)).String()
	if name == "" {
		return vm.Errorf(vm.Invalid, "", "the name of the branch is empty").WithCode("BRANCH_NAME_EMPTY")
	}
	if why := badRef(name); why != "" {
		return vm.Errorf(vm.Invalid, shown, "is not a name of a branch: %s", why).WithCode("GIT_INVALID_REQUEST", "branch", shown).
			WithHint("use a name such as main or agent/box/fix-login")
	}
	return nil
}

// badRef says why a short name cannot be used for a branch or a tag; "" = it can. It
// keeps git's rules, and refuses what could be shown as something else.
func badRef(name string) string {
	switch {
	case len(name) > maxRefName:
		return "it is too long"
	case name == "HEAD" || name == "@" || strings.HasPrefix(name, "refs/"):
		return "git uses this name itself"
	case strings.HasPrefix(name, "-"):
		return "it begins with a dash"
	case strings.Contains(name, "..") || strings.Contains(name, "@{"):
		return "git gives .. and @{ a meaning"
	case strings.HasSuffix(name, "."):
		return "it ends in a dot"
	case !utf8.ValidString(name):
		return "it is not UTF-8"
	case objectID.MatchString(name):
		return "it looks like the id of a commit"
	}
	for _, c := range name {
		if strings.ContainsRune(" ~^:?*[\\", c) || !unicode.IsPrint(c) {
			return "it contains a space or one of ~^:?*[\\, or a character that cannot be shown"
		}
	}
	for _, part := range strings.Split(name, "/") {
		switch {
		case part == "":
			return "a part of it is empty"
		case strings.HasPrefix(part, "."):
			return "a part begins with a dot"
		case strings.HasSuffix(part, ".lock"):
			return "a part ends in .lock"
		}
	}
	return ""
}

// badFullRef says why a full name cannot be pushed to; "" = it can.
func badFullRef(name string) string {
	for _, kind := range []string{"refs/heads/", "refs/tags/", "refs/notes/"} {
		if short, ok := strings.CutPrefix(name, kind); ok {
			return badRef(short)
		}
	}
	return "only branches, tags and notes can be pushed"
}
