// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package vault is the room of the managed volumes and their keys. It owns the
// records of volumes, decides who may unlock, lock, resize, rotate, snapshot and
// remove them, and holds the keys of unlocked volumes in memory until they are
// locked. Package volume is behind its Files.
//
// A mount changes a VM, so the engine makes it. The engine asks the vault for the
// volume and its key, and has the vault note the mount in the volume's record.
//
// Lock order: a volume that is reserved (Volume.Reserve), then the engine's mutex,
// then the vault's, then the table's. The vault does not call the engine, and does
// not write a record, while it holds its own mutex.
package vault

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/vm"
)

// Clock is the time, replaceable in tests.
type Clock interface {
	Now() time.Time
	// After is like time.NewTimer: the channel receives once, unless stop is
	// called first.
	After(d time.Duration) (c <-chan time.Time, stop func())
}

// Journal is where the vault writes audit records and events.
type Journal interface {
	// Record durably records that something is about to be done. The caller calls
	// end with the outcome.
	Record(ctx context.Context, c *vm.Call, entry vm.AuditEntry) (end func(outcome error, detail map[string]any), err error)
	Emit(ev vm.Event)
}

// VMs is what the vault asks of the room above it, which owns the VMs. The vault
// holds no mutex of its own during a call; it may have a volume reserved.
type VMs interface {
	// Alive fails after a test has played the death of the server. Nothing is
	// written then.
	Alive() error
	// Step is called before each step of a change that has several. An error ends
	// the change there.
	Step(ctx context.Context, label string) error
	// DiskSpace refuses a new volume when the host's disk is almost full. Kind
	// NoSpace.
	DiskSpace(ctx context.Context) error
	// Find returns the id of a VM that the caller may see. Kind NotFound.
	Find(c *vm.Call, ref string) (vm.ID, error)
	// Name is a VM's name, or its id if it has none; "" = there is no such VM.
	Name(id vm.ID) string
	// WhileIdle calls do if none of the mounts is in use: no VM of the list has a
	// machine, and none is being started or can start before do returns. Otherwise
	// it returns the first mount in use, and whether its VM is being started.
	WhileIdle(list []vm.VolumeMount, do func()) (inUse *vm.VolumeMount, starting bool)
	// Unmount takes a volume away from a VM and kills the programs that use it. A
	// suspended VM keeps the volume.
	Unmount(ctx context.Context, c *vm.Call, m vm.VolumeMount) error
	// Plugged returns the disk of a mounted volume. running says that the VM runs.
	// The disk is nil if it does not, or if its monitor does not answer.
	Plugged(v vm.VolumeID, m vm.VolumeMount) (d Disk, running bool)
}

// Disk is the disk of a volume that a running machine writes to.
type Disk interface {
	// Snapshot keeps what is on the disk at an instant, with what the guest had not
	// written yet. The guest keeps running.
	Snapshot(ctx context.Context, id string) error
	// DropSnapshot removes a snapshot.
	DropSnapshot(ctx context.Context, id string) error
}

// Config is what a vault works with. Everything is required.
type Config struct {
	Ledger  *ledger.Ledger
	Files   Files
	Journal Journal
	Clock   Clock
	Log     *slog.Logger
}

// Vault is the managed volumes of one server. All methods may be called at once
// from many goroutines.
type Vault struct {
	files   Files
	journal Journal
	clock   Clock
	log     *slog.Logger
	vms     VMs
	table   *ledger.Table[vm.VolumeID, vm.Volume]
	life    context.Context // ends with Close
	end     context.CancelFunc
	tasks   sync.WaitGroup // of hold and insist

	mu sync.Mutex
	// guarded by mu
	known   map[vm.VolumeID]*Volume // that were asked for; all others are locked
	claimed map[string]bool         // names of volumes that are being made
	closed  bool
}

// Indexes of the table.
const (
	byName = "name" // see nameKey
	byVM   = "vm"   // ids of VMs that have the volume mounted
)

// maxPerAccount is far above what anybody needs, and so low that one account
// cannot fill the store.
const maxPerAccount = 1000

