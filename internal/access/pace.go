// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"errors"
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

// ErrPace says that a caller has made too many requests.
var ErrPace = errors.New("too many requests")

// Pace limits how many requests each caller makes, over all doors of the server together. nil has
// no limit.
type Pace struct {
	persecond int
	mu        sync.Mutex
	callers   map[caller]*rate.Limiter // guarded by mu
}

// NewPace returns a limit of requests per second for each caller; 0 = no limit.
func NewPace(persecond int) *Pace {
	if persecond == 0 {
		return nil
	}
	return &Pace{persecond: persecond, callers: make(map[caller]*rate.Limiter)}
}

// Take counts a request. If the caller has made too many, it refuses with ErrPace, of kind
// Unavailable.
func (p *Pace) Take(a vm.Actor) error {
	if p == nil {
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
	return vm.Errorf(vm.Unavailable, "", "%w: the limit is %d per second", ErrPace, p.persecond).
		WithCode("SERVICE_UNAVAILABLE").WithHint("wait a second; watch events instead of polling")
}
