// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"cmp"
	"context"

	"github.com/warren-vm/warren/vm"
)

// Granted reports whether an identity may use a verb on a VM for which it has a
// permission: it may look at the VM, enter it and wake it.
func Granted(verb vm.Op) bool {
	switch verb {
	case vm.OpStart, vm.OpDial, vm.OpLogin:
		return true
	}
	return actsAsUser(verb)
}

// actsAsUser reports whether a verb acts as a Linux user of the guest.
func actsAsUser(verb vm.Op) bool {
	switch verb {
	case vm.OpExec, vm.OpSignal, vm.OpRead, vm.OpWrite, vm.OpMkdir, vm.OpRename, vm.OpRemove, vm.OpChmod, vm.OpSymlink,
		vm.OpWatch, vm.OpService, vm.OpTerminal, vm.OpSocket, vm.OpDiff, vm.OpTurn, vm.OpObjectFetch:
		return true
	}
	return false
}

// AsUser is the Linux user that a verb acts as; "" for verbs that act as none.
func AsUser(verb vm.Op, user string) string {
	if !actsAsUser(verb) {
		return ""
	}
	return cmp.Or(user, "root")
}

// NotGranted is the error for an identity without a permission for the VM that ref names.
// It is the same whether the VM exists or not.
func NotGranted(ref string) error { return denied(ref, "the identity has no permission for this VM") }

func denied(ref, why string) error {
	return vm.Errorf(vm.Denied, ref, "%s", why).WithCode("VM_ACCESS_DENIED", "vmId", ref).
		WithHint("the account's owner can grant it: `warren identity grant IDENTITY NAME`")
}

// Reaches reports whether an actor may see a VM of its account.
func (a *Access) Reaches(who vm.Actor, id vm.ID) bool {
	switch {
	case who.VM != "":
		return who.VM == id && who.Guest != ""
	case who.Identity == "":
		return true
	}
	_, ok := a.permission(who.Identity, id)
	return ok
}

// May checks an identity's permission for a verb on a VM of its account, as a Linux user;
// "" = root. Kind Denied, code VM_ACCESS_DENIED.
func (a *Access) May(who vm.Actor, id vm.ID, verb vm.Op, user string) error {
	if who.VM == id && id != "" && who.Guest != "" {
		return mayInside(who, verb)
	}
	return a.mayAct(who, id, AsUser(verb, user))
}

// mayInside checks whether the programs of a VM may use a verb on it, by its profile. Kind
// Denied.
func mayInside(who vm.Actor, verb vm.Op) error {
	p, err := vm.FindProfile(who.Guest)
	if err != nil {
		return err
	}
	need := vm.GuestVerb(verb)
	if verb == vm.OpStats { // its connections
		need = vm.GuestStatus
	}
	if p.Grants(need) {
		return nil
	}
	return vm.Errorf(vm.Denied, string(who.VM), "its profile %s does not let its programs use %s", p.Name, verb).
		WithCode("FORBIDDEN", "reason", "PROFILE", "profile", p.Name).
		WithHint("have it done on the host, or use a VM with another profile: `warren profile ls`")
}

// mayAct is May for a Linux user; "" = none.
func (a *Access) mayAct(who vm.Actor, id vm.ID, user string) error {
	switch {
	case who.VM != "":
		return denied(string(id), "a VM has no permission for VMs")
	case who.Identity == "":
		return nil
	}
	p, ok := a.permission(who.Identity, id)
	switch {
	case !ok:
		return NotGranted(string(id))
	case user != "" && !p.Allows(user):
		return denied(string(id), "the identity's permission is not for this Linux user")
	}
	return nil
}

// RightDigest names the permission by which an identity acts on a VM, by its content: the
// SHA-256 of its JSON. "" for callers that need none.
func (a *Access) RightDigest(who vm.Actor, id vm.ID) string {
	if who.Identity == "" {
		return ""
	}
	p, ok := a.permission(who.Identity, id)
	if !ok {
		return ""
	}
	return p.Digest()
}

// Valid fails if the actor's key, token or SSH key was revoked or has expired, or if the
// VM that it is has been removed. Kind Unauthenticated.
func (a *Access) Valid(who vm.Actor) error {
	ok := true
	switch {
	case who.System != "":
	case who.VM != "":
		v, known := a.rooms.VMs.VMOf(who.VM)
		ok = known && v.Account == who.Account
	case who.Token != "":
		t, known := a.tokens.Get(who.Token)
		ok = known && !t.Expired(a.now())
	case who.SSHKey != "":
		_, ok = a.sshKeys.Get(who.SSHKey)
	case who.Key != "":
		k, known := a.keys.Get(who.Key)
		ok = known && (who.Issued.IsZero() || k.CreatedAt.Equal(who.Issued))
	}
	if ok && who.Identity != "" {
		_, ok = a.identities.Get(who.Identity)
	}
	if !ok {
		return (&vm.Error{Kind: vm.Unauthenticated, Msg: "the key or token of the session was revoked or has expired"}).WithCode("UNAUTHORIZED_ERROR")
	}
	return nil
}

// MayEnter finds a VM that an actor may enter as a Linux user; "" = root. Kinds NotFound,
// Invalid, Unauthenticated and Denied (code VM_ACCESS_DENIED).
func (a *Access) MayEnter(_ context.Context, who vm.Actor, ref, user string) (vm.VM, error) {
	v, err := a.rooms.VMs.Find(who, ref)
	if err == nil {
		err = a.Valid(who)
	}
	if err == nil {
		err = a.May(who, v.ID, vm.OpExec, user)
	}
	if err != nil {
		return vm.VM{}, vm.WithOp(vm.OpGet, ref, err)
	}
	return v, nil
}
