// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"time"

	"github.com/warren-vm/warren/vm"
)

// Sizes are the members of a request that set a size; zero = not given.
type Sizes struct {
	VCPUCount    int `json:"vcpuCount,omitempty"`
	MemSizeGb    int `json:"memSizeGb,omitempty"`
	MemSizeMib   int `json:"memSizeMib,omitempty"` // ours; finer than the contract's
	RootfsSizeGb int `json:"rootfsSizeGb,omitempty"`
}

// CreateVM is the body of POST /v1/vms; every member is optional. Contract
// members that this version does not implement are refused.
type CreateVM struct {
	Layer
	Name                   string                  `json:"name,omitempty"`
	Spec                   *Layer                  `json:"spec,omitempty"`
	Template               *Layer                  `json:"template,omitempty"`
	Persistence            *vm.Persistence         `json:"persistence,omitempty"`
	IdleTimeout            vm.Optional[vm.Seconds] `json:"idleTimeoutSeconds,omitzero"`
	ActivityThresholdBytes *int64                  `json:"activityThresholdBytes,omitempty"` // within ten seconds
	WaitForReadySignal     *bool                   `json:"waitForReadySignal,omitempty"`
	ReadyTimeout           *vm.Seconds             `json:"readySignalTimeoutSeconds,omitempty"`
	Users                  []User                  `json:"users,omitempty"`
	Groups                 []Group                 `json:"groups,omitempty"`
	AdditionalFiles        map[string]File         `json:"additionalFiles,omitempty"`
	Domains                []VMDomain              `json:"domains,omitempty"`
	Recreate               *bool                   `json:"recreate,omitempty"`

	// Ours.
	Image      string                  `json:"image,omitempty"`      // name, image id or snapshot id
	Profile    string                  `json:"profile,omitempty"`    // untrusted, agent, dev; absent = agent
	Network    vm.NetworkSpec          `json:"network,omitempty"`    // words, such as packages,api.example.com:443, or an object
	TTL        vm.Optional[vm.Seconds] `json:"ttlSeconds,omitzero"`  // deleted after this time, in any state; null = never
	UniqueName bool                    `json:"uniqueName,omitempty"` // refuse a name in use
	OneShot    bool                    `json:"oneShot,omitempty"`    // deleted when its command has ended or its client has left
	OnBoot     string                  `json:"onBoot,omitempty"`     // after a restart of the host: resume, stay; absent = resume if persistent
	StopOnIdle bool                    `json:"stopOnIdle,omitempty"` // stop it after the idle timeout, instead of suspending it

	CaptureEvery vm.Seconds `json:"captureEverySeconds,omitempty"` // interval of automatic generations; 0 = never
	// FilesystemMD writes FILESYSTEM.md into the working directory: which places of the VM last.
	FilesystemMD bool `json:"filesystemMd,omitempty"`

	Labels map[string]string `json:"labels,omitempty"` // see vm.ParseLabel

	Secrets []string `json:"secrets,omitempty"` // names of secrets that it may use

	Paths []AddPath `json:"paths,omitempty"` // path rules, in order: the first that matches decides
}

// CreatedVM answers POST /v1/vms.
type CreatedVM struct {
	ID         vm.ID         `json:"id"`
	Domains    []string      `json:"domains"` // never null
	SnapshotID vm.SnapshotID `json:"snapshotId"`

	// Ours.
	Persistence vm.Persistence `json:"persistence"` // the values that apply, defaults included
	VM          VM             `json:"vm"`          // the whole record
}

// Sizing is a VM's size as lists show it.
type Sizing struct {
	VCPUCount     int `json:"vcpuCount"`
	MemSizeMib    int `json:"memSizeMib"`
	RootfsSizeMib int `json:"rootfsSizeMb"` // the contract says Mb but means MiB
}

