// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

// policySocket is the name of the socket in RunDir at which every user of the guest reaches
// what http://policy.warren.internal answers, also without a name service or from a network
// namespace of its own.
const policySocket = "agent.sock"

// insideAddr is where the guest's network answers for the names inside VMs.
var insideAddr = syscall.SockaddrInet4{Port: 80, Addr: [4]byte{10, 0, 2, 4}}

const (
	maxPolicyConns = 16      // more wait to be accepted
	policyBuffer   = 4 << 10 // of each direction
)

// policyDoor passes the connections of the socket on. The other end bounds how long a client
// may be silent.
type policyDoor struct {
	to    syscall.SockaddrInet4
	mu    sync.Mutex
	conns map[*os.File]bool
}

// run serves the socket until ctx ends.
func (d *policyDoor) run(ctx context.Context, runDir string) error {
	path := filepath.Join(runDir, policySocket)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, _, err := listen(me(), &syscall.SockaddrUnix{Name: path})
	if err != nil {
		return err
	}
	defer l.Close()
	if err := os.Chmod(path, 0o666); err != nil {
		return err
	}
	var open sync.WaitGroup
	defer open.Wait()
	defer context.AfterFunc(ctx, func() {
		_ = l.SetDeadline(time.Unix(1, 0))
		d.cut()
	})()
	places := make(chan struct{}, maxPolicyConns)
	for ctx.Err() == nil {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return nil
		}
		c, err := accept(l)
		if err != nil {
			return err
		}
		open.Go(func() {
			defer func() { <-places }()
			d.pass(ctx, c)
		})
	}
	return nil
}

// me is the user of this process.
func me() linuxUser { return linuxUser{uid: uint32(os.Geteuid())} }

func accept(l *os.File) (*os.File, error) {
	fd, aerr := -1, error(nil)
	err := control(l, false, func(lfd int) bool {
		fd, _, aerr = syscall.Accept4(lfd, syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC)
		return !errors.Is(aerr, syscall.EAGAIN) && !errors.Is(aerr, syscall.EINTR) && !errors.Is(aerr, syscall.ECONNABORTED)
	})
	if err = errors.Join(err, aerr); err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "socket"), nil
}

// pass copies both ways until one end has closed. It closes c.
func (d *policyDoor) pass(ctx context.Context, c *os.File) {
	defer c.Close()
	to := d.to
	up, err := connect(me(), &to)
	if err != nil {
		_ = c.SetDeadline(time.Now().Add(time.Second))
		_, _ = c.Read(make([]byte, policyBuffer)) // closing with unread bytes would cut the answer
		_, _ = io.WriteString(c, "HTTP/1.0 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nwarren: the network of this VM does not answer; try again\n")
		return
	}
	defer up.Close()
	d.keep(ctx, c, up)
	defer d.forget(c, up)
	over := make(chan struct{})
	go func() { // ends with the connection
		defer close(over)
		copySome(up, c)
	}()
	copySome(c, up)
	<-over
}

// copySome copies until an end closes, and then ends both directions.
func copySome(to, from *os.File) {
	_, _ = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, policyBuffer))
	_ = to.SetDeadline(time.Unix(1, 0))
	_ = from.SetDeadline(time.Unix(1, 0))
}

func (d *policyDoor) keep(ctx context.Context, files ...*os.File) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range files {
		if d.conns == nil {
			d.conns = make(map[*os.File]bool)
		}
		d.conns[f] = true
		if ctx.Err() != nil { // cut has passed
			_ = f.SetDeadline(time.Unix(1, 0))
		}
	}
}

func (d *policyDoor) forget(files ...*os.File) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range files {
		delete(d.conns, f)
	}
}

// cut ends all connections. A guest that wakes on another machine has none of them any
// more, and their clients must learn that.
func (d *policyDoor) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for f := range d.conns {
		_ = f.SetDeadline(time.Unix(1, 0))
	}
}
