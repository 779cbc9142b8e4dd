// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"

	"github.com/warren-vm/warren/vm"
)

// Guarded is something that must end when its caller loses the right to it: a session, a
// call into a guest, a stream.
type Guarded struct {
	Actor vm.Actor
	VM    vm.ID  // "" = no VM
	User  string // Linux user that it acts as; "" = none
	Repo  string // repository that the caller was granted; "" = none
	write bool   // it was granted to write

	Cancel context.CancelCauseFunc // ends it; it gets the reason
}

// Guard ends g when the right to it ends, or at once if it has ended already. Call
// release when g has ended.
func (a *Access) Guard(g Guarded) (release func()) {
	s := &g
	a.mu.Lock()
	a.sessions[s] = true
	a.mu.Unlock()
	a.check(s) // a right that ends after this finds s among the sessions
	return func() { a.release(s) }
}

func (a *Access) release(s *Guarded) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.sessions, s)
}

// check ends s unless its caller still has the right to it.
func (a *Access) check(s *Guarded) {
	if err := a.allowed(s); err != nil {
		a.release(s)
		s.Cancel(err)
	}
}

func (a *Access) allowed(s *Guarded) error {
	if err := a.Valid(s.Actor); err != nil {
		return err
	}
	if s.Repo != "" {
		if p, ok := a.RepoRight(s.Actor, s.Repo); !ok || s.write && p.Access != vm.GitWrite {
			return vm.Errorf(vm.Denied, s.Repo, "the permission for the repository was revoked").WithCode("GIT_REPOSITORY_ACCESS_DENIED")
		}
	}
	if s.VM == "" {
		return nil
	}
	return a.mayAct(s.Actor, s.VM, s.User)
}

// recheck ends the sessions whose rights have ended.
func (a *Access) recheck() {
	a.mu.Lock()
	list := make([]*Guarded, 0, len(a.sessions))
	for s := range a.sessions {
		list = append(list, s)
	}
	a.mu.Unlock()
	for _, s := range list {
		a.check(s)
	}
}

// RepoSession is Session for the use of a repository: for an identity or a VM, the right
// ends with its permission for the repository, too.
func (a *Access) RepoSession(ctx context.Context, c *vm.Call, repo string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	g := Guarded{Actor: c.Actor, Cancel: cancel}
	if c.Actor.Identity != "" || c.Actor.VM != "" {
		if p, ok := a.RepoRight(c.Actor, repo); ok { // else the repository is public
			g.Repo, g.write = repo, p.Access == vm.GitWrite
		}
	}
	release := a.Guard(g)
	return ctx, func() {
		release()
		cancel(nil)
	}
}

// Session returns a context that ends with ctx, or when the caller's right ends; the
// cause is the reason. The right ends when the key, token or SSH key is revoked or
// expires and, with a VM, when the permission for the VM ends or no longer allows the
// Linux user. A door keeps the context while its caller is connected.
func (a *Access) Session(ctx context.Context, c *vm.Call, ref, user string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	g := Guarded{Actor: c.Actor, User: user, Cancel: cancel}
	if ref != "" && c.Actor.Identity != "" {
		v, err := a.rooms.VMs.Find(c.Actor, ref)
		if err != nil {
			cancel(err)
			return ctx, func() {}
		}
		g.VM = v.ID
	}
	release := a.Guard(g)
	return ctx, func() {
		release()
		cancel(nil)
	}
}
