// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"os/exec"
	"strings"
	"time"

	"github.com/mholt/acmez/v3/acme"

	"github.com/warren-vm/warren/vm"
)

const (
	// cleanUpTimeout limits the removal of a record, which also happens after an order
	// was cancelled.
	cleanUpTimeout = time.Minute
	// hookLinger is how long children of the program may keep its output open.
	hookLinger = 5 * time.Second
	maxHookSay = 500 // bytes of its output in an error
)

// dnsHook answers DNS-01 challenges with a program of the operator, called as
// "PROGRAM present NAME VALUE" and "PROGRAM cleanup NAME VALUE".
type dnsHook struct{ program string }

// Present sets the TXT record. It blocks until the program ends, which it must do
// once the zone's name servers return the record.
func (h dnsHook) Present(ctx context.Context, c acme.Challenge) error {
	return h.run(ctx, "present", c)
}

// CleanUp removes the record.
func (h dnsHook) CleanUp(ctx context.Context, c acme.Challenge) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer stop()
	return h.run(ctx, "cleanup", c)
}

func (h dnsHook) run(ctx context.Context, verb string, c acme.Challenge) error {
	var said limitedText
	cmd := exec.CommandContext(ctx, h.program, verb, c.DNS01TXTRecordName()+".", c.DNS01KeyAuthorization())
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &said, &said, hookLinger
	if err := cmd.Run(); err != nil {
		return vm.Errorf(vm.Unavailable, h.program, "%s of the record %s: %w: %s", verb, c.DNS01TXTRecordName(), err, strings.TrimSpace(said.String()))
	}
	return nil
}

// limitedText keeps the beginning of the text written to it.
type limitedText struct{ strings.Builder }

// Write never fails.
func (t *limitedText) Write(p []byte) (int, error) {
	t.Builder.Write(p[:min(len(p), maxHookSay-t.Len())])
	return len(p), nil
}