// VM is a VM in answers: the contract's members and ours.
type VM struct {
	ID                  vm.ID          `json:"id"`
	Name                string         `json:"name,omitempty"`
	State               vm.State       `json:"state"`
	VMInstanceID        string         `json:"vmInstanceId,omitempty"`
	Recreate            bool           `json:"recreate"`
	BuildID             vm.BuildID     `json:"buildId,omitempty"`
	CreatedAt           time.Time      `json:"createdAt"`
	LastNetworkActivity time.Time      `json:"lastNetworkActivity,omitzero"`
	CPUTimeSeconds      float64        `json:"cpuTimeSeconds,omitempty"` // of all its machines, at the last count
	Metrics             *Metrics       `json:"metrics,omitempty"`        // lists show it
	Persistence         vm.Persistence `json:"persistence"`
	SnapshotID          vm.SnapshotID  `json:"snapshotId,omitempty"`
	Sizing              Sizing         `json:"sizing"`

	// Ours.
	Reason            string          `json:"reason,omitempty"`
	Image             string          `json:"image"`
	ImageID           vm.ImageID      `json:"imageId"`
	Network           string          `json:"network"`                   // its mode; GET network has the rules
	NetworkRules      int             `json:"networkRules,omitempty"`    // how many
	NetworkPolicies   []string        `json:"networkPolicies,omitempty"` // that it uses
	Profile           string          `json:"profile,omitempty"`         // absent = agent
	IdleTimeout       *vm.Seconds     `json:"idleTimeoutSeconds"`        // null = never
	ActivityThreshold int64           `json:"activityThresholdBytes,omitempty"`
	IdleStops         bool            `json:"idleStops,omitempty"` // stopped instead of suspended after the idle timeout
	TTL               vm.Seconds      `json:"ttlSeconds,omitempty"`
	ExpiresAt         time.Time       `json:"expiresAt,omitzero"`
	StartedAt         time.Time       `json:"startedAt,omitzero"`
	Accel             vm.Accel        `json:"accel,omitempty"`
	Warning           string          `json:"warning,omitempty"` // e.g. that it is emulated
	Operation         vm.Op           `json:"operation,omitempty"`
	Losses            []string        `json:"losses,omitempty"`       // parts that the last start did not restore
	Restored          []string        `json:"restored,omitempty"`     // parts that the last start restored
	GenerationID      vm.GenerationID `json:"generationId,omitempty"` // the generation that its machine was started from, or that it is suspended on
	HeadID            vm.GenerationID `json:"headId,omitempty"`       // the newest in its history
	ParentVMID        vm.ID           `json:"parentVmId,omitempty"`   // it was forked from that VM, or created from a snapshot of it
	CaptureEvery      vm.Seconds      `json:"captureEverySeconds,omitempty"`
	OneShot           bool            `json:"oneShot,omitempty"`
	Workdir           string          `json:"workdir,omitempty"`
	OnBoot            vm.OnBoot       `json:"onBoot,omitempty"` // what happens to it after a restart of the host

	Labels map[string]string `json:"labels,omitempty"`
}

// VMList answers GET /v1/vms.
type VMList struct {
	VMs             []VM `json:"vms"`
	TotalCount      int  `json:"totalCount"`
	BuildingCount   int  `json:"buildingCount"`
	RunningCount    int  `json:"runningCount"`
	StartingCount   int  `json:"startingCount"`
	SuspendingCount int  `json:"suspendingCount"`
	SuspendedCount  int  `json:"suspendedCount"`
	StoppedCount    int  `json:"stoppedCount"`
	LostCount       int  `json:"lostCount"`
}

// StartVM is the body of POST /v1/vms/{id}/start.
type StartVM struct {
	IdleTimeout        vm.Optional[vm.Seconds] `json:"idleTimeoutSeconds,omitzero"`
	ReadyTimeout       *vm.Seconds             `json:"readySignalTimeoutSeconds,omitempty"`
	WaitForReadySignal *bool                   `json:"waitForReadySignal,omitempty"`
	DiskOnly           bool                    `json:"diskOnly,omitempty"` // ours: boot a suspended VM from its disk; its memory is kept as a generation
}

