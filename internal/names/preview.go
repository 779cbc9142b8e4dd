// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package names

import (
	"context"
	"slices"

	"github.com/warren-vm/warren/vm"
)

// PreviewSite finds the port of a VM for a preview's host name: by the VM's id, or by a
// name that only one VM of this host has and under which no other account showed pages
// recently.
func (n *Names) PreviewSite(label string, port uint16) (vm.Site, bool) {
	if rec, ok := n.engine.VMOf(vm.ID(label)); ok {
		return siteOf(rec, port), true
	}
	if label == "" { // VMs without a name are not found by it
		return vm.Site{}, false
	}
	named := n.engine.VMsNamed(label)
	if len(named) != 1 || n.shownByOther(label, named[0].Account) {
		return vm.Site{}, false
	}
	site := siteOf(named[0], port)
	site.Label = label
	return site, true
}

// siteOf returns a port of a VM according to its record.
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

// Site returns a port of the caller's VM, for links, and whether the VM's name is enough
// to find it from outside.
func (n *Names) Site(_ context.Context, c *vm.Call, ref string, port uint16) (site vm.Site, byName bool, err error) {
	rec, err := n.engine.Find(c.Actor, ref)
	if err != nil {
		return vm.Site{}, false, vm.WithOp(vm.OpPreview, ref, err)
	}
	site = siteOf(rec, port)
	named, ok := n.PreviewSite(site.Name, port)
	return site, ok && named.VM == site.VM, nil
}

// Previews returns the ports of a VM that were explicitly opened or closed.
func (n *Names) Previews(_ context.Context, c *vm.Call, ref string) ([]vm.Preview, error) {
	rec, err := n.engine.Find(c.Actor, ref)
	if err != nil {
		return nil, vm.WithOp(vm.OpPreview, ref, err)
	}
	return slices.Clone(rec.Previews), nil
}

// maxPreviews bounds the ports in one VM's record.
const maxPreviews = 200

// SetPreview sets whether a port of a VM is public.
func (n *Names) SetPreview(ctx context.Context, c *vm.Call, ref string, port uint16, public bool) (vm.Preview, error) {
	return n.changePreview(ctx, c, ref, port, func(p *vm.Preview) { p.Public = public })
}

// ClosePreview makes a port private and ends every link to it.
func (n *Names) ClosePreview(ctx context.Context, c *vm.Call, ref string, port uint16) (vm.Preview, error) {
	return n.changePreview(ctx, c, ref, port, func(p *vm.Preview) {
		p.Public = false
		p.Epoch++
	})
}

// changePreview changes the setting of a port in a VM's record, with one audit record.
func (n *Names) changePreview(ctx context.Context, c *vm.Call, ref string, port uint16, change func(*vm.Preview)) (out vm.Preview, err error) {
	defer func() { err = vm.WithOp(vm.OpPreview, ref, err) }()
	if port == 0 {
		return out, vm.Errorf(vm.Invalid, ref, "not a port").WithHint("give a number from 1 to 65535")
	}
	before, err := n.engine.Find(c.Actor, ref)
	if err != nil {
		return out, err
	}
	if previewOf(before, port) == nil && len(before.Previews) >= maxPreviews {
		return out, vm.Errorf(vm.Limit, ref, "the VM has %d previews", maxPreviews)
	}
	after := changed(before, port, change)
	r, err := n.record(ctx, c, vm.AuditEntry{Op: vm.OpPreview, VM: before.ID, Detail: map[string]any{"port": port, "public": after.Public, "epoch": after.Epoch}})
	if err != nil {
		return out, err
	}
	defer func() { r.End(err, nil) }()
	rec, err := n.engine.ChangePreviews(ctx, before.ID, func(rec vm.VM) []vm.Preview {
		out = changed(rec, port, change)
		out.ChangedAt = n.now()
		list := slices.DeleteFunc(slices.Clone(rec.Previews), func(p vm.Preview) bool { return p.Port == port })
		list = append(list, out)
		slices.SortFunc(list, func(a, b vm.Preview) int { return int(a.Port) - int(b.Port) })
		return list
	})
	if err != nil {
		return vm.Preview{}, err
	}
	n.cut()
	n.cfg.Journal.EmitVM(rec, "vm.preview", map[string]any{"port": port, "public": out.Public})
	return out, nil
}

