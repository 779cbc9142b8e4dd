// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/warren-vm/warren/internal/storage"
	"github.com/warren-vm/warren/vm"
)

// Machines starts machines and finds those that outlived an earlier engine.
// monitor.Launcher implements it.
type Machines interface {
	// Launch starts a machine and returns when it is ready: the agent has answered, every
	// reset is acknowledged, the network is connected. After an error nothing is left of
	// it.
	Launch(ctx context.Context, spec vm.MachineSpec) (Machine, vm.MachineStatus, error)
	// Attach finds the machine of a run directory; kind NotFound when it is gone.
	Attach(ctx context.Context, runDir string) (Machine, vm.MachineStatus, error)
	// Sweep ends what is left of a machine and removes its run directory, if there is
	// one.
	Sweep(ctx context.Context, runDir string) error
	// Strays lists the VMs for which a machine's process runs, including those of other
	// hosts. Asking once is cheaper than sweeping a thousand VMs.
	Strays() ([]vm.ID, error)
}

// Machine is one running machine.
type Machine interface {
	Power
	Network
	Capturer
	Pooled
	VolumePlug
	FolderMount
	Status(ctx context.Context) (vm.MachineStatus, error)
	// Guest returns the guest's verbs, the same value each time.
	Guest() Guest
	// Resize changes the size of a running machine. For each part that differs
	// (vm.PartCPU, ...) it returns vm.Live, or why only a start can change it.
	Resize(ctx context.Context, want vm.Size) (map[string]string, error)
	// Close closes the connection to the machine, which keeps running.
	Close()
}

// Power ends a machine or waits for its end.
type Power interface {
	// Stop asks the guest to power off and kills the machine after the grace.
	// It returns when the machine is gone.
	Stop(ctx context.Context, grace time.Duration) error
	// Kill ends the machine at once and returns when it is gone.
	Kill(ctx context.Context) error
	// Wait blocks until the machine is gone and reports how it ended.
	Wait(ctx context.Context) (vm.MachineExit, error)
}

// Capturer saves a machine.
type Capturer interface {
	// Capture saves memory, device state and disk. Then the machine resumes, except after
	// a success with Hold or Quit. Kind Unavailable when the machine's monitor was lost:
	// then it is unknown what was done.
	Capture(ctx context.Context, s vm.CaptureSpec) (vm.Captured, error)
	// Resume resumes a machine that a capture left paused.
	Resume(ctx context.Context) error
	// Reseat moves a machine that a capture left paused to a new process, started on the
	// captured generation, and resumes it. After an error it is still paused, or gone.
	Reseat(ctx context.Context, g vm.GenerationSource) error
	// Flatten shortens the chain of layers below the machine's disk to those below base,
	// while the guest runs; it ends with ctx. With part it merges only the upper layers
	// and copies little.
	Flatten(ctx context.Context, base string, part bool) error
	// Disk returns the file that the machine writes to when no capture is in progress.
	Disk(ctx context.Context) (string, error)
}

// VolumePlug attaches the disks of volumes to a running machine and detaches them.
type VolumePlug interface {
	// PlugVolume gives the machine a volume's disk. Kinds: Busy when something else
	// has the disk open, Corrupt, Exists, Limit.
	PlugVolume(ctx context.Context, v vm.PluggedVolume, key vm.VolumeKey) error
	// UnplugVolume detaches a volume's disk, if it is attached. Kind GuestFault when the
	// guest does not release it.
	UnplugVolume(ctx context.Context, id vm.VolumeID) error
	// SnapshotVolume keeps the content of a volume's disk at an instant, while the guest
	// runs. DropVolumeSnapshot deletes it.
	SnapshotVolume(ctx context.Context, id vm.VolumeID, snapshot string) error
	DropVolumeSnapshot(ctx context.Context, id vm.VolumeID, snapshot string) error
}

