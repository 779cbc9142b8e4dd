// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package names

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

const maxDomains = 100 // per account, verified or not

// lookDeadline bounds a DNS lookup.
const lookDeadline = 30 * time.Second

// DomainSite returns the port of a VM that a name is mapped to. Mapped ports are public.
func (n *Names) DomainSite(name string) (vm.Site, bool) {
	_, site, ok := n.mapped(name)
	return site, ok
}

// mapped returns the mapping of a name and the site that it leads to, if the VM exists.
func (n *Names) mapped(name string) (m vm.Mapping, site vm.Site, ok bool) {
	if m, ok = n.mappings.Get(name); !ok {
		return m, site, false
	}
	rec, ok := n.engine.VMOf(m.VM)
	if !ok || rec.Account != m.Account {
		return m, site, false
	}
	site = siteOf(rec, m.Port)
	site.Public, site.Domain = true, name
	if n.implicit(name) {
		site.Label = name
	}
	return m, site, true
}

// MayCertify returns the account for which a certificate of a name may be ordered: the
// name leads to a VM, and the account has verified it.
func (n *Names) MayCertify(name string) (vm.AccountID, error) {
	m, _, ok := n.mapped(name)
	if !ok {
		return "", vm.Errorf(vm.NotFound, name, "no VM is mapped to this name")
	}
	if d, owned := n.domains.Get(m.Ownership); !owned || d.Account != m.Account || !covers(d, name) {
		return "", vm.Errorf(vm.Denied, name, "no account has verified this name")
	}
	return m.Account, nil
}

// implicit reports whether a name is below a preview domain.
func (n *Names) implicit(name string) bool {
	_, ok := n.belowPreviews(name)
	return ok
}

// belowPreviews returns the part of a name before the preview domain.
func (n *Names) belowPreviews(name string) (label string, ok bool) {
	for _, d := range n.cfg.PreviewDomains {
		if label, ok := strings.CutSuffix(name, "."+d); ok {
			return label, true
		}
	}
	return "", false
}

// previewDomain reports whether a name is a preview domain itself.
func (n *Names) previewDomain(name string) bool {
	return slices.Contains(n.cfg.PreviewDomains, name)
}

// domainOf finds a domain of an account by name or id.
func (n *Names) domainOf(account vm.AccountID, ref string) (vm.Domain, bool) {
	for _, d := range n.domains.By(byAccount, string(account)) {
		if d.ID == ref || d.Name == ref {
			return d, true
		}
	}
	return vm.Domain{}, false
}

// ownerOf finds the verified domain of an account that covers a name, the longest if
// there are several.
func (n *Names) ownerOf(account vm.AccountID, name string) (owner vm.Domain, ok bool) {
	for _, d := range n.domains.By(byAccount, string(account)) {
		if covers(d, name) && len(d.Name) > len(owner.Name) {
			owner, ok = d, true
		}
	}
	return owner, ok
}

// covers reports whether a name is at or below a verified domain.
func covers(d vm.Domain, name string) bool {
	return d.Verified && (name == d.Name || strings.HasSuffix(name, "."+d.Name))
}

// OwnsDomain checks that a name belongs to the caller: it is verified, or mapped below a
// preview domain.
func (n *Names) OwnsDomain(c *vm.Call, domain string) error {
	name, err := vm.HostName(domain)
	if err != nil {
		return vm.WithOp(vm.OpDomain, domain, err)
	}
	m, _ := n.mappings.Get(name)
	if _, ok := n.ownerOf(c.Actor.Account, name); ok || m.Implicit && m.Account == c.Actor.Account {
		return nil
	}
	err = vm.Errorf(vm.Denied, name, "this account has not verified the domain").
		WithCode("DOMAIN_OWNERSHIP_ERROR", "domain", name, "accountId", string(c.Actor.Account)).WithHint("verify it: `warren domain verify %s`", name)
	return vm.WithOp(vm.OpDomain, name, err)
}

// VerifyDomain begins the verification of a domain: its owner must set a TXT record to
// the code. A repeated call returns the same verification.
func (n *Names) VerifyDomain(ctx context.Context, c *vm.Call, domain string) (d vm.Domain, err error) {
	defer func() { err = vm.WithOp(vm.OpDomain, domain, err) }()
	name, err := vm.HostName(domain)
	if err != nil {
		return d, err
	}
	if n.implicit(name) || n.previewDomain(name) || !strings.Contains(name, ".") {
		return d, vm.Errorf(vm.Invalid, name, "this name cannot be verified").WithCode("INVALID_DOMAIN", "domain", name).
			WithHint("names below %s need no verification: map them", strings.Join(n.cfg.PreviewDomains, " and "))
	}
	n.write.Lock()
	defer n.write.Unlock()
	if d, ok := n.domainOf(c.Actor.Account, name); ok && !d.Verified {
		return d, nil
	}
	if n.taken(name) {
		return d, vm.Errorf(vm.Exists, name, "the domain is verified already").WithCode("DOMAIN_ALREADY_EXISTS", "domain", name)
	}
	if have := len(n.domains.By(byAccount, string(c.Actor.Account))); have >= maxDomains {
		return d, vm.Errorf(vm.Limit, name, "the account has %d domains", have).WithCode("LIMIT_EXCEEDED", "limit", maxDomains, "current", have)
	}
	r, err := n.record(ctx, c, vm.AuditEntry{Op: vm.OpDomain, Subject: name, Detail: map[string]any{"do": "verification"}})
	if err != nil {
		return d, err
	}
	defer func() { r.End(err, nil) }()
	var code [16]byte
	_, _ = rand.Read(code[:]) // never fails
	d = vm.Domain{ID: vm.NewUUID(), Name: name, Account: c.Actor.Account, Code: hex.EncodeToString(code[:]), CreatedAt: n.now()}
	return d, n.domains.Create(ctx, d)
}

