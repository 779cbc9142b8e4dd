// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package warm

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/guest"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/internal/monitor"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/vm"
)

const (
	bootDeadline = 180 * time.Second
	execDeadline = 60 * time.Second
	hookPatience = "480"                  // seconds that hook gets
	hookDeadline = 9 * time.Minute        // and until it must have ended
	quietFor     = 500 * time.Millisecond // how long QEMU must be idle before the capture
	quietWait    = 10 * time.Second       // and how long to wait for that at most
)

// warming are the commands that run before the capture, so that their files are in
// the guest's page cache. A command that the image lacks is skipped.
var warming = [][]string{
	{"true"},
	{"sh", "-c", "true"},
	{"bash", "-c", "true"},
	{"python3", "-c", "1"},
	{"git", "--version"},
	{"node", "-e", "1"},
	{"ls", "-la", "/"},
	{"cat", "/etc/hostname"},
}

// hook is a program of an image that returns when the services of that image have done
// what every VM would have to do otherwise, such as to draw the window of a browser. Its
// failure is no failure of the build: a VM does the rest.
const hook = "/usr/local/lib/warren/warm"

// Build boots the image once, grows its root file system to the size, warms it, and
// captures it as a generation in Dir.Warm(image, key), which appears whole or not
// at all. An existing one is returned. On an error nothing is left. Kinds: those of
// a launch, GuestFault, NoSpace.
func Build(ctx context.Context, o Options) (g vm.Manifest, err error) {
	root := o.Dir.WarmRoot(o.Image.ID)
	if err := os.MkdirAll(root, 0o700); err != nil {
		return g, vm.Errorf(vm.Internal, root, "%w", err)
	}
	key := Key(o)
	lock, err := layout.WaitLock(ctx, filepath.Join(root, ".lock-"+key))
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	if g, err := Find(o); err == nil || !errors.Is(err, vm.NotFound) {
		return g, err // another process was faster
	}
	tmp, err := layout.Temp(root) // as deep as the final directory: the disk's backing name is relative
	if err != nil {
		return g, err
	}
	defer os.RemoveAll(tmp) // fails after a success: the rename has moved it
	work, err := layout.Temp(root)
	if err != nil {
		return g, err
	}
	defer os.RemoveAll(work)
	run, err := o.Dir.Run()
	if err != nil {
		return g, err
	}
	spec := o.Boots(vm.NewID())
	spec.Dir, spec.RunDir = work, run.VM(spec.ID)
	spec.Disk = layout.GenerationDir(tmp).Disk()
	if err := qemu.CreateOverlay(spec.Disk, "../../"+filepath.Base(o.Dir.ImageDisk(o.Image.ID)), o.Size.DiskMiB); err != nil {
		return g, err
	}
	hello, err := o.record(ctx, spec, tmp)
	if err != nil {
		return g, o.keepConsole(work, err)
	}
	o.progress("check")
	if g, err = o.manifest(ctx, spec, key, tmp, hello); err != nil {
		return g, err
	}
	final := o.Dir.Warm(o.Image.ID, key)
	if err := os.RemoveAll(final); err != nil { // incomplete, or made for something else: Find refused it
		return g, vm.Errorf(vm.Internal, final, "%w", err)
	}
	return g, layout.Publish(tmp, final)
}

// keepConsole saves the guest's console before its directory is removed, and names
// the copy in the error.
func (o Options) keepConsole(work string, cause error) error {
	data, err := os.ReadFile(layout.VMDir(work).ConsoleLog())
	if err != nil || len(data) == 0 {
		return cause
	}
	path := filepath.Join(o.Dir.Cache(), "warm-console.log")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return cause // the first error matters more
	}
	return vm.AsError(cause).WithHint("what the guest said is in %s", path)
}

func newKey() []byte {
	key := make([]byte, link.KeySize)
	_, _ = rand.Read(key) // never fails
	return key
}