// StartedVM answers start; ConsoleURL is always null.
type StartedVM struct {
	ID         vm.ID    `json:"id"`
	Domains    []string `json:"domains"`
	ConsoleURL *string  `json:"console_url"`
	VM         VM       `json:"vm"`
}

// StoppedVM answers stop, with what remains (ours).
type StoppedVM struct {
	VMID         vm.ID   `json:"vmId"`
	VMInstanceID string  `json:"vmInstanceId"`
	Remains      Remains `json:"remains"`
}

// Remains lists what stopping did not erase.
type Remains struct {
	DiskBytes int64  `json:"diskBytes"` // allocated by the VM's own disk layer
	LogBytes  int64  `json:"logBytes"`  // console and monitor logs
	Erase     string `json:"erase"`     // the command that erases it
}

// ExecAwait is the body of POST /v1/vms/{id}/exec-await.
type ExecAwait struct {
	Command  string     `json:"command"`
	Terminal *string    `json:"terminal"` // ignored
	Timeout  *vm.Millis `json:"timeoutMs"`

	// Ours; see vm.ExecSpec.
	Turn    string `json:"turn,omitempty"`
	Summary bool   `json:"summary,omitempty"`
}

// ExecResult answers exec-await.
type ExecResult struct {
	Stdout     string `json:"stdout"`
	Stderr     string `json:"stderr"`
	StatusCode int    `json:"statusCode"`
	Truncated  bool   `json:"truncated,omitempty"` // ours: the output is incomplete

	// Ours, if they were asked for.
	Turn    *vm.Turn        `json:"turn,omitempty"`
	Summary *vm.ExecSummary `json:"summary,omitempty"`
}

// ExecMessage is one text frame of the exec WebSocket, or one line of the
// chunked answer. Binary frames carry a channel byte and data.
type ExecMessage struct {
	Type    string         `json:"type"` // started, exit, error; stdinEof, signal, detach; in lines also stdout, stderr
	Process *vm.Process    `json:"process,omitempty"`
	Status  *vm.ExitStatus `json:"status,omitempty"`
	Error   *ErrorBody     `json:"error,omitempty"`
	Signal  string         `json:"signal,omitempty"`
	Data    []byte         `json:"data,omitempty"` // base64, lines only
	Turn    *vm.Turn       `json:"turn,omitempty"` // of started: marked before the start

	Summary *vm.ExecSummary `json:"summary,omitempty"` // of exit, if it was asked for
}

// Channels of the exec WebSocket's binary frames.
const (
	ChannelStdin  byte = 0
	ChannelStdout byte = 1
	ChannelStderr byte = 2
)

// ExecChunked is the body of POST /v1/vms/{id}/exec.
type ExecChunked struct {
	vm.ExecSpec
	Input []byte `json:"input,omitempty"` // base64: the whole standard input
	// Owned ends the command when the request ends before it, also when its caller dies. Absent = it
	// keeps running in the background.
	Owned bool `json:"owned,omitempty"`
}

// FileContent answers GET files for a file, and is the body of PUT files.
type FileContent struct {
	Content  string `json:"content"`
	Encoding string `json:"encoding,omitempty"` // utf8 (default), base64
}

// DirEntry is one entry of DirListing.
type DirEntry struct {
	Name string `json:"name"`
	Kind string `json:"kind"` // file, directory
}

// DirListing answers GET files for a directory.
type DirListing struct {
	Files []DirEntry `json:"files"`
}

// FileList answers fs/list.
type FileList struct {
	Files []vm.FileInfo `json:"files"`
}

// WrittenFile answers PUT raw.
type WrittenFile struct {
	File   vm.FileInfo `json:"file"`
	Digest string      `json:"sha256"` // of the received bytes, computed on the host
}

