// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"regexp"
	"slices"

	"github.com/warren-vm/warren/vm"
)

// maxAllowedUsers bounds the Linux users of a permission.
const maxAllowedUsers = 100

var linuxUser = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.-]{0,31}$`)

func checkUsers(users []string) error {
	if len(users) > maxAllowedUsers {
		return vm.Errorf(vm.Invalid, "allowedUsers", "%d users are more than %d", len(users), maxAllowedUsers).WithCode("INVALID_REQUEST")
	}
	for _, u := range users {
		if !linuxUser.MatchString(u) {
			return vm.Errorf(vm.Invalid, u, "not the name of a Linux user").WithCode("INVALID_REQUEST")
		}
	}
	return nil
}

// GrantVM lets an identity use a VM as the given Linux users; nil = as any. Each use of the
// rights in ask waits for approval. Kind Exists when the identity already has a permission
// for the VM: see ChangeGrant.
func (a *Access) GrantVM(ctx context.Context, c *vm.Call, identity, ref string, users []string, ask ...vm.AskRight) (vm.VMPermission, error) {
	ask, err := vm.CheckAskRights(ask)
	if err != nil {
		return vm.VMPermission{}, vm.WithOp(vm.OpGrant, ref, err)
	}
	return a.writeGrant(ctx, c, identity, ref, users, ask, "permission.granted", func(i vm.Identity, id vm.ID) (vm.VMPermission, error) {
		p := vm.VMPermission{
			ID: vm.NewUUID(), Identity: i.ID, Account: i.Account, VM: id, AllowedUsers: users, Ask: ask, GrantedAt: a.now(), GrantedBy: string(c.Actor.Account),
		}
		if _, ok := a.permission(i.ID, id); ok {
			return p, vm.Errorf(vm.Exists, string(id), "the identity has a permission for this VM").
				WithCode("PERMISSION_ALREADY_EXISTS").WithHint("change it with PUT, or `warren identity grant --change`")
		}
		return p, a.grants.Create(ctx, p)
	})
}

// ChangeGrant replaces the Linux users of a permission, and the rights that depend on
// approval; nil = no change. It ends sessions of users who are no longer allowed. Calls that
// have begun continue.
func (a *Access) ChangeGrant(ctx context.Context, c *vm.Call, identity, ref string, users *[]string, ask *[]vm.AskRight) (vm.VMPermission, error) {
	var list []string
	if users != nil {
		list = *users
	}
	var rights []vm.AskRight
	if ask != nil {
		var err error
		if rights, err = vm.CheckAskRights(*ask); err != nil {
			return vm.VMPermission{}, vm.WithOp(vm.OpGrant, ref, err)
		}
	}
	return a.writeGrant(ctx, c, identity, ref, list, rights, "permission.changed", func(i vm.Identity, id vm.ID) (vm.VMPermission, error) {
		old, ok := a.permission(i.ID, id)
		if !ok {
			return old, noPermission(ref)
		}
		return a.grants.Change(ctx, old.ID, func(p *vm.VMPermission) error {
			if users != nil {
				p.AllowedUsers = list
			}
			if ask != nil {
				p.Ask = rights
			}
			p.GrantedAt, p.GrantedBy = a.now(), string(c.Actor.Account)
			return nil
		})
	})
}

func noPermission(ref string) error {
	return vm.Errorf(vm.NotFound, ref, "the identity has no permission for this VM").WithCode("VM_PERMISSION_NOT_FOUND")
}

// permission returns an identity's permission for a VM.
func (a *Access) permission(i vm.IdentityID, id vm.ID) (vm.VMPermission, bool) {
	return first(a.grants, byGrant, pair(i, id))
}

// writeGrant runs write, which stores a permission, with the audit record. event is the
// type of the event that follows.
func (a *Access) writeGrant(ctx context.Context, c *vm.Call, identity, ref string, users []string, ask []vm.AskRight, event string, write func(vm.Identity, vm.ID) (vm.VMPermission, error)) (p vm.VMPermission, err error) {
	defer func() { err = vm.WithOp(vm.OpGrant, ref, err) }()
	if err := checkUsers(users); err != nil {
		return p, err
	}
	i, v, err := a.identityAndVM(c, identity, ref)
	if err != nil {
		return p, err
	}
	end, err := a.record(ctx, c, vm.AuditEntry{Op: vm.OpGrant, VM: v.ID, Subject: string(i.ID), Detail: map[string]any{"allowedUsers": users, "ask": ask}})
	if err != nil {
		return p, err
	}
	defer func() {
		if err != nil {
			end(err, nil)
			return
		}
		end(nil, map[string]any{"permission": p, "right": p.Digest()}) // a decision by it can be computed again
	}()
	a.idWrite.Lock()
	defer a.idWrite.Unlock()
	if i, v, err = a.identityAndVM(c, string(i.ID), string(v.ID)); err != nil { // one may have been deleted meanwhile
		return p, err
	}
	if p, err = write(i, v.ID); err != nil {
		return vm.VMPermission{}, err
	}
	a.recheck()
	a.cfg.Journal.Emit(grantEvent(event, p))
	return p, nil
}

func grantEvent(kind string, p vm.VMPermission) vm.Event {
	return vm.Event{Type: kind, VM: p.VM, Account: p.Account, Data: map[string]any{"identity": string(p.Identity), "allowedUsers": p.AllowedUsers, "ask": p.Ask}}
}

// identityAndVM finds both in the caller's account.
func (a *Access) identityAndVM(c *vm.Call, identity, ref string) (vm.Identity, vm.VM, error) {
	i, err := a.ownIdentity(c, identity)
	if err != nil {
		return i, vm.VM{}, err
	}
	v, err := a.rooms.VMs.Find(c.Actor, ref)
	return i, v, err
}

// VMPermission returns an identity's permission for a VM. Kind NotFound, code
// VM_PERMISSION_NOT_FOUND, when it has none.
func (a *Access) VMPermission(_ context.Context, c *vm.Call, identity, ref string) (vm.VMPermission, error) {
	i, v, err := a.identityAndVM(c, identity, ref)
	if err != nil {
		return vm.VMPermission{}, vm.WithOp(vm.OpGet, ref, err)
	}
	p, ok := a.permission(i.ID, v.ID)
	if !ok {
		return p, vm.WithOp(vm.OpGet, ref, noPermission(ref))
	}
	return p, nil
}

// VMPermissions returns one page of an identity's permissions for VMs, oldest first;
// total counts all.
func (a *Access) VMPermissions(_ context.Context, c *vm.Call, identity string, pg Page) (list []vm.VMPermission, total int, err error) {
	i, err := a.ownIdentity(c, identity)
	if err != nil {
		return nil, 0, vm.WithOp(vm.OpList, identity, err)
	}
	list = a.grants.By(byIdentity, string(i.ID))
	slices.SortStableFunc(list, func(a, b vm.VMPermission) int { return a.GrantedAt.Compare(b.GrantedAt) })
	total = len(list)
	list, err = page(list, pg)
	return list, total, vm.WithOp(vm.OpList, identity, err)
}

// RevokeVM removes an identity's permission for a VM and ends the identity's sessions in
// the VM.
func (a *Access) RevokeVM(ctx context.Context, c *vm.Call, identity, ref string) (err error) {
	defer func() { err = vm.WithOp(vm.OpRevoke, ref, err) }()
	p, err := a.VMPermission(ctx, c, identity, ref)
	if err != nil {
		return err
	}
	end, err := a.record(ctx, c, vm.AuditEntry{Op: vm.OpRevoke, VM: p.VM, Subject: string(p.Identity)})
	if err != nil {
		return err
	}
	defer func() { end(err, nil) }()
	return a.dropGrant(ctx, p)
}

// dropGrant removes a permission and ends the sessions that depend on it.
func (a *Access) dropGrant(ctx context.Context, p vm.VMPermission) error {
	p, ok := a.grants.Get(p.ID) // its current record
	if !ok {
		return nil
	}
	if err := a.grants.Drop(ctx, p.ID); err != nil {
		return err
	}
	a.recheck()
	a.cfg.Journal.Emit(grantEvent("permission.revoked", p))
	return nil
}

// DropGrantsOf removes the permissions for a VM that is gone.
func (a *Access) DropGrantsOf(ctx context.Context, id vm.ID) error {
	if len(a.grants.By(byVM, string(id))) == 0 {
		return nil
	}
	a.idWrite.Lock() // so that a permission being written is found, too
	defer a.idWrite.Unlock()
	return dropAll(ctx, a.grants.By(byVM, string(id)), a.dropGrant)
}
