// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package sshd_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/pkg/sftp"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/asks"
	"github.com/warren-vm/warren/vm"
)

// asking is an identity whose rights depend on approval, and its SFTP connection.
func (d *door) asking(name string, rights ...vm.AskRight) (c *sftp.Client, leave func()) {
	d.t.Helper()
	i, err := d.engine.CreateIdentity(d.t.Context(), d.call, name)
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := d.engine.GrantVM(d.t.Context(), d.call, string(i.ID), "box", nil, rights...); err != nil {
		d.t.Fatal(err)
	}
	_, token, err := d.engine.CreateToken(d.t.Context(), d.call, string(i.ID), access.TokenRequest{})
	if err != nil {
		d.t.Fatal(err)
	}
	conn := d.enter("box:" + token)
	c, err = sftp.NewClient(conn)
	if err != nil {
		d.t.Fatal(err)
	}
	return c, func() { _ = conn.Close() }
}

// TestSFTPAsks: the flags of an open file decide which rights it uses. One that truncates or makes
// the file changes it, whatever else it is opened for, and one that reads copies out.
func TestSFTPAsks(t *testing.T) {
	d := newDoor(t)
	owner, err := sftp.NewClient(d.enter("box:" + d.secret))
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	f, err := owner.Create("data")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("content")); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	editor, _ := d.asking("editor", vm.AskEdit)
	reader, _ := d.asking("reader", vm.AskCopyOut)
	for what, x := range map[string]struct {
		c     *sftp.Client
		flags int
		want  vm.Op
	}{
		"read and truncate": {editor, os.O_RDONLY | os.O_TRUNC, vm.OpWrite},
		"read and create":   {editor, os.O_RDONLY | os.O_CREATE, vm.OpWrite},
		"append":            {editor, os.O_WRONLY | os.O_APPEND, vm.OpWrite},
		"read and write":    {reader, os.O_RDWR, vm.OpRead},
		"read":              {reader, os.O_RDONLY, vm.OpRead},
		"all of it":         {reader, os.O_RDWR | os.O_CREATE | os.O_TRUNC, vm.OpRead},
	} {
		ask, got, err := d.engine.DenyNext(t.Context(), d.call, func() error { return second(x.c.OpenFile("data", x.flags)) })
		if err != nil || ask.Verb != x.want || got == nil {
			t.Errorf("an open to %s asks for %s and ends with %v (%v), want an ask for %s and a denial", what, ask.Verb, got, err, x.want)
		}
	}
	if st, err := owner.Stat("data"); err != nil || st.Size() != 7 {
		t.Errorf("after denials the file is %+v (%v), want it whole", st, err)
	}
	if f, err = owner.OpenFile("data", os.O_RDWR); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Read(make([]byte, 7)); n != 7 {
		t.Errorf("the owner reads %d bytes, %v", n, err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	wait(t, "the open file has a record of each right", func() bool {
		list, err := d.engine.AuditList(t.Context(), d.call, vm.AuditFilter{})
		if err != nil {
			t.Fatal(err)
		}
		reads := 0
		for _, r := range list {
			if r.Op == vm.OpRead && r.Subject == "/root/data" && r.Outcome == "ok" && fmt.Sprint(r.Detail["bytesOut"]) == "7" {
				reads++
			}
		}
		return reads == 1
	})
}

// TestSFTPLeaves: what waits for an approval ends with its client, and is never done.
func TestSFTPLeaves(t *testing.T) {
	d := newDoor(t)
	editor, leave := d.asking("editor", vm.AskEdit)
	done := make(chan error, 1)
	go func() { done <- editor.Mkdir("/left") }()
	var ask vm.Ask
	wait(t, "the call waits", func() bool {
		list, err := d.engine.Asks.List(t.Context(), d.call, asks.Filter{State: vm.AskPending})
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 1 {
			ask = list[0]
		}
		return len(list) == 1
	})
	leave()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("the client's call has not ended")
	}
	wait(t, "the ask ends with its client", func() bool {
		now, err := d.engine.Asks.Get(t.Context(), d.call, ask.ID)
		return err == nil && now.State == vm.AskEnded
	})
	if _, err := d.engine.Asks.Approve(t.Context(), d.call, ask.ID, 0, ""); vm.AsError(err).Code != "ASK_ENDED" {
		t.Errorf("an approval afterwards gives %v, want that nobody waits", err)
	}
	if _, err := d.engine.Stat(t.Context(), d.call, "box", "", "/left"); vm.KindOf(err) != vm.NotFound {
		t.Errorf("the directory gives %v, want that it was never made", err)
	}
}
