// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/internal/qmp"
	"github.com/warren-vm/warren/vm"
)

// inUse is the memory in use in the VMs that are forked and suspended, in MiB.
const inUse = 200

// world makes a VM with about 200 MiB in use, suspended and resumed once so that
// all of it is in its base. Its file /run/fill/base is the part that was added.
func (b *bench) world(ctx context.Context, mib int) (string, error) {
	var out struct{ ID string }
	err := b.server.call(ctx, "POST", "/v1/vms", map[string]any{
		"image": "base", "network": vm.NetClosed, "idleTimeoutSeconds": nil, "memSizeMib": mib,
	}, &out)
	if err != nil {
		return "", err
	}
	err = b.server.exec(ctx, out.ID, "sh", "-c", fillScript())
	if err == nil {
		err = b.reseat(ctx, out.ID)
	}
	if err != nil {
		return "", errors.Join(err, b.server.remove(context.WithoutCancel(ctx), out.ID))
	}
	return out.ID, pause(ctx, 3*time.Second)
}

// fillScript brings a guest's memory use to that amount.
func fillScript() string {
	const fill = `set -e; mkdir -p /run/fill; mount -t tmpfs -o size=100%% fill /run/fill
used=$(awk '/^MemTotal/{t=$2} /^MemAvailable/{a=$2} END{print int((t-a)/1024)}' /proc/meminfo)
[ "$used" -ge %d ] || dd if=/dev/urandom of=/run/fill/base bs=1M count=$((%d-used)) status=none; touch /run/fill/base`
	return fmt.Sprintf(fill, inUse, inUse)
}

// reseat suspends and resumes a VM: afterwards it has no private pages.
func (b *bench) reseat(ctx context.Context, id string) error {
	return errors.Join(
		b.server.call(ctx, "POST", "/v1/vms/"+id+"/suspend", map[string]any{}, nil),
		b.server.call(ctx, "POST", "/v1/vms/"+id+"/start", map[string]any{}, nil),
		b.server.exec(ctx, id, "true"))
}

// forked is what a fork answers.
type forked struct {
	Forks        []struct{ ID string } `json:"forks"`
	GenerationID vm.GenerationID       `json:"generationId"`
	PauseMs      float64               `json:"pauseMs"`
}

func (b *bench) fork(ctx context.Context, id string, n int) (out forked, err error) {
	return out, b.server.call(ctx, "POST", "/v1/vms/"+id+"/fork", map[string]any{"count": n}, &out)
}

// drop deletes the children of a fork.
func (b *bench) drop(ctx context.Context, f forked) error {
	var ids []string
	for _, c := range f.Forks {
		ids = append(ids, c.ID)
	}
	return b.server.removeVMs(context.WithoutCancel(ctx), ids)
}

// pauses forks n times and notes how long the parent was paused. The first fork is
// a warm-up.
func (b *bench) pauses(ctx context.Context, id string, n int, s *series) error {
	for i := range n + 1 {
		f, err := b.fork(ctx, id, 1)
		if err != nil {
			return err
		}
		if i > 0 {
			s.add(f.PauseMs)
		}
		if err := errors.Join(b.drop(ctx, f), pause(ctx, time.Second)); err != nil {
			return err
		}
	}
	return nil
}

// worldPause measures how long a parent is paused.
func (b *bench) worldPause(ctx context.Context) error {
	return errors.Join(b.pauseCheck(ctx), b.pauseMemory(ctx), b.pauseDepth(ctx), b.pauseRAM(ctx))
}

// pauseMemory forks a VM that is idle, and one with private pages at rest.
func (b *bench) pauseMemory(ctx context.Context) (err error) {
	id, err := b.world(ctx, 512)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.server.remove(context.WithoutCancel(ctx), id)) }()
	private := b.rep.series("QEMU's private memory, idle", "MB", bound{})
	idle := b.rep.series("fork: parent's pause, idle", "ms", bound{Max: 20})
	if err := errors.Join(b.pauses(ctx, id, min(b.n, 7), idle), b.anonymous(id, private)); err != nil {
		return err
	}
	for _, c := range []struct {
		mib int
		max float64
	}{{128, 30}, {256, 45}} {
		// The data is written again before more is added: 512 MiB can hold it.
		const write = `set -e; have=$(($(stat -c %%s /run/fill/base)>>20)); [ "$have" -le %d ] || have=%d
dd if=/dev/urandom of=/run/fill/base bs=1M count=$have conv=notrunc status=none
dd if=/dev/urandom of=/run/fill/more bs=1M count=$((%d-have)) status=none`
		if err := b.server.exec(ctx, id, "sh", "-c", fmt.Sprintf(write, c.mib, c.mib, c.mib)); err != nil {
			return err
		}
		what := fmt.Sprintf("%d MiB of private pages at rest", c.mib)
		s := b.rep.series("fork: parent's pause, "+what, "ms", bound{Max: c.max})
		private := b.rep.series("QEMU's private memory, "+what, "MB", bound{})
		if err := errors.Join(pause(ctx, 2*time.Second), b.pauses(ctx, id, min(b.n, 7), s), b.anonymous(id, private)); err != nil {
			return err
		}
	}
	return nil
}

