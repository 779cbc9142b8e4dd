// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"fmt"
	"slices"
	"time"
)

// Size is a VM's size.
type Size struct {
	VCPU      int `json:"vcpuCount"`     // virtual CPUs; a power of two
	MemoryMiB int `json:"memSizeMib"`    // RAM in MiB; a power of two
	DiskMiB   int `json:"rootfsSizeMib"` // virtual size of the root disk in MiB; sparse
}

// DefaultSize is the default size of a VM.
var DefaultSize = Size{VCPU: 1, MemoryMiB: 512, DiskMiB: 16 << 10}

// Limits of a size. The minimum disk is the image's own.
const (
	MaxVCPU      = 32
	MinMemoryMiB = 256
	MaxMemoryMiB = 1 << 20
	MaxDiskMiB   = 4 << 20
)

// String renders "1 vCPU, 512 MiB, 16 GiB disk".
func (s Size) String() string {
	return fmt.Sprintf("%d vCPU, %d MiB, %d GiB disk", s.VCPU, s.MemoryMiB, s.DiskMiB>>10)
}

// PersistenceType is how a VM is kept, in the contract's spelling.
type PersistenceType string

// The persistence types.
const (
	Ephemeral  PersistenceType = "ephemeral"
	Sticky     PersistenceType = "sticky"
	Persistent PersistenceType = "persistent"
)

// Persistence is the retention rule of a VM.
type Persistence struct {
	Type        PersistenceType `json:"type"`
	Priority    *int            `json:"priority,omitempty"`    // sticky only, 0 to 10
	DeleteEvent string          `json:"deleteEvent,omitempty"` // ephemeral only; in the caller's spelling
}

// MaxDisplayName is the length of the longest display name, in bytes.
const MaxDisplayName = 200

// MaxPriority is the highest priority of a sticky VM: it is evicted last.
const MaxPriority = 10

// The events that delete an ephemeral VM. Each acts alone; without one, the
// first event that happens deletes it. Clients spell them in different cases.
const (
	OnStop        = "onStop"        // its machine has ended and its memory is gone
	OnSuspend     = "onSuspend"     // it was suspended, by any caller
	OnIdleTimeout = "onIdleTimeout" // it was idle for its idle timeout
)

// DefaultPersistence is sticky with priority 5.
func DefaultPersistence() Persistence {
	five := 5
	return Persistence{Type: Sticky, Priority: &five}
}

// Accel is how the guest's instructions are executed.
type Accel string

// The accelerators.
const (
	KVM Accel = "kvm"
	TCG Accel = "tcg" // emulation: correct, slow, and not an isolation boundary
)

// EmulatedWarning is shown wherever a VM under TCG is described.
const EmulatedWarning = "emulated: not an isolation boundary"