// FileOp is the body of the POST fs/ routes; each uses its own members.
type FileOp struct {
	Path      string `json:"path,omitempty"`
	From      string `json:"from,omitempty"`
	To        string `json:"to,omitempty"`
	Target    string `json:"target,omitempty"`
	Mode      uint32 `json:"mode,omitempty"`
	Parents   bool   `json:"parents,omitempty"`
	Recursive bool   `json:"recursive,omitempty"`
}

// PtySession is one terminal of a VM.
type PtySession struct {
	SessionID     string  `json:"sessionId"`
	Running       bool    `json:"running"`
	ExitCode      *int    `json:"exitCode,omitempty"`
	ExitedAtMs    int64   `json:"exitedAtMs,omitempty"`
	Cols          int     `json:"cols"`
	Rows          int     `json:"rows"`
	Exec          string  `json:"exec,omitempty"`
	CreatedAtMs   int64   `json:"createdAtMs"`
	AttachedCount int     `json:"attachedCount"`
	User          *string `json:"user"` // Linux user; null = root
	PID           int     `json:"pid"`
	Title         string  `json:"title,omitempty"` // set by its program
	StartOffset   int64   `json:"startOffset"`     // offset of the oldest kept output byte
	EndOffset     int64   `json:"endOffset"`       // offset after the newest byte
	Suspended     bool    `json:"suspended,omitempty"`
	Lost          bool    `json:"lost,omitempty"` // the guest's agent died, which hung it up
}

// PtySessionList answers GET pty/sessions.
type PtySessionList struct {
	Sessions []PtySession `json:"sessions"`
}

// ClosedPty answers DELETE pty/sessions/{session}.
type ClosedPty struct {
	SessionID string `json:"sessionId"`
	ExitCode  *int   `json:"exitCode"`
}

// PtyMessage is a text frame of a terminal's WebSocket; Type says which other members are set.
// Input and output are binary frames. The client sends resize and signal (SIGINT, SIGKILL, or
// another name). The server sends sessionInfo, exited and (ours) replay: the next Bytes bytes
// redraw the screen (Redraw) or repeat output, and the output byte after them has Offset.
type PtyMessage struct {
	Type      string      `json:"type"`
	SessionID string      `json:"sessionId,omitempty"`
	Session   *PtySession `json:"session,omitempty"`
	ExitCode  *int        `json:"exitCode,omitempty"`
	Cols      int         `json:"cols,omitempty"`
	Rows      int         `json:"rows,omitempty"`
	Signal    string      `json:"signal,omitempty"`
	Redraw    bool        `json:"redraw,omitempty"`
	Bytes     int         `json:"bytes,omitempty"`
	Offset    *int64      `json:"offset,omitempty"`
}

// PtyScreen answers GET screen?format=json.
type PtyScreen struct {
	SessionID      string     `json:"sessionId"`
	Running        bool       `json:"running"`
	ExitCode       *int       `json:"exitCode,omitempty"`
	Cols           int        `json:"cols"`
	Rows           int        `json:"rows"`
	Cursor         PtyCursor  `json:"cursor"`
	Alternate      bool       `json:"alternate"` // a full-screen program's screen
	BracketedPaste bool       `json:"bracketedPaste"`
	Title          string     `json:"title,omitempty"`
	Offset         int64      `json:"offset"` // after the output that it includes
	Text           string     `json:"text"`
	Lines          [][]PtyRun `json:"lines"`
}

// PtyCursor is a screen's cursor, counted from 0.
type PtyCursor struct {
	X       int  `json:"x"`
	Y       int  `json:"y"`
	Visible bool `json:"visible"`
}

// PtyRun is a run of cells of one line with the same style. Colours are
// palette numbers or #rrggbb; absent = the default.
type PtyRun struct {
	X          int      `json:"x"` // column of the first
	Text       string   `json:"text"`
	Foreground string   `json:"fg,omitempty"`
	Background string   `json:"bg,omitempty"`
	Attributes []string `json:"attributes,omitempty"`
}

