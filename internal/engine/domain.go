// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// domains is the engine's memory of names; the store has them durably. It is
// guarded by Engine.mu.
type domains struct {
	owned    map[string]vm.Domain  // by id
	mappings map[string]vm.Mapping // by name
	shown    map[string]vm.ShownName
}

// Resolver looks TXT records up; net.Resolver is one.
type Resolver interface {
	LookupTXT(ctx context.Context, name string) ([]string, error)
}

const maxDomains = 100 // of one account, verified or not

// loadDomains reads domains and mappings. A mapping whose VM is gone is what a
// crash in the middle of a delete left.
func (e *Engine) loadDomains(ctx context.Context) error {
	owned, err := e.cfg.Records.Domains.List(ctx)
	if err != nil {
		return err
	}
	mappings, err := e.cfg.Records.Mappings.List(ctx)
	if err != nil {
		return err
	}
	shown, err := e.cfg.Records.ShownNames.List(ctx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.names = domains{owned: map[string]vm.Domain{}, mappings: map[string]vm.Mapping{}, shown: map[string]vm.ShownName{}}
	for _, n := range shown {
		e.names.shown[n.Name] = n
	}
	for _, d := range owned {
		e.names.owned[d.ID] = d
	}
	for _, m := range mappings {
		e.names.mappings[m.Domain] = m
	}
	return nil
}

// DomainSite finds the port of a VM that a name is mapped to. A mapping is open
// to everybody.
func (e *Engine) DomainSite(name string) (vm.Site, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.domainSiteLocked(name)
}

func (e *Engine) domainSiteLocked(name string) (vm.Site, bool) {
	m, ok := e.names.mappings[name]
	s := e.vms[m.VM]
	if !ok || s == nil || s.account != m.Account {
		return vm.Site{}, false
	}
	site := siteOf(s.rec, m.Port)
	site.Public, site.Domain = true, name
	if e.implicit(name) {
		site.Label = name
	}
	return site, true
}

// MayCertify says for whom a certificate of a name may be ordered: it leads to a
// VM, and its owner has shown that it is theirs.
func (e *Engine) MayCertify(name string) (vm.AccountID, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m, ok := e.names.mappings[name]
	s, d := e.vms[m.VM], e.names.owned[m.Ownership]
	switch {
	case !ok || s == nil || s.account != m.Account:
		return "", vm.Errorf(vm.NotFound, name, "nothing is shown under this name")
	case d.Account != m.Account || !covers(d, name):
		return "", vm.Errorf(vm.Denied, name, "nobody has shown that the name is theirs")
	}
	return m.Account, nil
}

// implicit reports whether a name lies below a preview domain.
func (e *Engine) implicit(name string) bool {
	_, ok := e.belowPreviews(name)
	return ok
}

// belowPreviews returns what stands before the preview domain in a name.
func (e *Engine) belowPreviews(name string) (label string, ok bool) {
	for _, d := range e.cfg.Settings.PreviewDomains {
		if label, ok := strings.CutSuffix(name, "."+d); ok {
			return label, true
		}
	}
	return "", false
}

// previewDomain reports whether a name is a preview domain itself.
func (e *Engine) previewDomain(name string) bool {
	return slices.Contains(e.cfg.Settings.PreviewDomains, name)
}

// domainOf finds a domain of an account by name or id.
func (e *Engine) domainOf(account vm.AccountID, ref string) (vm.Domain, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range e.names.owned {
		if d.Account == account && (d.ID == ref || d.Name == ref) {
			return d, true
		}
	}
	return vm.Domain{}, false
}

// ownerOf finds the verified domain of an account by which a name is its; of
// several the one that says most.
func (e *Engine) ownerOf(account vm.AccountID, name string) (owner vm.Domain, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range e.names.owned {
		if d.Account == account && covers(d, name) && len(d.Name) > len(owner.Name) {
			owner, ok = d, true
		}
	}
	return owner, ok
}

// covers reports whether a name is at or below a verified domain.
func covers(d vm.Domain, name string) bool {
	return d.Verified && (name == d.Name || strings.HasSuffix(name, "."+d.Name))
}

// OwnsDomain reports whether a name is the caller's: verified, or mapped below
// a preview domain.
func (e *Engine) OwnsDomain(c *vm.Call, domain string) error {
	name, err := vm.HostName(domain)
	if err != nil {
		return fail(vm.OpDomain, domain, err)
	}
	e.mu.Lock()
	m := e.names.mappings[name]
	e.mu.Unlock()
	if _, ok := e.ownerOf(c.Actor.Account, name); ok || m.Implicit && m.Account == c.Actor.Account {
		return nil
	}
	err = vm.Errorf(vm.Denied, name, "this account has not verified the domain").
		WithCode("DOMAIN_OWNERSHIP_ERROR", "domain", name, "accountId", string(c.Actor.Account)).WithHint("show that it is yours: `warren domain verify %s`", name)
	return fail(vm.OpDomain, name, err)
}

// VerifyDomain begins the verification of a domain: its owner sets a TXT record
// to the code. Asked again it is the same verification.
func (e *Engine) VerifyDomain(ctx context.Context, c *vm.Call, domain string) (d vm.Domain, err error) {
	defer func() { err = fail(vm.OpDomain, domain, err) }()
	name, err := vm.HostName(domain)
	if err != nil {
		return d, err
	}
	if e.implicit(name) || e.previewDomain(name) || !strings.Contains(name, ".") {
		return d, vm.Errorf(vm.Invalid, name, "a name that nobody can verify").WithCode("INVALID_DOMAIN", "domain", name).
			WithHint("names below %s need no verification: map them", strings.Join(e.cfg.Settings.PreviewDomains, " and "))
	}
	e.nameWrite.Lock()
	defer e.nameWrite.Unlock()
	if d, ok := e.domainOf(c.Actor.Account, name); ok && !d.Verified {
		return d, nil
	}
	if e.taken(name) {
		return d, vm.Errorf(vm.Exists, name, "the domain is verified already").WithCode("DOMAIN_ALREADY_EXISTS", "domain", name)
	}
	if n := e.countDomains(c.Actor.Account); n >= maxDomains {
		return d, vm.Errorf(vm.Limit, name, "the account has %d domains", n).WithCode("LIMIT_EXCEEDED", "limit", maxDomains, "current", n)
	}
	r, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpDomain, Subject: name, Detail: map[string]any{"do": "verification"}})
	if err != nil {
		return d, err
	}
	defer func() { r.End(err, nil) }()
	var code [16]byte
	_, _ = rand.Read(code[:]) // never fails
	d = vm.Domain{ID: vm.NewUUID(), Name: name, Account: c.Actor.Account, Code: hex.EncodeToString(code[:]), CreatedAt: e.now()}
	return e.addDomain(ctx, d)
}

