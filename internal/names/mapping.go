// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package names

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/warren-vm/warren/vm"
)

const maxMappings = 1000 // per account

// DefaultMappedPort is the port of a mapping that names none.
const DefaultMappedPort = 443

// MapDomain makes a port of a VM public under a name. It replaces the caller's earlier
// mapping of the name.
func (n *Names) MapDomain(ctx context.Context, c *vm.Call, domain, ref string, port uint16) (m vm.Mapping, err error) {
	defer func() { err = vm.WithOp(vm.OpDomain, domain, err) }()
	if port == 0 {
		port = DefaultMappedPort
	}
	n.write.Lock()
	defer n.write.Unlock()
	m, err = n.claim(c, domain)
	if err != nil {
		return m, err
	}
	old, _ := n.mappings.Get(m.Domain)
	rec, err := n.engine.Find(c.Actor, ref)
	if err != nil {
		return m, vm.Errorf(vm.Denied, ref, "no such VM of this account").WithCode("VM_ACCESS_DENIED_FOR_MAPPING", "vmId", ref)
	}
	r, err := n.record(ctx, c, vm.AuditEntry{Op: vm.OpDomain, VM: rec.ID, Subject: m.Domain, Detail: map[string]any{"do": "map", "port": port}})
	if err != nil {
		return m, err
	}
	defer func() { r.End(err, nil) }()
	m.VM, m.Port, m.CreatedAt = rec.ID, port, n.now()
	return m, n.saveMapping(ctx, old, m)
}

// claim checks whether the caller may map a name, and returns its mapping, new or
// existing.
func (n *Names) claim(c *vm.Call, domain string) (vm.Mapping, error) {
	name, err := vm.HostName(domain)
	if err != nil {
		return vm.Mapping{}, err
	}
	old, there := n.mappings.Get(name)
	shown := n.shownByOther(name, c.Actor.Account)
	m := vm.Mapping{ID: vm.NewUUID(), Domain: name, Account: c.Actor.Account}
	label, implicit := n.belowPreviews(name)
	switch {
	case n.previewDomain(name) || implicit && isPreviewName(label):
		return m, vm.Errorf(vm.Invalid, name, "names of this form belong to previews").WithCode("INVALID_DOMAIN", "domain", name).
			WithHint("choose one label that does not begin with a port and is no VM's id, such as app.%s", n.cfg.PreviewDomains[0])
	case implicit:
		m.Implicit, m.Ownership = true, m.ID
		if shown || there && old.Account != c.Actor.Account {
			return m, notVerified(name, "another account has this name, or had it recently").WithHint("choose another one below %s", strings.TrimPrefix(name, label+"."))
		}
	default:
		d, ok := n.ownerOf(c.Actor.Account, name)
		if !ok {
			return m, notVerified(name, "this account has not verified the domain").WithHint("verify it: `warren domain verify %s`", name)
		}
		if there && old.Account != c.Actor.Account && !n.closer(d, old) {
			return m, vm.Errorf(vm.Exists, name, "another account has mapped the name and has verified an equally specific domain").WithCode("DOMAIN_ALREADY_EXISTS", "domain", name)
		}
		m.Ownership = d.ID
	}
	if have := len(n.mappings.By(byAccount, string(c.Actor.Account))); !there && have >= maxMappings {
		return m, vm.Errorf(vm.Limit, name, "the account has %d mappings", have).WithCode("LIMIT_EXCEEDED", "limit", maxMappings, "current", have)
	}
	return m, nil
}

// isPreviewName reports whether a label could be <port>-<VM> or the id of a VM, or has
// dots, so that no certificate of the preview domain covers it.
func isPreviewName(label string) bool {
	port, _, ok := strings.Cut(label, "-")
	_, err := strconv.ParseUint(port, 10, 64)
	return ok && err == nil || strings.Contains(label, ".") || vm.IsID(label)
}

func notVerified(name, why string) *vm.Error {
	return vm.Errorf(vm.Unauthenticated, name, "%s", why).WithCode("DOMAIN_OWNERSHIP_NOT_VERIFIED", "domain", name)
}

// closer reports whether a domain is more specific than the one by which another account
// has mapped a name: the owner of a.example.com precedes the owner of example.com, who
// delegated it in DNS.
func (n *Names) closer(d vm.Domain, m vm.Mapping) bool {
	old, _ := n.domains.Get(m.Ownership)
	return len(d.Name) > len(old.Name)
}