// PtyInput is the body of POST pty/sessions/{session}/input.
type PtyInput struct {
	Data string `json:"data"`
	// Quiet: answer when there was no output for this time; absent = 250, 0 = at
	// once.
	Quiet *vm.Millis `json:"waitQuietMs,omitempty"`
	// Timeout: answer after this time at the latest; absent = 10000.
	Timeout *vm.Millis `json:"timeoutMs,omitempty"`
}

// PtyOutput answers PtyInput with the output that followed.
type PtyOutput struct {
	Output   string `json:"output"` // as text
	Screen   string `json:"screen"` // as it is now
	Offset   int64  `json:"offset"` // offset after that output
	Quiet    bool   `json:"quiet"`  // there was no output for the requested time
	Running  bool   `json:"running"`
	ExitCode *int   `json:"exitCode,omitempty"`
}

// ProcessList answers GET processes.
type ProcessList struct {
	Processes []vm.Process `json:"processes"`
}

// Signal is the body of POST processes/{p}/signal.
type Signal struct {
	Signal string `json:"signal"` // TERM, KILL, INT, ...
}

// Ports answers GET ports.
type Ports struct {
	Ports []vm.ListeningPort `json:"ports"`
}

// OpenPort answers POST ports/{port}/wait.
type OpenPort struct {
	Port int `json:"port"`
}

// RenameVM is the body of POST /v1/vms/{id}/rename.
type RenameVM struct {
	Name string `json:"name"`
}

// LabelVM is the body of PATCH /v1/vms/{id}/labels: a string sets a label, null
// removes one, the others stay.
type LabelVM struct {
	Labels map[string]*string `json:"labels"`
}

// Connections answers GET connections.
type Connections struct {
	Connections []vm.Connection `json:"connections"`
}

// Inspection answers GET inspect.
type Inspection struct {
	VM           VM                `json:"vm"`
	Machine      *vm.MachineStatus `json:"machine,omitempty"`
	MachineError string            `json:"machineError,omitempty"`
	DiskBytes    int64             `json:"diskBytes"`
	Usage        vm.Usage          `json:"usage"`
	Image        *vm.Image         `json:"image,omitempty"`
	Warnings     []string          `json:"warnings"`
}

// ImageList answers GET /v1/images.
type ImageList struct {
	Images []vm.Image `json:"images"`
}

// WhoAmI answers GET /auth/v1/whoami: KeyID with an API key, IdentityID and
// TokenID with a token.
type WhoAmI struct {
	AccountID  vm.AccountID   `json:"accountId"`
	IdentityID *vm.IdentityID `json:"identityId"`
	Admin      bool           `json:"admin"`
	KeyID      vm.KeyID       `json:"keyId,omitempty"`
	TokenID    vm.TokenID     `json:"tokenId,omitempty"`
}

// Account is an account as answers show it.
type Account struct {
	ID        vm.AccountID `json:"id"`
	Name      string       `json:"name"`
	Admin     bool         `json:"admin"`
	CreatedAt time.Time    `json:"createdAt"`
}

// Key is an API key as answers show it: never its secret.
type Key struct {
	ID        vm.KeyID     `json:"id"`
	Account   vm.AccountID `json:"account"`
	Name      string       `json:"name,omitempty"`
	CreatedAt time.Time    `json:"createdAt"`
	LastUsed  time.Time    `json:"lastUsed,omitzero"`
}

// NewAccount is the body of POST /v1/accounts; NewKey that of POST /v1/keys.
type NewAccount struct {
	Name string `json:"name"`
}

// NewKey is the body of POST /v1/keys.
type NewKey struct {
	Name    string       `json:"name,omitempty"`
	Account vm.AccountID `json:"account,omitempty"` // admins only; absent = one's own
}

// CreatedKey is a new key with its secret, which is shown only here.
type CreatedKey struct {
	Key    Key    `json:"key"`
	Secret string `json:"secret"`
}

// CreatedAccount answers POST /v1/accounts with its first key.
type CreatedAccount struct {
	Account Account `json:"account"`
	Key     Key     `json:"key"`
	Secret  string  `json:"secret"`
}

