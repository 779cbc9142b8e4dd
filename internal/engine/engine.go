// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/meter"
	"github.com/warren-vm/warren/internal/vault"
	"github.com/warren-vm/warren/vm"
)

// Config holds an engine's dependencies and settings. All but Folders, Fault and Settings
// are required.
type Config struct {
	Dir      layout.Dir
	Run      layout.RunDir
	Ledger   *ledger.Ledger
	Journal  *journal.Journal
	Meter    *meter.Meter
	Names    Names
	Access   *access.Access
	Machines Machines
	Images   Images
	Host     Host
	Disk     Disk

	Generations Generations
	Vault       *vault.Vault
	Folders     Folders // nil = none are given
	Policies    Policies
	// Hosted finds a git repository of this server that the caller may read, by its id or
	// name; nil = there are none.
	Hosted func(ctx context.Context, c *vm.Call, ref string) (vm.Repository, error)
	Repos  func() []vm.Repository // whose files are in Dir; nil = there are none
	// Objects are the rights of VMs to objects; nil = there are none.
	Objects ObjectGrants
	// Secrets returns new uses of secrets of the caller's account; nil = there are none.
	Secrets func(ctx context.Context, c *vm.Call, names []string) ([]vm.SecretUse, error)
	// BeforeSuspend saves what is only in a running VM's memory, before a suspend that
	// somebody asked for; nil = nothing. It is short and may fail.
	BeforeSuspend func(ctx context.Context, id vm.ID)
	// BeforeRemove saves what the monitors of a VM left in its directory, before the engine
	// removes that; nil = nothing. The machine is gone. It may fail; then that is lost.
	BeforeRemove func(ctx context.Context, v vm.VM)
	// Losses counts what exists only on the disk of a VM, before the server removes that
	// VM by itself; nil = it is not counted. Nobody writes to layers, the disk's files with
	// the top first.
	Losses   func(ctx context.Context, v vm.VM, layers []string) (vm.OnlyHere, error)
	Clock    Clock
	Fault    func(label string) error // nil = no directories of the host are given
	Settings Settings
	Log      *slog.Logger
}

// Settings are the operator's choices. Zero fields get their default.
type Settings struct {
	DefaultNetwork vm.NetworkMode // for VMs whose creator named none; default closed
	DefaultSize    vm.Size
	MemoryReserve  int64         // bytes of host memory never given to VMs; default 512 MiB
	DiskReserve    int64         // bytes of disk below which no VM is created; default 1 GiB
	StorageBudget  int64         // bytes that the data directory may take; 0 = StoragePercent
	StoragePercent int           // of the disk; default 80
	AccountDisk    int64         // bytes for an account without a disk quota, except admins; 0 = AccountPercent
	AccountPercent int           // of the budget; 0 = no limit
	StopGrace      time.Duration // for a guest to power off before it is killed; default 20 s
	StartDeadline  time.Duration // for create and start; default 120 s
	BuildDeadline  time.Duration // for one layer of a spec; default 30 min
	GuestDeadline  time.Duration // for one short answer of a guest; default 30 s
	StallCheck     time.Duration // silence of a stream after which the guest must prove that it is alive; default 30 s
	StartWidth     int           // machines that a fork starts at a time; default one per host CPU
	ReseatAbove    int64         // bytes of private memory at a capture above which a VM gets a new base; default 128 MiB
	ColdAfter      time.Duration // memory of VMs suspended for longer is compressed and encrypted; default 24 h
	RunnerGrace    time.Duration // time after which a one-shot VM without a runner is deleted; default 30 s
	Pool           int           // warm machines kept for each image and size; 0 = none
	PoolAge        time.Duration // maximum age of a warm machine; default 1 h
	RecoverWait    time.Duration // time for the recovery of VMs before the server answers without them; default 10 s
}

func (s Settings) withDefaults() Settings {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&s.StopGrace, 20*time.Second)
	def(&s.StartDeadline, 120*time.Second)
	def(&s.BuildDeadline, 30*time.Minute)
	def(&s.GuestDeadline, 30*time.Second)
	def(&s.StallCheck, 30*time.Second)
	def(&s.ColdAfter, 24*time.Hour)
	if s.ReseatAbove <= 0 {
		s.ReseatAbove = 128 << 20
	}
	def(&s.RunnerGrace, 30*time.Second)
	def(&s.PoolAge, time.Hour)
	def(&s.RecoverWait, 10*time.Second)
	if s.DefaultNetwork == "" {
		s.DefaultNetwork = vm.NetClosed
	}
	if s.DefaultSize == (vm.Size{}) {
		s.DefaultSize = vm.DefaultSize
	}
	if s.StartWidth == 0 {
		s.StartWidth = runtime.NumCPU()
	}
	if s.MemoryReserve == 0 {
		s.MemoryReserve = 512 << 20
	}
	if s.StoragePercent == 0 {
		s.StoragePercent = 80
	}
	if s.DiskReserve == 0 {
		s.DiskReserve = 1 << 30
	}
	return s
}

// WithDefaults returns the configuration with defaults for the settings that are zero.
func (c Config) WithDefaults() Config {
	c.Settings = c.Settings.withDefaults()
	return c
}

