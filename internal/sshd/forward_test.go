// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package sshd_test

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/warren-vm/warren/vm"
)

// TestForwardsAtOnce: forwards count from their request on, not only when the
// guest listens; a failed one no longer counts.
func TestForwardsAtOnce(t *testing.T) {
	d := newDoor(t)
	c := d.enter("box:" + d.secret)
	dir := t.TempDir()
	ask := func(kind, path string, wait bool) bool {
		t.Helper()
		ok, _, err := c.SendRequest(kind+"streamlocal-forward@openssh.com", wait, ssh.Marshal(struct{ Path string }{path}))
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	reached, release := d.site.World.Hold("guest.listen")
	defer release()
	ask("", dir+"/0", false)
	<-reached
	if ask("", dir+"/0", true) {
		t.Error("one path is listened on twice")
	}
	if ask("cancel-", dir+"/0", true) {
		t.Error("what does not listen yet was ended")
	}
	ask("", dir+"/none/such", false)
	for n := 1; n < 63; n++ {
		ask("", fmt.Sprintf("%s/%d", dir, n), false)
	}
	if ask("", dir+"/more", true) {
		t.Error("65 forwards at once")
	}
	release()
	listening := func() int {
		found, err := filepath.Glob(dir + "/*")
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	wait(t, "all others listen", func() bool { return listening() == 63 })
	wait(t, "there is a place again", func() bool { return ask("", dir+"/more", true) })
	if ask("", dir+"/one", true) {
		t.Error("65 forwards")
	}
	if !ask("cancel-", dir+"/0", true) || !ask("", dir+"/one", true) {
		t.Error("no place after a forward has ended")
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	wait(t, "nothing listens when the client is gone", func() bool { return listening() == 0 })
}

// TestAnyPorts: the guest chooses each port that the client leaves open, and
// the client can cancel each by the reported port.
func TestAnyPorts(t *testing.T) {
	d := newDoor(t)
	c := d.enter("box:" + d.secret)
	var all []net.Listener
	for range 3 {
		l, err := c.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	for _, l := range all {
		if err := l.Close(); err != nil {
			t.Errorf("close the listener %s: %v", l.Addr(), err)
		}
		wait(t, "it listens no more", func() bool { _, err := net.Dial("tcp", l.Addr().String()); return err != nil })
	}
}

// TestResolvedNames: the program that resolves a name is not listed among the user's commands.
func TestResolvedNames(t *testing.T) {
	d := newDoor(t)
	_, token := d.identity([]string{"dev"})
	if out, err := d.session(d.enter("box:" + d.secret)).CombinedOutput("useradd --create-home dev"); err != nil {
		t.Fatalf("useradd in the guest: %v: %s", err, out)
	}
	list := func() []vm.Process {
		l, err := d.engine.Processes(t.Context(), d.call, "box")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	before := len(list())
	for _, user := range []string{"box:" + d.secret, "box+dev:" + token} {
		if conn, err := d.enter(user).Dial("tcp", "no.such.name:80"); err == nil {
			_ = conn.Close()
			t.Error("a name that is not there was found")
		}
	}
	if after := list(); len(after) != before {
		t.Errorf("looking for names left commands: %+v", after)
	}
}
