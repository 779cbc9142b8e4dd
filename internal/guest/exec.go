// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"io"

	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// Exec is a command whose client is attached. The caller runs Run, which
// reads everything, and may meanwhile call the others from other goroutines.
// When the stream ends without an exit, by Detach, the context or a broken
// link, the process continues in the guest as a background process.
type Exec struct {
	*attachment
	proc vm.Process
}

// Exec starts a command and stays attached. The context bounds the start and
// the attachment.
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

// CloseStdin says that no more input comes.
func (e *Exec) CloseStdin() error { return e.frame(link.FrameStdinEOF, nil) }

// Run copies the command's output until it has ended, and closes the stream.
// A writer that blocks slows the command down. When the link breaks before
// the exit is known the error has kind GuestFault; when a writer fails its
// error is returned and the process continues in the background.
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
