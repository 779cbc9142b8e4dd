// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

// State is the state of a VM, in the HTTP contract's spelling.
type State string

// The states of a VM. A deleted VM has no state: its record is gone.
const (
	Building   State = "building"   // its image or spec is being prepared
	Starting   State = "starting"   // a machine is being started for it
	Running    State = "running"    // its agent answered and every reset was acknowledged
	Suspending State = "suspending" // memory and disk are being saved
	Suspended  State = "suspended"  // no process; memory and disk kept
	Stopped    State = "stopped"    // no process; disk kept, memory not
	Lost       State = "lost"       // its files are gone or unreadable
)

// States lists every state, for tables and tests.
var States = []State{Building, Starting, Running, Suspending, Suspended, Stopped, Lost}

// Op is a verb that an actor requests. It has the same spelling everywhere:
// command, client, route, engine, audit record.
type Op string

// The verbs. Those in Ops change or need a VM's state; the others are for
// audit records and errors.
const (
	OpCreate   Op = "create"
	OpStart    Op = "start"
	OpStop     Op = "stop"
	OpKill     Op = "kill"
	OpDelete   Op = "delete"
	OpSuspend  Op = "suspend"
	OpFork     Op = "fork"
	OpSnapshot Op = "snapshot"
	OpExec     Op = "exec"
	OpSignal   Op = "signal"
	OpRead     Op = "read"    // file content or a listing leaves the guest
	OpWrite    Op = "write"   // file content enters the guest
	OpMkdir    Op = "mkdir"   //
	OpRename   Op = "rename"  //
	OpRemove   Op = "remove"  //
	OpChmod    Op = "chmod"   //
	OpSymlink  Op = "symlink" //
	OpWatch    Op = "watch"
	OpStats    Op = "stats"
	OpDial     Op = "dial"   // a connection to a guest port
	OpSocket   Op = "socket" // a socket inside the guest is dialled or listened on
	OpAwait    Op = "await"
	OpGet      Op = "get"
	OpList     Op = "list"
	OpNetwork  Op = "network" // change of network policy
	OpPaths    Op = "paths"   // change of path rules
	OpPolicy   Op = "policy"  // a named network policy of the account is set or removed
	OpOnBoot   Op = "on-boot" // change of what happens to it when the host starts
	OpRollback Op = "rollback"
	OpResize   Op = "resize"
	OpKeep     Op = "keep"    // a child takes the place of another VM
	OpCapture  Op = "capture" // by the engine: a schedule, a merge, a reseat
	OpTurn     Op = "turn"    // a generation marks what somebody tries
	OpUndo     Op = "undo"    // a VM goes back to a turn
	OpRestore  Op = "restore" // a path comes back from an older state
	OpRecover  Op = "recover" // by the engine: a VM in an unknown state
	OpService  Op = "service" // systemd units of the guest
	OpState    Op = "state"   // what runs in the guest
	OpHold     Op = "hold"    // a hold is made
	OpRelease  Op = "release" // a hold is released, or has expired
	OpTerminal Op = "pty"     // a terminal of the guest is opened, used or closed
	OpMount    Op = "mount"   // a volume is plugged into a running VM
	OpUnmount  Op = "unmount" // and unplugged
	OpVMRename Op = "vm-rename"
	OpLabel    Op = "label"   // labels of a VM are set or removed
	OpAmend    Op = "amend"   // how people call a VM and how long it is kept are changed
	OpSandbox  Op = "sandbox" // the time-out of a VM of E2B's API, or its key, is set
	// A file or directory of a VM becomes an object, and the other way round.
	OpPublish     Op = "publish"
	OpObjectFetch Op = "object-fetch"

	OpLogin          Op = "login" // a user enters a VM by another way than the API
	OpSnapshotRename Op = "snapshot-rename"
	OpSnapshotRemove Op = "snapshot-remove"
	OpAccountCreate  Op = "account-create"
	OpAccountRemove  Op = "account-remove"
	OpKeyCreate      Op = "key-create"
	OpKeyRotate      Op = "key-rotate"
	OpKeyRevoke      Op = "key-revoke"
	OpVolumeCreate   Op = "volume-create"
	OpVolumeUnlock   Op = "volume-unlock"
	OpVolumeLock     Op = "volume-lock"
	OpVolumeRemove   Op = "volume-remove"
	OpVolumeResize   Op = "volume-resize"
	OpVolumeSnapshot Op = "volume-snapshot" // made or removed
	OpVolumeRollback Op = "volume-rollback"
	OpVolumeSlot     Op = "volume-slot" // a way to unlock is added, removed or replaced
	OpIdentityCreate Op = "identity-create"
	OpIdentityDelete Op = "identity-delete"
	OpTokenCreate    Op = "token-create"
	OpTokenRevoke    Op = "token-revoke"
	OpGrant          Op = "grant"  // a VM or repository is granted to an identity
	OpRevoke         Op = "revoke" // and revoked
	OpSSHKeyAdd      Op = "ssh-key-add"
	OpSSHKeyRemove   Op = "ssh-key-remove"
	OpServe          Op = "serve"
	OpConnection     Op = "connection"  // a guest connected to the outside, or tried to
	OpAuditPrune     Op = "audit-prune" // old audit records are removed
	OpAuditKey       Op = "audit-key"   // another key signs the audit log
	OpAuditNote      Op = "audit-note"  // the audit log says something of itself
	// An administrator knows that the audit log before this one is gone.
	OpAuditAccept   Op = "audit-accept"
	OpDone          Op = "done"    // the job of a VM ends
	OpStorage       Op = "storage" // the use of the disk is read
	OpPrune         Op = "prune"   // disk space is freed
	OpDrain         Op = "drain"   // all VMs are suspended for a shutdown, and none starts
	OpUndrain       Op = "undrain" // VMs start again
	OpBackup        Op = "backup"  // the state of the server is copied
	OpBackupRestore Op = "backup-restore"
	OpBundle        Op = "bundle"      // a VM is packed for another server
	OpBundleOpen    Op = "bundle-open" // and unpacked there
	OpQuota         Op = "quota"       // an account's limits are set
	OpPreview       Op = "preview"     // access to a port of a VM is set
	OpDiff          Op = "diff"        // disks of VMs are compared
	OpDomain        Op = "domain"      // a domain is verified, mapped or unmapped
	OpAsk           Op = "ask"         // an approval is asked for
	OpApprove       Op = "approve"
	OpDeny          Op = "deny"
	OpMemory        Op = "memory" // an agent's memory is enabled, disabled or rolled back

	OpRepoCreate Op = "repo-create"
	OpRepoRemove Op = "repo-remove"
	OpRepoChange Op = "repo-change" // its name, visibility, default branch or protection is set
	OpRepoRead   Op = "repo-read"   // commits and contents are read
	OpPush       Op = "push"        // refs of a repository change by git's protocol
	OpFetch      Op = "fetch"
	OpCommit     Op = "commit" // a commit is made by the API
	OpRef        Op = "ref"    // a branch or tag is made or deleted by the API
	OpTrigger    Op = "repo-trigger"

	OpBucketCreate Op = "bucket-create"
	OpBucketRemove Op = "bucket-remove"
	OpBucketChange Op = "bucket-change" // its lifecycle, default retention or tags are set
	OpBucketGrant  Op = "bucket-grant"  // an identity or a VM may use it; also the end of that
	OpObjectPut    Op = "object-put"    // a version is written
	OpObjectRemove Op = "object-remove" // a version is removed, or a delete marker is written
	OpObjectTag    Op = "object-tag"
	OpObjectRetain Op = "object-retain" // retention or a legal hold is set
	OpObjectSign   Op = "object-sign"   // a link is signed
	OpObjectScan   Op = "object-scan"   // a scan has refused a version
	OpObjectRead   Op = "object-read"
	OpUpload       Op = "object-upload" // a multipart upload begins or is abandoned
	OpLifecycle    Op = "object-lifecycle"

	OpSecretSet    Op = "secret-set" // a secret is kept, or its value replaced
	OpSecretRemove Op = "secret-remove"
	OpSecretGrant  Op = "secret-grant" // a VM may use it; also the end of that
	OpSecretUse    Op = "secret-use"   // its value is put into a request of a VM
	OpSecretRotate Op = "secret-rotate"
)

