// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package changes

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/vm"
)

// MemoryConfig is what the room of memories works with.
type MemoryConfig struct {
	Engine  *engine.Engine
	Repo    *repo.Repo
	Journal *journal.Journal
	Changes *Changes
	Now     func() time.Time
	Log     *slog.Logger
	Quiet   time.Duration // without a write before a commit; 0 = 3 s
	Look    time.Duration // between looks at which VMs run; 0 = 2 s
}

// Memories is the room of the agents' memories: it commits the files below vm.MemoryPath
// of the VMs that have one, whenever nobody has written there for a while. All methods
// may be called at once from many goroutines.
type Memories struct {
	cfg    MemoryConfig
	table  *ledger.Table[vm.ID, vm.Memory]
	owns   func(host string) bool // whether a record with a host is this server's
	life   context.Context        // ends with Close
	cancel context.CancelFunc
	tasks  sync.WaitGroup

	mu      sync.Mutex
	watched map[vm.ID]bool        // VMs that a task watches
	dirty   map[vm.ID]bool        // written since the last commit
	syncing map[vm.ID]*sync.Mutex // one commit at a time
}

// MemoryKind is the table of memories.
var MemoryKind = ledger.Kind[vm.ID, vm.Memory]{
	Name:  "memories",
	Key:   func(m *vm.Memory) vm.ID { return m.VM },
	Host:  func(m *vm.Memory) *string { return &m.Host },
	Index: map[string]func(*vm.Memory) []string{"account": func(m *vm.Memory) []string { return []string{string(m.Account)} }},
	Limit: ledger.Limit[vm.Memory]{
		Most: 2000, Owner: func(m *vm.Memory) string { return string(m.Account) },
		What: "memories", Then: "remove a VM that has one; its repository stays", Code: "LIMIT_EXCEEDED",
	},
}

// NewMemories returns the room with its table in the ledger. Load the ledger and open the
// engine and the repositories next, then call Open. The room lives until Close, even if
// ctx ends.
func NewMemories(ctx context.Context, l *ledger.Ledger, cfg MemoryConfig) *Memories {
	cfg.Quiet, cfg.Look = cmp.Or(cfg.Quiet, 3*time.Second), cmp.Or(cfg.Look, 2*time.Second)
	m := &Memories{cfg: cfg, table: ledger.Add(l, MemoryKind), owns: l.Owns, watched: map[vm.ID]bool{}, dirty: map[vm.ID]bool{}, syncing: map[vm.ID]*sync.Mutex{}}
	m.life, m.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return m
}

// Open starts the task that finds VMs to watch.
func (m *Memories) Open(context.Context) error {
	m.tasks.Go(m.run)
	return nil
}

// Close ends the tasks and waits for them until ctx ends.
func (m *Memories) Close(ctx context.Context) error {
	m.cancel()
	done := make(chan struct{})
	go func() { // ends with the tasks, which end with life
		m.tasks.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return vm.WithOp(vm.OpMemory, "", vm.Errorf(vm.Timeout, "", "memories are still being committed"))
	}
}

// Forget removes the records of an account that is deleted.
func (m *Memories) Forget(ctx context.Context, account vm.AccountID) error {
	for _, rec := range m.table.By("account", string(account)) {
		if err := m.table.Drop(ctx, rec.VM); err != nil {
			return err
		}
	}
	return nil
}

// find returns the record of a VM's memory.
func (m *Memories) find(c *vm.Call, ref string) (vm.Memory, error) {
	if err := c.Actor.OwnerOnly(ref); err != nil {
		return vm.Memory{}, err
	}
	v, err := m.cfg.Engine.Find(c.Actor, ref)
	if err != nil {
		return vm.Memory{}, err
	}
	m.inherit(v)
	if rec, ok := m.table.Get(v.ID); ok && rec.Account == c.Actor.Account {
		return rec, nil
	}
	return vm.Memory{}, vm.Errorf(vm.NotFound, ref, "the VM has no memory").WithCode(noMemory).WithHint("`warren memory enable %s` makes one", ref)
}