func (e *Engine) taken(name string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range e.names.owned {
		if d.Name == name && d.Verified {
			return true
		}
	}
	return false
}

func (e *Engine) countDomains(account vm.AccountID) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range e.names.owned {
		if d.Account == account {
			n++
		}
	}
	return n
}

// CheckDomain looks for the TXT record, and on success makes the domain the
// account's. ref is its name or the verification's id.
func (e *Engine) CheckDomain(ctx context.Context, c *vm.Call, ref string) (d vm.Domain, err error) {
	defer func() { err = fail(vm.OpDomain, ref, err) }()
	d, err = e.verification(c, ref)
	if err != nil || d.Verified {
		return d, err
	}
	if err := e.lookFor(ctx, d); err != nil {
		return d, err
	}
	e.nameWrite.Lock()
	defer e.nameWrite.Unlock()
	if d, err = e.verification(c, ref); err != nil || d.Verified { // as it is now
		return d, err
	}
	if e.taken(d.Name) {
		return d, vm.Errorf(vm.Exists, d.Name, "another account has verified the domain").WithCode("DOMAIN_ALREADY_EXISTS", "domain", d.Name)
	}
	r, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpDomain, Subject: d.Name, Detail: map[string]any{"do": "verified"}})
	if err != nil {
		return d, err
	}
	defer func() { r.End(err, nil) }()
	d.Verified = true
	return e.saveDomain(ctx, d)
}

// verification finds a domain of the caller's by name or id.
func (e *Engine) verification(c *vm.Call, ref string) (vm.Domain, error) {
	if name, err := vm.HostName(ref); err == nil {
		ref = name
	}
	d, ok := e.domainOf(c.Actor.Account, ref)
	if !ok {
		return d, vm.Errorf(vm.NotFound, ref, "no verification of this domain was begun").WithCode("VERIFICATION_NOT_FOUND", "domain", ref).
			WithHint("begin one: `warren domain verify %s`", ref)
	}
	return d, nil
}

