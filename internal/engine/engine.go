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

// Config is what an engine works with. Everything but Fault, Settings and
// Repositories is required.
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
	Clock       Clock
	Fault       func(label string) error // nil in production; see Labels
	Settings    Settings
	Log         *slog.Logger
}

// Settings are the operator's choices. A zero field has the default.
type Settings struct {
	DefaultNetwork vm.NetworkMode // of VMs whose creator named none; default closed
	DefaultSize    vm.Size
	MemoryReserve  int64         // bytes of host memory never given to VMs; default 512 MiB
	DiskReserve    int64         // bytes of disk below which no VM is created; default 1 GiB
	StorageBudget  int64         // bytes that the data directory may take; 0 = StoragePercent
	StoragePercent int           // of the disk; default 80
	AccountDisk    int64         // bytes that an account without a quota of disk may have, admins' excepted; 0 = AccountPercent
	AccountPercent int           // of the budget; 0 = as many as there are
	StopGrace      time.Duration // for a guest to power off before it is killed; default 20 s
	StartDeadline  time.Duration // for create and start; default 120 s
	BuildDeadline  time.Duration // for one layer of a spec; default 30 min
	GuestDeadline  time.Duration // for one short answer of a guest; default 30 s
	StallCheck     time.Duration // silence of a stream after which the guest is asked for life; default 30 s
	StartWidth     int           // machines started at a time by one fork; default as many as the host has CPUs
	ReseatAbove    int64         // bytes of private memory, found by a capture, above which a VM gets a new base; default 128 MiB
	ColdAfter      time.Duration // memory of VMs suspended for longer is compressed and encrypted; default 24 h
	RunnerGrace    time.Duration // a one-shot VM without a runner is deleted after it; default 30 s
	ResultsKept    time.Duration // for answers of background requests; default 1 h
	Pool           int           // warm machines kept of each image and size; 0 = none
	PoolAge        time.Duration // none of them gets older; default 1 h
	RecoverWait    time.Duration // for VMs to be recovered before the server answers without them; default 10 s
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
	def(&s.ResultsKept, time.Hour)
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

// WithDefaults returns the configuration with its optional fields set.
func (c Config) WithDefaults() Config {
	c.Settings = c.Settings.withDefaults()
	return c
}

// Engine is the one place that changes the state of VMs. All methods may be
// called at once from many goroutines. Lock order:
// a volume that is reserved before slot.holding; slot.holding or nameSnap before mu;
// mu before the locks of the vault and of access.
type Engine struct {
	cfg      Config
	tables   tables
	log      *slog.Logger
	life     context.Context // set by Open; ends with Close, or with the death that a Fault plays
	cancel   context.CancelCauseFunc
	tasks    sync.WaitGroup
	wake     chan struct{} // tells the reaper that a deadline may have changed
	holdWake chan struct{} // tells that holds may have changed
	dead     atomic.Bool   // see ErrDied

	nameSnap  sync.Mutex    // held while a snapshot gets its name; before mu
	starts    chan struct{} // places in the queue of a fork's starts
	sweeping  sync.Mutex    // one collection of generations at a time; before nameSnap
	evicting  sync.Mutex    // room is made by one at a time; before sweeping and measuring
	measuring sync.Mutex    // one look at the disk at a time; before mu
	found     found         // what was there at the start; not changed after
	pool      *pool         // its lock after mu

	mu sync.Mutex
	// guarded by mu
	vms      map[vm.ID]*slot
	creating map[*operation]bool     // creates with a name whose record is not written yet
	promised map[*operation][]string // names that VMs of the operation's account are about to get
	flights  map[string]*flight      // layers being made, by account and key
	closed   bool
	// recovered: what is on disk agrees with the records.
	recovered bool
	gens      map[vm.GenerationID]*generation
	claims    map[*claim]bool // VMs that were admitted and are on their way
	looked    *usage          // the last look at the disk; nil = none
	draining  bool            // nothing is admitted
	calm      chan struct{}   // closed when no VM is on its way any more; nil = nobody waits for that

	collecting bool // a collection of generations is to come
}

// New returns an engine whose tables are in the ledger. Load the ledger next, then
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

// Open reconciles the records with what is on disk and what runs. After it the
// engine is ready for calls. It adopts the machines of an earlier engine on the
// same data directory. The engine lives until Close, not only as long as ctx.
// After an error the engine is closed.
func (e *Engine) Open(ctx context.Context) error {
	e.life, e.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	if err := e.recover(ctx); err != nil {
		e.cancel(errClosed)
		e.tasks.Wait()
		return fail(vm.OpServe, string(e.cfg.Dir), err)
	}
	e.mu.Lock()
	e.recovered = true
	e.mu.Unlock()
	e.collectLater()
	e.spawn(e.reap)
	e.spawn(e.expireHolds)
	e.goOnAfterBoot()
	e.spawn(e.keepBudget)
	if e.cfg.Settings.Pool > 0 {
		e.spawn(e.pool.run)
	}
	return nil
}

var errClosed = &vm.Error{Kind: vm.Unavailable, Msg: "the server is stopping", Hint: "start it again: `warren serve`"}

// Close ends everything the engine itself does and waits for it, at most as
// long as ctx. Machines and their processes go on, but for those of the pool.
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

// releaseMachines closes the connections to the machines, which go on.
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

// spawn runs f as one of the engine's own tasks. It refuses, saying so, when
// the engine is closing.
func (e *Engine) spawn(f func(ctx context.Context)) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.spawnLocked(f)
}

// spawnLocked is spawn for callers with the lock, which f does not have.
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

// joinContext returns a context with ctx's values that ends with either of the
// two, with the cause of the first.
func joinContext(ctx, other context.Context) (context.Context, context.CancelCauseFunc) {
	out, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(other, func() { cancel(context.Cause(other)) })
	return out, func(err error) {
		stop()
		cancel(err)
	}
}

// isCancel reports whether err says no more than that somebody gave up waiting.
func isCancel(err error) bool {
	return errors.Is(err, context.Canceled) || vm.KindOf(err) == vm.Cancelled
}