// AccountList answers GET /v1/accounts.
type AccountList struct {
	Accounts []Account `json:"accounts"`
}

// KeyList answers GET /v1/keys.
type KeyList struct {
	Keys []Key `json:"keys"`
}

// AuditRecord is one audit record.
type AuditRecord struct {
	ID        string         `json:"id"`
	Seq       int64          `json:"seq"`
	Time      time.Time      `json:"time"`
	Op        vm.Op          `json:"op"`
	VM        vm.ID          `json:"vm,omitempty"`
	Subject   string         `json:"subject,omitempty"`
	Actor     vm.Actor       `json:"actor"`
	RequestID vm.RequestID   `json:"requestId,omitempty"`
	Outcome   string         `json:"outcome"` // ok, pending, or a kind of failure
	Error     string         `json:"error,omitempty"`
	EndedAt   time.Time      `json:"endedAt,omitzero"`
	Detail    map[string]any `json:"detail,omitempty"`

	Generation vm.GenerationID `json:"generation,omitempty"` // that the VM stood on
	Network    string          `json:"network,omitempty"`    // digest of the VM's network policy
	Right      string          `json:"right,omitempty"`      // digest of the permission by which the caller acted
}

// AuditList answers GET /v1/audit, newest first.
type AuditList struct {
	Records []AuditRecord `json:"records"`
}

// AuditReport answers GET /v1/audit/verify.
type AuditReport = vm.AuditReport

// VerifyAudit is the body of POST /v1/audit/verify.
type VerifyAudit struct {
	Anchors      []vm.Checkpoint `json:"anchors"`                // from outside; all are compared
	AcceptNewLog bool            `json:"acceptNewLog,omitempty"` // first record that the loss of the log before this one is known
}

// PruneAudit is the body of POST /v1/audit/prune.
type PruneAudit struct {
	Before time.Time `json:"before"` // older records are removed, in whole segments
}

// RotateAuditKey is the body of POST /v1/audit/key.
type RotateAuditKey struct {
	To string `json:"to,omitempty"` // hex public key that signs from now on; empty = the server makes one
}

// AuditKey answers POST /v1/audit/key.
type AuditKey struct {
	Key         string `json:"key"` // hex public key
	Fingerprint string `json:"fingerprint"`
}

// Host answers GET /v1/host.
type Host struct {
	Version      string           `json:"version"`
	Accel        vm.Accel         `json:"accel"`
	QEMU         string           `json:"qemu"`
	QEMUVersion  string           `json:"qemuVersion"`
	Machine      string           `json:"machine"`
	CPU          string           `json:"cpu"`
	CPUs         int              `json:"cpus"`
	MemTotal     int64            `json:"memTotalBytes"`
	MemAvailable int64            `json:"memAvailableBytes"`
	DiskTotal    int64            `json:"diskTotalBytes"`
	DiskFree     int64            `json:"diskFreeBytes"`
	VMs          map[vm.State]int `json:"vms"`
	Pool         Pool             `json:"pool"`
	Warnings     []string         `json:"warnings"`
}

// Pool is a host's warm pool: machines that are ready for a create.
type Pool struct {
	Size   int   `json:"size"`   // target for each image and size; 0 = the pool is off
	Ready  int   `json:"ready"`  // ready now, of all images and sizes
	Hits   int64 `json:"hits"`   // creates that used one
	Misses int64 `json:"misses"` // creates that found none
}

// Logs answers GET /observability/v1/logs.
type Logs struct {
	Logs          []LogLine `json:"logs"`
	NextPageToken *string   `json:"nextPageToken"`
}

// LogLine is one line of Logs.
type LogLine struct {
	Message   string    `json:"message"`
	Timestamp time.Time `json:"timestamp"`
}

// Background answers 202 while a request runs.
type Background struct {
	RequestID vm.RequestID `json:"requestId"`
	Status    string       `json:"status"` // running
}