// Memory returns what is known of a VM's memory; Repo "" = it has none.
func (m *Memories) Memory(_ context.Context, c *vm.Call, ref string) (rec vm.Memory, err error) {
	defer func() { err = vm.WithOp(vm.OpMemory, ref, err) }()
	if rec, err = m.find(c, ref); vm.AsError(err).Code == noMemory {
		v, err := m.cfg.Engine.Find(c.Actor, ref)
		return vm.Memory{VM: v.ID, VMName: v.Name, Account: v.Account}, err
	}
	return m.shown(rec), err
}

// noMemory is the code of the refusal of a VM that has none.
const noMemory = "MEMORY_NOT_FOUND"

// shown is a record as callers see it.
func (m *Memories) shown(rec vm.Memory) vm.Memory {
	rec.Host, rec.Recent = "", nil
	if r, err := m.cfg.Repo.Repository(m.life, rec.Repo); err == nil {
		rec.RepoName = r.Name
	}
	return rec
}

// EnableMemory gives a VM a memory: a repository whose files are put below vm.MemoryPath,
// and to which they are committed from now on. repository "" = a new one; a repository
// that other VMs use is shared by branches. It starts a VM that does not run. Kinds
// Denied for an identity, NotFound, and Exists when files of the VM differ from those of
// the repository.
func (m *Memories) EnableMemory(ctx context.Context, c *vm.Call, ref, repository string) (out vm.Memory, err error) {
	defer func() { err = vm.WithOp(vm.OpMemory, ref, err) }()
	if err := c.Actor.OwnerOnly(ref); err != nil {
		return out, err
	}
	v, err := m.cfg.Engine.Find(c.Actor, ref)
	if err != nil {
		return out, err
	}
	rcpt, err := m.cfg.Journal.Begin(ctx, c, vm.AuditEntry{Op: vm.OpMemory, VM: v.ID, Subject: vm.MemoryPath, Detail: map[string]any{"enable": true, "repo": repository}})
	if err != nil {
		return out, err
	}
	defer func() { rcpt.End(err, map[string]any{"repo": out.Repo, "branch": out.Branch}) }()
	rec, err := m.recordFor(ctx, c, v, repository)
	if err != nil {
		return out, err
	}
	if err := m.fill(ctx, c, rec); err != nil {
		return out, err
	}
	rec.Enabled, rec.Error = true, ""
	if rec, err = m.save(ctx, rec); err != nil {
		return out, err
	}
	rec, err = m.commit(ctx, c, rec, "")
	return m.shown(rec), err
}

// recordFor returns the record that a VM's memory gets, with its repository.
func (m *Memories) recordFor(ctx context.Context, c *vm.Call, v vm.VM, repository string) (vm.Memory, error) {
	m.inherit(v)
	rec, known := m.table.Get(v.ID)
	name := cmp.Or(v.Name, string(v.ID))
	sub := &vm.Call{Actor: c.Actor, Request: c.Request}
	if repository != "" {
		r, err := m.cfg.Repo.Get(ctx, sub, repository)
		if err != nil {
			return rec, err
		}
		if known && r.ID == rec.Repo {
			return rec, nil
		}
		rec = vm.Memory{Repo: r.ID, Branch: m.freeBranch(r, v)}
	} else if !known {
		r, err := m.cfg.Repo.Create(ctx, sub, repo.CreateRequest{Name: name + "-memory"})
		if vm.KindOf(err) == vm.Exists {
			return rec, vm.Errorf(vm.Exists, name+"-memory", "a repository of this name is there already").
				WithHint("continue with what it remembers: `warren memory enable %s --repo %s-memory`", name, name)
		}
		if err != nil {
			return rec, err
		}
		rec = vm.Memory{Repo: r.ID, Branch: r.DefaultBranch}
	}
	rec.VM, rec.VMName, rec.Account = v.ID, v.Name, v.Account
	return rec, nil
}

