// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"io"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/warren-vm/warren/vm"
)

// Names inside the VM's network answer under every policy, and nothing below their domain
// is ever looked up outside.
func TestInsideNames(t *testing.T) {
	for _, p := range []vm.NetworkPolicy{closed, packages, open} {
		t.Run(string(p.Mode), func(t *testing.T) {
			w := newWorld(t, p)
			w.setName("s3.warren.internal", aptAddr) // what a hostile name server outside would say
			if got := addresses(w.ask("git.warren.internal", dnsmessage.TypeA)); !slices.Equal(got, []netip.Addr{Services}) {
				t.Errorf("git.warren.internal is %v, want %v", got, Services)
			}
			if m := w.ask("git.warren.internal", dnsmessage.TypeAAAA); m.RCode != dnsmessage.RCodeSuccess || len(m.Answers) > 0 {
				t.Errorf("its AAAA record is answered with %v and %d records, want none", m.RCode, len(m.Answers))
			}
			for _, name := range []string{"s3.warren.internal", "warren.internal", "a.git.warren.internal"} {
				if m := w.ask(name, dnsmessage.TypeA); m.RCode != dnsmessage.RCodeNameError || len(m.Answers) > 0 {
					t.Errorf("%s is answered with %v, want that it does not exist", name, m.RCode)
				}
			}
			if w.lookups > 0 {
				t.Errorf("the host looked up %d names, want 0", w.lookups)
			}
			for _, port := range []string{"443", "80"} {
				c := w.mustConnect("10.0.2.4:" + port)
				if _, err := io.WriteString(c, "hello"); err != nil {
					t.Fatal(err)
				}
				if b, err := io.ReadAll(c); err != nil || string(b) != port+" hello" {
					t.Errorf("port %s answers %q, %v", port, b, err)
				}
			}
			w.mustReset("10.0.2.4:22")
			w.refused("10.0.2.4:22", "")
			if d := w.dials(); len(d) > 0 {
				t.Errorf("the host dialled %v, want nothing", d)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, r := range w.records {
				if strings.HasSuffix(r.Dest, vm.InsideDomain) {
					t.Errorf("a look-up inside is among the VM's connections: %+v", r)
				}
			}
		})
	}
}

// A connection to a name inside survives a change of the policy.
func TestInsideKeepsAtPolicy(t *testing.T) {
	w := newWorld(t, open)
	c := w.mustConnect("10.0.2.4:443")
	w.net.SetPolicy(closed)
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(c); err != nil || string(b) != "443 hello" {
		t.Errorf("after the policy changed it answers %q, %v", b, err)
	}
}
