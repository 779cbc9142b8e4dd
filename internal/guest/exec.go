// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// Exec is a command whose client is attached. The caller runs Run, which
// reads everything, and may meanwhile call the others from other goroutines.
// When the stream ends without an exit, by Detach, the context or a broken
// link, the process goes on in the guest as a background process.
type Exec struct {
	conn *headReader
	in   *bufio.Reader
	proc vm.Process
	stop func() bool

	wmu sync.Mutex // one frame at a time

	window
}

// Exec starts a command and stays attached. The context bounds the start and
// the attachment.
func (c *Client) Exec(ctx context.Context, spec vm.ExecSpec) (*Exec, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, broken(ctx, err)
	}
	e := &Exec{conn: newHeadReader(conn), window: newWindow()}
	e.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	if err := e.start(spec); err != nil {
		e.stop()
		_ = conn.Close()
		return nil, broken(ctx, err)
	}
	return e, nil
}

// start sends the request and reads up to the started frame.
func (e *Exec) start(spec vm.ExecSpec) error {
	e.in = bufio.NewReaderSize(e.conn, 64<<10)
	b, err := upgrade(e.conn, e.in, "/exec", link.EncodeExec(spec))
	if err != nil {
		return err
	}
	e.proc, err = started(b)
	return err
}

// upgrade sends a request whose answer is a stream of frames, and returns the
// first of them, which says what was started.
func upgrade(conn *headReader, in *bufio.Reader, target string, body []byte) ([]byte, error) {
	path, _, _ := strings.Cut(target, "?")
	head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: agent\r\nConnection: Upgrade\r\nUpgrade: warren-exec\r\nContent-Length: %d\r\n\r\n", target, len(body))
	if _, err := conn.Write(append([]byte(head), body...)); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		defer resp.Body.Close()
		b, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		if err != nil {
			return nil, err
		}
		return nil, refusal(path, b)
	}
	conn.lift()
	t, b, err := link.NewFrameReader(in).Next()
	switch {
	case err != nil:
		return nil, err
	case t == link.FrameError:
		return nil, refusal(path, b)
	case t != link.FrameStarted:
		return nil, fault("frame %d before anything had started", t)
	}
	return b, nil
}

// Process returns the process as it was started.
func (e *Exec) Process() vm.Process { return e.proc }

// Write sends input. It waits while the process does not read; input that
// the process will never read is dropped.
func (e *Exec) Write(p []byte) (int, error) {
	return e.input(p, e.frame)
}

// CloseStdin says that no more input comes.
func (e *Exec) CloseStdin() error { return e.frame(link.FrameStdinEOF, nil) }

// Signal sends a signal, by its name without SIG, to the process group.
func (e *Exec) Signal(name string) error { return e.frame(link.FrameSignal, []byte(name)) }

// Detach ends the attachment; the process becomes a background process.
func (e *Exec) Detach() error {
	e.finish()
	return e.conn.Close()
}

func (e *Exec) frame(t link.FrameType, b []byte) error {
	e.wmu.Lock()
	defer e.wmu.Unlock()
	if err := link.WriteFrame(e.conn, t, b); err != nil {
		return &vm.Error{Kind: vm.GuestFault, Subject: e.proc.ID, Msg: "the link to the guest's agent broke", Err: err}
	}
	return nil
}

// Run copies the command's output until it has ended, and closes the stream.
// A writer that blocks slows the command down. When the link breaks before
// the exit is known the error has kind GuestFault; when a writer fails its
// error is returned and the process goes on in the background.
func (e *Exec) Run(stdout, stderr io.Writer) (vm.ExitStatus, error) {
	defer e.conn.Close()
	defer e.stop()
	defer e.finish()
	frames := link.NewFrameReader(e.in)
	for {
		t, b, err := frames.Next()
		if err != nil {
			return vm.ExitStatus{}, &vm.Error{
				Kind: vm.GuestFault, Subject: e.proc.ID, Msg: "the link to the guest broke before the command ended", Err: err,
				Hint: "the command may still run as a background process: see `warren ps NAME` and `warren logs NAME`",
			}
		}
		switch t {
		case link.FrameStdout:
			_, err = stdout.Write(b)
		case link.FrameStderr:
			_, err = stderr.Write(b)
		case link.FrameStdinAck:
			if err := e.acknowledged(b); err != nil {
				return vm.ExitStatus{}, err
			}
		case link.FrameError:
			return vm.ExitStatus{}, refusal("/exec", b)
		case link.FrameExit:
			s, err := link.DecodeExit(b)
			return s, odd(err)
		default:
			return vm.ExitStatus{}, fault("unexpected frame %d", t)
		}
		if err != nil {
			return vm.ExitStatus{}, err
		}
	}
}