// CheckMappable checks a name before a VM is made for it.
func (n *Names) CheckMappable(c *vm.Call, domain string) error {
	_, err := n.claim(c, domain)
	return vm.WithOp(vm.OpDomain, domain, err)
}

// Unmap removes a mapping of the caller.
func (n *Names) Unmap(ctx context.Context, c *vm.Call, domain string) (m vm.Mapping, err error) {
	defer func() { err = vm.WithOp(vm.OpDomain, domain, err) }()
	name, err := vm.HostName(domain)
	if err != nil {
		return m, err
	}
	n.write.Lock()
	defer n.write.Unlock()
	m, ok := n.mappings.Get(name)
	if !ok || m.Account != c.Actor.Account { // does not reveal whether another account has it
		return m, vm.Errorf(vm.Denied, name, "not a mapping of this account").WithCode("FAILED_PERMISSIONS_CHECK", "domain", name).
			WithHint("`warren domain ls` lists them")
	}
	r, err := n.record(ctx, c, vm.AuditEntry{Op: vm.OpDomain, VM: m.VM, Subject: name, Detail: map[string]any{"do": "unmap"}})
	if err != nil {
		return m, err
	}
	err = n.dropMapping(ctx, name)
	r.End(err, nil)
	return m, err
}

// Mappings lists the caller's mappings by name.
func (n *Names) Mappings(_ context.Context, c *vm.Call) ([]vm.Mapping, error) {
	return n.mappings.By(byAccount, string(c.Actor.Account)), nil
}

// MappedTo lists the names that lead to a VM.
func (n *Names) MappedTo(id vm.ID) []string {
	names := []string{}
	for _, m := range n.mappings.By(byVM, string(id)) {
		names = append(names, m.Domain)
	}
	return names
}

// saveMapping replaces old by m; the zero old = there is none. The caller holds write.
func (n *Names) saveMapping(ctx context.Context, old, m vm.Mapping) error {
	m.Host = n.host
	var err error
	if old.ID == "" {
		err = n.mappings.Create(ctx, m)
	} else {
		_, err = n.mappings.Change(ctx, m.Domain, func(now *vm.Mapping) error {
			if now.ID != old.ID { // another server mapped it
				return vm.Errorf(vm.Busy, m.Domain, "the name was mapped meanwhile").WithHint("try again")
			}
			*now = m
			return nil
		})
	}
	if err == nil {
		n.cut()
	}
	return err
}

func (n *Names) dropMapping(ctx context.Context, name string) error {
	err := n.mappings.Drop(ctx, name)
	if err == nil {
		n.cut()
	}
	return err
}

// VMGone removes the mappings of a VM that is deleted.
func (n *Names) VMGone(ctx context.Context, id vm.ID) error {
	n.write.Lock()
	defer n.write.Unlock()
	var errs []error
	for _, m := range n.mappings.By(byVM, string(id)) {
		errs = append(errs, n.dropMapping(ctx, m.Domain))
	}
	return errors.Join(errs...)
}

// Move points the mappings of a VM to another VM of its account. back is never nil and
// undoes what was done, even after an error.
func (n *Names) Move(ctx context.Context, from, to vm.ID) (back func(context.Context) error, err error) {
	n.write.Lock()
	defer n.write.Unlock()
	var moved []string
	back = func(ctx context.Context) error {
		n.write.Lock()
		defer n.write.Unlock()
		var errs []error
		for _, name := range moved {
			errs = append(errs, n.point(ctx, name, from))
		}
		return errors.Join(errs...)
	}
	for _, m := range n.mappings.By(byVM, string(from)) {
		if err := n.point(ctx, m.Domain, to); err != nil {
			return back, err
		}
		moved = append(moved, m.Domain)
	}
	return back, nil
}

// point makes an existing mapping lead to a VM. The caller holds write.
func (n *Names) point(ctx context.Context, name string, to vm.ID) error {
	_, err := n.mappings.Change(ctx, name, func(m *vm.Mapping) error {
		m.VM = to
		return nil
	})
	if vm.KindOf(err) == vm.NotFound {
		err = nil
	}
	n.cut()
	return err
}