// firstReset is the identity of the captured guest; each VM gets its own.
func firstReset() vm.Reset {
	id := make([]byte, 16)
	_, _ = rand.Read(id) // never fails
	return vm.Reset{Hostname: "warren", MachineID: hex.EncodeToString(id), BootID: vm.NewUUID(), LinkKey: newKey()}
}

// record runs the machine and captures it into dir. The machine is gone when
// it returns.
func (o Options) record(ctx context.Context, spec vm.MachineSpec, dir string) (vm.AgentHello, error) {
	o.progress("boot")
	c, st, err := o.Launcher.Launch(ctx, spec)
	if err != nil {
		return vm.AgentHello{}, err
	}
	defer c.Close()
	err = o.prepare(ctx, c, st)
	if err == nil {
		o.progress("capture")
		gen := layout.GenerationDir(dir)
		_, err = c.Capture(ctx, vm.CaptureSpec{RAM: gen.RAM(), Device: gen.Device(), Freeze: true, Quit: true})
	}
	return st.Agent, errors.Join(err, o.Launcher.Sweep(context.WithoutCancel(ctx), spec.RunDir))
}

// prepare grows the file system, warms the guest and waits until it is idle.
func (o Options) prepare(ctx context.Context, c *monitor.Client, st vm.MachineStatus) error {
	g := c.Guest()
	began, err := look(ctx, g)
	if err != nil {
		return err
	}
	o.progress("grow")
	if err := g.Grow(ctx, vm.Size{DiskMiB: o.Size.DiskMiB}); err != nil {
		return vm.Errorf(vm.GuestFault, string(o.Image.ID), "the root file system could not be grown: %w", err)
	}
	o.progress("warm")
	for _, argv := range warming {
		if _, _, err := runIn(ctx, g, argv...); err != nil {
			return err
		}
	}
	if _, err := g.Stat(ctx, "", hook); err == nil {
		o.progress("services")
		if _, _, err := runWithin(ctx, hookDeadline, g, "timeout", hookPatience, hook); err != nil {
			return err
		}
	}
	if err := exerciseFiles(ctx, g); err != nil {
		return err
	}
	if err := g.Sync(ctx); err != nil {
		return vm.Errorf(vm.GuestFault, string(o.Image.ID), "the guest could not write its disk: %w", err)
	}
	ended, err := look(ctx, g)
	if err != nil {
		return err
	}
	if err := ended.since(began); err != nil {
		return err
	}
	if err := forget(ctx, g); err != nil {
		return err
	}
	g.Close()
	return awaitIdle(ctx, c)
}

// clock is a guest's uptime, read between two times of the host.
type clock struct {
	up            time.Duration
	before, after time.Time
}

func look(ctx context.Context, g *guest.Client) (c clock, err error) {
	c.before = time.Now()
	out, err := readAll(ctx, g, "/proc/uptime")
	c.after = time.Now()
	if err != nil {
		return c, err
	}
	up, _, _ := strings.Cut(out, " ")
	c.up, err = time.ParseDuration(up + "s")
	if err != nil {
		return c, vm.Errorf(vm.GuestFault, "/proc/uptime", "%w", err)
	}
	return c, nil
}

// readAll reads a small file of the guest.
func readAll(ctx context.Context, g *guest.Client, path string) (string, error) {
	_, r, err := g.Open(ctx, "", path)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.LimitReader(r, 4<<10))
	return string(b), errors.Join(err, r.Close())
}

// errClock is the error for a guest whose clock runs wrong.
var errClock = errors.New("the guest's clock runs wrong")

// maxClockError is the share by which a guest's clock may be wrong.
const maxClockError = 0.02

// since refuses a guest whose clock runs wrong. A kernel that boots while the host
// is busy may measure its processor's clock several times too slow, and every VM
// would inherit that. Seen once, at a load of 14 on two cores: 54 s ahead after 15.
func (c clock) since(began clock) error {
	const step = 20 * time.Millisecond // of two readings of /proc/uptime
	ran := c.up - began.up
	least := c.before.Sub(began.after) - step
	most := c.after.Sub(began.before) + step
	if float64(ran) > float64(most)*(1+maxClockError) || float64(ran) < float64(least)*(1-maxClockError) {
		return vm.Errorf(vm.GuestFault, "clock", "%w: it ran for %v within %v to %v of the host's", errClock, ran, least, most).
			WithHint("try again while the host is less busy")
	}
	return nil
}

