// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package asks_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/asks"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// records returns the audit records of a verb, the newest first.
func (r *room) records(op vm.Op) (out []vm.AuditRecord) {
	r.t.Helper()
	list, err := r.site.Audit.List(r.t.Context(), vm.AuditFilter{})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, rec := range list {
		if rec.Op == op {
			out = append(out, rec)
		}
	}
	return out
}

// file writes a file as the owner.
func (r *room) file(path, text string) {
	r.t.Helper()
	if _, err := r.WriteFile(r.t.Context(), r.owner, "box", "", path, vm.WriteOptions{Size: int64(len(text))}, strings.NewReader(text)); err != nil {
		r.t.Fatal(err)
	}
}

func (r *room) approve(ask vm.Ask) {
	r.t.Helper()
	if _, err := r.Asks.Approve(r.t.Context(), r.owner, ask.ID, 0, ""); err != nil {
		r.t.Fatal(err)
	}
}

// A handle asks for all that its flags allow: it may change the file by more flags than the one to
// write, and one that reads as well needs both approvals and has both records.
func TestHandles(t *testing.T) {
	r := newRoom(t, asks.Webhook{})
	ctx := t.Context()
	r.grant(vm.AskEdit, vm.AskCopyOut)
	r.file("/f", "content")
	for what, x := range map[string]struct {
		o    vm.OpenOptions
		want vm.Op
	}{
		"read":           {vm.OpenOptions{Read: true}, vm.OpRead},
		"nothing":        {vm.OpenOptions{}, vm.OpRead},
		"write":          {vm.OpenOptions{Write: true}, vm.OpWrite},
		"append":         {vm.OpenOptions{Append: true}, vm.OpWrite},
		"read, truncate": {vm.OpenOptions{Read: true, Truncate: true}, vm.OpWrite},
		"read, create":   {vm.OpenOptions{Read: true, Create: true}, vm.OpWrite},
		"truncate":       {vm.OpenOptions{Truncate: true}, vm.OpWrite},
	} {
		ask, got, err := r.DenyNext(ctx, r.owner, func() error { return second(r.OpenHandle(ctx, r.asAnn(), "box", "", "/f", x.o)) })
		if err != nil || ask.Verb != x.want || vm.AsError(got).Code != "ASK_DENIED" {
			t.Errorf("a handle to %s asks for %s and ends with %v (%v), want %s and a denial", what, ask.Verb, got, err, x.want)
		}
	}
	type opened struct {
		f   engine.File
		err error
	}
	open := func() <-chan opened {
		done := make(chan opened, 1)
		go func() {
			f, err := r.OpenHandle(ctx, r.asAnn(), "box", "", "/f", vm.OpenOptions{Read: true, Write: true, Truncate: true})
			done <- opened{f, err}
		}()
		return done
	}
	one := open()
	r.approve(r.pending(1)[0])
	if _, err := r.Asks.Deny(ctx, r.owner, r.pending(1)[0].ID, ""); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "a handle of which only the change was approved", (<-one).err, "ASK_DENIED")
	if st, err := r.Stat(ctx, r.owner, "box", "", "/f"); err != nil || st.Size != 7 {
		t.Errorf("the file is %+v (%v) after denials, want it whole", st, err)
	}
	both := open()
	change := r.pending(1)[0]
	r.approve(change)
	read := r.pending(1)[0]
	r.approve(read)
	got := <-both
	if got.err != nil {
		t.Fatal(got.err)
	}
	if _, err := got.f.WriteAt([]byte("new"), 0); err != nil {
		t.Error(err)
	}
	if n, err := got.f.ReadAt(make([]byte, 3), 0); n != 3 {
		t.Errorf("the approved handle reads %d bytes, %v", n, err)
	}
	if err := got.f.Close(); err != nil {
		t.Error(err)
	}
	for op, ask := range map[vm.Op]vm.Ask{vm.OpWrite: change, vm.OpRead: read} {
		list := r.records(op)
		if last := list[0]; last.Actor.Ask != ask.ID || last.Outcome != "ok" || last.Detail["bytesOut"] == nil {
			t.Errorf("the newest record of %s is %+v, want one that names %s", op, last, ask.ID)
		}
	}
}

