// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"sync"

	"golang.org/x/time/rate"

	"github.com/warren-vm/warren/vm"
)

// maxCallers is after how many callers the pace of all begins again, so that
// those that are gone take no memory.
const maxCallers = 10000

// caller is whose requests are counted together.
type caller struct {
	account  vm.AccountID
	identity vm.IdentityID
}

// pace bounds how many requests each caller makes.
type pace struct {
	persecond int // 0 = any number
	mu        sync.Mutex
	callers   map[caller]*rate.Limiter
}

func newPace(persecond int) *pace {
	return &pace{persecond: persecond, callers: make(map[caller]*rate.Limiter)}
}

// take counts a request, and refuses it when the caller has made too many.
func (p *pace) take(a vm.Actor) error {
	if p.persecond == 0 {
		return nil
	}
	who := caller{a.Account, a.Identity}
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
	return vm.Errorf(vm.Unavailable, "", "too many requests: %d a second are answered", p.persecond).
		WithCode("SERVICE_UNAVAILABLE").WithHint("wait a second; watch events instead of asking again and again")
}