// pauseDepth forks the fork of a fork.
func (b *bench) pauseDepth(ctx context.Context) (err error) {
	id, err := b.world(ctx, 512)
	if err != nil {
		return err
	}
	var first, last *series
	for depth := 1; ; depth++ {
		defer func(id string) { err = errors.Join(err, b.server.remove(context.WithoutCancel(ctx), id)) }(id)
		s := b.rep.series(fmt.Sprintf("fork: parent's pause, children of depth %d", depth), "ms", bound{Max: 20})
		if err := b.pauses(ctx, id, 5, s); err != nil {
			return err
		}
		if last = s; depth == 1 {
			first = s
		}
		if depth == 3 {
			b.rep.ratio("pause, depth 3 / depth 1", last, first, bound{})
			return nil
		}
		f, err := b.fork(ctx, id, 1)
		if err != nil {
			return err
		}
		id = f.Forks[0].ID
		if err := errors.Join(b.server.exec(ctx, id, "true"), pause(ctx, 2*time.Second)); err != nil {
			return err
		}
	}
}

// pauseRAM forks VMs of more and more memory, as much of it in use in each.
func (b *bench) pauseRAM(ctx context.Context) error {
	growth := b.rep.series("fork: parent's pause, growth for each GiB of RAM", "ms", bound{Max: 3})
	var small, big *series
	for _, mib := range []int{512, 2048, 4096} {
		big = b.rep.series(fmt.Sprintf("fork: parent's pause, idle, %d MiB of RAM", mib), "ms", bound{})
		if small == nil {
			small = big
		}
		id, err := b.world(ctx, mib)
		if err != nil {
			return err
		}
		err = b.pauses(ctx, id, 5, big)
		if err := errors.Join(err, b.server.remove(context.WithoutCancel(ctx), id)); err != nil {
			return err
		}
	}
	growth.add(max(0.01, (big.median()-small.median())/3.5)) // from 0.5 to 4 GiB
	return nil
}

// pauseCheck compares the pause that a capture reports with QEMU's own events, on a
// QEMU without Warren's server: its QMP takes one client.
func (b *bench) pauseCheck(ctx context.Context) (err error) {
	id, err := b.server.createVM(ctx, vm.NetClosed) // may build the warm generation
	if err != nil {
		return err
	}
	if err := b.server.remove(ctx, id); err != nil {
		return err
	}
	said := b.rep.series("one capture: its pause as answered", "ms", bound{})
	seen := b.rep.series("one capture: its pause by QEMU's STOP and RESUME", "ms", bound{})
	gen, dir, err := b.generation()
	if err != nil {
		return err
	}
	p, end, err := b.plain(ctx, gen, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	events := p.QMP.Subscribe()
	defer events.Close()
	disk := p.Spec.Disk
	for range 5 {
		next := layout.VMDir(p.Spec.Dir).NextOverlay(vm.NewGenerationID())
		if err := qemu.CreateOverlay(next, filepath.Base(disk), gen.Size.DiskMiB); err != nil {
			return err
		}
		to := layout.GenerationDir(p.Spec.Dir)
		out, err := p.Capture(ctx, vm.CaptureSpec{RAM: to.RAM(), Device: to.Device(), Overlay: next}, nil)
		if err != nil {
			return err
		}
		disk = next
		stood, err := standstill(ctx, events)
		if err != nil {
			return err
		}
		seen.took(stood)
		said.took(out.Pause)
		if err := errors.Join(removeFile(to.RAM()), removeFile(to.Device()), pause(ctx, time.Second)); err != nil {
			return err
		}
	}
	return nil
}

// standstill is the time between QEMU's next STOP and RESUME.
func standstill(ctx context.Context, events *qmp.Events) (time.Duration, error) {
	var stop time.Time
	for {
		e, err := events.Next(ctx)
		if err != nil {
			return 0, err
		}
		switch {
		case e.Name == "STOP":
			stop = e.Time
		case e.Name == "RESUME" && !stop.IsZero():
			return e.Time.Sub(stop), nil
		}
	}
}

// worldFork measures forks of one and many children, and the resources that these
// take.
func (b *bench) worldFork(ctx context.Context) (err error) {
	id, err := b.world(ctx, 512)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.server.remove(context.WithoutCancel(ctx), id)) }()
	answer := b.rep.series("fork -> the child's first answer", "ms", bound{Max: 160})
	first := b.rep.series("fork -> first exec result", "ms", bound{Max: 250})
	alone := b.floor("fork")
	for i := range b.n + 1 {
		began := time.Now()
		f, err := b.fork(ctx, id, 1)
		if err != nil {
			return err
		}
		answered := time.Since(began)
		err = b.server.exec(ctx, f.Forks[0].ID, "true")
		if took := time.Since(began); err == nil && i > 0 { // the first one is warm-up
			answer.took(answered)
			first.took(took)
			err = b.aloneOn(ctx, id, f.GenerationID, alone)
		}
		if err := errors.Join(err, b.drop(ctx, f), pause(ctx, time.Second)); err != nil {
			return err
		}
	}
	alone.beside("fork", answer, first)
	for _, c := range []struct {
		n, repeat int
		max       float64
		then      func(context.Context, forked) error
	}{{8, 5, 800, b.childMemory}, {32, 3, 2500, b.childCPU}, {64, 3, 8000, nil}} {
		if c.n > 32 && !b.soak {
			continue
		}
		if err := b.forkMany(ctx, id, c.n, c.repeat, c.max, c.then); err != nil {
			return err
		}
	}
	return nil
}

