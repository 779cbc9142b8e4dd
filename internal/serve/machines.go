// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"encoding/json"

	"github.com/warren-vm/warren/internal/audit"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/events"
	"github.com/warren-vm/warren/internal/guest"
	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/monitor"
	"github.com/warren-vm/warren/internal/pathrule"
	"github.com/warren-vm/warren/vm"
)

// machines implements engine.Machines with monitors. The adapters of this file only
// convert concrete result types to the engine's interfaces.
type machines struct{ launcher *monitor.Launcher }

var _ engine.Machines = machines{}

// Launch starts a machine; see monitor.Launcher.
func (m machines) Launch(ctx context.Context, spec vm.MachineSpec) (engine.Machine, vm.MachineStatus, error) {
	c, status, err := m.launcher.Launch(ctx, spec)
	if err != nil {
		return nil, status, err
	}
	return machine{c}, status, nil
}

// Attach finds a machine; see monitor.Launcher.
func (m machines) Attach(ctx context.Context, runDir string) (engine.Machine, vm.MachineStatus, error) {
	c, status, err := m.launcher.Attach(ctx, runDir)
	if err != nil {
		return nil, status, err
	}
	return machine{c}, status, nil
}

// Sweep ends what is left of a machine; see monitor.Launcher.
func (m machines) Sweep(ctx context.Context, runDir string) error {
	return m.launcher.Sweep(ctx, runDir)
}

// Strays names the VMs that a QEMU runs for; see monitor.Launcher.
func (m machines) Strays() ([]vm.ID, error) { return m.launcher.Strays() }

type machine struct{ *monitor.Client }

// Guest returns the guest's verbs.
func (m machine) Guest() engine.Guest { return guestVerbs{m.Client.Guest()} }

type guestVerbs struct{ *guest.Client }

// Under returns the verbs under path rules; see guest.Client.
func (g guestVerbs) Under(list []vm.PathRule) engine.Guest {
	return guestVerbs{g.Client.Under(pathrule.Encode(list))}
}

// Exec runs a command; see guest.Client.
func (g guestVerbs) Exec(ctx context.Context, spec vm.ExecSpec) (engine.Exec, error) {
	x, err := g.Client.Exec(ctx, spec)
	if err != nil {
		return nil, err
	}
	return x, nil
}

// Watch follows changes; see guest.Client.
func (g guestVerbs) Watch(ctx context.Context, user, path string, recursive bool) (engine.Watch, error) {
	w, err := g.Client.Watch(ctx, user, path, recursive)
	if err != nil {
		return nil, err
	}
	return watch{w}, nil
}

// OpenTerminal opens a terminal; see guest.Client.
func (g guestVerbs) OpenTerminal(ctx context.Context, spec vm.TerminalSpec) (engine.Terminal, error) {
	t, err := g.Client.OpenTerminal(ctx, spec)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// AttachTerminal attaches to one; see guest.Client.
func (g guestVerbs) AttachTerminal(ctx context.Context, id string, view vm.TerminalView) (engine.Terminal, error) {
	t, err := g.Client.AttachTerminal(ctx, id, view)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// ListenSocket listens in the guest; see guest.Client.
func (g guestVerbs) ListenSocket(ctx context.Context, s vm.SocketSpec) (engine.SocketListener, error) {
	l, err := g.Client.ListenSocket(ctx, s)
	if err != nil {
		return nil, err
	}
	return l, nil
}

// OpenHandle opens a file; see guest.Client.
func (g guestVerbs) OpenHandle(ctx context.Context, user, path string, o vm.OpenOptions) (engine.File, error) {
	f, err := g.Client.OpenHandle(ctx, user, path, o)
	if err != nil {
		return nil, err
	}
	return f, nil
}

type watch struct{ *guest.Watch }

// Close ends the watch.
func (w watch) Close() error {
	w.Watch.Close()
	return nil
}

// auditHead keeps the end of the audit log in the record store, separately for each host.
type auditHead struct {
	records ledger.Backend
	host    string
	older   bool // this host takes over the end that an older warren recorded, which knew only one host
}

const (
	auditKind   = "audit"
	oldAuditEnd = "end"
)

// id is the id of the record.
func (h *auditHead) id() string { return oldAuditEnd + "-" + h.host }

var _ audit.Keeper = &auditHead{}

// Load returns the stored end.
func (h *auditHead) Load(ctx context.Context) (audit.Head, error) {
	end, _, err := h.endAndRevision(ctx)
	return end, err
}

func (h *auditHead) endAndRevision(ctx context.Context) (end audit.Head, revision int64, err error) {
	e, err := h.records.Read(ctx, auditKind, h.id())
	if revision = e.Revision; vm.KindOf(err) == vm.NotFound {
		revision = 0
		if h.older {
			e, err = h.records.Read(ctx, auditKind, oldAuditEnd)
		}
	}
	switch {
	case vm.KindOf(err) == vm.NotFound:
		return end, 0, nil
	case err != nil:
		return end, 0, err
	}
	if err := json.Unmarshal(e.Value, &end); err != nil {
		return end, 0, vm.Errorf(vm.Corrupt, auditKind, "the record of the audit log's end cannot be read: %w", err)
	}
	return end, revision, nil
}

// Save replaces the stored end. Only this server writes it.
func (h *auditHead) Save(ctx context.Context, end audit.Head) error {
	_, revision, err := h.endAndRevision(ctx)
	if err != nil {
		return err
	}
	data, err := json.Marshal(end)
	if err != nil {
		return err
	}
	_, err = h.records.Write(ctx, ledger.Op{Kind: auditKind, ID: h.id(), Value: data, Revision: revision})
	return err
}

// eventLog implements journal.EventLog with the log of the data directory.
type eventLog struct{ *events.Log }

var _ journal.EventLog = eventLog{}

// Subscribe replays and follows events.
func (e eventLog) Subscribe(_ context.Context, after int64) (journal.EventStream, error) {
	s, err := e.Log.Subscribe(after)
	if err != nil {
		return nil, err
	}
	return s, nil
}