// FolderMount mounts directories of the host in a running machine's guest.
type FolderMount interface {
	// MountFolder serves a directory from now on, also to a guest whose agent restarts.
	// Kind WrongState when it is not the directory that was checked.
	MountFolder(ctx context.Context, f vm.Folder) error
	// UnmountFolder removes a directory, if it is mounted. If programs use it, it fails
	// with kind Busy and names them; with force it kills them.
	UnmountFolder(ctx context.Context, path string, force bool) error
	// SetPaths applies the VM's path rules to its folders from now on, also to files that
	// are open. Kind Unsupported when a folder cannot hold rules.
	SetPaths(ctx context.Context, list []vm.PathRule) error
}

// Folders checks directories of the host.
type Folders interface {
	// Check identifies the directory at a path and reports whether its content is
	// encrypted at rest, and why. Kinds: Denied, Invalid, NotFound.
	Check(path string) (id vm.FolderID, sealed bool, why string, err error)
}

// ObjectGrants are the rights of VMs to objects of their account.
type ObjectGrants interface {
	// Inherit gives a new VM the rights of another.
	Inherit(ctx context.Context, from, to vm.ID) error
	// DropVM ends the rights of a VM that is gone.
	DropVM(ctx context.Context, id vm.ID) error
	// LetRead lets a VM read the keys of a bucket that begin with a prefix, if it may not
	// already; undo ends that right again. Kind NotFound when the caller has no such bucket.
	LetRead(ctx context.Context, c *vm.Call, id vm.ID, bucket, prefix string) (undo func(context.Context) error, err error)
}

// Policies turns what a request asks of the network into a policy.
type Policies interface {
	// Compile returns the policy of an account's VM, without the hosts of mode packages.
	// Kinds: Invalid, NotFound (a named policy), Denied, Limit.
	Compile(c *vm.Call, account vm.AccountID, spec vm.NetworkSpec) (vm.NetworkPolicy, error)
}

// Pooled is a machine of the pool.
type Pooled interface {
	// Pause pauses the machine. Pausing it again succeeds and proves that it still
	// answers.
	Pause(ctx context.Context) error
	// Adopt resumes a paused machine as another VM, with every reset acknowledged. After
	// an error the machine cannot be used and must be swept.
	Adopt(ctx context.Context, a vm.Adoption) (vm.MachineStatus, error)
}

// Network is a machine's side of its user network.
type Network interface {
	SetNetwork(ctx context.Context, p vm.NetworkPolicy) error
	// CutBy lists the open connections that a policy would close, without setting it.
	CutBy(ctx context.Context, p vm.NetworkPolicy) ([]vm.Connection, error)
	Ports
}

// Ports connects to the guest's ports and lists its outbound connections.
type Ports interface {
	Connections(ctx context.Context) ([]vm.Connection, error)
	DialPort(ctx context.Context, port uint16) (net.Conn, error)
}

// Guest is what the agent in a guest can do. guest.Client has these methods;
// only Exec and Watch return a type of their own there.
type Guest interface {
	GuestCommands
	GuestFiles
	GuestTree
	GuestTerminals
	GuestVolumes
	GuestSockets
	GuestHandles
	// Under returns the same verbs, of which those about files keep path rules.
	Under(list []vm.PathRule) Guest
	Hello(ctx context.Context) (vm.AgentHello, error)
	Stats(ctx context.Context) (vm.Stats, error)
	// State is what runs in the guest, as far as the guest itself can tell.
	State(ctx context.Context) (vm.GuestState, error)
	// Evidence returns the guest's load; with all, its problems too.
	Evidence(ctx context.Context, all bool) (vm.Evidence, error)
}