// Engine is the only place that changes the state of VMs. Its methods may be called
// concurrently. Lock order: a reserved volume, slot.holding or nameSnap, mu, the locks of
// the vault and of access.
type Engine struct {
	cfg      Config
	tables   tables
	log      *slog.Logger
	life     context.Context // set by Open; ends with Close, or with a simulated death (Fault)
	cancel   context.CancelCauseFunc
	tasks    sync.WaitGroup
	wake     chan struct{} // wakes the reaper: a deadline may have changed
	holdWake chan struct{} // wakes expireHolds: holds may have changed
	dead     atomic.Bool   // see ErrDied

	nameSnap  sync.Mutex    // held while a snapshot gets its name; before mu
	starts    chan struct{} // one place for each start of a fork that may run at a time
	sweeping  sync.Mutex    // held while generations are collected; before nameSnap
	evicting  sync.Mutex    // held while room is made; before sweeping and measuring
	measuring sync.Mutex    // held while disk use is measured; before mu
	found     found         // what the start found; constant afterwards
	pool      *pool         // its lock after mu

	mu sync.Mutex
	// guarded by mu
	vms      map[vm.ID]*slot
	creating map[*operation]bool     // creates with a name whose record is not written yet
	promised map[*operation][]string // names that VMs of the operation's account are about to get
	flights  map[string]*flight      // layers being made, by account and key
	closed   bool
	// recovered: the files on disk agree with the records.
	recovered bool
	gens      map[vm.GenerationID]*generation
	claims    map[*claim]bool // admitted VMs that are being started
	looked    *usage          // the last measurement of disk use; nil = none
	draining  bool            // no VM is admitted
	calm      chan struct{}   // closed when no admitted VM is still starting; nil = nobody waits for that

	collecting bool // a collection of generations is scheduled
}

// New returns an engine and adds its tables to the ledger. Next, load the ledger, then
// call Open.
func New(cfg Config) *Engine {
	cfg = cfg.WithDefaults()
	e := &Engine{
		cfg: cfg, log: cfg.Log,
		wake: make(chan struct{}, 1), holdWake: make(chan struct{}, 1),
		vms: map[vm.ID]*slot{}, creating: map[*operation]bool{}, promised: map[*operation][]string{}, flights: map[string]*flight{},
		gens: map[vm.GenerationID]*generation{}, claims: map[*claim]bool{},
	}
	e.tables = e.newTables(cfg.Ledger)
	e.cfg.Journal.Mute(e.dead.Load)
	e.cfg.Vault.Connect(vaultVMs{e})
	e.pool = newPool(e)
	e.starts = make(chan struct{}, max(1, cfg.Settings.StartWidth))
	return e
}

// Open reconciles the records with the files and running machines, and adopts the
// machines of an earlier engine on the same data directory. Then the engine is ready for
// calls. It lives until Close, even if ctx ends. After an error the engine is closed.
func (e *Engine) Open(ctx context.Context) error {
	e.life, e.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	if err := e.recover(ctx); err != nil {
		e.cancel(errClosed)
		e.tasks.Wait()
		e.releaseMachines()
		return fail(vm.OpServe, string(e.cfg.Dir), err)
	}
	e.mu.Lock()
	e.recovered = true
	e.mu.Unlock()
	e.collectLater()
	e.spawn(e.reap)
	e.spawn(e.expireHolds)
	e.resumeAfterBoot()
	e.spawn(e.keepBudget)
	if e.cfg.Settings.Pool > 0 {
		e.spawn(e.pool.run)
	}
	return nil
}

var errClosed = &vm.Error{Kind: vm.Unavailable, Msg: "the server is stopping", Hint: "start it again: `warren serve`"}

// Close ends the engine's own tasks and waits for them until ctx ends. Machines keep
// running, except those of the pool.
func (e *Engine) Close(ctx context.Context) error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	e.mu.Unlock()
	e.cancel(errClosed)
	done := make(chan struct{})
	go func() { // ends with the tasks, which end with life
		e.tasks.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return fail(vm.OpServe, "", vm.Errorf(vm.Timeout, "", "some operations did not end: %w", context.Cause(ctx)))
	}
	e.pool.drain(ctx)
	e.releaseMachines()
	return nil
}

// releaseMachines closes the connections to the machines, which keep running.
func (e *Engine) releaseMachines() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.vms {
		if s.run != nil {
			s.run.machine.Close()
			s.run = nil
		}
	}
}

// spawn runs f as a task of the engine. It returns false, without running f, if the
// engine is closing.
func (e *Engine) spawn(f func(ctx context.Context)) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.spawnLocked(f)
}

// spawnLocked is spawn for callers that hold mu. f runs without it.
func (e *Engine) spawnLocked(f func(ctx context.Context)) bool {
	if e.closed {
		return false
	}
	e.tasks.Add(1)
	go func() {
		defer e.tasks.Done()
		f(e.life)
	}()
	return true
}

// joinContext returns a context with ctx's values that ends when either of the two does,
// with that one's cause.
func joinContext(ctx, other context.Context) (context.Context, context.CancelCauseFunc) {
	out, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return out, func(err error) {
		stop()
		cancel(err)
	}
}

// isCancel reports whether err only says that a caller gave up waiting.
func isCancel(err error) bool {
	return errors.Is(err, context.Canceled) || vm.KindOf(err) == vm.Cancelled
}
