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
// monitor.Launcher is behind it.
type Machines interface {
	// Launch starts a machine and returns when it is ready: agent answered,
	// every reset acknowledged, network connected. On an error nothing that it
	// started is left.
	Launch(ctx context.Context, spec vm.MachineSpec) (Machine, vm.MachineStatus, error)
	// Attach finds the machine of a run directory; kind NotFound when it is gone.
	Attach(ctx context.Context, runDir string) (Machine, vm.MachineStatus, error)
	// Sweep ends what is left of a machine and removes its run directory. A
	// directory that does not exist is no error.
	Sweep(ctx context.Context, runDir string) error
	// Strays names the VMs that a machine's process runs for, other hosts' too: to
	// ask once is cheaper than to sweep a thousand VMs that have none.
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
	// Guest returns the guest's verbs; the same value each time.
	Guest() Guest
	// Resize changes the machine's size while it runs. It says of each part that
	// differs (vm.PartCPU, ...) vm.Live, or why only a start can change it.
	Resize(ctx context.Context, want vm.Size) (map[string]string, error)
	// Close lets go of the machine, which goes on.
	Close()
}

// Power ends a machine or waits for its end.
type Power interface {
	// Stop asks the guest to power off and kills the machine after the grace.
	// It returns when the machine is gone.
	Stop(ctx context.Context, grace time.Duration) error
	// Kill ends the machine at once and returns when it is gone.
	Kill(ctx context.Context) error
	// Wait blocks until the machine is gone and says how it ended.
	Wait(ctx context.Context) (vm.MachineExit, error)
}

// Capturer writes a machine down.
type Capturer interface {
	// Capture writes memory, device state and disk down. The machine goes on in
	// every case but after a success with Hold or Quit. Kind Unavailable when the
	// machine's monitor was lost: what was done is not known then.
	Capture(ctx context.Context, s vm.CaptureSpec) (vm.Captured, error)
	// Resume lets a machine go on that a capture has held.
	Resume(ctx context.Context) error
	// Reseat moves a machine that a capture has held to a new process, started on
	// what was captured, and lets it go on. After an error it stands still as
	// before, or is gone.
	Reseat(ctx context.Context, g vm.GenerationSource) error
	// Flatten shortens the chain of layers below the machine's disk to those that
	// are beneath base, beside the running guest; it ends with ctx. In part, it
	// merges the upper layers alone and copies little.
	Flatten(ctx context.Context, base string, part bool) error
	// Disk returns the file that the machine writes to now, when no capture is
	// under way.
	Disk(ctx context.Context) (string, error)
}

// VolumePlug puts the disks of volumes into a running machine and takes them
// out.
type VolumePlug interface {
	// PlugVolume gives the machine a volume's disk. Kinds: Busy when something else
	// has the disk open, Corrupt, Exists, Limit.
	PlugVolume(ctx context.Context, v vm.PluggedVolume, key vm.VolumeKey) error
	// UnplugVolume takes one out; one that is not there is no error. Kind
	// GuestFault when the guest does not give it up.
	UnplugVolume(ctx context.Context, id vm.VolumeID) error
	// SnapshotVolume keeps what is on a volume's disk at an instant, beside the
	// running guest; DropVolumeSnapshot lets it go.
	SnapshotVolume(ctx context.Context, id vm.VolumeID, snapshot string) error
	DropVolumeSnapshot(ctx context.Context, id vm.VolumeID, snapshot string) error
}

// FolderMount gives a running machine's guest directories of the host.
type FolderMount interface {
	// MountFolder serves a directory, from now on and also to a guest whose agent
	// was away meanwhile. Kind WrongState when it is not the one that was checked.
	MountFolder(ctx context.Context, f vm.Folder) error
	// UnmountFolder takes one away; one that is not there is no error. Kind Busy,
	// naming them, while programs use it, unless force: then they are killed.
	UnmountFolder(ctx context.Context, path string, force bool) error
}

// Folders judges directories of the host.
type Folders interface {
	// Check says which directory is at a path, and whether what is in it is
	// encrypted at rest, and why so. Kinds: Denied, Invalid, NotFound.
	Check(path string) (id vm.FolderID, sealed bool, why string, err error)
}

// Pooled is a machine that is started before anybody asks for it.
type Pooled interface {
	// Pause makes the machine stand still. Pausing it again succeeds, and says
	// that it still answers.
	Pause(ctx context.Context) error
	// Adopt lets a paused machine go on as another VM, with every reset
	// acknowledged. After an error it is of no use and must be swept.
	Adopt(ctx context.Context, a vm.Adoption) (vm.MachineStatus, error)
}

// Network is a machine's side of its user network.
type Network interface {
	SetNetwork(ctx context.Context, p vm.NetworkPolicy) error
	Ports
}