// GuestCommands runs programs.
type GuestCommands interface {
	Exec(ctx context.Context, spec vm.ExecSpec) (Exec, error)
	Start(ctx context.Context, spec vm.ExecSpec) (vm.Process, error)
	Processes(ctx context.Context) ([]vm.Process, error)
	Process(ctx context.Context, id string) (vm.Process, error)
	Wait(ctx context.Context, id string) (vm.Process, error)
	Signal(ctx context.Context, id, name string) error
	Forget(ctx context.Context, id string) error
	// Log returns bytes from an absolute offset. The second result is the offset of the
	// first byte, which is later if older bytes were dropped.
	Log(ctx context.Context, id string, from int64, follow bool) (io.ReadCloser, int64, error)
}

// GuestTerminals opens and serves terminals, which the guest keeps. user is the
// Linux user that a terminal was opened as, "" = root.
type GuestTerminals interface {
	OpenTerminal(ctx context.Context, spec vm.TerminalSpec) (Terminal, error)
	AttachTerminal(ctx context.Context, id string, view vm.TerminalView) (Terminal, error)
	Terminals(ctx context.Context) ([]vm.TerminalSession, error)
	CloseTerminal(ctx context.Context, user, id string) (vm.TerminalSession, error)
	ReadTerminal(ctx context.Context, user, id string, since int64) (vm.TerminalContent, error)
	SendTerminal(ctx context.Context, id string, s vm.TerminalSend) (vm.TerminalContent, error)
}

// Terminal is one attachment to a terminal. Its owner calls Run once, or Detach; neither
// ends the terminal.
type Terminal interface {
	Session() vm.TerminalSession
	Write(p []byte) (int, error) // input
	Resize(cols, rows int) error
	Signal(name string) error // to the root process
	Detach() error
	// Run copies output until the program has ended. replay runs before output that
	// repeats or redraws earlier output. Kind GuestFault when the link broke before an
	// exit status arrived.
	Run(replay func(vm.TerminalReplay) error, out io.Writer) (vm.ExitStatus, error)
}

// GuestVolumes mounts the disks of volumes.
type GuestVolumes interface {
	// Disk waits until the guest has found a disk, and returns the guest's name for it
	// and what it holds: vm.DiskEmpty, ...
	Disk(ctx context.Context, id vm.VolumeID) (device, holds string, err error)
	Mount(ctx context.Context, u vm.VolumeUse) error
	// Unmount removes a mount, if there is one. If programs use it, it fails with kind
	// Busy and names them; with force it kills them.
	Unmount(ctx context.Context, path string, force bool) error
	// Scrub writes zeros over nearly all free memory of the guest.
	Scrub(ctx context.Context) error
}

// GuestFiles transfers files. user is a Linux user of the guest, "" = root.
type GuestFiles interface {
	Open(ctx context.Context, user, path string) (vm.FileInfo, io.ReadCloser, error)
	WriteFile(ctx context.Context, user, path string, o vm.WriteOptions, r io.Reader) (vm.FileInfo, error)
	TarDown(ctx context.Context, user, path string) (io.ReadCloser, error)
	TarUp(ctx context.Context, user, path string, r io.Reader) error
	// Restore puts what a tar holds as "entry" in the place of a path, in one step, with
	// owners, modes, times and extended attributes. It follows no links.
	Restore(ctx context.Context, path string, r io.Reader) error
	Watch(ctx context.Context, user, path string, recursive bool) (Watch, error)
	// ListTree, PickFiles and PlaceFiles keep a directory like one elsewhere.
	ListTree(ctx context.Context, user, path string, o vm.TreeOptions) (io.ReadCloser, error)
	PickFiles(ctx context.Context, user, path string, p vm.TreePick) (io.ReadCloser, error)
	PlaceFiles(ctx context.Context, user, path, pair, mark string, r io.Reader) (vm.TreePlaced, error)
}

// GuestTree lists and changes directories.
type GuestTree interface {
	Stat(ctx context.Context, user, path string) (vm.FileInfo, error)
	ReadDir(ctx context.Context, user, path string) ([]vm.FileInfo, error)
	Mkdir(ctx context.Context, user, path string, mode uint32, parents bool) error
	Rename(ctx context.Context, user, from, to string) error
	Remove(ctx context.Context, user, path string, recursive bool) error
	Chmod(ctx context.Context, user, path string, mode uint32) error
	Symlink(ctx context.Context, user, target, path string) error
}

