// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/vm"
)

// worldPeers measures other ways to save or copy a running guest, alternately with
// Warren's, and the ratios. A peer that does not work is left out, with a note.
func (b *bench) worldPeers(ctx context.Context) (err error) {
	id, err := b.world(ctx, 512)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.server.remove(context.WithoutCancel(ctx), id)) }()
	gen, dir, err := b.startedOn(ctx, id)
	if err != nil {
		return err
	}
	boot, err := b.bootSource(ctx, gen)
	if err != nil {
		return err
	}
	stop, peers := b.startPeers(ctx, gen, dir, boot)
	defer func() { err = errors.Join(err, stop()) }()
	for i := range 5 {
		if err := b.ownBeside(ctx, id); err != nil {
			return err
		}
		for name, round := range peers {
			if round == nil || name == "copy" && i%2 == 1 { // it takes long
				continue
			}
			bounded, cancel := context.WithTimeout(ctx, time.Minute)
			err := round(bounded)
			cancel()
			if err != nil {
				b.rep.note("peer %s failed in round %d: %v", name, i, err)
				peers[name] = nil
			}
		}
	}
	b.peerRatios()
	return nil
}

// startPeers starts what the peers need. Each of the functions is one round.
func (b *bench) startPeers(ctx context.Context, gen vm.Manifest, dir layout.GenerationDir, boot vm.BootSource) (stop func() error, rounds map[string]func(context.Context) error) {
	rounds = make(map[string]func(context.Context) error)
	var ends []func() error
	stop = func() error {
		var errs []error
		for _, end := range ends {
			errs = append(errs, end())
		}
		return errors.Join(errs...)
	}
	if p, end, err := b.plain(ctx, gen, dir); err != nil {
		b.rep.note("no figures of QMP savevm and loadvm: %v", err)
	} else {
		ends = append(ends, end)
		rounds["savevm"] = func(ctx context.Context) error { return b.savevm(ctx, p) }
	}
	if l, end, err := b.startDomain(ctx, gen, boot); err != nil {
		b.rep.note("no figures of virsh save and restore: %v", err)
	} else {
		ends = append(ends, end)
		rounds["virsh"] = func(ctx context.Context) error { return b.virsh(ctx, l) }
	}
	rounds["copy"] = func(ctx context.Context) error { return b.copyAndBoot(ctx, gen, boot) }
	return stop, rounds
}

// ownBeside measures Warren's own ways again, alternately with the peers.
func (b *bench) ownBeside(ctx context.Context, id string) error {
	stood := b.rep.series("beside peers: fork, parent's pause", "ms", bound{})
	first := b.rep.series("beside peers: fork -> first exec result", "ms", bound{})
	suspend := b.rep.series("beside peers: suspend, durable", "ms", bound{})
	resume := b.rep.series("beside peers: resume -> first exec result", "ms", bound{})
	began := time.Now()
	f, err := b.fork(ctx, id, 1)
	if err != nil {
		return err
	}
	err = b.server.exec(ctx, f.Forks[0].ID, "true")
	first.took(time.Since(began))
	stood.add(f.PauseMs)
	if err := errors.Join(err, b.drop(ctx, f), pause(ctx, time.Second)); err != nil {
		return err
	}
	began = time.Now()
	if err := b.server.call(ctx, "POST", "/v1/vms/"+id+"/suspend", map[string]any{}, nil); err != nil {
		return err
	}
	suspend.took(time.Since(began))
	began = time.Now()
	if err := b.server.call(ctx, "POST", "/v1/vms/"+id+"/start", map[string]any{}, nil); err != nil {
		return err
	}
	if err := b.server.exec(ctx, id, "true"); err != nil {
		return err
	}
	resume.took(time.Since(began))
	return pause(ctx, time.Second)
}

func (b *bench) peerRatios() {
	for _, r := range [][2]string{
		{"QMP savevm, guest is paused", "fork, parent's pause"},
		{"QMP savevm, guest is paused", "suspend, durable"},
		{"QMP loadvm", "resume -> first exec result"},
		{"virsh save", "fork, parent's pause"},
		{"virsh save", "suspend, durable"},
		{"virsh restore", "resume -> first exec result"},
		{"virsh save + restore", "fork -> first exec result"},
		{"copy of the disk + cold boot -> first exec result", "fork -> first exec result"},
	} {
		x, y := b.rep.find("peer: "+r[0]), b.rep.find("beside peers: "+r[1])
		if x != nil && y != nil && len(x.Samples) > 0 {
			b.rep.ratio(r[0]+" / "+r[1], x, y, bound{})
		}
	}
}

// startedOn finds the generation that a VM was started on.
func (b *bench) startedOn(ctx context.Context, id string) (gen vm.Manifest, dir layout.GenerationDir, err error) {
	var out struct {
		GenerationID vm.GenerationID `json:"generationId"`
	}
	if err := b.server.call(ctx, "GET", "/v1/vms/"+id, nil, &out); err != nil {
		return gen, dir, err
	}
	if out.GenerationID == "" {
		return gen, dir, fmt.Errorf("VM %s has no generation", id)
	}
	dir = layout.GenerationDir(b.server.dir.Generation(out.GenerationID))
	return gen, dir, layout.ReadJSON(dir.Manifest(), &gen)
}