// A handle reads and writes only what its record says.
func TestHandleRecords(t *testing.T) {
	r := newRoom(t, asks.Webhook{})
	r.file("/f", "content")
	for _, o := range []vm.OpenOptions{{Read: true}, {Write: true}, {Create: true}} {
		f, err := r.OpenHandle(t.Context(), r.owner, "box", "", "/f", o)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := f.ReadAt(make([]byte, 1), 0); (n == 1) != o.Read {
			t.Errorf("a handle of %+v reads %d bytes (%v)", o, n, err)
		}
		if n, err := f.WriteAt([]byte("x"), 0); o.Read && (n != 0 || vm.KindOf(err) != vm.Denied) {
			t.Errorf("a handle of %+v writes %d bytes (%v)", o, n, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// What is approved and recorded is all that a call does, not only its verb and path.
func TestActsAreComplete(t *testing.T) {
	r := newRoom(t, asks.Webhook{})
	ctx := t.Context()
	r.grant(vm.AskEdit)
	r.file("/f", "x")
	num := func(n int) *int { return &n }
	size, mode := int64(3), uint32(0o4755)
	attr := func(a vm.FileAttr) func(c *vm.Call) error {
		return func(c *vm.Call) error { return r.SetAttr(ctx, c, "box", "", "/f", a) }
	}
	write := func(o vm.WriteOptions) func(c *vm.Call) error {
		return func(c *vm.Call) error {
			o.Size = 1
			return second(r.WriteFile(ctx, c, "box", "", "/g", o, strings.NewReader("y")))
		}
	}
	handle := func(o vm.OpenOptions) func(c *vm.Call) error {
		return func(c *vm.Call) error { return second(r.OpenHandle(ctx, c, "box", "", "/f", o)) }
	}
	seen := map[string]string{}
	for what, x := range map[string]struct {
		f    func(c *vm.Call) error
		want map[string]string
	}{
		"chmod":            {func(c *vm.Call) error { return r.Chmod(ctx, c, "box", "", "/f", 0o4777) }, map[string]string{"mode": "4777"}},
		"another chmod":    {func(c *vm.Call) error { return r.Chmod(ctx, c, "box", "", "/f", 0o600) }, map[string]string{"mode": "0600"}},
		"an owner":         {attr(vm.FileAttr{UID: num(0), GID: num(7)}), map[string]string{"owner": "0:7"}},
		"a size":           {attr(vm.FileAttr{Size: &size}), map[string]string{"size": "3"}},
		"a mode":           {attr(vm.FileAttr{Mode: &mode}), map[string]string{"mode": "4755"}},
		"mkdir":            {func(c *vm.Call) error { return r.Mkdir(ctx, c, "box", "", "/d", 0o1777, false) }, map[string]string{"mode": "1777"}},
		"mkdir of parents": {func(c *vm.Call) error { return r.Mkdir(ctx, c, "box", "", "/d", 0o755, true) }, map[string]string{"mode": "0755", "parents": "yes"}},
		"remove":           {func(c *vm.Call) error { return r.Remove(ctx, c, "box", "", "/f", false) }, map[string]string{"recursive": ""}},
		"remove all":       {func(c *vm.Call) error { return r.Remove(ctx, c, "box", "", "/f", true) }, map[string]string{"recursive": "yes"}},
		"symlink":          {func(c *vm.Call) error { return r.Symlink(ctx, c, "box", "", "/f", "/l") }, map[string]string{"as": "a symbolic link"}},
		"link":             {func(c *vm.Call) error { return r.Link(ctx, c, "box", "", "/f", "/l") }, map[string]string{"as": "a second name of the file"}},
		"write":            {write(vm.WriteOptions{}), map[string]string{"as": "one file", "content": "y"}},
		"write a program":  {write(vm.WriteOptions{Mode: 0o6755}), map[string]string{"as": "one file", "mode": "6755", "content": "y"}},
		"unpack":           {func(c *vm.Call) error { return r.TarUp(ctx, c, "box", "", "/g", strings.NewReader("y")) }, map[string]string{"as": "an archive that is unpacked there", "content": "y"}},
		"place": {func(c *vm.Call) error {
			return second(r.PlaceFiles(ctx, c, "box", "", "/g", "", "", strings.NewReader("y")))
		}, map[string]string{"as": "changes of the files below it", "content": "y"}},
		"a handle":       {handle(vm.OpenOptions{Write: true, Truncate: true}), map[string]string{"as": "an open file", "truncate": "yes", "create": ""}},
		"another handle": {handle(vm.OpenOptions{Create: true, Mode: 0o711}), map[string]string{"as": "an open file", "create": "yes", "mode": "0711"}},
	} {
		ask, got, err := r.DenyNext(ctx, r.owner, func() error { return x.f(r.asAnn()) })
		if err != nil || vm.AsError(got).Code != "ASK_DENIED" {
			t.Errorf("%s ends with %v (%v), want a denial", what, got, err)
			continue
		}
		for name, text := range x.want {
			if ask.Details[name] != text {
				t.Errorf("the ask of %s says %q of %s, want %q", what, ask.Details[name], name, text)
			}
		}
		if other := seen[ask.Digest]; other != "" {
			t.Errorf("%s and %s have one digest", what, other)
		}
		seen[ask.Digest] = what
	}
	if err := r.Chmod(ctx, r.owner, "box", "", "/f", 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Remove(ctx, r.owner, "box", "", "/f", true); err != nil {
		t.Fatal(err)
	}
	if list := r.records(vm.OpChmod); len(list) != 1 || list[0].Detail["mode"] != "0600" {
		t.Errorf("the records of chmod are %+v, want the mode", list)
	}
	if list := r.records(vm.OpRemove); len(list) != 1 || list[0].Detail["recursive"] != "yes" {
		t.Errorf("the records of remove are %+v, want that it is recursive", list)
	}
}

// The policy for the arguments of commands holds for every record and event: also those of
// background processes, terminals, services and asks.
func TestAuditArgs(t *testing.T) {
	const secret = "hunter2"
	for policy, digests := range map[string]bool{vm.ArgsFull: true, vm.ArgsDigest: true, vm.ArgsNone: false} {
		r := newRoomWith(t, asks.Webhook{}, policy)
		ctx := t.Context()
		if _, err := r.StartProcess(ctx, r.owner, "box", vm.ExecSpec{Command: "echo " + secret}); err != nil {
			t.Fatal(err)
		}
		term, err := r.OpenTerminal(ctx, r.owner, "box", vm.TerminalSpec{Command: "echo " + secret})
		if err != nil {
			t.Fatal(err)
		}
		if err := term.Detach(); err != nil {
			t.Error(err)
		}
		unit := vm.Unit{Name: "app", Exec: []string{"/bin/echo " + secret}}
		_, _ = r.AddService(ctx, r.owner, "box", "", unit) // the record counts
		r.grant(vm.AskExec)
		for _, f := range []func() error{
			func() error {
				return second(r.Exec(ctx, r.asAnn(), "box", vm.ExecSpec{Argv: []string{"echo", secret}}))
			},
			func() error {
				return second(r.OpenTerminal(ctx, r.asAnn(), "box", vm.TerminalSpec{Command: "echo " + secret}))
			},
			func() error { return second(r.AddService(ctx, r.asAnn(), "box", "", unit)) },
		} {
			ask, _, err := r.DenyNext(ctx, r.owner, f)
			if err != nil || !strings.Contains(ask.What, secret) {
				t.Errorf("%s: the ask says %q (%v), want all of the command", policy, ask.What, err)
			}
		}
		for _, op := range []vm.Op{vm.OpExec, vm.OpTerminal, vm.OpService, vm.OpAsk, vm.OpDeny} {
			list := r.records(op)
			if len(list) == 0 {
				t.Errorf("%s: no record of %s", policy, op)
			}
			data, err := json.Marshal(list)
			if err != nil {
				t.Fatal(err)
			}
			if shown := strings.Contains(string(data), secret); shown != (policy == vm.ArgsFull) {
				t.Errorf("%s: that the records of %s have the argument is %t: %s", policy, op, shown, data)
			}
			if has := strings.Contains(strings.ToLower(string(data)), "sha256"); has != digests {
				t.Errorf("%s: that the records of %s have a digest is %t: %s", policy, op, has, data)
			}
		}
		events, err := json.Marshal(r.site.Events.All())
		if shown := strings.Contains(string(events), secret); err != nil || shown != (policy == vm.ArgsFull) {
			t.Errorf("%s: that the events have the argument is %t (%v)", policy, shown, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