// GuestSockets connects and listens inside the guest.
type GuestSockets interface {
	LinuxUser(ctx context.Context, name string) (vm.LinuxUser, error)
	// DialSocket connects; ctx bounds only that. The connection may have a CloseWrite
	// method.
	DialSocket(ctx context.Context, s vm.SocketSpec) (net.Conn, error)
	// ListenSocket listens until the listener is closed or ctx ends.
	ListenSocket(ctx context.Context, s vm.SocketSpec) (SocketListener, error)
}

// SocketListener accepts connections inside a guest.
type SocketListener interface {
	Address() string // IP:PORT or a path
	// Accept returns a connection and its remote address.
	Accept() (net.Conn, string, error)
	Close() error
}

// GuestHandles reads and writes parts of files, as file transfer protocols do.
type GuestHandles interface {
	OpenHandle(ctx context.Context, user, path string, o vm.OpenOptions) (File, error)
	StatFollow(ctx context.Context, user, path string) (vm.FileInfo, error)
	SetAttr(ctx context.Context, user, path string, a vm.FileAttr) error
	Link(ctx context.Context, user, target, path string) error
}

// File is an open file of a guest. Its methods may be called concurrently.
type File interface {
	io.ReaderAt
	io.WriterAt // writes at the end if the file was opened for append
	io.Closer
}

// Exec is one attached command. Its owner calls Run once, or Detach. When the context of
// the call that started it ends, the command keeps running in the background, and its
// output goes to a log.
type Exec interface {
	Process() vm.Process
	Write(p []byte) (int, error) // standard input
	CloseStdin() error
	Signal(name string) error
	Detach() error
	// Run copies output until the command has ended. Kind GuestFault when the link broke
	// before an exit status arrived.
	Run(stdout, stderr io.Writer) (vm.ExitStatus, error)
}

// Watch delivers changes below a path until it is closed or its context ends.
type Watch interface {
	Next() (vm.FileEvent, error)
	Close() error
}

// Images provides what a VM can start on.
type Images interface {
	// Find resolves a name, an image id or a snapshot id; "" is the default image. Kind
	// NotFound when there is none. It is fast, because answers are cached.
	Find(ctx context.Context, ref string) (vm.Image, error)
	List(ctx context.Context) ([]vm.Image, error)
	// Warm returns the image's warm generation for a size, and builds it if it is
	// missing. Its files are in layout.Dir.Warm(img.ID, Key).
	Warm(ctx context.Context, img vm.Image, size vm.Size) (vm.Manifest, error)
	// Boot returns the files and command line of a cold boot of the image.
	Boot(ctx context.Context, img vm.Image) (vm.BootSource, error)
	// Overlay makes an empty qcow2 at path with the given backing file, which is relative
	// to path's directory. It runs no program.
	Overlay(path, backing string, sizeMiB int) error
}

