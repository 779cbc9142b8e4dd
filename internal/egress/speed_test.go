// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package egress

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// TestLongPolicyIsQuick: a rule that does not match costs no allocation, since a connection
// is judged several times before it is open.
func TestLongPolicyIsQuick(t *testing.T) {
	r := Request{Proto: TCP, Port: 443, Name: "api.bench.example", IP: netip.MustParseAddr("198.51.100.2")}
	last := vm.NetRule{Action: vm.NetAllow, To: r.Name}
	long := vm.NetworkPolicy{Mode: vm.NetClosed}
	for i := range 100 {
		for _, to := range []string{fmt.Sprintf("api%d.vendor.example", i), fmt.Sprintf("*.team%d.example", i), fmt.Sprintf("203.0.113.%d", i), fmt.Sprintf("2001:db8:%d::/48", i)} {
			long.Rules = append(long.Rules, vm.NetRule{Action: vm.NetAllow, To: to, Ports: []vm.PortRange{{First: 443, Last: 443}}})
		}
	}
	cost := func(p vm.NetworkPolicy) float64 {
		if !Evaluate(p, r).Allow {
			t.Fatal("it is refused")
		}
		return testing.AllocsPerRun(100, func() { Evaluate(p, r) })
	}
	one := cost(vm.NetworkPolicy{Mode: vm.NetClosed, Rules: []vm.NetRule{last}})
	long.Rules = append(long.Rules, last)
	if all := cost(long); all > one {
		t.Errorf("401 rules take %v allocations, one rule takes %v", all, one)
	}
}
