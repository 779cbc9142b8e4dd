// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"crypto/x509"
	"log/slog"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"golang.org/x/time/rate"

	"github.com/warren-vm/warren/vm"
)

const (
	orderTimeout = 90 * time.Second
	// dnsTimeout is longer, because name servers take minutes to learn of a record.
	dnsTimeout = 15 * time.Minute
	// An ACME server limits orders and failures for the whole host: one account
	// must not use up the limit for the others.
	ordersAccount = 20 // at once, and refilled within an hour
	ordersAll     = 60
	firstRetry    = 5 * time.Minute // after a failure; doubled each time
	lastRetry     = 6 * time.Hour
	maxFailures   = 4096 // failures that are remembered
)

// issuer places all orders at an ACME server, first ones and renewals: it
// checks, counts and logs them.
type issuer struct {
	*certmagic.ACMEIssuer
	byDNS  *certmagic.ACMEIssuer // for names in Own; nil = none
	own    func(string) bool
	may    func(string) (vm.AccountID, error)
	life   context.Context // the gateway's
	log    *slog.Logger
	orders *orders
}

// Issue orders a certificate, once.
func (i *issuer) Issue(ctx context.Context, csr *x509.CertificateRequest) (*certmagic.IssuedCertificate, error) {
	if len(csr.DNSNames) != 1 {
		return nil, certmagic.ErrNoRetry{Err: vm.Errorf(vm.Internal, "", "an order names %d domains", len(csr.DNSNames))}
	}
	name := csr.DNSNames[0]
	account, err := i.may(name)
	if err != nil {
		return nil, certmagic.ErrNoRetry{Err: err}
	}
	if err := i.orders.begin(name, account); err != nil {
		if vm.KindOf(err) == vm.Limit {
			i.log.Warn("no certificate is ordered", "domain", name, "account", account, "err", err)
		}
		return nil, certmagic.ErrNoRetry{Err: err}
	}
	ctx, stop := context.WithTimeout(ctx, i.within(name))
	defer stop()
	defer context.AfterFunc(i.life, stop)()
	began := time.Now()
	by, hint := i.ACMEIssuer, "the name must resolve to this gateway, on port 443 or 80"
	if i.own(name) {
		by, hint = i.byDNS, "the program of acmeDnsHook must set the record so that the ACME server can find it"
	}
	cert, err := by.Issue(ctx, csr)
	if err != nil {
		i.failed(name, account, err, hint)
		return nil, certmagic.ErrNoRetry{Err: err}
	}
	i.orders.done(name)
	i.log.Info("certificate", "domain", name, "account", account, "acme", i.CA, "took", time.Since(began).Round(time.Millisecond))
	return cert, nil
}

// within returns the time limit of an order.
func (i *issuer) within(name string) time.Duration {
	if i.own(name) {
		return dnsTimeout
	}
	return orderTimeout
}

// failed records and logs a failure, unless the gateway is stopping.
func (i *issuer) failed(name string, account vm.AccountID, err error, hint string) {
	if i.life.Err() != nil {
		return
	}
	again := i.orders.fail(name, err)
	i.log.Warn("no certificate", "domain", name, "account", account, "acme", i.CA, "err", err, "again", again.UTC().Format(time.RFC3339), "hint", hint)
}

// orders limits the orders to the ACME server.
type orders struct {
	now func() time.Time

	mu       sync.Mutex
	all      *rate.Limiter
	accounts map[vm.AccountID]*rate.Limiter
	failures map[string]failure
}

// failure blocks orders for a name for a while.
type failure struct {
	count int
	until time.Time
	why   string
}

func newOrders(now func() time.Time) *orders {
	return &orders{now: now, all: perHour(ordersAll), accounts: map[vm.AccountID]*rate.Limiter{}, failures: map[string]failure{}}
}

func perHour(n int) *rate.Limiter { return rate.NewLimiter(rate.Every(time.Hour/time.Duration(n)), n) }

// failed returns why a name gets no order now, or nil.
func (o *orders) failed(name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.waiting(name)
}

// maxReason limits how much of an ACME server's message is kept.
const maxReason = 300

func (o *orders) waiting(name string) error {
	f := o.failures[name]
	if !o.now().Before(f.until) {
		return nil
	}
	return vm.Errorf(vm.Unavailable, name, "the last order of a certificate failed, the next order is made after %s: %s",
		f.until.UTC().Format(time.RFC3339), f.why[:min(len(f.why), maxReason)])
}

// begin counts an order, or returns why none may be placed.
func (o *orders) begin(name string, account vm.AccountID) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.waiting(name); err != nil {
		return err
	}
	own := o.accounts[account]
	if own == nil {
		own = perHour(ordersAccount)
		o.accounts[account] = own
	}
	why := ""
	switch {
	case own.TokensAt(o.now()) < 1:
		why = "the account has ordered too many certificates lately"
	case !o.all.AllowN(o.now(), 1):
		why = "this host has ordered too many certificates lately"
	default:
		own.AllowN(o.now(), 1)
		return nil
	}
	o.note(name, failure{count: o.failures[name].count, until: o.now().Add(firstRetry), why: why})
	return vm.Errorf(vm.Limit, name, "%s", why)
}

// fail records a failure and returns when the next order may be placed.
func (o *orders) fail(name string, cause error) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	n := o.failures[name].count
	until := o.now().Add(min(firstRetry<<min(n, 10), lastRetry))
	o.note(name, failure{count: n + 1, until: until, why: cause.Error()})
	return until
}

// note records a failure. If the list is full, it drops expired failures first, then any.
func (o *orders) note(name string, f failure) {
	defer func() { o.failures[name] = f }()
	if len(o.failures) < maxFailures {
		return
	}
	for name, f := range o.failures {
		if !o.now().Before(f.until) {
			delete(o.failures, name)
		}
	}
	for name := range o.failures {
		if len(o.failures) < maxFailures {
			return
		}
		delete(o.failures, name)
	}
}

func (o *orders) done(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.failures, name)
}
