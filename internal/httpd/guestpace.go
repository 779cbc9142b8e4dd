// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/warren-vm/warren/vm"
)

// guestRate is how often the programs of one VM may use a verb: burst times at once, then
// once in every.
type guestRate struct {
	every time.Duration
	burst int
}

// guestRates are the limits of verbs that cost more than an answer. The others have the
// limit that every caller has.
var guestRates = map[vm.GuestVerb]guestRate{
	vm.GuestAsk:      {2 * time.Second, 60}, // waiting for an ask counts, too
	vm.GuestTurn:     {5 * time.Second, 20},
	vm.GuestSnapshot: {time.Minute, 3},
	vm.GuestFork:     {30 * time.Second, 4},
}

// guestPace limits how often the programs of each VM use these verbs.
type guestPace struct {
	mu    sync.Mutex
	known map[guestUse]*rate.Limiter
}

type guestUse struct {
	vm   vm.ID
	verb vm.GuestVerb
}

// maxUses is the number of uses after which all counts restart, so that former VMs take no memory.
const maxUses = 10000

func newGuestPace() *guestPace { return &guestPace{known: make(map[guestUse]*rate.Limiter)} }

// take counts a use, and refuses it if there were too many. Kind Limit.
func (p *guestPace) take(id vm.ID, verb vm.GuestVerb) error {
	r, limited := guestRates[verb]
	if !limited {
		return nil
	}
	use := guestUse{id, verb}
	p.mu.Lock()
	l := p.known[use]
	if l == nil {
		if len(p.known) >= maxUses {
			clear(p.known)
		}
		l = rate.NewLimiter(rate.Every(r.every), r.burst)
		p.known[use] = l
	}
	p.mu.Unlock()
	if l.Allow() {
		return nil
	}
	return vm.Errorf(vm.Limit, string(id), "its programs use %s too often: %d times at once, then once in %v", verb, r.burst, r.every).
		WithCode("VM_LIMIT_EXCEEDED").WithHint("wait %v", r.every)
}
