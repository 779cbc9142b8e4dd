// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package qmp is a client of QEMU's machine protocol: one connection, one reader,
// commands answered by id, events delivered in order. It knows the protocol and no
// command; package qemu knows the commands. Only qemu and monitor may import it.
package qmp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// Error is QEMU's refusal of a command.
type Error struct {
	Command string
	Class   string // e.g. "GenericError", "CommandNotFound"
	Desc    string
}

func (e *Error) Error() string { return fmt.Sprintf("qemu %s: %s", e.Command, e.Desc) }

// ErrClosed is the cause of every failure after the connection has ended.
var ErrClosed = errors.New("qmp: connection closed")

// Client is one QMP connection after its handshake. Its methods may be called
// from several goroutines.
type Client struct {
	conn    net.Conn
	Version string // e.g. "7.2.22", as the greeting said

	wmu sync.Mutex // serialises writes, so that a passed descriptor stays with its command

	mu      sync.Mutex // guards the fields below
	next    uint64
	pending map[string]chan message
	subs    map[*Events]struct{}
	err     error // set once, when the reader has ended

	done chan struct{} // closed when the reader has ended
}

// Dial connects to QEMU's unix socket and negotiates.
func Dial(ctx context.Context, path string) (*Client, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("qmp: %w", err)
	}
	return New(ctx, conn)
}

// New waits for the greeting on conn and negotiates. The client owns conn from
// here on; it is closed when New fails.
func New(ctx context.Context, conn net.Conn) (*Client, error) {
	c := &Client{
		conn:    conn,
		pending: make(map[string]chan message),
		subs:    make(map[*Events]struct{}),
		done:    make(chan struct{}),
	}
	r := bufio.NewReaderSize(conn, 4<<10)
	if err := c.greet(ctx, r); err != nil {
		conn.Close()
		return nil, err
	}
	go c.read(r)
	if err := c.Execute(ctx, "qmp_capabilities", nil, nil); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// greet reads the greeting; ctx ends the wait.
func (c *Client) greet(ctx context.Context, r *bufio.Reader) error {
	stop := context.AfterFunc(ctx, func() { _ = c.conn.SetReadDeadline(time.Unix(1, 0)) })
	m, err := decode(r)
	if !stop() {
		if cause := ctx.Err(); cause != nil {
			return fmt.Errorf("qmp: no greeting: %w", cause)
		}
	}
	if err != nil {
		return fmt.Errorf("qmp: no greeting: %w", err)
	}
	if m.Greeting == nil {
		return errors.New("qmp: the first message is not a greeting")
	}
	v := m.Greeting.Version.QEMU
	c.Version = fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Micro)
	return c.conn.SetReadDeadline(time.Time{})
}

// Execute runs a command and decodes its result into out, unless out is nil. A
// refusal is an *Error. When ctx ends first, its error is returned and a later
// answer is dropped.
func (c *Client) Execute(ctx context.Context, command string, args, out any) error {
	id, ch, err := c.register()
	if err != nil {
		return fmt.Errorf("qmp %s: %w", command, err)
	}
	defer c.forget(id)
	if err := c.send(ctx, request{Execute: command, Arguments: args, ID: id}); err != nil {
		return fmt.Errorf("qmp %s: %w", command, err)
	}
	select {
	case m := <-ch:
		return m.result(command, out)
	case <-ctx.Done():
		return fmt.Errorf("qmp %s: %w", command, ctx.Err())
	case <-c.done:
	}
	select { // the answer may have come just before the end
	case m := <-ch:
		return m.result(command, out)
	default:
		return fmt.Errorf("qmp %s: %w", command, c.Err())
	}
}

func (c *Client) register() (string, chan message, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return "", nil, c.err
	}
	c.next++
	id := strconv.FormatUint(c.next, 10)
	ch := make(chan message, 1)
	c.pending[id] = ch
	return id, ch, nil
}

func (c *Client) forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
}

// send writes one request. If the context ends in the middle of a write, the
// connection ends, because half a request cannot be taken back.
func (c *Client) send(ctx context.Context, r request) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	data = append(data, '\n')
	c.wmu.Lock()
	defer c.wmu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = c.conn.SetWriteDeadline(time.Unix(1, 0))
	})
	defer func() {
		if !stop() { // ctx may have ended just after the write: its deadline must not fail the next one
			<-ended
			_ = c.conn.SetWriteDeadline(time.Time{})
		}
	}()
	if _, err = c.conn.Write(data); err != nil {
		c.conn.Close()
		if cause := ctx.Err(); cause != nil {
			return cause
		}
	}
	return err
}

// read is the one reader. It ends when the connection does.
func (c *Client) read(r *bufio.Reader) {
	for {
		m, err := decode(r)
		if err != nil {
			c.finish(err)
			return
		}
		c.dispatch(m)
	}
}

func (c *Client) dispatch(m message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.Event != "" {
		for s := range c.subs {
			s.put(m.event())
		}
		return
	}
	if ch, ok := c.pending[m.ID]; ok {
		delete(c.pending, m.ID)
		ch <- m
	}
}

func (c *Client) finish(err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		err = ErrClosed
	} else {
		err = fmt.Errorf("%w: %w", ErrClosed, err)
	}
	c.conn.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	close(c.done)
	for s := range c.subs {
		s.end()
	}
	clear(c.subs)
}

// Err returns why the connection ended; nil while it lives.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection and waits for the reader. It may be called again.
func (c *Client) Close() error {
	err := c.conn.Close()
	<-c.done
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