// Next is the effect of an operation on a VM's state.
type Next struct {
	During State // state while the operation runs
	After  State // state when it has succeeded; "" = the record is gone
}

// transitions holds every legal pair. A missing pair is refused.
var transitions = map[Op]map[State]Next{
	OpStart: {
		Stopped:   {During: Starting, After: Running},
		Suspended: {During: Starting, After: Running},
		Running:   {During: Running, After: Running}, // a second start succeeds and does nothing
	},
	OpStop: {
		Running:   {During: Running, After: Stopped},
		Suspended: {During: Suspended, After: Stopped}, // its memory is dropped
	},
	OpKill: {
		Running:   {During: Running, After: Stopped},
		Starting:  {During: Starting, After: Stopped},
		Stopped:   {During: Stopped, After: Stopped},
		Suspended: {During: Suspended, After: Stopped},
	},
	OpSuspend: {
		Running:   {During: Suspending, After: Suspended},
		Suspended: {During: Suspended, After: Suspended},
	},
	OpFork: {
		Running:   {During: Running, After: Running},
		Suspended: {During: Suspended, After: Suspended},
	},
	OpSnapshot: {
		Running:   {During: Running, After: Running},
		Suspended: {During: Suspended, After: Suspended},
		Stopped:   {During: Stopped, After: Stopped},
	},
	OpNetwork: { // a VM without a machine gets the policy at its next start
		Running:   {During: Running, After: Running},
		Suspended: {During: Suspended, After: Suspended},
		Stopped:   {During: Stopped, After: Stopped},
	},
	OpPaths: {
		Running:   {During: Running, After: Running},
		Suspended: {During: Suspended, After: Suspended},
		Stopped:   {During: Stopped, After: Stopped},
	},
	OpOnBoot: {
		Running:   {During: Running, After: Running},
		Suspended: {During: Suspended, After: Suspended},
		Stopped:   {During: Stopped, After: Stopped},
	},
	OpRollback: {
		Running:   {During: Starting, After: Running},
		Suspended: {During: Starting, After: Running},
		Stopped:   {During: Starting, After: Running},
	},
	OpResize: {
		Running: {During: Running, After: Running},
		Stopped: {During: Stopped, After: Stopped},
	},
	OpKeep: {
		Running:   {During: Running, After: Running},
		Suspended: {During: Suspended, After: Suspended},
		Stopped:   {During: Stopped, After: Stopped},
	},
	OpMount:   {Running: {During: Running, After: Running}},
	OpUnmount: {Running: {During: Running, After: Running}},
	OpCapture: {
		Running:   {During: Running, After: Running},
		Suspended: {During: Suspended, After: Suspended},
		Stopped:   {During: Stopped, After: Stopped},
	},
	OpTurn: {
		Running:   {During: Running, After: Running},
		Suspended: {During: Suspended, After: Suspended},
		Stopped:   {During: Stopped, After: Stopped},
	},
	OpBundle: {
		Running:   {During: Running, After: Running},
		Suspended: {During: Suspended, After: Suspended},
		Stopped:   {During: Stopped, After: Stopped},
	},
	OpDiff: { // the disk is captured, unless nobody writes to it
		Running:   {During: Running, After: Running},
		Suspended: {During: Suspended, After: Suspended},
		Stopped:   {During: Stopped, After: Stopped},
	},
	OpVMRename: {
		Running:   {During: Running, After: Running},
		Suspended: {During: Suspended, After: Suspended},
		Stopped:   {During: Stopped, After: Stopped},
		Lost:      {During: Lost, After: Lost},
	},
	OpLabel: {
		Running:   {During: Running, After: Running},
		Suspended: {During: Suspended, After: Suspended},
		Stopped:   {During: Stopped, After: Stopped},
		Lost:      {During: Lost, After: Lost},
	},
	OpAmend: {
		Running:   {During: Running, After: Running},
		Suspended: {During: Suspended, After: Suspended},
		Stopped:   {During: Stopped, After: Stopped},
		Lost:      {During: Lost, After: Lost},
	},
	OpRecover: { // After is the goal; the actual state is found out
		Building:   {During: Building, After: Running},
		Starting:   {During: Starting, After: Suspended},
		Suspending: {During: Suspending, After: Running},
		Running:    {During: Running, After: Running},
		Suspended:  {During: Suspended, After: Suspended},
		Stopped:    {During: Stopped, After: Stopped},
	},
	OpDelete: {
		Building: {During: Building}, Starting: {During: Starting}, Running: {During: Running},
		Suspending: {During: Suspending}, Suspended: {During: Suspended}, Stopped: {During: Stopped}, Lost: {During: Lost},
	},
}

