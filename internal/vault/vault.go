// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package vault is the room of the managed volumes and their keys. It owns the records of
// volumes, decides who may unlock, lock, resize, rotate, snapshot and remove them, and
// holds the keys of unlocked volumes in memory until they are locked. Package volume
// implements its Files.
//
// A mount changes a VM, so the engine makes it. The engine gets the volume and its key
// from the vault, and the vault records the mount.
//
// Lock order: a reserved volume (Volume.Reserve), the engine's mutex, the vault's, the
// table's. While the vault holds its mutex, it neither calls the engine nor writes a
// record.
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
	// Record durably writes the audit record of an action, before the action. The caller
	// calls end with the outcome.
	Record(ctx context.Context, c *vm.Call, entry vm.AuditEntry) (end func(outcome error, detail map[string]any), err error)
	Emit(ev vm.Event)
}

// VMs is what the vault asks of the engine. The vault does not hold its mutex during a
// call, but may have a volume reserved.
type VMs interface {
	// Alive fails after a test has simulated the death of the server. Then nothing is
	// written.
	Alive() error
	// Step is called before each step of a change. If it fails, the change ends there.
	Step(ctx context.Context, label string) error
	// DiskSpace refuses a new volume when the host's disk is almost full. Kind NoSpace.
	DiskSpace(ctx context.Context) error
	// Find returns the id of a VM that the caller may see. Kind NotFound.
	Find(c *vm.Call, ref string) (vm.ID, error)
	// Name is a VM's name, or its id if it has none; "" = there is no such VM.
	Name(id vm.ID) string
	// WhileIdle calls do if none of the mounts is in use: none of their VMs has a machine
	// or is being started, and none can start before do returns. Otherwise it returns the
	// first mount in use, and whether its VM is being started.
	WhileIdle(list []vm.VolumeMount, do func()) (inUse *vm.VolumeMount, starting bool)
	// Unmount unmounts a volume from a VM and kills the programs that use it. A suspended
	// VM keeps the volume.
	Unmount(ctx context.Context, c *vm.Call, m vm.VolumeMount) error
	// Plugged returns the disk of a mounted volume, and whether the VM runs. The disk is
	// nil if it does not, or if its monitor does not answer.
	Plugged(v vm.VolumeID, m vm.VolumeMount) (d Disk, running bool)
}

// Disk is the disk of a volume that a running machine writes to.
type Disk interface {
	// Snapshot keeps the content of the disk at an instant, including data that the guest
	// had cached. The guest keeps running.
	Snapshot(ctx context.Context, id string) error
	// DropSnapshot removes a snapshot.
	DropSnapshot(ctx context.Context, id string) error
}

// Config holds a vault's dependencies. All are required.
type Config struct {
	Ledger  *ledger.Ledger
	Files   Files
	Journal Journal
	Clock   Clock
	Log     *slog.Logger
}

// Vault manages the volumes of one server. Its methods may be called concurrently.
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
	known   map[vm.VolumeID]*Volume // volumes that were used; all others are locked
	claimed map[string]bool         // names of volumes being made
	closed  bool
}

// Indexes of the table.
const (
	byName = "name" // see nameKey
	byVM   = "vm"   // ids of VMs that have the volume mounted
)

// maxPerAccount is far above any need, and low enough that one account cannot fill the
// store.
const maxPerAccount = 1000

// New returns a vault and adds its table to the ledger. Call Connect and load the ledger
// before anything else. Every volume is locked at first. The vault's tasks live until
// Close, even if ctx ends.
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

// Connect gives the vault its engine. Call it once, first.
func (vt *Vault) Connect(vms VMs) { vt.vms = vms }

// nameKey is the value of the index byName: a name is unique in its project, and a
// project belongs to an account. None of the three has a slash.
func nameKey(account vm.AccountID, project, name string) string {
	return string(account) + "/" + project + "/" + name
}

var errClosed = &vm.Error{Kind: vm.Unavailable, Msg: "the server is stopping", Hint: "start it again: `warren serve`"}

// Close forgets every key and waits for the vault's tasks. VMs keep using mounted
// volumes.
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

// insistEvery is the pause between two tries of insist.
const insistEvery = time.Second

// insist repeats an action until it succeeds or the vault is closed. The next server
// finishes what is left.
func (vt *Vault) insist(do func(context.Context) error) {
	vt.mu.Lock()
	defer vt.mu.Unlock()
	if vt.closed {
		return
	}
	vt.tasks.Add(1)
	go func() { // ends when it succeeds, or the vault is closed
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

// forget drops a volume without a record, and its key.
func (vt *Vault) forget(id vm.VolumeID) {
	vt.mu.Lock()
	defer vt.mu.Unlock()
	if v := vt.known[id]; v != nil {
		v.lockLocked()
		delete(vt.known, id)
	}
}

// Unrecorded lists the volumes that have files and no record. An unreadable record counts
// as a record.
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
