// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/warren-vm/warren/vm"
)

const maxMappings = 1000 // of one account

// DefaultMappedPort is where a mapping leads that names no port.
const DefaultMappedPort = 443

// MapDomain shows a port of a VM under a name, to everybody. It replaces the
// caller's earlier mapping of the name.
func (e *Engine) MapDomain(ctx context.Context, c *vm.Call, domain, ref string, port uint16) (m vm.Mapping, err error) {
	defer func() { err = fail(vm.OpDomain, domain, err) }()
	if port == 0 {
		port = DefaultMappedPort
	}
	e.nameWrite.Lock()
	defer e.nameWrite.Unlock()
	m, err = e.claim(c, domain)
	if err != nil {
		return m, err
	}
	s, err := e.lookup(c, ref)
	if err != nil {
		return m, vm.Errorf(vm.Denied, ref, "no such VM of this account").WithCode("VM_ACCESS_DENIED_FOR_MAPPING", "vmId", ref)
	}
	r, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpDomain, VM: s.id, Subject: m.Domain, Detail: map[string]any{"do": "map", "port": port}})
	if err != nil {
		return m, err
	}
	defer func() { r.End(err, nil) }()
	m.VM, m.Port, m.CreatedAt = s.id, port, e.now()
	return e.saveMapping(ctx, m)
}

// claim judges whether the caller may map a name, and returns its mapping, new
// or as it is.
func (e *Engine) claim(c *vm.Call, domain string) (vm.Mapping, error) {
	name, err := vm.HostName(domain)
	if err != nil {
		return vm.Mapping{}, err
	}
	e.mu.Lock()
	old, there := e.names.mappings[name]
	shown := e.shownByOtherLocked(name, c.Actor.Account)
	e.mu.Unlock()
	m := vm.Mapping{ID: vm.NewUUID(), Domain: name, Account: c.Actor.Account}
	label, implicit := e.belowPreviews(name)
	switch {
	case e.previewDomain(name) || implicit && isPreviewName(label):
		return m, vm.Errorf(vm.Invalid, name, "names of this form belong to previews").WithCode("INVALID_DOMAIN", "domain", name).
			WithHint("choose one label that does not begin with a port and is no VM's id, such as app.%s", e.cfg.Settings.PreviewDomains[0])
	case implicit:
		m.Implicit, m.Ownership = true, m.ID
		if shown || there && old.Account != c.Actor.Account {
			return m, notVerified(name, "another account has this name, or had it lately").WithHint("choose another one below %s", strings.TrimPrefix(name, label+"."))
		}
	default:
		d, ok := e.ownerOf(c.Actor.Account, name)
		if !ok {
			return m, notVerified(name, "this account has not verified the domain").WithHint("show that it is yours: `warren domain verify %s`", name)
		}
		if there && old.Account != c.Actor.Account && !e.closer(d, old) {
			return m, vm.Errorf(vm.Exists, name, "another account has mapped the name, and has verified as much of it").WithCode("DOMAIN_ALREADY_EXISTS", "domain", name)
		}
		m.Ownership = d.ID
	}
	if there {
		m.Revision = old.Revision
	} else if n := len(e.mappingsOf(func(m vm.Mapping) bool { return m.Account == c.Actor.Account })); n >= maxMappings {
		return m, vm.Errorf(vm.Limit, name, "the account has %d mappings", n).WithCode("LIMIT_EXCEEDED", "limit", maxMappings, "current", n)
	}
	return m, nil
}

// isPreviewName reports whether a label could be <port>-<VM> or the id of a VM, or
// has dots, which no certificate of the preview domain covers.
func isPreviewName(label string) bool {
	port, _, ok := strings.Cut(label, "-")
	_, err := strconv.ParseUint(port, 10, 64)
	return ok && err == nil || strings.Contains(label, ".") || vm.IsID(label)
}

func notVerified(name, why string) *vm.Error {
	return vm.Errorf(vm.Unauthenticated, name, "%s", why).WithCode("DOMAIN_OWNERSHIP_NOT_VERIFIED", "domain", name)
}

// closer reports whether a domain says more of a name than that by which
// another account has mapped it: the owner of a.example.com goes before the
// owner of example.com, who gave it away by DNS.
func (e *Engine) closer(d vm.Domain, m vm.Mapping) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(d.Name) > len(e.names.owned[m.Ownership].Name)
}

// CheckMappable judges a name before a VM is made for it.
func (e *Engine) CheckMappable(c *vm.Call, domain string) error {
	_, err := e.claim(c, domain)
	return fail(vm.OpDomain, domain, err)
}

// Unmap ends a mapping of the caller's.
func (e *Engine) Unmap(ctx context.Context, c *vm.Call, domain string) (m vm.Mapping, err error) {
	defer func() { err = fail(vm.OpDomain, domain, err) }()
	name, err := vm.HostName(domain)
	if err != nil {
		return m, err
	}
	e.nameWrite.Lock()
	defer e.nameWrite.Unlock()
	e.mu.Lock()
	m, ok := e.names.mappings[name]
	e.mu.Unlock()
	if !ok || m.Account != c.Actor.Account { // whether it is another's is not said
		return m, vm.Errorf(vm.Denied, name, "not a mapping of this account").WithCode("FAILED_PERMISSIONS_CHECK", "domain", name).
			WithHint("`warren domain ls` lists them")
	}
	r, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpDomain, VM: m.VM, Subject: name, Detail: map[string]any{"do": "unmap"}})
	if err != nil {
		return m, err
	}
	err = e.dropMapping(ctx, m)
	r.End(err, nil)
	return m, err
}