// VM is the record of one virtual machine.
type VM struct {
	ID      ID        `json:"id"`
	Account AccountID `json:"account"`
	Name    string    `json:"name,omitempty"` // a label; may repeat between VMs
	// DisplayName is what people read instead of Name; "" = there is none. A fork has none.
	DisplayName string `json:"displayName,omitempty"`

	State      State  `json:"state"`
	Reason     string `json:"reason,omitempty"`     // why it is in this state, e.g. "host-restart"
	Op         Op     `json:"op,omitempty"`         // operation in progress, for recovery; "" = none
	InstanceID string `json:"instanceId,omitempty"` // changes with each start of a machine

	Image       ImageID       `json:"image"`
	ImageName   string        `json:"imageName"`
	Size        Size          `json:"size"`
	Network     NetworkPolicy `json:"network"`
	Persistence Persistence   `json:"persistence"`
	// IdleTimeout is nil for "never".
	IdleTimeout       *Seconds  `json:"idleTimeoutSeconds"`
	IdleStops         bool      `json:"idleStops,omitempty"`              // after the idle timeout it is stopped, not suspended
	ActivityThreshold int64     `json:"activityThresholdBytes,omitempty"` // traffic below this many bytes within ActivityInterval is no activity
	OnBoot            OnBoot    `json:"onBoot,omitempty"`                 // "" = by its persistence type
	TTL               Seconds   `json:"ttlSeconds,omitempty"`             // 0 = no limit
	ExpiresAt         time.Time `json:"expiresAt,omitzero"`               // deleted at this time; zero = never
	Workdir           string    `json:"workdir,omitempty"`                // "" = the home of the Linux user
	User              string    `json:"user,omitempty"`                   // runs commands that name no Linux user; "" = root
	OneShot           bool      `json:"oneShot,omitempty"`                // made by `warren run`; deleted when its client has left

	// Build is the build that made it from a spec; "" = none. Layer is the key of
	// the layer that it builds; such a VM is not listed, and is deleted afterwards.
	Build BuildID `json:"build,omitempty"`
	Layer string  `json:"layer,omitempty"`

	CreatedAt  time.Time    `json:"createdAt"`
	StartedAt  time.Time    `json:"startedAt,omitzero"`
	LastActive time.Time    `json:"lastActive,omitzero"`
	LastKind   ActivityKind `json:"lastKind,omitempty"` // kind of the activity at LastActive

	Accel   Accel      `json:"accel,omitempty"`
	Machine MachineRef `json:"machine,omitzero"` // the running machine, for adoption
	Booted  bool       `json:"booted,omitempty"` // its overlay has writes of its own boot: a start is a cold boot
	// Generation is the generation that a running VM's machine was started from
	// (its memory is mapped from there), or that a suspended VM will continue
	// from; "" = the image's warm generation, or a cold boot.
	Generation GenerationID `json:"generation,omitempty"`
	// Head is the newest generation in the VM's history: the parent of the next.
	Head GenerationID `json:"head,omitempty"`
	// DiskOn is the generation whose disk is the base of the VM's overlay; "" = its image's.
	DiskOn GenerationID `json:"diskOn,omitempty"`
	// Profile says how far it is trusted; "" = ProfileAgent.
	Profile string `json:"profile,omitempty"`
	// Parent is the VM that it was forked from; "" = none.
	Parent ID `json:"parent,omitempty"`
	// FromInside says that it, or an ancestor, was forked by the programs of a VM. Its own
	// programs may not fork it.
	FromInside bool `json:"fromInside,omitempty"`
	// CaptureEvery is the interval of automatic generations; 0 = never.
	CaptureEvery Seconds `json:"captureEverySeconds,omitempty"`
	// VolumesSeen are the volumes that were mounted since it was booted: its memory
	// may hold their contents, even after they were unmounted.
	VolumesSeen []VolumeID `json:"volumesSeen,omitempty"`
	// Cut are volumes that its memory has mounted but that it does not have.
	Cut []VolumeAt `json:"cut,omitempty"`
	// Folders are its directories of the host, until its machine ends.
	Folders  []Folder    `json:"folders,omitempty"`
	Losses   []string    `json:"losses,omitempty"`   // parts that the last start did not restore
	Restored []string    `json:"restored,omitempty"` // parts that the last start restored
	Exit     MachineExit `json:"exit,omitzero"`      // how the last machine ended
	Previews []Preview   `json:"previews,omitempty"` // ports with an access setting; never changed in place
	// Labels are set by its owner, to find it by; never changed in place.
	Labels map[string]string `json:"labels,omitempty"`
	// Repos are the repositories that its programs may use as the VM itself, without a
	// secret; a fork has those of its parent. Never changed in place.
	Repos []RepoGrant `json:"repos,omitempty"`
	// Paths are its rules about paths; a fork has those of its parent. Never changed in place.
	Paths []PathRule `json:"paths,omitempty"`
	// Sandbox is set if a client of E2B's API made it; never changed in place.
	Sandbox *Sandbox `json:"sandbox,omitempty"`
	// Terminals are the guest's terminals when the VM was last suspended or stopped.
	Terminals []TerminalSession `json:"terminals,omitempty"`
	// TerminalsOmitted counts the terminals that are not kept in Terminals.
	TerminalsOmitted int `json:"terminalsOmitted,omitempty"`

	Host string `json:"host,omitempty"` // id of the server that it belongs to; "" = written by an older warren
}

// MachineRef finds the processes of a running VM again after a restart of serve.
type MachineRef struct {
	MonitorPID   int    `json:"monitorPid,omitempty"`
	MonitorStart uint64 `json:"monitorStart,omitempty"` // start time in clock ticks since boot, /proc/PID/stat field 22
	BootID       string `json:"bootId,omitempty"`       // the host's boot id at the start
	Protocol     int    `json:"protocol,omitempty"`     // of the monitor's socket
}

