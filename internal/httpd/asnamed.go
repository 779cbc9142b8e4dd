// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"context"
	"regexp"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// inHint are the words that stand in a hint for what the hint's writer does not know.
// The guest's agent, for example, does not know the name of its VM.
var inHint = regexp.MustCompile(`\b(NAME|IDENTITY)\b`)

// asNamed returns err in the words of a caller who named a VM by ref; "" = none.
// Subject and hint call the VM what the caller called it, whether there is such a VM
// or not, and an identity by its id.
func (s *server) asNamed(ctx context.Context, c *vm.Call, ref string, err error) error {
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
	rec, lerr := s.Engine.Get(ctx, c, ref)
	if lerr != nil {
		return &out
	}
	if out.Subject == string(rec.ID) {
		out.Subject = ref
	}
	out.Hint = strings.ReplaceAll(out.Hint, string(rec.ID), ref)
	return &out
}