// plain runs a QEMU on a generation, without Warren's server, until end is called.
func (b *bench) plain(ctx context.Context, gen vm.Manifest, dir layout.GenerationDir) (_ *qemu.Process, _ func() error, err error) {
	spec, err := b.rawSpec(gen, dir, "rawplain000000000000")
	if err != nil {
		return nil, nil, err
	}
	var p *qemu.Process
	end := func() error {
		var err error
		if p != nil {
			err = p.Ident.End(context.WithoutCancel(ctx))
		}
		return errors.Join(err, os.RemoveAll(spec.Dir), os.RemoveAll(spec.RunDir))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, end())
		}
	}()
	backing, err := filepath.Rel(spec.Dir, dir.Disk())
	if err != nil {
		return nil, nil, err
	}
	if err := qemu.CreateOverlay(spec.Disk, backing, gen.Size.DiskMiB); err != nil {
		return nil, nil, err
	}
	if p, err = qemu.Spawn(ctx, spec); err != nil {
		return nil, nil, err
	}
	if err := errors.Join(p.AwaitRunning(ctx), pause(ctx, 2*time.Second)); err != nil {
		return nil, nil, err
	}
	return p, end, nil
}

// savevm measures QEMU's own snapshots, in the qcow2 of the same guest with the
// same memory. The guest is paused all the time. A load is timed to the command's
// end, in a QEMU that already runs.
func (b *bench) savevm(ctx context.Context, p *qemu.Process) error {
	save := b.rep.series("peer: QMP savevm, guest is paused", "ms", bound{})
	load := b.rep.series("peer: QMP loadvm", "ms", bound{})
	hmp := func(line string, s *series) error {
		var said string
		began := time.Now()
		err := p.QMP.Execute(ctx, "human-monitor-command", map[string]any{"command-line": line}, &said)
		if said = strings.TrimSpace(said); err == nil && said != "" {
			err = errors.New(said)
		}
		if s != nil && err == nil {
			s.took(time.Since(began))
		}
		return err
	}
	err := errors.Join(hmp("savevm peer", save), pause(ctx, time.Second), hmp("loadvm peer", load), hmp("delvm peer", nil))
	return errors.Join(err, pause(ctx, time.Second))
}

// bootSource returns what a cold boot of the image needs. The server makes it for
// the first VM that boots cold.
func (b *bench) bootSource(ctx context.Context, gen vm.Manifest) (vm.BootSource, error) {
	id, err := b.server.createVM(ctx, vm.NetClosed)
	if err != nil {
		return vm.BootSource{}, err
	}
	if err := errors.Join(b.coldBoot(ctx, id, &series{Unit: "ms"}), b.server.remove(ctx, id)); err != nil {
		return vm.BootSource{}, err
	}
	found, err := filepath.Glob(filepath.Join(b.server.dir.BinRoot(), "*", "initramfs-*.cpio"))
	if err == nil && len(found) == 0 {
		err = errors.New("no initial file system was made")
	}
	if err != nil {
		return vm.BootSource{}, err
	}
	return vm.BootSource{Kernel: b.server.dir.Kernel(gen.Image), Initramfs: found[0], Cmdline: gen.Cmdline}, nil
}

// copyAndBoot copies the files that a VM would need without its generation, and
// boots the copy, instead of a fork.
func (b *bench) copyAndBoot(ctx context.Context, gen vm.Manifest, boot vm.BootSource) (err error) {
	copied := b.rep.series("peer: copy of the disk", "ms", bound{})
	first := b.rep.series("peer: copy of the disk + cold boot -> first exec result", "ms", bound{})
	spec, err := b.rawSpec(gen, "", "rawcopy0000000000000")
	if err != nil {
		return err
	}
	spec.Generation, spec.Boot = nil, boot
	spec.AgentDigest = filepath.Base(filepath.Dir(boot.Initramfs))
	spec.Size.DiskMiB = 0
	defer func() { err = errors.Join(err, os.RemoveAll(spec.Dir), os.RemoveAll(spec.RunDir)) }()
	began := time.Now()
	if err := finish(exec.CommandContext(ctx, "cp", "--reflink=never", b.server.dir.ImageDisk(gen.Image), spec.Disk)); err != nil {
		return err
	}
	copied.took(time.Since(began))
	proc, err := qemu.Spawn(ctx, spec)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, proc.Ident.End(context.WithoutCancel(ctx))) }()
	conn, err := dialAgent(ctx, layout.RunVM(spec.RunDir).Agent())
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := firstTrue(ctx, conn, spec.GuestKey); err != nil {
		return err
	}
	first.took(time.Since(began))
	return nil
}
