// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"slices"

	"github.com/warren-vm/warren/vm"
)

// PreviewSite finds the port of a VM that a preview's host name means: by the
// VM's id, or by a name that only one VM of this host has and under which no
// other account showed pages lately.
func (e *Engine) PreviewSite(label string, port uint16) (vm.Site, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	found, byName := e.vms[vm.ID(label)], ""
	if found == nil {
		byName = label
		for _, s := range e.vms {
			if s.rec.Name != label {
				continue
			}
			if found != nil {
				return vm.Site{}, false
			}
			found = s
		}
	}
	if found == nil || byName != "" && e.shownByOtherLocked(byName, found.account) {
		return vm.Site{}, false
	}
	site := siteOf(found.rec, port)
	site.Label = byName
	return site, true
}

// siteOf is a port of a VM as its record has it.
func siteOf(rec vm.VM, port uint16) vm.Site {
	s := vm.Site{VM: rec.ID, Account: rec.Account, Name: rec.Name, Port: port, Instance: rec.InstanceID, Started: rec.StartedAt}
	if p := previewOf(rec, port); p != nil {
		s.Public, s.Epoch = p.Public, p.Epoch
	}
	return s
}

func previewOf(rec vm.VM, port uint16) *vm.Preview {
	for i := range rec.Previews {
		if rec.Previews[i].Port == port {
			return &rec.Previews[i]
		}
	}
	return nil
}

// Site returns a port of a VM of the caller's, for links, and whether the VM's
// name is enough to find it from outside.
func (e *Engine) Site(_ context.Context, c *vm.Call, ref string, port uint16) (site vm.Site, byName bool, err error) {
	s, err := e.lookup(c, ref)
	if err != nil {
		return vm.Site{}, false, fail(vm.OpPreview, ref, err)
	}
	site = siteOf(e.snapshot(s), port)
	named, ok := e.PreviewSite(site.Name, port)
	return site, ok && named.VM == site.VM, nil
}

// Previews returns the ports of a VM that were opened or closed by name.
func (e *Engine) Previews(_ context.Context, c *vm.Call, ref string) ([]vm.Preview, error) {
	s, err := e.lookup(c, ref)
	if err != nil {
		return nil, fail(vm.OpPreview, ref, err)
	}
	return slices.Clone(e.snapshot(s).Previews), nil
}

// maxPreviews bounds the ports that one VM's record speaks of.
const maxPreviews = 200

// SetPreview says whether a port of a VM is open to everybody.
func (e *Engine) SetPreview(ctx context.Context, c *vm.Call, ref string, port uint16, public bool) (vm.Preview, error) {
	return e.changePreview(ctx, c, ref, port, func(p *vm.Preview) { p.Public = public })
}

// ClosePreview makes a port private and ends every link to it.
func (e *Engine) ClosePreview(ctx context.Context, c *vm.Call, ref string, port uint16) (vm.Preview, error) {
	return e.changePreview(ctx, c, ref, port, func(p *vm.Preview) {
		p.Public = false
		p.Epoch++
	})
}

// changePreview changes what a VM's record says of a port, with one audit record.
func (e *Engine) changePreview(ctx context.Context, c *vm.Call, ref string, port uint16, change func(*vm.Preview)) (out vm.Preview, err error) {
	defer func() { err = fail(vm.OpPreview, ref, err) }()
	if port == 0 {
		return out, vm.Errorf(vm.Invalid, ref, "not a port").WithHint("give a number from 1 to 65535")
	}
	s, err := e.lookup(c, ref)
	if err != nil {
		return out, err
	}
	before := e.snapshot(s)
	if previewOf(before, port) == nil && len(before.Previews) >= maxPreviews {
		return out, vm.Errorf(vm.Limit, ref, "the VM has %d previews", maxPreviews)
	}
	after := changed(before, port, change)
	r, err := e.record(ctx, c, vm.AuditEntry{Op: vm.OpPreview, VM: s.id, Detail: map[string]any{"port": port, "public": after.Public, "epoch": after.Epoch}})
	if err != nil {
		return out, err
	}
	defer func() { r.End(err, nil) }()
	rec, err := e.update(ctx, s, func(rec *vm.VM) {
		out = changed(*rec, port, change)
		out.ChangedAt = e.now()
		rec.Previews = slices.DeleteFunc(slices.Clone(rec.Previews), func(p vm.Preview) bool { return p.Port == port })
		rec.Previews = append(rec.Previews, out)
		slices.SortFunc(rec.Previews, func(a, b vm.Preview) int { return int(a.Port) - int(b.Port) })
	})
	if err != nil {
		return vm.Preview{}, err
	}
	e.mu.Lock()
	e.cutLocked()
	e.mu.Unlock()
	e.cfg.Journal.EmitVM(rec, "vm.preview", map[string]any{"port": port, "public": out.Public})
	return out, nil
}

// changed is what becomes of a port's preview.
func changed(rec vm.VM, port uint16, change func(*vm.Preview)) vm.Preview {
	out := vm.Preview{Port: port}
	if p := previewOf(rec, port); p != nil {
		out = *p
	}
	change(&out)
	return out
}

// EnterPreview wakes the VM of a site that PreviewSite or DomainSite found, and
// holds it awake until leave is called, which may be done more than once. The
// name that led to it stays with its account; see vm.ShownName.
func (e *Engine) EnterPreview(ctx context.Context, c *vm.Call, at vm.Site) (site vm.Site, leave func(), err error) {
	if err := e.showName(ctx, at); err != nil {
		return vm.Site{}, nil, fail(vm.OpPreview, string(at.VM), err)
	}
	v, err := e.Visit(ctx, c, string(at.VM), vm.OpDial, "")
	if err != nil {
		return vm.Site{}, nil, err
	}
	return siteOf(v.rec, 0), func() { v.End(nil, nil) }, nil
}

// MayPreview reports whether an actor may see a port of a VM: it is of the VM's
// account, and an identity of that was granted the VM.
func (e *Engine) MayPreview(a vm.Actor, site vm.Site) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.vms[site.VM]
	return s != nil && s.account == a.Account && e.validLocked(a) == nil && e.reachesLocked(a, s)
}

// PreviewSession returns a context that ends with ctx and, with the reason as
// its cause, when the right to see a site does. An actor's ends with its key,
// token or permission; that of the zero actor, who came because the port is
// public or by a link, when the port is closed or the domain leads elsewhere.
func (e *Engine) PreviewSession(ctx context.Context, a vm.Actor, site vm.Site) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &session{actor: a, vm: site.VM, cancel: cancel}
	if a.Account == "" {
		s.still = func() error { return e.showsLocked(site) }
	}
	e.hold(s)
	return ctx, func() {
		e.unhold(s)
		cancel(nil)
	}
}

// showsLocked refuses a site that is no longer open as it was.
func (e *Engine) showsLocked(was vm.Site) error {
	now, ok := vm.Site{}, false
	if was.Domain != "" {
		now, ok = e.domainSiteLocked(was.Domain)
	} else if s := e.vms[was.VM]; s != nil {
		now, ok = siteOf(s.rec, was.Port), true
	}
	if !ok || now.VM != was.VM || now.Port != was.Port || now.Epoch != was.Epoch || was.Public && !now.Public {
		return vm.Errorf(vm.Denied, string(was.VM), "the port is no longer open to whom it was")
	}
	return nil
}
