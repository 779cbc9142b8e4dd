// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"maps"
	"slices"

	"github.com/warren-vm/warren/vm"
)

// CutBy lists the open connections that SetPolicy(p) would cut.
func (n *Net) CutBy(p vm.NetworkPolicy) []vm.Connection {
	n.mu.Lock()
	flows := slices.Collect(maps.Keys(n.flows))
	n.mu.Unlock()
	host := n.host.get()
	cut := []vm.Connection{}
	for _, f := range flows {
		if !f.rejudge(p, host).Allow {
			cut = append(cut, f.connection())
		}
	}
	return cut
}