// changed returns a port's preview after a change.
func changed(rec vm.VM, port uint16, change func(*vm.Preview)) vm.Preview {
	out := vm.Preview{Port: port}
	if p := previewOf(rec, port); p != nil {
		out = *p
	}
	change(&out)
	return out
}

// EnterPreview wakes the VM of a site that PreviewSite or DomainSite found, and keeps it
// awake until leave, which may be called more than once. The name by which it was found
// stays with its account; see vm.ShownName.
func (n *Names) EnterPreview(ctx context.Context, c *vm.Call, at vm.Site) (site vm.Site, leave func(), err error) {
	if err := n.showName(ctx, at); err != nil {
		return vm.Site{}, nil, vm.WithOp(vm.OpPreview, string(at.VM), err)
	}
	v, err := n.engine.Visit(ctx, c, string(at.VM), vm.OpDial, "")
	if err != nil {
		return vm.Site{}, nil, err
	}
	return siteOf(v.Record(), 0), func() { v.End(nil, nil) }, nil
}

// MayPreview reports whether an actor may see a port of a VM: it belongs to the VM's
// account, and an identity has a permission for the VM.
func (n *Names) MayPreview(a vm.Actor, site vm.Site) bool {
	rec, ok := n.engine.VMOf(site.VM)
	return ok && rec.Account == a.Account && n.rights.Valid(a) == nil && n.rights.Reaches(a, site.VM)
}

// guest is a visitor who sees a port because it is public, or by a link.
type guest struct {
	site vm.Site // when the guest came
	end  context.CancelCauseFunc
}

// PreviewSession returns a context that ends with ctx, or when the right to see a site
// ends; the cause is the reason. An actor's right ends with its key, token or permission.
// The zero actor came because the port is public, or by a link: its right ends when the
// port is closed or the domain leads elsewhere.
func (n *Names) PreviewSession(ctx context.Context, a vm.Actor, site vm.Site) (context.Context, context.CancelFunc) {
	if a.Account != "" {
		return n.rights.Session(ctx, &vm.Call{Actor: a}, string(site.VM), "")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	g := &guest{site, cancel}
	n.mu.Lock()
	n.guests[g] = true
	n.mu.Unlock()
	n.check(g) // a later change finds the guest
	return ctx, func() {
		n.leave(g)
		cancel(nil)
	}
}

func (n *Names) leave(g *guest) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.guests, g)
}

// check ends a guest's session if the site has changed.
func (n *Names) check(g *guest) {
	if err := n.shows(g.site); err != nil {
		n.leave(g)
		g.end(err)
	}
}

// cut ends the sessions of guests whose site has changed.
func (n *Names) cut() {
	n.mu.Lock()
	list := make([]*guest, 0, len(n.guests))
	for g := range n.guests {
		list = append(list, g)
	}
	n.mu.Unlock()
	for _, g := range list {
		n.check(g)
	}
}

// shows fails if a site is no longer open as it was.
func (n *Names) shows(was vm.Site) error {
	now, ok := vm.Site{}, false
	if was.Domain != "" {
		now, ok = n.DomainSite(was.Domain)
	} else if rec, there := n.engine.VMOf(was.VM); there {
		now, ok = siteOf(rec, was.Port), true
	}
	if !ok || now.VM != was.VM || now.Port != was.Port || now.Epoch != was.Epoch || was.Public && !now.Public {
		return vm.Errorf(vm.Denied, string(was.VM), "the port was closed, or the name leads elsewhere")
	}
	return nil
}
