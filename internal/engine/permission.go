// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"context"
	"regexp"
	"slices"

	"github.com/warren-vm/warren/vm"
)

// maxAllowedUsers bounds the list of a permission.
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

// GrantVM lets an identity use a VM as the given Linux users; nil = any. Kind
// Exists when it may use it already: see ChangeGrant.
func (e *Engine) GrantVM(ctx context.Context, c *vm.Call, identity, ref string, users []string) (p vm.VMPermission, err error) {
	return e.grantVM(ctx, c, identity, ref, func(old *vm.VMPermission) (vm.VMPermission, error) {
		if old != nil {
			return *old, vm.Errorf(vm.Exists, string(old.VM), "the identity has a permission for this VM").
				WithCode("PERMISSION_ALREADY_EXISTS").WithHint("change it with PUT, or `warren identity grant --change`")
		}
		return vm.VMPermission{ID: vm.NewUUID(), AllowedUsers: users}, nil
	}, users)
}

// ChangeGrant replaces the Linux users of a permission; absent = they stay.
// What goes on as a user that is no longer allowed is cut.
func (e *Engine) ChangeGrant(ctx context.Context, c *vm.Call, identity, ref string, users Optional[[]string]) (p vm.VMPermission, err error) {
	return e.grantVM(ctx, c, identity, ref, func(old *vm.VMPermission) (vm.VMPermission, error) {
		if old == nil {
			return vm.VMPermission{}, noPermission(ref)
		}
		if users.Set {
			old.AllowedUsers = users.Value
		}
		return *old, nil
	}, users.Value)
}

func noPermission(ref string) error {
	return vm.Errorf(vm.NotFound, ref, "the identity has no permission for this VM").WithCode("VM_PERMISSION_NOT_FOUND")
}

// grantVM writes a permission: next says what it is, given the old one or nil.
func (e *Engine) grantVM(ctx context.Context, c *vm.Call, identity, ref string, next func(old *vm.VMPermission) (vm.VMPermission, error), users []string) (p vm.VMPermission, err error) {
	defer func() { err = fail(vm.OpGrant, ref, err) }()
	if err := checkUsers(users); err != nil {
		return p, err
	}
	i, s, err := e.identityAndVM(c, identity, ref)
	if err != nil {
		return p, err
	}
	entry := vm.AuditEntry{Op: vm.OpGrant, VM: s.id, Subject: string(i.ID), Detail: map[string]any{"allowedUsers": users}}
	r, err := e.record(ctx, c, entry)
	if err != nil {
		return p, err
	}
	defer func() { r.End(err, nil) }()
	e.idWrite.Lock()
	defer e.idWrite.Unlock()
	if i, s, err = e.identityAndVM(c, string(i.ID), string(s.id)); err != nil { // as they are now
		return p, err
	}
	at := grant{i.ID, s.id}
	e.mu.Lock()
	old, ok := e.rights.grants[at]
	e.mu.Unlock()
	kind, write := "permission.granted", e.cfg.Records.VMPermissions.Create
	var was *vm.VMPermission
	if ok {
		was, kind, write = &old, "permission.changed", e.cfg.Records.VMPermissions.Update
	}
	if p, err = next(was); err != nil {
		return vm.VMPermission{}, err
	}
	p.Identity, p.Account, p.VM, p.GrantedAt, p.GrantedBy = i.ID, i.Account, s.id, e.now(), string(c.Actor.Account)
	if p.Revision, err = saved(ctx, p, write); err != nil {
		return vm.VMPermission{}, err
	}
	e.mu.Lock()
	e.rights.grants[at] = p
	e.cutLocked()
	e.mu.Unlock()
	e.cfg.Journal.Emit(grantEvent(kind, p))
	return p, nil
}

func grantEvent(kind string, p vm.VMPermission) vm.Event {
	return vm.Event{Type: kind, VM: p.VM, Account: p.Account, Data: map[string]any{"identity": string(p.Identity), "allowedUsers": p.AllowedUsers}}
}

// identityAndVM finds both in the caller's account.
func (e *Engine) identityAndVM(c *vm.Call, identity, ref string) (vm.Identity, *slot, error) {
	i, err := e.ownIdentity(c, identity)
	if err != nil {
		return i, nil, err
	}
	s, err := e.lookup(c, ref)
	return i, s, err
}

// VMPermission returns an identity's permission for a VM; kind NotFound, code
// VM_PERMISSION_NOT_FOUND, when it has none.
func (e *Engine) VMPermission(_ context.Context, c *vm.Call, identity, ref string) (vm.VMPermission, error) {
	i, s, err := e.identityAndVM(c, identity, ref)
	if err != nil {
		return vm.VMPermission{}, fail(vm.OpGet, ref, err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	p, ok := e.rights.grants[grant{i.ID, s.id}]
	if !ok {
		return p, fail(vm.OpGet, ref, noPermission(ref))
	}
	return p, nil
}

// VMPermissions lists an identity's permissions for VMs, oldest first, one page
// of them; total counts all.
func (e *Engine) VMPermissions(_ context.Context, c *vm.Call, identity string, pg Page) (list []vm.VMPermission, total int, err error) {
	i, err := e.ownIdentity(c, identity)
	if err != nil {
		return nil, 0, fail(vm.OpList, identity, err)
	}
	e.mu.Lock()
	for _, p := range e.rights.grants {
		if p.Identity == i.ID {
			list = append(list, p)
		}
	}
	e.mu.Unlock()
	slices.SortFunc(list, func(a, b vm.VMPermission) int {
		return cmp.Or(a.GrantedAt.Compare(b.GrantedAt), cmp.Compare(a.ID, b.ID))
	})
	total = len(list)
	list, err = page(list, pg)
	return list, total, fail(vm.OpList, identity, err)
}

// RevokeVM takes an identity's permission for a VM back; what it does there is
// cut.
func (e *Engine) RevokeVM(ctx context.Context, c *vm.Call, identity, ref string) (err error) {
	defer func() { err = fail(vm.OpRevoke, ref, err) }()
	p, err := e.VMPermission(ctx, c, identity, ref)
	if err != nil {
		return err
	}
	r, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpRevoke, VM: p.VM, Subject: string(p.Identity)})
	if err != nil {
		return err
	}
	defer func() { r.End(err, nil) }()
	e.idWrite.Lock()
	defer e.idWrite.Unlock()
	return e.dropGrant(ctx, p)
}

// dropGrant removes a permission durably, then from memory, and cuts what goes
// on by it. The caller holds idWrite.
func (e *Engine) dropGrant(ctx context.Context, p vm.VMPermission) error {
	at := grant{p.Identity, p.VM}
	e.mu.Lock()
	p, ok := e.rights.grants[at] // as it is now
	e.mu.Unlock()
	if !ok {
		return nil
	}
	if _, err := saved(ctx, p, deleting(e.cfg.Records.VMPermissions)); err != nil {
		return err
	}
	e.mu.Lock()
	delete(e.rights.grants, at)
	e.cutLocked()
	e.mu.Unlock()
	e.cfg.Journal.Emit(grantEvent("permission.revoked", p))
	return nil
}

// dropGrantsOf removes the permissions for a VM that is gone.
func (e *Engine) dropGrantsOf(ctx context.Context, id vm.ID) error {
	e.mu.Lock()
	granted := false
	for at := range e.rights.grants {
		granted = granted || at.vm == id
	}
	e.mu.Unlock()
	if !granted {
		return nil
	}
	e.idWrite.Lock()
	defer e.idWrite.Unlock()
	return e.pruneRights(ctx)
}
