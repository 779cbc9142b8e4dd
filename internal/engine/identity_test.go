// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// identity makes an identity with a token and returns a call of it.
func identity(t *testing.T, e *vmtest.House, c *vm.Call, r engine.TokenRequest) (vm.Identity, vm.IdentityToken, *vm.Call) {
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
	if err != nil || actor.Identity != i.ID || actor.Token != tok.ID || actor.Account != c.Actor.Account || actor.Key != "" || actor.Admin {
		t.Fatalf("%+v, %v", actor, err)
	}
	return i, tok, &vm.Call{Actor: actor}
}

func grantVM(t *testing.T, e *vmtest.House, c *vm.Call, i vm.Identity, v vm.VM, users ...string) {
	t.Helper()
	if _, err := e.GrantVM(t.Context(), c, string(i.ID), string(v.ID), users); err != nil {
		t.Fatal(err)
	}
}

// TestTokens: the secret is kept nowhere, works after a restart, and ends at
// once when it is revoked.
func TestTokens(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	i, err := e.CreateIdentity(ctx, c, "ci")
	if err != nil {
		t.Fatal(err)
	}
	tok, secret, err := e.CreateToken(ctx, c, "ci", engine.TokenRequest{})
	if err != nil {
		t.Fatal(err)
	}
	recs, err := s.Records.Tokens.List(ctx)
	if err != nil || len(recs) != 1 {
		t.Fatal(recs, err)
	}
	data, err := json.Marshal([]any{recs, auditOf(t, e, c)})
	if err != nil || strings.Contains(string(data), secret) || recs[0].Hash == "" {
		t.Errorf("the secret is kept: %s %v", data, err)
	}
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	grantVM(t, e, c, i, v)
	closeEngine(t, e)
	e, c = open(t, s)
	actor, err := e.Authenticate(ctx, secret)
	if err != nil || actor.Identity != i.ID {
		t.Fatalf("after a restart: %+v, %v", actor, err)
	}
	if got, err := e.Get(ctx, &vm.Call{Actor: actor}, "box"); err != nil || got.ID != v.ID {
		t.Errorf("after a restart: %v, %v", got.ID, err)
	}
	if err := e.RevokeToken(ctx, c, "ci", tok.ID); err != nil {
		t.Fatal(err)
	}
	_, err = e.Authenticate(ctx, secret)
	wantCode(t, err, vm.Unauthenticated, "")
	wantCode(t, e.RevokeToken(ctx, c, "ci", tok.ID), vm.NotFound, "NOT_FOUND")
	closeEngine(t, e)
	e, _ = open(t, s)
	if _, err := e.Authenticate(ctx, secret); vm.KindOf(err) != vm.Unauthenticated {
		t.Errorf("a revoked token after a restart: %v", err)
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

// TestTokenExpiry: a token ends at its time, though nobody asks, and its record
// goes.
func TestTokenExpiry(t *testing.T) {
	s, e, c, clock := clocked(t)
	v := create(t, e, c, engine.CreateRequest{})
	i, _, own := identity(t, e, c, engine.TokenRequest{TTLSeconds: engine.Some(int64(60))})
	grantVM(t, e, c, i, v)
	held, stop := e.Session(t.Context(), own, string(v.ID))
	defer stop()
	clock.Advance(59 * time.Second)
	if _, err := e.MayEnter(t.Context(), own.Actor, string(v.ID), "root"); err != nil || held.Err() != nil {
		t.Errorf("before its time: %v, %v", err, held.Err())
	}
	clock.Advance(time.Second)
	eventually(t, "the session is cut", func() bool {
		if held.Err() == nil {
			clock.Advance(time.Second) // the task may have begun to wait only now
		}
		return held.Err() != nil
	})
	wantCode(t, context.Cause(held), vm.Unauthenticated, "UNAUTHORIZED_ERROR")
	_, err := e.MayEnter(t.Context(), own.Actor, string(v.ID), "root")
	wantCode(t, err, vm.Unauthenticated, "UNAUTHORIZED_ERROR")
	eventually(t, "its record is gone", func() bool {
		recs, err := s.Records.Tokens.List(t.Context())
		if err == nil && len(recs) > 0 {
			clock.Advance(time.Second) // as above
		}
		return err == nil && len(recs) == 0
	})
	eventually(t, "its end is recorded", func() bool {
		return slices.ContainsFunc(auditOf(t, e, c), func(r vm.AuditRecord) bool {
			return r.Op == vm.OpTokenRevoke && r.Detail["reason"] == "expired" && r.Actor.System == "expiry" && r.Outcome == "ok"
		})
	})
	for _, bad := range []engine.TokenRequest{
		{TTLSeconds: engine.Some(int64(0))},
		{TTLSeconds: engine.Some(int64(-1))},
		{TTLSeconds: engine.Some(int64(1) << 60)},
		{ExpiresAt: clock.Now()},
		{ExpiresAt: clock.Now().Add(time.Hour), TTLSeconds: engine.Some(int64(1))},
	} {
		_, _, err := e.CreateToken(t.Context(), c, string(i.ID), bad)
		wantCode(t, err, vm.Invalid, "INVALID_REQUEST")
	}
}

// TestExpiryWithoutRecords: a token ends at its time even when no record of its
// end can be written; the record goes when it can.
func TestExpiryWithoutRecords(t *testing.T) {
	s, e, c, clock := clocked(t)
	v := create(t, e, c, engine.CreateRequest{})
	i, err := e.CreateIdentity(t.Context(), c, "ci")
	if err != nil {
		t.Fatal(err)
	}
	grantVM(t, e, c, i, v)
	_, secret, err := e.CreateToken(t.Context(), c, "ci", engine.TokenRequest{ExpiresAt: clock.Now().Add(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	actor, err := e.Authenticate(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	held, stop := e.Session(t.Context(), &vm.Call{Actor: actor}, "")
	defer stop()
	s.Audit.Fail(vm.Errorf(vm.NoSpace, "", "the disk is full"))
	clock.Advance(time.Minute)
	eventually(t, "its session is cut", func() bool { return held.Err() != nil })
	if _, err := e.Authenticate(t.Context(), secret); vm.KindOf(err) != vm.Unauthenticated {
		t.Errorf("authenticate: %v", err)
	}
	if _, err := e.MayEnter(t.Context(), actor, string(v.ID), ""); vm.KindOf(err) != vm.Unauthenticated {
		t.Errorf("enter: %v", err)
	}
	if list, err := e.Tokens(t.Context(), c, "ci"); err != nil || len(list) != 0 {
		t.Errorf("it is listed: %v, %v", list, err)
	}
	s.Audit.Fail(nil)
	eventually(t, "its record is gone", func() bool {
		clock.Advance(time.Minute)
		recs, err := s.Records.Tokens.List(t.Context())
		return err == nil && len(recs) == 0
	})
}

// TestIdentityReach: an identity reaches granted VMs only, by id and by name,
// and may not do to them what their owner may.
func TestIdentityReach(t *testing.T) {
	_, e, c := site(t)
	ctx := t.Context()
	open := create(t, e, c, engine.CreateRequest{Name: "box"})
	shut := create(t, e, c, engine.CreateRequest{Name: "box"})
	i, _, own := identity(t, e, c, engine.TokenRequest{})
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
	only(e.SetNetwork(ctx, own, id, "open"))
	only(e.Start(ctx, own, id, engine.StartRequest{DiskOnly: true}))
	only(e.Start(ctx, own, id, engine.StartRequest{IdleTimeout: engine.Null[int64]()}))
	only(e.Lineage(ctx, own, ""))
	only(e.Events(ctx, own, -1))
	only(e.AuditList(ctx, own, vm.AuditFilter{}))
	only(e.Keys(ctx, own, ""))
	only(e.CreateIdentity(ctx, own, "x"))
	only(e.DeleteIdentity(ctx, own, string(i.ID)))
	only(e.Tokens(ctx, own, string(i.ID)))
	only(e.GrantVM(ctx, own, string(i.ID), string(shut.ID), nil))
	only(e.AddSSHKey(ctx, own, string(i.ID), "k", newSSHKey(t), false))
	_, _, err = e.CreateKey(ctx, own, "", "k")
	only(nil, err)
	_, _, err = e.ConsoleLog(ctx, own, id, 0, false)
	only(nil, err)
	if got, err := e.Get(ctx, c, id); err != nil || got.State != vm.Running {
		t.Errorf("afterwards: %v, %v", got.State, err)
	}
	// It wakes the VM, by a start or by entering it, and is in the record for it.
	if _, err := e.Suspend(ctx, c, id, engine.SuspendRequest{}); err != nil {
		t.Fatal(err)
	}
	if out, code := sh(t, e, own, id, "whoami"); code != 0 || out != "root\n" {
		t.Errorf("%q %d", out, code)
	}
	for _, op := range []vm.Op{vm.OpStart, vm.OpExec} {
		if !slices.ContainsFunc(auditOf(t, e, c), func(r vm.AuditRecord) bool { return r.Op == op && r.Actor.Identity == i.ID }) {
			t.Errorf("%s is not on record as the identity's", op)
		}
	}
}

// TestAllowedUsers: a permission for some Linux users is for what is theirs.
func TestAllowedUsers(t *testing.T) {
	_, e, c := site(t)
	ctx := t.Context()
	v := create(t, e, c, engine.CreateRequest{})
	id := string(v.ID)
	sh(t, e, c, id, "useradd --create-home alice")
	i, _, own := identity(t, e, c, engine.TokenRequest{})
	grantVM(t, e, c, i, v, "alice")
	roots, err := e.StartProcess(ctx, c, id, vm.ExecSpec{Argv: []string{"sleep", "60"}})
	if err != nil {
		t.Fatal(err)
	}
	alices, err := e.StartProcess(ctx, own, id, vm.ExecSpec{Argv: []string{"sleep", "60"}, User: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	if term, err := e.OpenTerminal(ctx, c, id, vm.TerminalSpec{ID: "roots", Cols: 80, Rows: 24}); err != nil || term.Detach() != nil {
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
		_, err := e.ChangeGrant(ctx, c, string(i.ID), id, engine.Some([]string{bad}))
		wantCode(t, err, vm.Invalid, "INVALID_REQUEST")
	}
}

// TestCutStreams: streams into and out of a guest, and connections to its ports,
// end when the right to them does; those of others go on.
func TestCutStreams(t *testing.T) {
	_, e, c := site(t)
	ctx := t.Context()
	v := create(t, e, c, engine.CreateRequest{})
	i, _, own := identity(t, e, c, engine.TokenRequest{})
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
	// A narrower permission ends what is of a user that is no longer allowed.
	if _, err := e.ChangeGrant(ctx, c, string(i.ID), string(v.ID), engine.Some([]string{"alice"})); err != nil {
		t.Fatal(err)
	}
	for name, ended := range map[string]chan error{"command": held, "upload": sent} {
		select {
		case err := <-ended:
			if vm.KindOf(err) != vm.Denied {
				t.Errorf("%s: %v", name, err)
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
	late, stop := e.Session(ctx, own, string(v.ID))
	defer stop()
	if late.Err() == nil {
		t.Error("a session begins without a permission")
	}
}

// TestIdentityGone: an identity's end is the end of all that is its own, also
// when the engine dies half way; a VM's end is that of the permissions for it.
func TestIdentityGone(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	v := create(t, e, c, engine.CreateRequest{})
	i, tok, own := identity(t, e, c, engine.TokenRequest{})
	grantVM(t, e, c, i, v)
	other := create(t, e, c, engine.CreateRequest{})
	grantVM(t, e, c, i, other)
	if _, err := e.AddSSHKey(ctx, c, string(i.ID), "k", newSSHKey(t), false); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Delete(ctx, c, string(other.ID)); err != nil {
		t.Fatal(err)
	}
	if list, total, err := e.VMPermissions(ctx, c, string(i.ID), engine.Page{}); err != nil || total != 1 || list[0].VM != v.ID {
		t.Errorf("permissions after the VM's end: %v, %v", list, err)
	}
	// What a death after the first of the records leaves.
	if err := s.Records.Identities.Delete(ctx, i); err != nil {
		t.Fatal(err)
	}
	closeEngine(t, e)
	e, c = open(t, s)
	nothingOf(t, s)
	if _, err := e.MayEnter(ctx, own.Actor, string(v.ID), ""); vm.KindOf(err) != vm.Denied {
		t.Errorf("after a restart: %v", err)
	}
	i, tok, own = identity(t, e, c, engine.TokenRequest{})
	grantVM(t, e, c, i, v)
	held, stop := e.Session(ctx, own, "")
	defer stop()
	if _, err := e.DeleteIdentity(ctx, c, string(i.ID)); err != nil {
		t.Fatal(err)
	}
	if held.Err() == nil {
		t.Errorf("a session of token %s goes on", tok.ID)
	}
	nothingOf(t, s)
	_, err := e.DeleteIdentity(ctx, c, string(i.ID))
	wantCode(t, err, vm.NotFound, "IDENTITY_NOT_FOUND")
}

func nothingOf(t *testing.T, s *vmtest.Site) {
	t.Helper()
	tokens, err1 := s.Records.Tokens.List(t.Context())
	keys, err2 := s.Records.SSHKeys.List(t.Context())
	grants, err3 := s.Records.VMPermissions.List(t.Context())
	repos, err4 := s.Records.GitPermissions.List(t.Context())
	if err := errors.Join(err1, err2, err3, err4); err != nil || len(tokens)+len(keys)+len(grants)+len(repos) > 0 {
		t.Errorf("left: %v %v %v %v, %v", tokens, keys, grants, repos, err)
	}
}

func newSSHKey(t *testing.T) string {
	t.Helper()
	pub, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return sshLine(t, pub)
}

func sshLine(t *testing.T, pub any) string {
	t.Helper()
	k, err := ssh.NewPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k)))
}

// TestSSHKeys: a key opens the VMs of its identity, for its Linux users, until it
// is removed; nobody is led to a stranger's VM by its name.
func TestSSHKeys(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	i, _, _ := identity(t, e, c, engine.TokenRequest{})
	line := newSSHKey(t)
	k, err := e.AddSSHKey(ctx, c, string(i.ID), "", line+" me@laptop", true)
	if err != nil || k.Name != "me@laptop" || k.Line != line+" me@laptop" || !strings.HasPrefix(k.Fingerprint, "SHA256:") || !k.ForwardAgent {
		t.Fatalf("%+v, %v", k, err)
	}
	_, _, err = e.AuthenticateSSHKey(ctx, k.Fingerprint, "box", "")
	wantCode(t, err, vm.Denied, "VM_ACCESS_DENIED")
	_, _, err = e.AuthenticateSSHKey(ctx, "SHA256:none", "box", "")
	wantCode(t, err, vm.Unauthenticated, "")
	grantVM(t, e, c, i, v, "alice")
	closeEngine(t, e)
	e, c = open(t, s)
	_, _, err = e.AuthenticateSSHKey(ctx, k.Fingerprint, "box", "")
	wantCode(t, err, vm.Denied, "VM_ACCESS_DENIED")
	actor, got, err := e.AuthenticateSSHKey(ctx, k.Fingerprint, "box", "alice")
	if err != nil || actor.Identity != i.ID || actor.SSHKey != k.ID || actor.Account != c.Actor.Account || !got.ForwardAgent {
		t.Fatalf("%+v, %v", actor, err)
	}

	// A stranger registers the same key for a VM of the same name.
	stranger, _ := newAccount(t, e, c, "stranger")
	trap := create(t, e, stranger, engine.CreateRequest{Name: "box"})
	j, err := e.CreateIdentity(ctx, stranger, "trap")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.AddSSHKey(ctx, stranger, string(j.ID), "k", line, false); err != nil {
		t.Fatal(err)
	}
	grantVM(t, e, stranger, j, trap)
	for _, user := range []string{"", "alice"} {
		_, _, err = e.AuthenticateSSHKey(ctx, k.Fingerprint, "box", user)
		wantCode(t, err, vm.Denied, "VM_ACCESS_DENIED")
	}
	if actor, _, err := e.AuthenticateSSHKey(ctx, k.Fingerprint, string(v.ID), "alice"); err != nil || actor.Account != c.Actor.Account {
		t.Errorf("by id: %+v, %v", actor, err)
	}
	_, err = e.DeleteIdentity(ctx, stranger, string(i.ID))
	wantCode(t, err, vm.Denied, "IDENTITY_ACCESS_DENIED")

	held, stop := e.Session(ctx, &vm.Call{Actor: actor, User: "alice"}, string(v.ID))
	defer stop()
	if err := e.RemoveSSHKey(ctx, c, string(i.ID), k.Fingerprint); err != nil {
		t.Fatal(err)
	}
	if held.Err() == nil {
		t.Error("a session of the key goes on")
	}
	if _, _, err := e.AuthenticateSSHKey(ctx, k.Fingerprint, string(v.ID), "alice"); err == nil {
		t.Error("the removed key still opens the VM")
	}
	wantCode(t, e.RemoveSSHKey(ctx, c, string(i.ID), "me@laptop"), vm.NotFound, "NOT_FOUND")
}

// TestBadSSHKeys: what is no safe public key is refused, saying why.
func TestBadSSHKeys(t *testing.T) {
	_, e, c := site(t)
	i, _, _ := identity(t, e, c, engine.TokenRequest{})
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	good := newSSHKey(t)
	for _, line := range []string{
		"", "no key", good + "\n" + newSSHKey(t), `command="rm -rf /" ` + good, sshLine(t, &weak.PublicKey),
		"-----BEGIN OPENSSH PRIVATE KEY-----", strings.Fields(good)[1], good[:40],
	} {
		_, err := e.AddSSHKey(t.Context(), c, string(i.ID), "", line, false)
		wantCode(t, err, vm.Invalid, "INVALID_REQUEST")
	}
	if _, err := e.AddSSHKey(t.Context(), c, string(i.ID), "a b", good, false); vm.KindOf(err) != vm.Invalid {
		t.Errorf("a bad name: %v", err)
	}
	if _, err := e.AddSSHKey(t.Context(), c, string(i.ID), "", good+"\r\n", false); err != nil {
		t.Error(err)
	}
	_, err = e.AddSSHKey(t.Context(), c, string(i.ID), "again", good, false)
	wantCode(t, err, vm.Exists, "")
}

// TestRepoPermissions: permissions for repositories are kept, and only for
// those that are there and the account's own.
func TestRepoPermissions(t *testing.T) {
	s, e, _ := site(t)
	closeEngine(t, e)
	repos := vmtest.Repositories{}
	s.Repositories = repos
	e, c := open(t, s)
	ctx := t.Context()
	i, _, _ := identity(t, e, c, engine.TokenRequest{})
	id := string(i.ID)
	repos["mine"] = vm.Repository{ID: "mine", Account: c.Actor.Account, Name: "code"}
	repos["theirs"] = vm.Repository{ID: "theirs", Account: "x"}
	wantCode(t, e.GrantRepo(ctx, c, id, "none", vm.GitRead, false), vm.NotFound, "GIT_REPOSITORY_NOT_FOUND")
	wantCode(t, e.GrantRepo(ctx, c, id, "theirs", vm.GitRead, false), vm.Denied, "GIT_REPOSITORY_ACCESS_DENIED")
	wantCode(t, e.GrantRepo(ctx, c, id, "mine", "admin", false), vm.Invalid, "INVALID_REQUEST")
	wantCode(t, e.GrantRepo(ctx, c, id, "mine", vm.GitRead, true), vm.NotFound, "PERMISSION_NOT_FOUND")
	if err := e.GrantRepo(ctx, c, id, "mine", vm.GitRead, false); err != nil {
		t.Fatal(err)
	}
	wantCode(t, e.GrantRepo(ctx, c, id, "mine", vm.GitRead, false), vm.Exists, "PERMISSION_ALREADY_EXISTS")
	if err := e.GrantRepo(ctx, c, id, "mine", vm.GitWrite, true); err != nil {
		t.Fatal(err)
	}
	closeEngine(t, e)
	e, c = open(t, s)
	if p, err := e.RepoAccess(ctx, c, id, "mine"); err != nil || p.Access != vm.GitWrite {
		t.Errorf("%+v, %v", p, err)
	}
	if list, err := e.RepoPermissions(ctx, c, id, engine.Page{}); err != nil || len(list) != 1 || list[0].Repository.Name != "code" {
		t.Errorf("%+v, %v", list, err)
	}
	if err := e.RevokeRepo(ctx, c, id, "mine"); err != nil {
		t.Fatal(err)
	}
	wantCode(t, e.RevokeRepo(ctx, c, id, "mine"), vm.NotFound, "PERMISSION_NOT_FOUND")
	if p, err := e.RepoAccess(ctx, c, id, "mine"); err != nil || p.Access != "" {
		t.Errorf("%+v, %v", p, err)
	}
}