// aloneOn measures QEMU alone on a generation of a VM, once its files are
// written through.
func (b *bench) aloneOn(ctx context.Context, id string, of vm.GenerationID, to *floor) error {
	if err := b.server.durable(ctx, id, of); err != nil {
		return err
	}
	dir := layout.GenerationDir(b.server.dir.Generation(of))
	var gen vm.Manifest
	if err := layout.ReadJSON(dir.Manifest(), &gen); err != nil {
		return err
	}
	return b.rawRestore(ctx, gen, dir, to)
}

// forkMany measures forks of n children, then uses those of the last one.
func (b *bench) forkMany(ctx context.Context, id string, n, repeat int, most float64, then func(context.Context, forked) error) error {
	all := b.rep.series(fmt.Sprintf("fork -n %d -> all answer", n), "ms", bound{Max: most})
	for i := range repeat {
		began := time.Now()
		f, err := b.fork(ctx, id, n)
		if err != nil {
			return err
		}
		all.took(time.Since(began))
		if i == repeat-1 && then != nil {
			err = then(ctx, f)
		}
		if err := errors.Join(err, b.drop(ctx, f), pause(ctx, 3*time.Second)); err != nil {
			return err
		}
	}
	return nil
}

// childMemory notes the memory and disk that idle children take.
func (b *bench) childMemory(ctx context.Context, f forked) error {
	if err := pause(ctx, 10*time.Second); err != nil {
		return err
	}
	monitor := b.rep.series("idle child, one of 8: its monitor, resident", "MB", bound{})
	pss := b.rep.series("idle child, one of 8: QEMU's PSS", "MB", bound{Max: 32})
	private := b.rep.series("idle child, one of 8: QEMU's memory of its own", "MB", bound{})
	disk := b.rep.series("idle child, one of 8: disk beyond the shared base", "MB", bound{Max: 8 * 1.048576})
	base, err := diskUse(b.server.dir.Generation(f.GenerationID))
	if err != nil {
		return err
	}
	b.rep.series("the base that the children share, disk", "MB", bound{}).add(base)
	for _, c := range f.Forks {
		if err := b.machineMemory(c.ID, monitor, pss); err != nil {
			return err
		}
		if err := b.anonymous(c.ID, private); err != nil {
			return err
		}
		own, err := diskUse(b.server.dir.VM(vm.ID(c.ID)))
		if err != nil {
			return err
		}
		disk.add(own)
	}
	return nil
}

// diskUse sums up what the files below a directory take of the disk, in MB.
func diskUse(dir string) (float64, error) {
	sum := 0.0
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			sum += float64(st.Blocks) * 512 / 1e6
		}
		return nil
	})
	return sum, err
}

// childCPU notes the share of the host's processors that idle children take.
func (b *bench) childCPU(ctx context.Context, f forked) error {
	if err := pause(ctx, 10*time.Second); err != nil {
		return err
	}
	use := b.rep.series(fmt.Sprintf("%d idle children: share of all CPUs", len(f.Forks)), "%", bound{Max: 15})
	var ids []string
	for _, c := range f.Forks {
		ids = append(ids, c.ID)
	}
	return b.idleUse(ctx, ids, use, &series{})
}
