// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package names decides under which host names the ports of VMs are shown. It keeps the
// domains that accounts have verified, the mappings of names to VMs, and the names under
// which pages were shown. It uses the engine, which keeps each VM's port settings and
// tells names when a VM is deleted or replaced.
package names

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/vm"
)

// Resolver looks TXT records up; net.Resolver is one.
type Resolver interface {
	LookupTXT(ctx context.Context, name string) ([]string, error)
}

// Engine is what names needs of the engine.
type Engine interface {
	// Find returns the VM that ref names among those that the actor may see. Kinds
	// NotFound, Invalid and Denied.
	Find(a vm.Actor, ref string) (vm.VM, error)
	// VMOf returns the VM with an id, of any account.
	VMOf(id vm.ID) (vm.VM, bool)
	// VMsNamed returns the VMs with a name, of all accounts.
	VMsNamed(name string) []vm.VM
	// ChangePreviews durably replaces the previews of a VM's record.
	ChangePreviews(ctx context.Context, id vm.ID, change func(vm.VM) []vm.Preview) (vm.VM, error)
	// Visit wakes a VM and keeps it awake until the visit ends.
	Visit(ctx context.Context, c *vm.Call, ref string, verb vm.Op, user string) (*engine.Visit, error)
}

// Rights checks callers' rights.
type Rights interface {
	// Session returns a context that ends with the caller's right to be connected, and to
	// a VM.
	Session(ctx context.Context, c *vm.Call, ref, user string) (context.Context, context.CancelFunc)
	// Valid fails if the actor's key or token was revoked or has expired.
	Valid(a vm.Actor) error
	// Reaches reports whether an actor may see a VM of its account.
	Reaches(a vm.Actor, id vm.ID) bool
}

// Config holds the dependencies of names.
type Config struct {
	Journal  *journal.Journal
	Now      func() time.Time
	Resolver Resolver // nil = the system's
	// PreviewDomains are the domains below which every VM has names; default
	// warren.localhost.
	PreviewDomains []string
	Log            *slog.Logger
}

// Names is the room. Its methods may be called concurrently.
type Names struct {
	cfg    Config
	host   string
	owns   func(host string) bool // reports whether a record's host is this one
	engine Engine                 // set by Open, like rights
	rights Rights

	domains  *ledger.Table[string, vm.Domain]
	mappings *ledger.Table[string, vm.Mapping]
	shown    *ledger.Table[string, vm.ShownName]

	write sync.Mutex // held from the check of a name until its record is stored; before mu

	mu sync.Mutex
	// guarded by mu
	guests map[*guest]bool
}

// The tables.
var (
	DomainKind = ledger.Kind[string, vm.Domain]{
		Name: "domains",
		Key:  func(d *vm.Domain) string { return d.ID },
		Index: map[string]func(*vm.Domain) []string{
			byAccount: func(d *vm.Domain) []string { return []string{string(d.Account)} },
			byName:    func(d *vm.Domain) []string { return []string{d.Name} },
		},
	}
	MappingKind = ledger.Kind[string, vm.Mapping]{
		Name: "mappings",
		Key:  func(m *vm.Mapping) string { return m.Domain },
		Index: map[string]func(*vm.Mapping) []string{
			byAccount: func(m *vm.Mapping) []string { return []string{string(m.Account)} },
			byVM:      func(m *vm.Mapping) []string { return []string{string(m.VM)} },
			byDomain:  func(m *vm.Mapping) []string { return []string{m.Ownership} },
		},
	}
	ShownKind = ledger.Kind[string, vm.ShownName]{
		Name: "shown-names",
		Key:  func(n *vm.ShownName) string { return n.Name },
	}
)

// The indexes of the tables.
const (
	byAccount = "account"
	byName    = "name"
	byVM      = "vm"
	byDomain  = "domain"
)

// New returns the room with its tables in the ledger. Load the ledger next, then
// call Open.
func New(l *ledger.Ledger, cfg Config) *Names {
	if cfg.Resolver == nil {
		cfg.Resolver = net.DefaultResolver
	}
	if len(cfg.PreviewDomains) == 0 {
		cfg.PreviewDomains = []string{"warren.localhost"}
	}
	n := &Names{cfg: cfg, host: l.Host(), owns: l.Owns, guests: map[*guest]bool{}}
	n.domains, n.shown = ledger.Add(l, DomainKind), ledger.Add(l, ShownKind)
	mappings := MappingKind
	mappings.Changed = func(_, _ *vm.Mapping) { n.cut() }
	n.mappings = ledger.Add(l, mappings)
	return n
}

// Open removes this server's mappings of VMs that are gone, in case an earlier server
// died between deleting a VM and its mappings.
func (n *Names) Open(ctx context.Context, e Engine, r Rights) error {
	n.engine, n.rights = e, r
	for _, m := range n.mappings.All() {
		if _, there := e.VMOf(m.VM); there || !n.owns(m.Host) {
			continue
		}
		if err := n.VMGone(ctx, m.VM); err != nil {
			return vm.WithOp(vm.OpServe, m.Domain, err)
		}
	}
	return nil
}

// record durably writes the audit record of an action, before the action. It
// refuses identities.
func (n *Names) record(ctx context.Context, c *vm.Call, entry vm.AuditEntry) (*journal.Receipt, error) {
	if err := c.Actor.OwnerOnly(string(entry.VM)); err != nil {
		return nil, err
	}
	return n.cfg.Journal.Begin(ctx, c, entry)
}

func (n *Names) now() time.Time { return n.cfg.Now().UTC() }