// forget removes the warming commands from the agent's list of processes, with
// which every VM would begin.
func forget(ctx context.Context, g *guest.Client) error {
	list, err := g.Processes(ctx)
	if err != nil {
		return err
	}
	for _, p := range list {
		if err := g.Forget(ctx, p.ID); err != nil {
			return err
		}
	}
	return nil
}

// runIn runs one command to its end. Its own failure is no error.
func runIn(ctx context.Context, g *guest.Client, argv ...string) (out string, code int, err error) {
	return runWithin(ctx, execDeadline, g, argv...)
}

// runWithin is runIn with another deadline.
func runWithin(ctx context.Context, within time.Duration, g *guest.Client, argv ...string) (out string, code int, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	e, err := g.Exec(ctx, vm.ExecSpec{Argv: argv})
	if err != nil {
		return "", 0, err
	}
	var buf bytes.Buffer
	st, err := e.Run(&buf, &buf)
	return buf.String(), st.Code, err
}

// exerciseFiles runs the agent's file code once in both directions.
func exerciseFiles(ctx context.Context, g *guest.Client) error {
	const path = "/tmp/.warren-warm"
	ctx, cancel := context.WithTimeout(ctx, execDeadline)
	defer cancel()
	data := bytes.Repeat([]byte("warren\n"), 10_000)
	if _, err := g.WriteFile(ctx, "", path, vm.WriteOptions{Size: int64(len(data))}, bytes.NewReader(data)); err != nil {
		return err
	}
	_, r, err := g.Open(ctx, "", path)
	if err != nil {
		return err
	}
	got, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		return err
	}
	if !bytes.Equal(got, data) {
		return vm.Errorf(vm.GuestFault, path, "a file read back from the guest differs from what was written")
	}
	if _, err := g.Stats(ctx); err != nil {
		return err
	}
	return g.Remove(ctx, "", path, false)
}

// awaitIdle waits until the machine is nearly idle: a program that runs at the
// capture runs in every VM after its start.
func awaitIdle(ctx context.Context, c *monitor.Client) error {
	tick := time.NewTicker(quietFor)
	defer tick.Stop()
	deadline := time.Now().Add(quietWait)
	last := time.Duration(-1)
	for {
		st, err := c.Status(ctx)
		if err != nil {
			return err
		}
		if last >= 0 && st.CPU-last < quietFor/5 || time.Now().After(deadline) {
			return nil
		}
		last = st.CPU
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// manifest writes the generation's manifest into dir.
func (o Options) manifest(ctx context.Context, spec vm.MachineSpec, key, dir string, hello vm.AgentHello) (vm.Manifest, error) {
	gen := layout.GenerationDir(dir)
	g := vm.Manifest{
		Format: 1, ID: vm.NewGenerationID(), Image: o.Image.ID, Key: key, CreatedAt: time.Now().UTC().Truncate(time.Second),
		Size: o.Size, Accel: o.Accel, CPU: o.CPU, Machine: o.Machine, QEMU: o.QEMUVersion, Cmdline: o.Boot.Cmdline,
		Devices: qemu.Devices(spec), Agent: hello, GuestKey: spec.Reset.LinkKey,
	}
	for _, f := range []struct {
		path string
		to   *vm.File
	}{{gen.Disk(), &g.Disk}, {gen.RAM(), &g.RAM}, {gen.Device(), &g.Device}} {
		sum, err := qemu.Sum(ctx, f.path)
		if err != nil {
			return g, err
		}
		*f.to = sum
		n, err := qemu.DataBytes(f.path)
		if err != nil {
			return g, err
		}
		g.DataBytes += n
	}
	return g, layout.WriteJSON(gen.Manifest(), g, 0o600)
}