// lookFor asks DNS for the code of a verification.
func (e *Engine) lookFor(ctx context.Context, d vm.Domain) error {
	ctx, stop := context.WithTimeout(ctx, e.cfg.Settings.GuestDeadline)
	defer stop()
	at := vm.VerificationName(d.Name)
	list, err := e.cfg.Resolver.LookupTXT(ctx, at+".") // no search list: what it would find is another name
	for _, txt := range list {
		if strings.TrimSpace(txt) == d.Code {
			return nil
		}
	}
	msg := "no TXT record of " + at + " says the code"
	if err != nil {
		msg = "no TXT record of " + at + " was found: " + err.Error()
	}
	return vm.Errorf(vm.Invalid, d.Name, "%s", msg).WithCode("VERIFICATION_FAILED").
		WithHint("set TXT %s to %s, wait until DNS has it, then try again", at, d.Code)
}

// DropVerification forgets a verification, and a verified domain with what is
// mapped by it.
func (e *Engine) DropVerification(ctx context.Context, c *vm.Call, domain, code string) (d vm.Domain, err error) {
	defer func() { err = fail(vm.OpDomain, domain, err) }()
	e.nameWrite.Lock()
	defer e.nameWrite.Unlock()
	if d, err = e.verification(c, domain); err != nil {
		return d, err
	}
	if code != "" && code != d.Code {
		return d, vm.Errorf(vm.NotFound, domain, "the verification has another code").WithCode("VERIFICATION_NOT_FOUND", "domain", d.Name)
	}
	r, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpDomain, Subject: d.Name, Detail: map[string]any{"do": "forgotten"}})
	if err != nil {
		return d, err
	}
	defer func() { r.End(err, nil) }()
	for _, m := range e.mappingsOf(func(m vm.Mapping) bool { return m.Ownership == d.ID }) {
		if err := e.dropMapping(ctx, m); err != nil {
			return d, err
		}
	}
	return d, e.dropDomain(ctx, d)
}

// Domains lists the caller's domains by name, verified or not.
func (e *Engine) Domains(_ context.Context, c *vm.Call) ([]vm.Domain, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []vm.Domain
	for _, d := range e.names.owned {
		if d.Account == c.Actor.Account {
			list = append(list, d)
		}
	}
	slices.SortFunc(list, func(a, b vm.Domain) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

func (e *Engine) addDomain(ctx context.Context, d vm.Domain) (vm.Domain, error) {
	ctx, stop := durable(ctx)
	defer stop()
	rev, err := e.cfg.Records.Domains.Create(ctx, d)
	return e.noteDomain(d, rev, err)
}

func (e *Engine) saveDomain(ctx context.Context, d vm.Domain) (vm.Domain, error) {
	ctx, stop := durable(ctx)
	defer stop()
	rev, err := e.cfg.Records.Domains.Update(ctx, d)
	return e.noteDomain(d, rev, err)
}

func (e *Engine) noteDomain(d vm.Domain, rev int64, err error) (vm.Domain, error) {
	if err != nil {
		return d, err
	}
	d.Revision = rev
	e.mu.Lock()
	defer e.mu.Unlock()
	e.names.owned[d.ID] = d
	return d, nil
}

func (e *Engine) dropDomain(ctx context.Context, d vm.Domain) error {
	ctx, stop := durable(ctx)
	defer stop()
	if err := e.cfg.Records.Domains.Delete(ctx, d); err != nil && vm.KindOf(err) != vm.NotFound {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.names.owned, d.ID)
	return nil
}

// dropDomainsOf lets go what an account that is gone called its own, so that
// others may.
func (e *Engine) dropDomainsOf(ctx context.Context, account vm.AccountID) error {
	e.nameWrite.Lock()
	defer e.nameWrite.Unlock()
	for _, m := range e.mappingsOf(func(m vm.Mapping) bool { return m.Account == account }) {
		if err := e.dropMapping(ctx, m); err != nil {
			return err
		}
	}
	list, err := e.Domains(ctx, &vm.Call{Actor: vm.Actor{Account: account}})
	if err != nil {
		return err
	}
	for _, d := range list {
		if err := e.dropDomain(ctx, d); err != nil {
			return err
		}
	}
	return nil
}
