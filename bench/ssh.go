// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// peer is an OpenSSH server in a guest with two open connections: one of the ssh
// program, multiplexed (ControlMaster), and one of this process, so that each way
// of Warren has a counterpart that starts as many programs.
type peer struct {
	dir     string
	forward *forwarder
	inner   *ssh.Client
}

// access is what startPeer needs to know of a VM.
type access struct {
	exec   func(ctx context.Context, argv ...string) error
	put    func(ctx context.Context, to string, f *os.File) error
	socket string // of its monitor
}

func (s *server) access(id string) (access, error) {
	run, err := s.dir.Run()
	return access{
		exec:   func(ctx context.Context, argv ...string) error { return s.exec(ctx, id, argv...) },
		put:    func(ctx context.Context, to string, f *os.File) error { return s.put(ctx, id, to, f) },
		socket: layout.RunVM(run.VM(vm.ID(id))).Monitor(),
	}, err
}

// peer is startPeer with a directory of its own below the bench's.
func (b *bench) peer(ctx context.Context, id, dir string) (*peer, error) {
	dir = filepath.Join(b.dir, dir)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	a, err := b.server.access(id)
	if err != nil {
		return nil, err
	}
	return startPeer(ctx, a, dir)
}

// tools makes, once, a snapshot of a VM with the programs that peers need in the
// guest: an SSH server and sshfs, installed by its package manager. If that fails
// there is no such snapshot, and a note says so.
func (b *bench) tools(ctx context.Context) (err error) {
	if b.tooled != "" {
		return nil
	}
	id, err := b.server.createVM(ctx, vm.NetPackages)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.server.remove(context.WithoutCancel(ctx), id)) }()
	const install = "export DEBIAN_FRONTEND=noninteractive; " +
		"apt-get update -q && apt-get install -y -q --no-install-recommends openssh-server sshfs"
	if err := b.server.exec(ctx, id, "sh", "-c", install); err != nil {
		b.rep.note("no SSH server and no sshfs in the guest: %v", err)
		return nil
	}
	s, err := b.server.snapshot(ctx, id)
	b.tooled = string(s.SnapshotID)
	return err
}

// withTools makes a VM that has them, if possible.
func (b *bench) withTools(ctx context.Context) (string, error) {
	if err := b.tools(ctx); err != nil {
		return "", err
	}
	return b.server.createOf(ctx, cmp.Or(b.tooled, "base"), vm.NetPackages)
}

// startPeer starts the SSH server of a VM that has one, see withTools, and opens
// the connections. Its files are kept in dir.
func startPeer(ctx context.Context, a access, dir string) (_ *peer, err error) {
	const run = "mkdir -p /run/sshd /root/.ssh; chmod 700 /root/.ssh; ssh-keygen -A >/dev/null; " +
		"ss -tln | grep -q ':22 ' || /usr/sbin/sshd; ss -tln | grep -q ':22 '"
	if err := a.exec(ctx, "sh", "-c", run); err != nil {
		return nil, fmt.Errorf("start the SSH server in the guest: %w", err)
	}
	p := &peer{dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if err := finish(exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", p.key())); err != nil {
		return nil, err
	}
	pub, err := os.Open(p.key() + ".pub")
	if err != nil {
		return nil, err
	}
	defer pub.Close()
	if err := a.put(ctx, "/root/.ssh/authorized_keys", pub); err != nil {
		return nil, err
	}
	if p.forward, err = forward(ctx, a.socket, 22); err != nil {
		return nil, err
	}
	if err := finish(p.ssh(ctx, "-fN", "-M", "root@guest")); err != nil {
		return nil, err
	}
	return p, p.dialInner()
}

func (p *peer) key() string { return filepath.Join(p.dir, "key") }

// options are those of the ssh and scp programs.
func (p *peer) options() []string {
	host, port, _ := net.SplitHostPort(p.forward.l.Addr().String())
	var out []string
	for _, o := range []string{
		"ControlPath=" + filepath.Join(p.dir, "ctl"), "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR",
		"IdentityFile=" + p.key(), "IdentitiesOnly=yes", "HostName=" + host, "Port=" + port, "BatchMode=yes", "Compression=no",
	} {
		out = append(out, "-o", o)
	}
	return append([]string{"-F", "/dev/null"}, out...)
}

func (p *peer) ssh(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "ssh", append(p.options(), args...)...)
}

func (p *peer) scp(ctx context.Context, from, to string) *exec.Cmd {
	return exec.CommandContext(ctx, "scp", append(p.options(), "-q", from, to)...)
}

func (p *peer) dialInner() error {
	pem, err := os.ReadFile(p.key())
	if err != nil {
		return err
	}
	signer, err := ssh.ParsePrivateKey(pem)
	if err != nil {
		return err
	}
	p.inner, err = ssh.Dial("tcp", p.forward.l.Addr().String(), &ssh.ClientConfig{
		User: "root", Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)},
		HostKeyCallback: ssh.InsecureIgnoreHostKey(), //nolint:gosec // our own guest, made a minute ago
	})
	return err
}

// session runs a command in a session of the open connection.
func (p *peer) session(command string) error {
	s, err := p.inner.NewSession()
	if err != nil {
		return err
	}
	err = s.Run(command)
	_ = s.Close() // it has ended by itself
	return err
}

func (p *peer) close() error {
	var errs []error
	if p.inner != nil {
		errs = append(errs, p.inner.Close())
	}
	if p.forward != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second) // also after ^C
		defer cancel()
		_ = p.ssh(ctx, "-O", "exit", "root@guest").Run() // there may be none
		errs = append(errs, p.forward.close())
	}
	return errors.Join(errs...)
}

// forwarder is a local TCP port that leads to a port of a guest, through its
// monitor's socket.
type forwarder struct {
	l      net.Listener
	socket string
	port   uint16
	wg     sync.WaitGroup
}

func forward(ctx context.Context, socket string, port uint16) (*forwarder, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &forwarder{l: l, socket: socket, port: port}
	f.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f.wg.Go(func() { f.serve(ctx, c) })
		}
	})
	return f, nil
}

func (f *forwarder) serve(ctx context.Context, c net.Conn) {
	defer c.Close()
	g, early, err := dialPort(ctx, f.socket, f.port)
	if err != nil {
		return
	}
	defer g.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(g, c) // its end is the connection's
		_ = g.Close()
	}()
	_, _ = io.Copy(c, early)
	_ = c.Close()
	<-done
}

// dialPort opens a stream to a guest's port as a monitor offers it.
func dialPort(ctx context.Context, socket string, port uint16) (net.Conn, io.Reader, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, nil, err
	}
	if _, err := fmt.Fprintf(c, "GET /port/%d HTTP/1.1\r\nHost: monitor\r\nConnection: Upgrade\r\nUpgrade: warren-stream\r\n\r\n", port); err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, nil) //nolint:bodyclose // the connection is closed, or it is the stream
	if err == nil && resp.StatusCode != http.StatusSwitchingProtocols {
		said, _ := io.ReadAll(io.LimitReader(resp.Body, 500))
		err = fmt.Errorf("dial port %d of the guest: %s: %s", port, resp.Status, strings.TrimSpace(string(said)))
	}
	if err != nil {
		return nil, nil, errors.Join(err, c.Close())
	}
	return c, r, nil
}

func (f *forwarder) close() error {
	err := f.l.Close()
	f.wg.Wait()
	return err
}