// freeBranch is the branch of a VM in a repository: the default one, or one of its own
// if another VM that exists commits there.
func (m *Memories) freeBranch(r vm.Repository, v vm.VM) string {
	for _, other := range m.table.By("account", string(v.Account)) {
		if other.Repo != r.ID || other.Branch != r.DefaultBranch || other.VM == v.ID || !other.Enabled {
			continue
		}
		if _, err := m.cfg.Engine.Find(vm.Actor{Account: v.Account, System: "memory"}, string(other.VM)); err == nil {
			return ownBranch(v)
		}
	}
	return r.DefaultBranch
}

func ownBranch(v vm.VM) string {
	id := string(v.ID)
	return "vm/" + branchPart(cmp.Or(v.Name, "fork")) + "-" + branchPart(id[max(0, len(id)-6):])
}

// DisableMemory ends the commits. Repository and files stay.
func (m *Memories) DisableMemory(ctx context.Context, c *vm.Call, ref string) (rec vm.Memory, err error) {
	defer func() { err = vm.WithOp(vm.OpMemory, ref, err) }()
	if rec, err = m.find(c, ref); err != nil {
		return rec, err
	}
	rcpt, err := m.cfg.Journal.Begin(ctx, c, vm.AuditEntry{Op: vm.OpMemory, VM: rec.VM, Subject: vm.MemoryPath, Detail: map[string]any{"enable": false}})
	if err != nil {
		return rec, err
	}
	defer func() { rcpt.End(err, nil) }()
	rec.Enabled = false
	rec, err = m.save(ctx, rec)
	return m.shown(rec), err
}

// inherit makes the record of a fork whose parent has a memory: the same repository, and
// a branch of its own that begins at what the parent had committed then.
func (m *Memories) inherit(v vm.VM) {
	if _, known := m.table.Get(v.ID); known || v.Parent == "" {
		return
	}
	parent, ok := m.table.Get(v.Parent)
	if !ok || !parent.Enabled || parent.Account != v.Account {
		return
	}
	rec := vm.Memory{VM: v.ID, VMName: v.Name, Account: v.Account, Enabled: true, Repo: parent.Repo, Branch: ownBranch(v), From: v.Parent}
	if at := slices.IndexFunc(parent.Recent, func(c vm.MemoryCommit) bool { return c.At.Before(v.CreatedAt) }); at >= 0 {
		rec.Commit = parent.Recent[at].Commit
	} else if n := len(parent.Recent); n == recentKept {
		rec.Commit = parent.Recent[n-1].Commit // the oldest that is known
	}
	if _, err := m.save(m.life, rec); err != nil {
		m.cfg.Log.Warn("the memory of a fork does not begin yet", "vm", v.ID, "err", err)
	}
}

// system is the call of a commit that nobody asked for.
func (m *Memories) system(rec vm.Memory) *vm.Call {
	return &vm.Call{Actor: vm.Actor{Account: rec.Account, System: "memory"}}
}

func (m *Memories) save(ctx context.Context, rec vm.Memory) (vm.Memory, error) {
	rec.RepoName = ""
	out, err := m.table.Change(ctx, rec.VM, func(old *vm.Memory) error {
		host := old.Host
		*old = rec
		old.Host = host
		return nil
	})
	if vm.KindOf(err) == vm.NotFound {
		err = m.table.Create(ctx, rec)
		out = rec
	}
	return out, err
}

// Log lists the commits of a VM's memory, newest first.
func (m *Memories) Log(ctx context.Context, c *vm.Call, ref string, limit int) (list []vm.Commit, err error) {
	defer func() { err = vm.WithOp(vm.OpMemory, ref, err) }()
	rec, err := m.find(c, ref)
	if vm.AsError(err).Code == noMemory {
		return nil, nil
	}
	if err != nil || rec.Commit == "" {
		return nil, err
	}
	page, err := m.cfg.Repo.Commits(ctx, c, rec.Repo, repo.CommitFilter{Branch: rec.Commit, Limit: limit})
	return page.Commits, err
}

// nameSome joins the first paths of a commit for its message.
func nameSome(paths []string) string {
	slices.Sort(paths)
	text := strings.Join(paths[:min(len(paths), 3)], ", ")
	if len(paths) > 3 {
		text += " and others"
	}
	return text
}
