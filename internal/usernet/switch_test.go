// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

// A connection that begins while the policy is tightened ends at once: it is refused, or
// reset. It never hangs.
func TestPolicySwitchWhileConnecting(t *testing.T) {
	w := newWorld(t, open)
	w.route("tcp", netip.MustParseAddrPort("203.0.113.50:7000"), w.listen(func(c *net.TCPConn) { _, _ = io.Copy(c, c) }))
	for round := range 300 {
		w.net.SetPolicy(open)
		tightened := make(chan struct{})
		go func() {
			defer close(tightened)
			time.Sleep(time.Duration(round%60) * 20 * time.Microsecond)
			w.net.SetPolicy(closed)
		}()
		c, err := w.connect("203.0.113.50:7000")
		if err != nil {
			<-tightened
			continue
		}
		_, _ = c.Write([]byte("x\n"))
		_ = c.SetReadDeadline(time.Now().Add(2 * time.Second))
		for err == nil {
			_, err = c.Read(make([]byte, 8))
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("round %d: the connection hangs after the change", round)
		}
		_ = c.Close()
		<-tightened
	}
}

// Where a rule is about a domain, any address may be that of one of its names. Bytes that are
// neither TLS nor HTTP are refused at once: nothing waits for more of them.
func TestOtherProtocolIsReset(t *testing.T) {
	w := newWorld(t, vm.NetworkPolicy{Mode: vm.NetClosed, Rules: []vm.NetRule{{ID: "r-1", Action: vm.NetAllow, To: "*.team.example", Ports: []vm.PortRange{{First: 7000, Last: 7000}}}}})
	c := w.mustConnect("203.0.113.50:7000")
	defer c.Close()
	_, _ = c.Write([]byte("x\n"))
	_ = c.SetReadDeadline(time.Now().Add(lineWait - time.Second))
	if _, err := c.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "reset") {
		t.Errorf("after two bytes of another protocol: %v, want a reset", err)
	}
}
