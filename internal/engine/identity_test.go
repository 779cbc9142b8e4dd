// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// identity makes an identity with a token and returns a call of it.
func identity(t *testing.T, e *vmtest.House, c *vm.Call, r access.TokenRequest) (vm.Identity, vm.IdentityToken, *vm.Call) {
	t.Helper()
	i, err := e.CreateIdentity(t.Context(), c, "")
	if err != nil {
		t.Fatal(err)
	}
	tok, secret, err := e.CreateToken(t.Context(), c, string(i.ID), r)
	if err != nil {
		t.Fatal(err)
	}
	actor, err := e.Authenticate(t.Context(), secret)
	if err != nil || actor.Identity != i.ID || actor.Token != tok.ID || actor.Account != c.Actor.Account {
		t.Fatalf("the token's secret belongs to %+v (%v), want identity %s of %s", actor, err, i.ID, c.Actor.Account)
	}
	if actor.Key != "" || actor.Admin {
		t.Fatalf("a token has the key %q or rules (admin %v)", actor.Key, actor.Admin)
	}
	return i, tok, &vm.Call{Actor: actor}
}

func grantVM(t *testing.T, e *vmtest.House, c *vm.Call, i vm.Identity, v vm.VM, users ...string) {
	t.Helper()
	if _, err := e.GrantVM(t.Context(), c, string(i.ID), string(v.ID), users); err != nil {
		t.Fatal(err)
	}
}

