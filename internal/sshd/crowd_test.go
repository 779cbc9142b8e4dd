// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package sshd_test

import (
	"net"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/warren-vm/warren/internal/sshd"
)

// crowd opens connections from loopback addresses and says nothing on them.
// Connections that the gateway refuses or ends count as well.
func (d *door) crowd(addresses, each int) {
	d.t.Helper()
	for a := range addresses {
		from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 7, byte(a+1))}}
		for range each {
			c, err := from.DialContext(d.t.Context(), "tcp", d.addr)
			if err != nil {
				d.t.Fatal(err)
			}
			d.t.Cleanup(func() { _ = c.Close() })
		}
	}
}

// Strangers who connect and never log in keep nobody else out.
func TestStrangersLeaveRoom(t *testing.T) {
	d := newDoor(t)
	_, token := d.identity([]string{"root"})
	d.crowd(16, 64)
	c, _, err := d.dial("box:" + token)
	if err != nil {
		t.Fatalf("nobody gets in beside 1,024 silent connections of 16 addresses: %v", err)
	}
	d.crowd(16, 64)
	if out, err := d.session(c).Output("whoami"); err != nil || strings.TrimSpace(string(out)) != "root" {
		t.Errorf("who was inside before the crowd: %q, %v", out, err)
	}
}

// One account cannot use all connections, and a refused client gets the reason.
func TestAccountsLeaveRoom(t *testing.T) {
	d := newDoor(t)
	_, token := d.identity([]string{"root"})
	account := d.call.Actor.Account
	for range sshd.MaxOfAccount {
		if err := d.server.Begin(account); err != nil {
			t.Fatal(err)
		}
	}
	key := signer(t)
	owner, _ := d.identity(nil)
	if _, err := d.engine.AddSSHKey(t.Context(), d.call, string(owner.ID), "laptop", string(ssh.MarshalAuthorizedKey(key.PublicKey())), false); err != nil {
		t.Fatal(err)
	}
	for how, try := range map[string]func() (*ssh.Client, string, error){
		"token": func() (*ssh.Client, string, error) { return d.dial("box:" + token) },
		"key":   func() (*ssh.Client, string, error) { return d.dial("box", ssh.PublicKeys(key)) },
	} {
		if _, banner, err := try(); err == nil || !strings.Contains(banner, "512 SSH connections open") {
			t.Errorf("%s: %v, told %q", how, err, banner)
		}
	}
	if err := d.server.Begin("acc-other"); err != nil {
		t.Errorf("another account: %v", err)
	}
	d.server.End(account)
	if _, banner, err := d.dial("box:" + token); err != nil {
		t.Errorf("after one has gone: %v, told %q", err, banner)
	}
}
