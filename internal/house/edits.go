// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package house

import (
	"context"
	"crypto/rand"
	"strings"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// edits changes network policies for approved asks.
type edits struct{ e *engine.Engine }

func (e edits) Allow(ctx context.Context, c *vm.Call, ref string, rules []vm.NetRule) (vm.VM, error) {
	return e.e.EditNetwork(ctx, c, ref, func(_ vm.VM, p *vm.NetworkPolicy) error {
		for _, r := range rules {
			r.ID = "r-" + strings.ToLower(rand.Text()[:6])
			p.Rules = append([]vm.NetRule{r}, p.Rules...)
		}
		return nil
	})
}
