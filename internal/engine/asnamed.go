// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"regexp"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// inHint are the words that stand in a hint for what its writer does not know:
// the guest's agent, for one, has never heard how its VM is called.
var inHint = regexp.MustCompile(`\b(NAME|IDENTITY)\b`)

// AsNamed returns err as it is told to a caller who named a VM by ref ("" = none):
// its subject and the commands of its hint call the VM what the caller called it,
// whether it is there or not, and the identity by the id that it has.
func (e *Engine) AsNamed(c *vm.Call, ref string, err error) error {
	if ref == "" || err == nil {
		return err
	}
	out := *vm.AsError(err)
	out.Hint = inHint.ReplaceAllStringFunc(out.Hint, func(word string) string {
		switch {
		case word == "NAME":
			return ref
		case c.Actor.Identity != "":
			return string(c.Actor.Identity)
		}
		return word
	})
	e.mu.Lock()
	s, lerr := e.lookupLocked(c.Actor, ref)
	e.mu.Unlock()
	if lerr != nil {
		return &out
	}
	if out.Subject == string(s.id) {
		out.Subject = ref
	}
	out.Hint = strings.ReplaceAll(out.Hint, string(s.id), ref)
	return &out
}
