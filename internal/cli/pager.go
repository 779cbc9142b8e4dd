// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
)

// page shows a text on the terminal through the user's pager: PAGER, else less. The text
// must be safe for a terminal; colours are the only escapes in it. A pager that cannot be
// started is left out.
func (a *app) page(ctx context.Context, text []byte) error {
	pager := a.getenv("PAGER")
	if pager == "" {
		pager = "less"
	}
	if pager == "cat" || strings.TrimSpace(pager) == "" {
		_, err := a.io.out.Write(text)
		return err
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", pager)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(text), a.io.out, a.io.err
	cmd.Env = os.Environ()
	if a.getenv("LESS") == "" {
		cmd.Env = append(cmd.Env, "LESS=FRX") // short texts at once; colours; the screen stays
	}
	if err := cmd.Start(); err != nil {
		_, err := a.io.out.Write(text)
		return err
	}
	err := cmd.Wait()
	if status, ok := err.(*exec.ExitError); ok && status.ExitCode() == 127 { //nolint:errorlint // Wait returns it bare
		_, err := a.io.out.Write(text) // there is no such pager
		return err
	}
	return nil // a user may leave before the end
}