// Mappings lists the caller's mappings by name.
func (e *Engine) Mappings(_ context.Context, c *vm.Call) ([]vm.Mapping, error) {
	return e.mappingsOf(func(m vm.Mapping) bool { return m.Account == c.Actor.Account }), nil
}

// MappedTo lists the names that lead to a VM.
func (e *Engine) MappedTo(id vm.ID) []string {
	names := []string{}
	for _, m := range e.mappingsOf(func(m vm.Mapping) bool { return m.VM == id }) {
		names = append(names, m.Domain)
	}
	return names
}

func (e *Engine) mappingsOf(want func(vm.Mapping) bool) []vm.Mapping {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []vm.Mapping
	for _, m := range e.names.mappings {
		if want(m) {
			list = append(list, m)
		}
	}
	slices.SortFunc(list, func(a, b vm.Mapping) int { return strings.Compare(a.Domain, b.Domain) })
	return list
}

// saveMapping writes a mapping, new without a revision. The caller holds
// nameWrite.
func (e *Engine) saveMapping(ctx context.Context, m vm.Mapping) (vm.Mapping, error) {
	ctx, stop := durable(ctx)
	defer stop()
	write := e.cfg.Records.Mappings.Update
	if m.Revision == 0 {
		write = e.cfg.Records.Mappings.Create
	}
	rev, err := write(ctx, m)
	if err != nil {
		return m, err
	}
	m.Revision = rev
	e.mu.Lock()
	defer e.mu.Unlock()
	e.names.mappings[m.Domain] = m
	e.cutLocked()
	return m, nil
}

func (e *Engine) dropMapping(ctx context.Context, m vm.Mapping) error {
	ctx, stop := durable(ctx)
	defer stop()
	if err := e.cfg.Records.Mappings.Delete(ctx, m); err != nil && vm.KindOf(err) != vm.NotFound {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.names.mappings, m.Domain)
	e.cutLocked()
	return nil
}

// dropMappingsOf ends what leads to a VM that is gone.
func (e *Engine) dropMappingsOf(ctx context.Context, id vm.ID) error {
	e.nameWrite.Lock()
	defer e.nameWrite.Unlock()
	var errs []error
	for _, m := range e.mappingsOf(func(m vm.Mapping) bool { return m.VM == id }) {
		errs = append(errs, e.dropMapping(ctx, m))
	}
	return errors.Join(errs...)
}

// dropLostMappings ends what leads to VMs of which there is no record: a death
// came between the two.
func (e *Engine) dropLostMappings(ctx context.Context) error {
	e.mu.Lock()
	lost := map[vm.ID]bool{}
	for _, m := range e.names.mappings {
		if e.vms[m.VM] == nil {
			lost[m.VM] = true
		}
	}
	e.mu.Unlock()
	for id := range lost {
		if err := e.dropMappingsOf(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// moveNames gives the loser's names and open ports to the winner, to be given
// back when the operation fails.
func (e *Engine) moveNames(ctx context.Context, op *operation, from, to *slot) error {
	e.nameWrite.Lock()
	defer e.nameWrite.Unlock()
	for _, m := range e.mappingsOf(func(m vm.Mapping) bool { return m.VM == from.id }) {
		m.VM = to.id
		if _, err := e.saveMapping(ctx, m); err != nil {
			return err
		}
		name := m.Domain
		if err := op.undo.add(ctx, "mapping", func(ctx context.Context) error { return e.pointMapping(ctx, name, from.id) }); err != nil {
			return err
		}
	}
	winner, loser := e.snapshot(to).Previews, e.snapshot(from).Previews
	return e.swapPreviews(ctx, op, from, to, winner, loser)
}

func (e *Engine) pointMapping(ctx context.Context, name string, to vm.ID) error {
	e.nameWrite.Lock()
	defer e.nameWrite.Unlock()
	e.mu.Lock()
	m, ok := e.names.mappings[name]
	e.mu.Unlock()
	if !ok {
		return nil
	}
	m.VM = to
	_, err := e.saveMapping(ctx, m)
	return err
}

// swapPreviews gives what was open under the loser's name to the winner.
func (e *Engine) swapPreviews(ctx context.Context, op *operation, from, to *slot, winner, loser []vm.Preview) error {
	if len(loser) == 0 {
		return nil
	}
	set := func(ctx context.Context, s *slot, list []vm.Preview) error {
		_, err := e.update(ctx, s, func(rec *vm.VM) { rec.Previews = list })
		return err
	}
	merged := slices.Clone(loser)
	for _, p := range winner {
		if !slices.ContainsFunc(merged, func(o vm.Preview) bool { return o.Port == p.Port }) {
			merged = append(merged, p)
		}
	}
	if err := set(ctx, to, merged); err != nil {
		return err
	}
	if err := op.undo.add(ctx, "previews", func(ctx context.Context) error {
		return errors.Join(set(ctx, to, winner), set(ctx, from, loser))
	}); err != nil {
		return err
	}
	return set(ctx, from, nil)
}
