// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/warren-vm/warren/vm"
)

const (
	usesPerSecond = 20   // of the secrets of one VM; each writes two lines of the audit log
	usesAtOnce    = 1000 // before that rate counts: an installation of many packages
	paceWait      = 10 * time.Second
	pacesKept     = 1024
)

// paces limits how often each VM uses its secrets, so that a guest cannot fill the audit
// log. The zero value is ready.
type paces struct {
	mu   sync.Mutex
	byVM map[vm.ID]*rate.Limiter // guarded by mu
}

// wait blocks until the VM may use a secret, at most paceWait. Kind Unavailable when that
// is not long enough.
func (p *paces) wait(ctx context.Context, id vm.ID) error {
	ctx, stop := context.WithTimeout(ctx, paceWait)
	defer stop()
	if err := p.of(id).Wait(ctx); err != nil {
		return vm.Errorf(vm.Unavailable, string(id), "the VM uses its secrets more than %d times a second", usesPerSecond).
			WithHint("wait, or send fewer requests at the same time")
	}
	return nil
}

func (p *paces) of(id vm.ID) *rate.Limiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.byVM[id]
	if l != nil {
		return l
	}
	if p.byVM == nil {
		p.byVM = map[vm.ID]*rate.Limiter{}
	}
	if len(p.byVM) >= pacesKept {
		for other, l := range p.byVM {
			if l.Tokens() >= usesAtOnce { // a new one would be the same
				delete(p.byVM, other)
			}
		}
	}
	l = rate.NewLimiter(usesPerSecond, usesAtOnce)
	p.byVM[id] = l
	return l
}