// Account owns VMs and keys. No account sees another's.
type Account struct {
	ID        AccountID `json:"id"`
	Name      string    `json:"name"`
	Admin     bool      `json:"admin"` // may manage accounts and see host-wide state
	Quota     Quota     `json:"quota,omitzero"`
	CreatedAt time.Time `json:"createdAt"`
}

// APIKey is the record of a key. Only the hash of its secret is stored.
type APIKey struct {
	ID        KeyID     `json:"id"`
	Account   AccountID `json:"account"`
	Name      string    `json:"name,omitempty"`
	Hash      string    `json:"hash"` // hex SHA-256 of the secret, which has 248 random bits
	CreatedAt time.Time `json:"createdAt"`
	LastUsed  time.Time `json:"lastUsed,omitzero"`
}

// Actor is the caller, and how it was authenticated: an API key, a token or
// an SSH key of an identity, as a VM by its own network, or as Warren itself.
type Actor struct {
	Account AccountID `json:"account"`
	Key     KeyID     `json:"key,omitempty"`
	Admin   bool      `json:"admin,omitempty"`
	System  string    `json:"system,omitempty"` // set for actions of Warren itself: "reaper", "recovery"

	// Identity is set for a caller that acts as an identity of the account: it
	// reaches only the VMs that were granted to it.
	Identity IdentityID `json:"identity,omitempty"`
	Token    TokenID    `json:"token,omitempty"`
	SSHKey   SSHKeyID   `json:"sshKey,omitempty"`

	// VM is set for programs inside a VM, which call as the VM itself: they reach only
	// the repositories that were granted to it.
	VM ID `json:"vm,omitempty"`
	// Guest is the name of that VM's profile if the call came to PolicyHost: the call may
	// then use the profile's GuestVerbs on the VM. "" = it may not.
	Guest string `json:"-"`

	// Ask is the approval by which an identity acts, and AskedFor the right that was
	// approved. AsOwner says that the approved call may do what only the owner may.
	Ask      string   `json:"ask,omitempty"`
	AskedFor AskRight `json:"-"`
	AsOwner  bool     `json:"-"`

	Issued time.Time `json:"-"` // when the secret was made: after a rotation the key is another one
}

// Named reports whether one of the actor's ids, or its system name, is name.
func (a Actor) Named(name string) bool {
	return name != "" && slices.Contains([]string{string(a.Account), string(a.Key), a.System, string(a.Identity), string(a.Token), string(a.SSHKey), string(a.VM)}, name)
}

// OwnerOnly returns an error for an identity or a VM, for verbs of the account's owner;
// subject is the thing that the verb acts on.
func (a Actor) OwnerOnly(subject string) error {
	switch {
	case a.VM != "":
		return Errorf(Denied, subject, "a VM may not do this").WithCode("FORBIDDEN", "vmId", subject).WithHint("do it on the host")
	case a.Identity == "" || a.AsOwner:
		return nil
	}
	return Errorf(Denied, subject, "an identity may not do this").
		WithCode("FORBIDDEN", "vmId", subject).WithHint("use an API key of the account")
}

// AdminOnly returns an error for a caller that is not an administrator.
func (a Actor) AdminOnly() error {
	if a.Admin {
		return nil
	}
	return Errorf(Denied, "", "only an admin may do this").
		WithCode("FORBIDDEN").WithHint("use the admin key: it is in admin.key of the data directory")
}

// Call is one request of an actor to the engine. The engine sets Receipt to
// the id of its audit record, which the server returns as Warren-Receipt.
type Call struct {
	Actor   Actor
	Request RequestID
	To      string       // the destination on the caller's computer, as the caller named it; "" = not named
	Via     ActivityKind // the gateway of the request, if the verb does not tell; "" = none
	// AskFor is how long the call waits for an approval that it needs; 0 = the default.
	AskFor  time.Duration
	Receipt string // set by the engine, once, before the action; "" = nothing was changed
}

// Event is one entry of the event stream.
type Event struct {
	ID    int64          `json:"id"` // per host, rising by one
	Time  time.Time      `json:"time"`
	Type  string         `json:"type"` // "vm.running", "vm.deleted", "image.built", ...
	VM    ID             `json:"vm,omitempty"`
	Actor string         `json:"actor,omitempty"`
	Data  map[string]any `json:"data,omitempty"`

	Account AccountID `json:"account,omitempty"` // the account that it belongs to; only that account and admins see it
}