// guestOps need a running guest and do not change the state.
var guestOps = []Op{
	OpExec, OpSignal, OpRead, OpWrite, OpMkdir, OpRename, OpRemove, OpChmod,
	OpSymlink, OpWatch, OpStats, OpDial, OpService, OpState, OpTerminal, OpSocket, OpRestore, OpObjectFetch,
}

func init() {
	for _, op := range guestOps {
		transitions[op] = map[State]Next{Running: {During: Running, After: Running}}
	}
}

// StateOps lists the verbs that Allow knows, for tables and tests.
func StateOps() []Op {
	ops := []Op{OpStart, OpStop, OpKill, OpSuspend, OpFork, OpSnapshot, OpNetwork, OpPaths, OpOnBoot, OpRollback, OpResize, OpKeep, OpCapture, OpTurn, OpDiff, OpBundle, OpRecover, OpMount, OpUnmount, OpVMRename, OpLabel, OpAmend, OpDelete}
	return append(ops, guestOps...)
}

// Allow returns the effect of op on a VM in state s. An illegal pair gives an
// error of kind WrongState that names the states in which op is legal.
func (s State) Allow(op Op) (Next, error) {
	if n, ok := transitions[op][s]; ok {
		return n, nil
	}
	legal := ""
	for _, st := range States {
		if _, ok := transitions[op][st]; ok {
			if legal != "" {
				legal += ", "
			}
			legal += string(st)
		}
	}
	e := Errorf(WrongState, "", "the VM is %s; %s needs it to be %s", s, op, legal)
	e.Op = op
	if s == Stopped || s == Suspended {
		e.Hint = "start it first: `warren start NAME`"
	}
	return Next{}, e
}