func auditOf(t *testing.T, e *vmtest.House, c *vm.Call) []vm.AuditRecord {
	t.Helper()
	list, err := e.AuditList(t.Context(), c, vm.AuditFilter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestIdentityReach: an identity sees only VMs that it was granted, by id and by name,
// and may not do to them what their owner may.
func TestIdentityReach(t *testing.T) {
	_, e, c := site(t)
	ctx := t.Context()
	open := create(t, e, c, engine.CreateRequest{Name: "box"})
	shut := create(t, e, c, engine.CreateRequest{Name: "box"})
	i, _, own := identity(t, e, c, access.TokenRequest{})
	_, err := e.Get(ctx, own, "box")
	wantCode(t, err, vm.Denied, "VM_ACCESS_DENIED")
	grantVM(t, e, c, i, open)
	if got, err := e.Get(ctx, own, "box"); err != nil || got.ID != open.ID {
		t.Errorf("by name: %v, %v", got.ID, err)
	}
	for _, ref := range []string{string(shut.ID), string(vm.NewID()), "nothing"} {
		_, err := e.Get(ctx, own, ref)
		wantCode(t, err, vm.Denied, "VM_ACCESS_DENIED")
		_, err = e.Exec(ctx, own, ref, vm.ExecSpec{Command: "true"})
		wantCode(t, err, vm.Denied, "VM_ACCESS_DENIED")
		_, err = e.DialPort(ctx, own, ref, 80)
		wantCode(t, err, vm.Denied, "VM_ACCESS_DENIED")
	}
	list, total, counts, err := e.List(ctx, own, engine.Filter{})
	if err != nil || total != 1 || len(list) != 1 || list[0].ID != open.ID || counts[vm.Running] != 1 {
		t.Errorf("%d of %d, %v, %v", len(list), total, counts, err)
	}
	id := string(open.ID)
	only := func(_ any, err error) { t.Helper(); wantCode(t, err, vm.Denied, "FORBIDDEN") }
	only(e.Create(ctx, own, engine.CreateRequest{}))
	only(e.Stop(ctx, own, id))
	only(e.Kill(ctx, own, id))
	only(e.Delete(ctx, own, id))
	only(e.Suspend(ctx, own, id, engine.SuspendRequest{}))
	only(e.Fork(ctx, own, id, engine.ForkRequest{Count: 1}))
	only(e.Snapshot(ctx, own, id, engine.SnapshotRequest{}))
	only(e.Rollback(ctx, own, id, engine.RollbackRequest{}))
	only(e.Policy.Set(ctx, own, id, []string{"open"}))
	only(e.Start(ctx, own, id, engine.StartRequest{DiskOnly: true}))
	only(e.Start(ctx, own, id, engine.StartRequest{IdleTimeout: vm.Null[vm.Seconds]()}))
	only(e.Lineage(ctx, own, ""))
	only(e.Events(ctx, own, -1))
	only(e.AuditList(ctx, own, vm.AuditFilter{}))
	only(e.Keys(ctx, own, ""))
	only(e.CreateIdentity(ctx, own, "x"))
	only(e.DeleteIdentity(ctx, own, string(i.ID)))
	only(e.Tokens(ctx, own, string(i.ID)))
	only(e.GrantVM(ctx, own, string(i.ID), string(shut.ID), nil))
	only(e.AddSSHKey(ctx, own, string(i.ID), "k", "ssh-ed25519 AAAA", false))
	_, _, err = e.CreateKey(ctx, own, "", "k")
	only(nil, err)
	_, _, err = e.ConsoleLog(ctx, own, id, 0, false)
	only(nil, err)
	if got, err := e.Get(ctx, c, id); err != nil || got.State != vm.Running {
		t.Errorf("afterwards: %v, %v", got.State, err)
	}
	// It wakes the VM, by a start or by entering it, and the audit record names it.
	if _, err := e.Suspend(ctx, c, id, engine.SuspendRequest{}); err != nil {
		t.Fatal(err)
	}
	if out, code := sh(t, e, own, id, "whoami"); code != 0 || out != "root\n" {
		t.Errorf("whoami of the identity that woke the VM says %q with status %d, want root", out, code)
	}
	for _, op := range []vm.Op{vm.OpStart, vm.OpExec} {
		if !slices.ContainsFunc(auditOf(t, e, c), func(r vm.AuditRecord) bool { return r.Op == op && r.Actor.Identity == i.ID }) {
			t.Errorf("%s is not on record as the identity's", op)
		}
	}
}

// TestAllowedUsers: a permission for some Linux users covers only their files and
// processes.
func TestAllowedUsers(t *testing.T) {
	_, e, c := site(t)
	ctx := t.Context()
	v := create(t, e, c, engine.CreateRequest{})
	id := string(v.ID)
	sh(t, e, c, id, "useradd --create-home alice")
	i, _, own := identity(t, e, c, access.TokenRequest{})
	grantVM(t, e, c, i, v, "alice")
	roots, err := e.StartProcess(ctx, c, id, vm.ExecSpec{Argv: []string{"sleep", "60"}})
	if err != nil {
		t.Fatal(err)
	}
	alices, err := e.StartProcess(ctx, own, id, vm.ExecSpec{Argv: []string{"sleep", "60"}, User: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	term, err := e.OpenTerminal(ctx, c, id, vm.TerminalSpec{ID: "roots", Cols: 80, Rows: 24})
	if err == nil {
		err = term.Detach()
	}
	if err != nil {
		t.Fatal(err)
	}
	denied := func(_ any, err error) { t.Helper(); wantCode(t, err, vm.Denied, "VM_ACCESS_DENIED") }
	for _, user := range []string{"", "root", "bob"} {
		denied(e.Exec(ctx, own, id, vm.ExecSpec{Command: "true", User: user}))
		denied(e.StartProcess(ctx, own, id, vm.ExecSpec{Command: "true", User: user}))
		denied(e.Stat(ctx, own, id, user, "/etc"))
		denied(e.ReadDir(ctx, own, id, user, "/etc"))
		denied(e.TarDown(ctx, own, id, user, "/etc"))
		denied(nil, e.TarUp(ctx, own, id, user, "/tmp", strings.NewReader("")))
		denied(nil, e.Mkdir(ctx, own, id, user, "/tmp/d", 0, false))
		denied(nil, e.Remove(ctx, own, id, user, "/etc/hostname", false))
		denied(e.Watch(ctx, own, id, user, "/etc", false))
		denied(e.Services(ctx, own, id, user))
		denied(e.OpenTerminal(ctx, own, id, vm.TerminalSpec{User: user, Cols: 80, Rows: 24}))
		denied(e.AttachTerminal(ctx, own, id, "roots", vm.TerminalView{User: user, Cols: 80, Rows: 24}))
		denied(e.ReadTerminal(ctx, own, id, user, "roots", -1))
		denied(e.SendTerminal(ctx, own, id, "roots", vm.TerminalSend{User: user, Data: []byte("x"), Limit: time.Second}))
		denied(e.CloseTerminal(ctx, own, id, user, "roots"))
		denied(e.MayEnter(ctx, own.Actor, id, user))
	}
	if _, err := e.MayEnter(ctx, own.Actor, id, "alice"); err != nil {
		t.Error(err)
	}
	_, err = e.AttachTerminal(ctx, own, id, "roots", vm.TerminalView{User: "alice", Cols: 80, Rows: 24})
	wantCode(t, err, vm.Denied, "SESSION_USER_MISMATCH")
	if list, err := e.Terminals(ctx, own, id); err != nil || len(list) != 0 {
		t.Errorf("another user's terminals are listed: %v, %v", list, err)
	}
	if list, err := e.Processes(ctx, own, id); err != nil || len(list) != 1 || list[0].ID != alices.ID {
		t.Errorf("processes %v, %v", list, err)
	}
	denied(e.Process(ctx, own, id, roots.ID))
	denied(e.WaitProcess(ctx, own, id, roots.ID))
	denied(nil, e.SignalProcess(ctx, own, id, "alice", roots.ID, "KILL"))
	denied(nil, e.ForgetProcess(ctx, own, id, "alice", roots.ID))
	_, _, err = e.ProcessLog(ctx, own, id, "alice", roots.ID, 0, false)
	denied(nil, err)
	if err := e.SignalProcess(ctx, own, id, "alice", alices.ID, "KILL"); err != nil {
		t.Error(err)
	}
	if p, err := e.Process(ctx, c, id, roots.ID); err != nil || p.EndedAt != nil {
		t.Errorf("root's process: %+v, %v", p, err)
	}
	for _, bad := range []string{"", "0", "a b", "x:y", "../etc", strings.Repeat("x", 40)} {
		_, err := e.ChangeGrant(ctx, c, string(i.ID), id, &[]string{bad}, nil)
		wantCode(t, err, vm.Invalid, "INVALID_REQUEST")
	}
}

// TestCutStreams: streams into and out of a guest, and connections to its ports, end when
// the caller's right ends; those of other callers stay open.
func TestCutStreams(t *testing.T) {
	_, e, c := site(t)
	ctx := t.Context()
	v := create(t, e, c, engine.CreateRequest{})
	i, _, own := identity(t, e, c, access.TokenRequest{})
	grantVM(t, e, c, i, v)
	run := func(c *vm.Call) chan error {
		x, err := e.Exec(ctx, c, string(v.ID), vm.ExecSpec{Command: "sleep 600"})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := x.Run(io.Discard, io.Discard)
			ended <- err
		}()
		return ended
	}
	kept, held := run(c), run(own)
	up, feed := io.Pipe()
	defer feed.Close()
	sent := make(chan error, 1)
	go func() {
		_, err := e.WriteFile(ctx, &vm.Call{Actor: own.Actor}, string(v.ID), "", "/root/x", vm.WriteOptions{Size: 1 << 20}, up)
		sent <- err
	}()
	if _, err := feed.Write([]byte("half")); err != nil {
		t.Fatal(err)
	}
	// A narrower permission ends the sessions of users that are no longer allowed.
	if _, err := e.ChangeGrant(ctx, c, string(i.ID), string(v.ID), &[]string{"alice"}, nil); err != nil {
		t.Fatal(err)
	}
	for name, ended := range map[string]chan error{"command": held, "upload": sent} {
		select {
		case err := <-ended:
			if vm.KindOf(err) != vm.Denied {
				t.Errorf("the %s of a user that is no longer allowed ends with %v, want it denied", name, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("the %s goes on", name)
		}
	}
	select {
	case err := <-kept:
		t.Errorf("the owner's command has ended, too: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	dial := func(c *vm.Call) net.Conn {
		conn, err := e.DialPort(ctx, c, string(v.ID), 7)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	ours, theirs := dial(c), dial(own)
	echo := func(conn net.Conn) error {
		if err := conn.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
			return err
		}
		if _, err := conn.Write([]byte("x")); err != nil {
			return err
		}
		_, err := conn.Read(make([]byte, 1))
		return err
	}
	if err := errors.Join(echo(ours), echo(theirs)); err != nil {
		t.Fatal(err)
	}
	if err := e.RevokeVM(ctx, c, string(i.ID), string(v.ID)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its connection is closed", func() bool { return echo(theirs) != nil })
	if err := echo(ours); err != nil {
		t.Errorf("the owner's connection: %v", err)
	}
	late, stop := e.Session(ctx, own, string(v.ID), "")
	defer stop()
	if late.Err() == nil {
		t.Error("a session begins without a permission")
	}
}

// TestGrantsOfDeletedVM: deleting a VM removes the permissions for it.
func TestGrantsOfDeletedVM(t *testing.T) {
	_, e, c := site(t)
	v := create(t, e, c, engine.CreateRequest{})
	i, _, _ := identity(t, e, c, access.TokenRequest{})
	grantVM(t, e, c, i, v)
	if _, err := e.Delete(t.Context(), c, string(v.ID)); err != nil {
		t.Fatal(err)
	}
	list, _, err := e.VMPermissions(t.Context(), c, string(i.ID), access.Page{})
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 0 {
		t.Errorf("left: %+v", list)
	}
}
