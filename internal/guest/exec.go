// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"io"

	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// Exec is a command with an attached client. The caller runs Run, which reads everything; other
// goroutines may call the other methods meanwhile. If the stream ends without an exit (Detach,
// the context, a broken link), the process keeps running in the guest as a background process.
type Exec struct {
	*attachment
	proc vm.Process
}

// Exec starts a command and stays attached. The context limits the start and the attachment.
func (c *Client) Exec(ctx context.Context, spec vm.ExecSpec) (*Exec, error) {
	s, b, err := c.attach(ctx, "/exec", link.EncodeExec(spec), 64<<10)
	if err != nil {
		return nil, err
	}
	e := &Exec{attachment: s}
	if e.proc, err = started(b); err != nil {
		return nil, s.giveUp(ctx, err)
	}
	s.id = e.proc.ID
	return e, nil
}

// Process returns the process as it was started.
func (e *Exec) Process() vm.Process { return e.proc }

// CloseStdin ends the input.
func (e *Exec) CloseStdin() error { return e.frame(link.FrameStdinEOF, nil) }

// Run copies the command's output until it has ended, and closes the stream.
// A writer that blocks slows the command down. If the link breaks before the
// exit is known, the error has kind GuestFault. If a writer fails, Run
// returns its error, and the process keeps running in the background.
func (e *Exec) Run(stdout, stderr io.Writer) (vm.ExitStatus, error) {
	lost := vm.Error{
		Msg:  "the link to the guest broke before the command ended",
		Hint: "the command may still run as a background process: see `warren ps NAME` and `warren logs NAME`",
	}
	return e.run(lost, func(t link.FrameType, b []byte) (err error) {
		switch t {
		case link.FrameStdout:
			_, err = stdout.Write(b)
		case link.FrameStderr:
			_, err = stderr.Write(b)
		default:
			err = fault("unexpected frame %d", t)
		}
		return err
	})
}
