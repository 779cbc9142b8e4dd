// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"context"
	"regexp"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// inHint matches the placeholders in a hint for names that its author does not know. The
// guest's agent, for example, does not know the name of its VM.
var inHint = regexp.MustCompile(`\b(NAME|IDENTITY)\b`)

// asNamed adapts err to a caller who named a VM by ref; "" = none. Subject and hint then
// call the VM as the caller did, whether it exists or not, and an identity by its id.
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
