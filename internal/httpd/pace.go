// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"sync"

	"golang.org/x/time/rate"

	"github.com/warren-vm/warren/vm"
)

// maxCallers is the number of callers after which all counts restart, so that former
// callers take no memory.
const maxCallers = 10000

// caller identifies requests that are counted together.
type caller struct {
	account  vm.AccountID
	identity vm.IdentityID
	vm       vm.ID
}

// pace limits how many requests each caller makes.
type pace struct {
	persecond int // 0 = no limit
	mu        sync.Mutex
	callers   map[caller]*rate.Limiter
}

func newPace(persecond int) *pace {
	return &pace{persecond: persecond, callers: make(map[caller]*rate.Limiter)}
}

// take counts a request, and refuses it if the caller has made too many.
func (p *pace) take(a vm.Actor) error {
	if p.persecond == 0 {
		return nil
	}
	who := caller{a.Account, a.Identity, a.VM}
	p.mu.Lock()
	l := p.callers[who]
	if l == nil {
		if len(p.callers) >= maxCallers {
			clear(p.callers)
		}
		l = rate.NewLimiter(rate.Limit(p.persecond), 4*p.persecond)
		p.callers[who] = l
	}
	p.mu.Unlock()
	if l.Allow() {
		return nil
	}
	return vm.Errorf(vm.Unavailable, "", "too many requests: the limit is %d per second", p.persecond).
		WithCode("SERVICE_UNAVAILABLE").WithHint("wait a second; watch events instead of polling")
}