// Ports connects to the guest's ports and lists its connections to the outside.
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
	Hello(ctx context.Context) (vm.AgentHello, error)
	Stats(ctx context.Context) (vm.Stats, error)
	// State is what lives in the guest, as far as the guest itself can say.
	State(ctx context.Context) (vm.GuestState, error)
	// Evidence is what the guest shows of its load; with all, of its trouble too.
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
	// Log returns bytes from an absolute offset; the second result is the
	// offset of the first byte, later than asked for when that was dropped.
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

// Terminal is one attachment to a terminal. Its owner calls Run, once, or
// Detach; neither ends the terminal.
type Terminal interface {
	Session() vm.TerminalSession
	Write(p []byte) (int, error) // input
	Resize(cols, rows int) error
	Signal(name string) error // to the root process
	Detach() error
	// Run copies output until the program has ended. replay comes before output
	// that repeats or draws what was there. Kind GuestFault when the link broke
	// before an exit status came.
	Run(replay func(vm.TerminalReplay) error, out io.Writer) (vm.ExitStatus, error)
}

// GuestVolumes mounts the disks of volumes.
type GuestVolumes interface {
	// Disk waits until the guest has found a disk, and says what the guest calls
	// it and what it holds: vm.DiskEmpty, ...
	Disk(ctx context.Context, id vm.VolumeID) (device, holds string, err error)
	Mount(ctx context.Context, u vm.VolumeUse) error
	// Unmount takes a mount away; one that is not there is no error. Kind Busy,
	// naming them, while programs use it, unless force: then they are killed.
	Unmount(ctx context.Context, path string, force bool) error
	// Scrub writes zeros over nearly all free memory of the guest.
	Scrub(ctx context.Context) error
}

// GuestFiles moves content. user is a Linux user of the guest, "" = root.
type GuestFiles interface {
	Open(ctx context.Context, user, path string) (vm.FileInfo, io.ReadCloser, error)
	WriteFile(ctx context.Context, user, path string, o vm.WriteOptions, r io.Reader) (vm.FileInfo, error)
	TarDown(ctx context.Context, user, path string) (io.ReadCloser, error)
	TarUp(ctx context.Context, user, path string, r io.Reader) error
	Watch(ctx context.Context, user, path string, recursive bool) (Watch, error)
}

// GuestTree looks at and changes the tree of names.
type GuestTree interface {
	Stat(ctx context.Context, user, path string) (vm.FileInfo, error)
	ReadDir(ctx context.Context, user, path string) ([]vm.FileInfo, error)
	Mkdir(ctx context.Context, user, path string, mode uint32, parents bool) error
	Rename(ctx context.Context, user, from, to string) error
	Remove(ctx context.Context, user, path string, recursive bool) error
	Chmod(ctx context.Context, user, path string, mode uint32) error
	Symlink(ctx context.Context, user, target, path string) error
}

// GuestSockets makes connections inside the guest.
type GuestSockets interface {
	LinuxUser(ctx context.Context, name string) (vm.LinuxUser, error)
	// DialSocket's connection may have a CloseWrite. ctx bounds the connecting.
	DialSocket(ctx context.Context, s vm.SocketSpec) (net.Conn, error)
	// ListenSocket listens until the listener is closed or ctx ends.
	ListenSocket(ctx context.Context, s vm.SocketSpec) (SocketListener, error)
}

// SocketListener accepts connections inside a guest.
type SocketListener interface {
	Address() string // IP:PORT or a path
	// Accept returns a connection and the address that it comes from.
	Accept() (net.Conn, string, error)
	Close() error
}

// GuestHandles reads and writes pieces of files, as file transfer protocols do.
type GuestHandles interface {
	OpenHandle(ctx context.Context, user, path string, o vm.OpenOptions) (File, error)
	StatFollow(ctx context.Context, user, path string) (vm.FileInfo, error)
	SetAttr(ctx context.Context, user, path string, a vm.FileAttr) error
	Link(ctx context.Context, user, target, path string) error
}

// File is an open file of a guest. Its methods may be called at once.
type File interface {
	io.ReaderAt
	io.WriterAt // of a file opened to append it writes at the end
	io.Closer
}

// Exec is one attached command. Its owner calls Run, once, or Detach. When
// the context of the call that made it ends, the process goes on in the
// background with a log.
type Exec interface {
	Process() vm.Process
	Write(p []byte) (int, error) // standard input
	CloseStdin() error
	Signal(name string) error
	Detach() error
	// Run copies output until the command has ended. Kind GuestFault when the
	// link broke before an exit status came.
	Run(stdout, stderr io.Writer) (vm.ExitStatus, error)
}

// Watch delivers changes below a path until it is closed or its context ends.
type Watch interface {
	Next() (vm.FileEvent, error)
	Close() error
}