// New returns a vault whose table is in the ledger. Give it the VMs with Connect
// and load the ledger before the first call. Every volume is locked at first. What
// the vault does by itself lives until Close, not only as long as ctx.
func New(ctx context.Context, c Config) *Vault {
	vt := &Vault{
		files: c.Files, journal: c.Journal, clock: c.Clock, log: c.Log,
		known: map[vm.VolumeID]*Volume{}, claimed: map[string]bool{},
	}
	vt.life, vt.end = context.WithCancel(context.WithoutCancel(ctx))
	vt.table = ledger.Add(c.Ledger, ledger.Kind[vm.VolumeID, vm.Volume]{
		Name: "volumes",
		Key:  func(v *vm.Volume) vm.VolumeID { return v.ID },
		Host: func(v *vm.Volume) *string { return &v.Host },
		Index: map[string]func(*vm.Volume) []string{
			byName: func(v *vm.Volume) []string { return []string{nameKey(v.Account, v.Project, v.Name)} },
			byVM: func(v *vm.Volume) (ids []string) {
				for _, m := range v.Mounts {
					ids = append(ids, string(m.VM))
				}
				return ids
			},
		},
		Limit: ledger.Limit[vm.Volume]{
			Most: maxPerAccount, Owner: func(v *vm.Volume) string { return string(v.Account) },
			What: "volumes", Then: "remove one (`warren volume rm NAME`)", Code: "VOLUME_LIMIT_EXCEEDED",
		},
		Changed: func(was, now *vm.Volume) {
			if was != nil && now == nil {
				vt.forget(was.ID)
			}
		},
	})
	return vt
}

// Connect gives the vault the room above it, once and before the first call.
func (vt *Vault) Connect(vms VMs) { vt.vms = vms }

// nameKey is the value of the index byName: a name is unique in its project, and a
// project belongs to an account. None of the three has a slash.
func nameKey(account vm.AccountID, project, name string) string {
	return string(account) + "/" + project + "/" + name
}

var errClosed = &vm.Error{Kind: vm.Unavailable, Msg: "the server is stopping", Hint: "start it again: `warren serve`"}

// Close forgets every key. VMs that have volumes mounted continue. It waits for
// the tasks of the vault.
func (vt *Vault) Close() {
	vt.mu.Lock()
	vt.closed = true
	for _, v := range vt.known {
		v.lockLocked()
	}
	vt.mu.Unlock()
	vt.end()
	vt.tasks.Wait()
}

// insistEvery is the pause between two tries of what must be done.
const insistEvery = time.Second

// insist repeats what must not be left undone until it is done or the vault is
// closed. The next server finishes what is left then.
func (vt *Vault) insist(do func(context.Context) error) {
	vt.mu.Lock()
	defer vt.mu.Unlock()
	if vt.closed {
		return
	}
	vt.tasks.Add(1)
	go func() { // ends when it is done, or the vault is closed
		defer vt.tasks.Done()
		for {
			after, stop := vt.clock.After(insistEvery)
			select {
			case <-after:
				if do(vt.life) == nil || vt.vms.Alive() != nil {
					return
				}
			case <-vt.life.Done():
				stop()
				return
			}
		}
	}()
}

// forget lets go of a volume whose record is gone, and of its key.
func (vt *Vault) forget(id vm.VolumeID) {
	vt.mu.Lock()
	defer vt.mu.Unlock()
	if v := vt.known[id]; v != nil {
		v.lockLocked()
		delete(vt.known, id)
	}
}

// Unrecorded lists the volumes that have files and no record. A volume whose
// record cannot be read has one.
func (vt *Vault) Unrecorded() (list []vm.VolumeID, err error) {
	ids, err := vt.files.List()
	if err != nil {
		return nil, err
	}
	unreadable := map[vm.VolumeID]bool{}
	for _, u := range vt.table.Unreadable() {
		vt.log.Error("the record of a volume cannot be read; its files stay", "volume", u.ID, "err", u.Err)
		unreadable[vm.VolumeID(u.ID)] = true
	}
	for _, id := range ids {
		if _, recorded := vt.table.Get(id); !recorded && !unreadable[id] {
			list = append(list, id)
		}
	}
	return list, nil
}