// taken reports whether an account has verified a name.
func (n *Names) taken(name string) bool {
	return slices.ContainsFunc(n.domains.By(byName, name), func(d vm.Domain) bool { return d.Verified })
}

// CheckDomain looks up the TXT record and, if it has the code, gives the domain to the
// account. ref is the domain's name or the verification's id.
func (n *Names) CheckDomain(ctx context.Context, c *vm.Call, ref string) (d vm.Domain, err error) {
	defer func() { err = vm.WithOp(vm.OpDomain, ref, err) }()
	d, err = n.verification(c, ref)
	if err != nil || d.Verified {
		return d, err
	}
	if err := n.lookFor(ctx, d); err != nil {
		return d, err
	}
	n.write.Lock()
	defer n.write.Unlock()
	if d, err = n.verification(c, ref); err != nil || d.Verified { // its current record
		return d, err
	}
	if n.taken(d.Name) {
		return d, vm.Errorf(vm.Exists, d.Name, "another account has verified the domain").WithCode("DOMAIN_ALREADY_EXISTS", "domain", d.Name)
	}
	r, err := n.record(ctx, c, vm.AuditEntry{Op: vm.OpDomain, Subject: d.Name, Detail: map[string]any{"do": "verified"}})
	if err != nil {
		return d, err
	}
	defer func() { r.End(err, nil) }()
	return n.domains.Change(ctx, d.ID, func(d *vm.Domain) error {
		d.Verified = true
		return nil
	})
}

// verification finds a domain of the caller by name or id.
func (n *Names) verification(c *vm.Call, ref string) (vm.Domain, error) {
	if name, err := vm.HostName(ref); err == nil {
		ref = name
	}
	d, ok := n.domainOf(c.Actor.Account, ref)
	if !ok {
		return d, vm.Errorf(vm.NotFound, ref, "no verification of this domain was begun").WithCode("VERIFICATION_NOT_FOUND", "domain", ref).
			WithHint("begin one: `warren domain verify %s`", ref)
	}
	return d, nil
}

// lookFor looks up the code of a verification in DNS.
func (n *Names) lookFor(ctx context.Context, d vm.Domain) error {
	ctx, stop := context.WithTimeout(ctx, lookDeadline)
	defer stop()
	at := vm.VerificationName(d.Name)
	list, err := n.cfg.Resolver.LookupTXT(ctx, at+".") // the dot rules out search lists, which could find another name
	for _, txt := range list {
		if strings.TrimSpace(txt) == d.Code {
			return nil
		}
	}
	msg := "no TXT record of " + at + " contains the code"
	if err != nil {
		msg = "no TXT record of " + at + " was found: " + err.Error()
	}
	return vm.Errorf(vm.Invalid, d.Name, "%s", msg).WithCode("VERIFICATION_FAILED").
		WithHint("set TXT %s to %s, wait until DNS has it, then try again", at, d.Code)
}

// DropVerification removes a verification, and a verified domain with its mappings.
func (n *Names) DropVerification(ctx context.Context, c *vm.Call, domain, code string) (d vm.Domain, err error) {
	defer func() { err = vm.WithOp(vm.OpDomain, domain, err) }()
	n.write.Lock()
	defer n.write.Unlock()
	if d, err = n.verification(c, domain); err != nil {
		return d, err
	}
	if code != "" && code != d.Code {
		return d, vm.Errorf(vm.NotFound, domain, "the verification has another code").WithCode("VERIFICATION_NOT_FOUND", "domain", d.Name)
	}
	r, err := n.record(ctx, c, vm.AuditEntry{Op: vm.OpDomain, Subject: d.Name, Detail: map[string]any{"do": "forgotten"}})
	if err != nil {
		return d, err
	}
	defer func() { r.End(err, nil) }()
	for _, m := range n.mappings.By(byDomain, d.ID) {
		if err := n.dropMapping(ctx, m.Domain); err != nil {
			return d, err
		}
	}
	return d, n.domains.Drop(ctx, d.ID)
}

// Domains lists the caller's domains by name, verified or not.
func (n *Names) Domains(_ context.Context, c *vm.Call) ([]vm.Domain, error) {
	list := n.domains.By(byAccount, string(c.Actor.Account))
	slices.SortFunc(list, func(a, b vm.Domain) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Forget removes the domains and mappings of a deleted account, so that others may use
// the names.
func (n *Names) Forget(ctx context.Context, account vm.AccountID) error {
	n.write.Lock()
	defer n.write.Unlock()
	for _, m := range n.mappings.By(byAccount, string(account)) {
		if err := n.dropMapping(ctx, m.Domain); err != nil {
			return err
		}
	}
	for _, d := range n.domains.By(byAccount, string(account)) {
		if err := n.domains.Drop(ctx, d.ID); err != nil {
			return err
		}
	}
	return nil
}
