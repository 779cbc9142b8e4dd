// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"

	"github.com/warren-vm/warren/vm"
)

// rights is the engine's memory of identities and of what they may do; the
// store has them durably. It is guarded by Engine.mu.
type rights struct {
	identities map[vm.IdentityID]vm.Identity
	tokens     map[vm.TokenID]vm.IdentityToken
	byHash     map[string]vm.TokenID
	keys       map[vm.SSHKeyID]vm.IdentityKey
	grants     map[grant]vm.VMPermission
	repos      map[repoGrant]vm.GitPermission
	sessions   map[*session]struct{}
}

type grant struct {
	identity vm.IdentityID
	vm       vm.ID
}

type repoGrant struct {
	identity vm.IdentityID
	repo     string
}

// session is something that goes on only as long as its caller has the right
// to it.
type session struct {
	actor  vm.Actor
	vm     vm.ID  // "" = it is about no VM
	user   string // the Linux user that it acts as; "" = it acts as none
	cancel context.CancelCauseFunc
}

// identityOps is what an identity may do to a VM that it was granted, beside
// looking: enter it, and wake it.
var identityOps = map[vm.Op]bool{
	vm.OpStart: true, vm.OpExec: true, vm.OpSignal: true, vm.OpRead: true, vm.OpWrite: true, vm.OpMkdir: true, vm.OpRename: true,
	vm.OpRemove: true, vm.OpChmod: true, vm.OpSymlink: true, vm.OpWatch: true, vm.OpDial: true, vm.OpService: true, vm.OpTerminal: true,
	vm.OpSocket: true, vm.OpLogin: true,
}

// actsAsUser reports whether a verb acts as a Linux user of the guest.
func actsAsUser(verb vm.Op) bool {
	switch verb {
	case vm.OpExec, vm.OpSignal, vm.OpRead, vm.OpWrite, vm.OpMkdir, vm.OpRename, vm.OpRemove, vm.OpChmod, vm.OpSymlink,
		vm.OpWatch, vm.OpService, vm.OpTerminal, vm.OpSocket:
		return true
	}
	return false
}

// asUser is the Linux user that a verb acts as; "" for a verb that acts as none.
func asUser(verb vm.Op, user string) string {
	if !actsAsUser(verb) {
		return ""
	}
	return cmp.Or(user, "root")
}

// denied refuses an identity a VM, or a Linux user of it. It says the same of a
// VM that was not granted and of one that is not there.
func denied(ref, why string) error {
	return vm.Errorf(vm.Denied, ref, "%s", why).WithCode("VM_ACCESS_DENIED", "vmId", ref).
		WithHint("the account's owner can grant it: `warren identity grant IDENTITY NAME`")
}

const (
	notGranted = "the identity has no permission for this VM"
	userDenied = "the identity's permission is not for this Linux user"
	noLongerIn = "the key or token that it began with was revoked or has expired"
)

// reachesLocked reports whether an actor may know of a VM of its account.
func (e *Engine) reachesLocked(a vm.Actor, s *slot) bool {
	if a.Identity == "" {
		return true
	}
	_, ok := e.rights.grants[grant{a.Identity, s.id}]
	return ok
}

// mayActLocked refuses a verb to an actor who may not act as that Linux user.
func (e *Engine) mayActLocked(a vm.Actor, id vm.ID, verb vm.Op, user string) error {
	if a.Identity == "" {
		return nil
	}
	p, ok := e.rights.grants[grant{a.Identity, id}]
	switch {
	case !ok:
		return denied(string(id), notGranted)
	case actsAsUser(verb) && !p.Allows(user):
		return denied(string(id), userDenied)
	}
	return nil
}

// validLocked refuses an actor whose key, token or SSH key is no longer.
func (e *Engine) validLocked(a vm.Actor) error {
	ok := true
	switch {
	case a.System != "":
	case a.Token != "":
		t, known := e.rights.tokens[a.Token]
		ok = known && !t.Expired(e.now())
	case a.SSHKey != "":
		_, ok = e.rights.keys[a.SSHKey]
	case a.Key != "":
		k, known := e.users.keys[a.Key]
		ok = known && (a.Issued.IsZero() || k.CreatedAt.Equal(a.Issued))
	}
	if ok && a.Identity != "" {
		_, ok = e.rights.identities[a.Identity]
	}
	if !ok {
		return (&vm.Error{Kind: vm.Unauthenticated, Msg: noLongerIn}).WithCode("UNAUTHORIZED_ERROR")
	}
	return nil
}

func (e *Engine) allowedLocked(s *session) error {
	if err := e.validLocked(s.actor); err != nil {
		return err
	}
	if s.vm == "" || s.actor.Identity == "" {
		return nil
	}
	p, ok := e.rights.grants[grant{s.actor.Identity, s.vm}]
	switch {
	case !ok:
		return denied(string(s.vm), notGranted)
	case s.user != "" && !p.Allows(s.user):
		return denied(string(s.vm), userDenied)
	}
	return nil
}

// hold keeps a session under watch: it is cancelled when the right to it ends,
// at once when it has ended already.
func (e *Engine) hold(s *session) {
	e.mu.Lock()
	err := e.allowedLocked(s)
	if err == nil {
		e.rights.sessions[s] = struct{}{}
	}
	e.mu.Unlock()
	if err != nil {
		s.cancel(err)
	}
}

func (e *Engine) unhold(s *session) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.rights.sessions, s)
}

// cutLocked ends the sessions whose right has ended. Whatever takes a right away
// calls it.
func (e *Engine) cutLocked() {
	for s := range e.rights.sessions {
		if err := e.allowedLocked(s); err != nil {
			s.cancel(err)
			delete(e.rights.sessions, s)
		}
	}
}

// Session returns a context that ends with ctx, and, with the reason as its
// cause, when the caller's right ends: its key, token or SSH key was revoked or
// has expired; with a VM, also the permission for it and, where the call names
// one, for the Linux user. A door keeps it for as long as its caller is there.
func (e *Engine) Session(ctx context.Context, c *vm.Call, ref string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &session{actor: c.Actor, user: c.User, cancel: cancel}
	if ref != "" && c.Actor.Identity != "" {
		found, err := e.lookup(c, ref)
		if err != nil {
			cancel(err)
			return ctx, func() {}
		}
		s.vm = found.id
	}
	e.hold(s)
	return ctx, func() {
		e.unhold(s)
		cancel(nil)
	}
}

// MayEnter finds a VM that an actor may enter as a Linux user; "" = root. Kinds
// NotFound, Invalid and, code VM_ACCESS_DENIED, Denied.
func (e *Engine) MayEnter(_ context.Context, a vm.Actor, ref, user string) (vm.VM, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, err := e.lookupLocked(a, ref)
	if err == nil {
		err = e.validLocked(a)
	}
	if err == nil {
		err = e.mayActLocked(a, s.id, vm.OpExec, user)
	}
	if err != nil {
		return vm.VM{}, fail(vm.OpGet, ref, err)
	}
	return s.rec, nil
}
