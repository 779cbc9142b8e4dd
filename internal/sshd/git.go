// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package sshd

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"

	"github.com/warren-vm/warren/vm"
)

// gitUser is the user name that leads to the repositories of the server, as in
// ssh://git@HOST/REPO. A VM of this name is reached as git+root, or by its id.
const gitUser = "git"

// Repositories are the git repositories that the server hosts.
type Repositories interface {
	// Get returns a repository that the caller may read, by its id or name.
	Get(ctx context.Context, c *vm.Call, ref string) (vm.Repository, error)
	// ServeStream runs git-upload-pack or git-receive-pack until the client is served or
	// ctx ends; protocol is the client's GIT_PROTOCOL.
	ServeStream(ctx context.Context, c *vm.Call, ref, service, protocol string, in io.Reader, out, errs io.Writer) error
}

// hosted reports whether the user name leads to repositories and not to a VM.
func (n userName) hosted() bool { return n.ref == gitUser && n.user == "" }

// gitClient is a connection to the repositories.
type gitClient struct {
	client
	holders []vm.Actor // the client may act as any of them: several identities may have one SSH key
}

// serveGit serves a connection to the repositories until its end or the end of the right.
func (s *Server) serveGit(ctx context.Context, conn *ssh.ServerConn, channels <-chan ssh.NewChannel, requests <-chan *ssh.Request, who *visitor) {
	ctx, release := context.WithCancel(ctx)
	defer release()
	if len(who.holders) == 1 { // else each session ends with its own right
		var end context.CancelFunc
		ctx, end = s.cfg.Engine.Session(ctx, who.call(), "", "")
		defer end()
	}
	g := &gitClient{client: client{s: s, ctx: ctx, conn: conn, visitor: *who}, holders: who.holders}
	watching := make(chan struct{})
	go func() { // ends with the connection
		defer close(watching)
		g.watch()
	}()
	g.work.Go(func() { // no request about the connection has an effect; any reply answers a keepalive
		for r := range requests {
			_ = r.Reply(false, nil)
		}
	})
	for ch := range channels {
		g.channel(ch)
	}
	release()
	g.end(nil)
	<-watching
	g.work.Wait()
}

// channel answers a request for a channel: only sessions lead to repositories.
func (g *gitClient) channel(ch ssh.NewChannel) {
	if ch.ChannelType() != "session" {
		_ = ch.Reject(ssh.Prohibited, "repositories have sessions only")
		return
	}
	g.mu.Lock()
	full := g.sessions >= maxSessions
	if !full {
		g.sessions++
	}
	g.mu.Unlock()
	if full {
		_ = ch.Reject(ssh.ResourceShortage, "this connection has too many channels")
		return
	}
	g.work.Go(func() {
		g.session(ch)
		g.mu.Lock()
		g.sessions--
		g.mu.Unlock()
	})
}

// session serves one fetch or push.
func (g *gitClient) session(nc ssh.NewChannel) {
	ch, requests, err := nc.Accept()
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(g.ctx) // ends when the client has left
	defer cancel()
	defer shut(ch)
	protocol, started := "", false
	var over sync.WaitGroup
	for r := range requests {
		var command string
		ok := false
		switch r.Type {
		case "env":
			var p struct{ Name, Value string }
			if ok = ssh.Unmarshal(r.Payload, &p) == nil && p.Name == "GIT_PROTOCOL" && len(p.Value) < 256 && !started; ok {
				protocol = p.Value
			}
		case "exec":
			var p struct{ Command string }
			ok = ssh.Unmarshal(r.Payload, &p) == nil && !started
			command = p.Command
		case "shell":
			ok = !started
		}
		_ = r.Reply(ok, nil) // an error says that the client has left
		if ok && r.Type != "env" {
			started = true
			over.Go(func() {
				defer shut(ch)
				g.run(ctx, ch, command, protocol)
			})
		}
	}
	cancel()
	over.Wait()
}

// run carries out one command of the client and sends its exit status.
func (g *gitClient) run(ctx context.Context, ch ssh.Channel, command, protocol string) {
	s := session{c: &g.client, ch: ch}
	service, ref, err := gitCommand(command)
	if err != nil {
		s.refuse(err)
		return
	}
	c, err := g.callFor(ctx, ref)
	if err != nil {
		s.refuse(err)
		return
	}
	ctx, release := g.s.cfg.Engine.Session(ctx, c, "", "")
	defer release()
	err = g.s.cfg.Repositories.ServeStream(ctx, c, ref, service, protocol, ch, ch, ch.Stderr())
	if why := context.Cause(ctx); why != nil && !errors.Is(why, context.Canceled) {
		err = why // the right has ended
	}
	if err != nil {
		s.refuse(err)
		return
	}
	s.exit(vm.ExitStatus{})
}

// callFor returns a call of the first holder who may read the repository.
func (g *gitClient) callFor(ctx context.Context, ref string) (*vm.Call, error) {
	var refusal error
	for _, a := range g.holders {
		c := &vm.Call{Actor: a, Request: vm.NewRequestID(), Via: vm.ActivitySSH}
		_, err := g.s.cfg.Repositories.Get(ctx, c, ref)
		if err == nil {
			return c, nil
		}
		if refusal == nil {
			refusal = err
		}
	}
	return nil, refusal
}

// gitCommand reads what git runs on the other side: git-upload-pack '/REPO'.
func gitCommand(command string) (service, ref string, err error) {
	program, arg, ok := strings.Cut(command, " ")
	if program == "git" { // "git upload-pack", as some clients say it
		program, arg, ok = strings.Cut(arg, " ")
		program = "git-" + program
	}
	if !ok || program != "git-upload-pack" && program != "git-receive-pack" {
		return "", "", vm.Errorf(vm.Denied, gitUser, "this user name leads to git repositories, and has no shell").
			WithHint("git clone ssh://git@HOST:PORT/REPOSITORY; a VM of this name is git+root")
	}
	ref = strings.TrimSpace(arg)
	if inner, quoted := strings.CutPrefix(ref, "'"); quoted {
		inner, ok = strings.CutSuffix(inner, "'")
		if !ok || strings.ContainsAny(inner, `'\`) { // no repository's name has these
			return "", "", vm.Errorf(vm.Invalid, gitUser, "not the name of a repository")
		}
		ref = inner
	}
	ref = strings.TrimSuffix(strings.Trim(ref, "/"), ".git")
	if ref == "" || strings.ContainsAny(ref, " /\x00") {
		return "", "", vm.Errorf(vm.Invalid, gitUser, "not the name of a repository").WithHint("git clone ssh://git@HOST:PORT/REPOSITORY")
	}
	return program, ref, nil
}