// Images knows what a VM can start on.
type Images interface {
	// Find resolves a name, an image id or a snapshot id; "" is the default
	// image. Kind NotFound when there is none. It is fast: the answer is cached.
	Find(ctx context.Context, ref string) (vm.Image, error)
	List(ctx context.Context) ([]vm.Image, error)
	// Warm returns the image's warm generation of a size, building it first
	// where it is missing. Its files lie in layout.Dir.Warm(img.ID, Key).
	Warm(ctx context.Context, img vm.Image, size vm.Size) (vm.Manifest, error)
	// Boot returns the files and command line of a cold boot of the image.
	Boot(ctx context.Context, img vm.Image) (vm.BootSource, error)
	// Overlay makes an empty qcow2 at path above backing, a path relative to
	// path's directory. It runs no program.
	Overlay(path, backing string, sizeMiB int) error
}

// Generations keeps the files of generations; generation.Store is behind it.
type Generations interface {
	// Begin makes a generation of the VM's disk as it is, and the VM's next disk
	// above it.
	Begin(id vm.GenerationID, of vm.ID, sizeMiB int) error
	// Advance makes the next disk the VM's disk. It may be called again.
	Advance(id vm.GenerationID, of vm.ID) error
	// Abandon takes Begin back, for a machine that has not moved to its next disk.
	Abandon(id vm.GenerationID, of vm.ID) error
	// Pending lists the generations with a next disk that is neither.
	Pending(of vm.ID) ([]vm.GenerationID, error)
	// Disk gives a VM a fresh disk above a generation's.
	Disk(id vm.GenerationID, of vm.ID, sizeMiB int) error
	// GrowDisk makes the disk of a VM without a machine at least so large.
	GrowDisk(of vm.ID, sizeMiB int) error
	// DiskOn returns what a VM's disk lies on; "" = an image.
	DiskOn(of vm.ID) (vm.GenerationID, error)
	// Below is DiskOn for the disk of a generation.
	Below(id vm.GenerationID) (vm.GenerationID, error)
	// Captured returns what a completed capture left word of; else NotFound.
	Captured(id vm.GenerationID) (vm.Captured, error)
	// Publish makes a generation complete and durable; it reads all its data.
	Publish(ctx context.Context, g vm.Manifest) (vm.Manifest, error)
	Load(id vm.GenerationID) (vm.Manifest, error)
	// Rewrite replaces a manifest, durably.
	Rewrite(g vm.Manifest) error
	Source(id vm.GenerationID) vm.GenerationSource
	// Alias makes a second generation of the same files, with the memory where the
	// manifest names its file.
	Alias(from vm.GenerationID, g vm.Manifest) error
	Present(id vm.GenerationID) (disk, memory bool)
	DropMemory(id vm.GenerationID) error
	Remove(id vm.GenerationID) error
	List() ([]vm.GenerationID, error)
	// SealKey makes a key, wrapped by the host's.
	SealKey() ([]byte, error)
	// Seal compresses and encrypts a generation's memory and says what it takes
	// of the disk then; Open takes it back for a start, and Settle for good. They
	// may be called again after a crash. Kinds of Open: Corrupt, NoSpace.
	Seal(ctx context.Context, id vm.GenerationID, wrapped []byte) (bytes int64, err error)
	Open(ctx context.Context, id vm.GenerationID, wrapped []byte) error
	Settle(ctx context.Context, id vm.GenerationID) (bytes int64, err error)
}

// Host says what this host offers.
type Host interface {
	// Platform may probe at its first call and is fast afterwards.
	Platform(ctx context.Context) (Platform, error)
	// Capacity is read afresh at each call; cheap.
	Capacity(ctx context.Context) (Capacity, error)
}

// Disk reads what the files of the data directory take; storage.Measurer is
// behind it. It looks at every file.
type Disk interface {
	Measure(ctx context.Context) ([]storage.File, error)
}

// Platform is what every machine of this host is started with.
type Platform struct {
	QEMU        string // absolute path of the binary
	QEMUVersion string
	Accel       vm.Accel
	CPU         string   // CPU model
	Machine     string   // machine type, versioned
	Agent       string   // absolute path of the agent binary
	AgentDigest string   // hex SHA-256 of it
	BootID      string   // of the host, changes with each boot of it
	Version     string   // of Warren
	Warnings    []string // for people, e.g. vm.EmulatedWarning
}

// Capacity is what is free on the host now.
type Capacity struct {
	CPUs         int   `json:"cpus"`
	MemTotal     int64 `json:"memTotalBytes"`
	MemAvailable int64 `json:"memAvailableBytes"`
	DiskTotal    int64 `json:"diskTotalBytes"`
	DiskFree     int64 `json:"diskFreeBytes"`
	// Waiting is in how much of the last seconds some program waited for a CPU,
	// in percent; 0 where the host doesn't say.
	Waiting float64 `json:"waitingPercent"`
	// MemoryStalled is the same for memory, and for every program at once.
	MemoryStalled float64 `json:"memoryStalledPercent"`
}

// Clock is the time, replaceable in tests.
type Clock interface {
	Now() time.Time
	// After is like time.NewTimer: the channel receives once, unless stop is
	// called first.
	After(d time.Duration) (c <-chan time.Time, stop func())
}