// Generations manages the files of generations; generation.Store implements it.
type Generations interface {
	// Begin makes a generation of the VM's current disk, and the VM's next disk above it.
	Begin(id vm.GenerationID, of vm.ID, sizeMiB int) error
	// Advance replaces the VM's disk by its next disk. It may be called again.
	Advance(id vm.GenerationID, of vm.ID) error
	// Abandon undoes Begin for a machine that has not moved to its next disk.
	Abandon(id vm.GenerationID, of vm.ID) error
	// Pending lists the generations whose next disk was neither advanced nor abandoned.
	Pending(of vm.ID) ([]vm.GenerationID, error)
	// Disk gives a VM a new disk above a generation's.
	Disk(id vm.GenerationID, of vm.ID, sizeMiB int) error
	// GrowDisk makes the disk of a VM without a machine at least that large.
	GrowDisk(of vm.ID, sizeMiB int) error
	// DiskOn returns the generation below a VM's disk; "" = an image.
	DiskOn(of vm.ID) (vm.GenerationID, error)
	// Below is DiskOn for the disk of a generation.
	Below(id vm.GenerationID) (vm.GenerationID, error)
	// Layers returns the files of a generation's disk, the top first: its own, those of
	// the generations below, and those of the image. LayersOf is that of a VM's disk. Kind
	// Corrupt when a disk names anything else as the one below it.
	Layers(id vm.GenerationID) ([]string, error)
	LayersOf(of vm.ID) ([]string, error)
	// Captured returns the result that a completed capture left on disk; else NotFound.
	Captured(id vm.GenerationID) (vm.Captured, error)
	// Publish makes a generation complete and durable; it reads all its data.
	Publish(ctx context.Context, g vm.Manifest) (vm.Manifest, error)
	Load(id vm.GenerationID) (vm.Manifest, error)
	// Rewrite replaces a manifest, durably.
	Rewrite(g vm.Manifest) error
	Source(id vm.GenerationID) vm.GenerationSource
	// Alias makes a second generation with the same files. The memory is the file that
	// the manifest names.
	Alias(from vm.GenerationID, g vm.Manifest) error
	Present(id vm.GenerationID) (disk, memory bool)
	DropMemory(id vm.GenerationID) error
	Remove(id vm.GenerationID) error
	List() ([]vm.GenerationID, error)
	// SealKey makes a key, wrapped with the host's.
	SealKey() ([]byte, error)
	// Seal compresses and encrypts a generation's memory and returns its size on
	// the disk. Open makes the plain files for a start, and DropSealed then removes
	// the sealed ones. All may be called again after a crash. Kinds of Open:
	// Corrupt, NoSpace.
	Seal(ctx context.Context, id vm.GenerationID, wrapped []byte) (bytes int64, err error)
	Open(ctx context.Context, id vm.GenerationID, wrapped []byte) error
	DropSealed(ctx context.Context, id vm.GenerationID) (bytes int64, err error)
}

// Host describes this host.
type Host interface {
	// Platform may probe the host on its first call and is fast afterwards.
	Platform(ctx context.Context) (Platform, error)
	// Capacity reads the current values on each call; it is cheap.
	Capacity(ctx context.Context) (Capacity, error)
}

// Disk measures the files of the data directory; storage.Measurer implements it. It reads
// the size of every file.
type Disk interface {
	Measure(ctx context.Context) ([]storage.File, error)
}

// Platform is what all machines of this host start with.
type Platform struct {
	QEMU        string // absolute path of the binary
	QEMUVersion string
	Accel       vm.Accel
	CPU         string   // CPU model
	Machine     string   // machine type, versioned
	Agent       string   // absolute path of the agent binary
	AgentDigest string   // its SHA-256 in hex
	BootID      string   // of the host; changes with each boot
	Version     string   // of Warren
	Warnings    []string // for users, e.g. vm.EmulatedWarning
}

// Capacity is the host's free capacity.
type Capacity struct {
	CPUs         int   `json:"cpus"`
	MemTotal     int64 `json:"memTotalBytes"`
	MemAvailable int64 `json:"memAvailableBytes"`
	DiskTotal    int64 `json:"diskTotalBytes"`
	DiskFree     int64 `json:"diskFreeBytes"`
	// Waiting is the percentage of the last seconds in which some program waited for a
	// CPU; 0 where the host does not report it.
	Waiting float64 `json:"waitingPercent"`
	// MemoryStalled is the percentage in which all programs waited for memory.
	MemoryStalled float64 `json:"memoryStalledPercent"`
}

// Clock is the time, replaceable in tests.
type Clock interface {
	Now() time.Time
	// After is like time.NewTimer: the channel receives once, unless stop is
	// called first.
	After(d time.Duration) (c <-chan time.Time, stop func())
}
