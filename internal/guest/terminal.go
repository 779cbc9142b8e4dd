// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package guest

import (
	"context"
	"io"
	"net/url"
	"time"

	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// Terminal is one attachment to a terminal in a guest. The caller runs Run, which reads
// everything; other goroutines may call the other methods meanwhile. If the stream ends
// without an exit (Detach, the context, a broken link), the terminal keeps running in the
// guest. Output that the caller does not take waits in the guest and uses no memory here.
type Terminal struct {
	*attachment
	info vm.TerminalSession
}

// OpenTerminal starts a program on a new terminal and attaches to it.
func (c *Client) OpenTerminal(ctx context.Context, spec vm.TerminalSpec) (*Terminal, error) {
	return c.terminal(ctx, "/pty", link.EncodeTerminalSpec(spec))
}

// AttachTerminal attaches to a terminal, which first replays what the view asks for.
func (c *Client) AttachTerminal(ctx context.Context, id string, view vm.TerminalView) (*Terminal, error) {
	q := url.Values{
		"id": {id}, "user": {view.User}, "cols": {itoa(int64(view.Cols))}, "rows": {itoa(int64(view.Rows))}, "since": {itoa(view.Since)},
	}
	return c.terminal(ctx, "/pty/attach?"+q.Encode(), nil)
}

func (c *Client) terminal(ctx context.Context, target string, body []byte) (*Terminal, error) {
	s, b, err := c.attach(ctx, target, body, 16<<10)
	if err != nil {
		return nil, err
	}
	t := &Terminal{attachment: s}
	if t.info, err = link.DecodeTerminal(b); err != nil {
		return nil, s.giveUp(ctx, odd(err))
	}
	s.id, s.path = t.info.ID, "/pty" // the same refusals are allowed as for /pty
	return t, nil
}

// Session returns the terminal as it was at the attachment.
func (t *Terminal) Session() vm.TerminalSession { return t.info }

// Resize sets the size of this viewer. The terminal gets the size of the smallest viewer.
func (t *Terminal) Resize(cols, rows int) error {
	return t.frame(link.FrameSize, link.EncodeSize(cols, rows))
}

// Run passes output on until the program has ended, and closes the stream. It calls
// replay before output that repeats or redraws earlier output: after an attachment, and
// after this viewer fell too far behind. If the link breaks before the exit is known,
// the error has kind GuestFault. If replay or the writer fails, Run returns that error.
func (t *Terminal) Run(replay func(vm.TerminalReplay) error, out io.Writer) (vm.ExitStatus, error) {
	lost := vm.Error{Msg: "the link to the guest broke", Hint: "the terminal keeps running: attach again"}
	return t.run(lost, func(kind link.FrameType, b []byte) error {
		switch kind {
		case link.FrameStdout:
			_, err := out.Write(b)
			return err
		case link.FrameReplay:
			r, err := link.DecodeReplay(b)
			if err != nil {
				return odd(err)
			}
			return replay(r)
		}
		return fault("unexpected frame %d", kind)
	})
}

// Terminals lists the terminals, oldest first, including recently ended ones.
func (c *Client) Terminals(ctx context.Context) ([]vm.TerminalSession, error) {
	b, err := c.ask(ctx, "GET", "/ptys", nil, nil)
	if err != nil {
		return nil, err
	}
	list, err := link.DecodeTerminals(b)
	return list, odd(err)
}

// CloseTerminal ends a terminal's programs and removes it. user is the Linux
// user that it was opened as.
func (c *Client) CloseTerminal(ctx context.Context, user, id string) (vm.TerminalSession, error) {
	b, err := c.ask(ctx, "POST", "/pty/close", url.Values{"id": {id}, "user": {user}}, nil)
	if err != nil {
		return vm.TerminalSession{}, err
	}
	t, err := link.DecodeTerminal(b)
	return t, odd(err)
}

// ReadTerminal returns what a terminal shows, and its output from an offset;
// a negative offset asks for no output.
func (c *Client) ReadTerminal(ctx context.Context, user, id string, since int64) (vm.TerminalContent, error) {
	return c.content(ctx, "GET", "/pty/read", url.Values{"id": {id}, "user": {user}, "since": {itoa(since)}}, nil)
}

// SendTerminal types into a terminal and returns the result.
func (c *Client) SendTerminal(ctx context.Context, id string, s vm.TerminalSend) (vm.TerminalContent, error) {
	q := url.Values{
		"id": {id}, "user": {s.User},
		"quietMs": {itoa(int64(s.Quiet / time.Millisecond))}, "limitMs": {itoa(int64(s.Limit / time.Millisecond))},
	}
	return c.content(ctx, "POST", "/pty/send", q, s.Data)
}

func (c *Client) content(ctx context.Context, method, path string, q url.Values, body []byte) (vm.TerminalContent, error) {
	b, err := c.ask(ctx, method, path, q, body)
	if err != nil {
		return vm.TerminalContent{}, err
	}
	content, err := link.DecodeContent(b)
	return content, odd(err)
}
