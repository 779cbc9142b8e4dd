// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// worldSnapshot measures a snapshot of a VM that has written little, some and
// much memory since it was mapped again.
func (b *bench) worldSnapshot(ctx context.Context) (err error) {
	id, err := b.world(ctx, 2048)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.server.remove(context.WithoutCancel(ctx), id)) }()
	for _, c := range []struct{ mib, n int }{{7, 5}, {100, 5}, {1024, 3}} {
		what := fmt.Sprintf(", %d MiB written", c.mib)
		answer := b.rep.series("snapshot"+what+": until the answer", "ms", bound{})
		durable := b.rep.series("snapshot"+what+": until it is durable", "ms", bound{})
		stood := b.rep.series("snapshot"+what+": VM's pause", "ms", bound{})
		private := b.rep.series("snapshot"+what+": QEMU's private memory", "MB", bound{})
		for range c.n {
			// The same memory each time: it stays private until the VM is mapped again.
			const write = `import os
piece, f = os.urandom(1 << 20), os.open("/run/fill/dirty", os.O_CREAT | os.O_WRONLY)
for _ in range(%d): os.write(f, piece)`
			if err := b.server.exec(ctx, id, "python3", "-c", fmt.Sprintf(write, c.mib)); err != nil {
				return err
			}
			if err := b.anonymous(id, private); err != nil {
				return err
			}
			began := time.Now()
			s, err := b.server.snapshot(ctx, id)
			if err != nil {
				return err
			}
			answer.took(time.Since(began))
			if err := b.server.durable(ctx, id, s.Snapshot.GenerationID); err != nil {
				return err
			}
			durable.took(time.Since(began))
			stood.add(s.Snapshot.PauseMs)
			if err := errors.Join(b.server.removeSnapshot(ctx, s.SnapshotID), pause(ctx, time.Second)); err != nil {
				return err
			}
		}
	}
	return nil
}

// worldBack measures the ways back to a snapshot: a VM made from it, and a VM that
// is rolled back to it.
func (b *bench) worldBack(ctx context.Context) (err error) {
	id, err := b.world(ctx, 512)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.server.remove(context.WithoutCancel(ctx), id)) }()
	s, err := b.server.snapshot(ctx, id)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.server.removeSnapshot(context.WithoutCancel(ctx), s.SnapshotID)) }()
	made := b.rep.series("create from a snapshot -> first answer", "ms", bound{})
	first := b.rep.series("create from a snapshot -> first exec result", "ms", bound{Max: 250})
	alone := b.floor("create from a snapshot")
	back := b.rep.series("rollback -> first answer", "ms", bound{})
	ran := b.rep.series("rollback -> first exec result", "ms", bound{Max: 450})
	if err := errors.Join(b.made(ctx, s, nil, nil), b.rolledBack(ctx, id, s, nil, nil)); err != nil { // warm-up
		return err
	}
	for range max(6, b.n/2) {
		err := errors.Join(b.made(ctx, s, made, first), b.aloneOn(ctx, id, s.Snapshot.GenerationID, alone), b.rolledBack(ctx, id, s, back, ran))
		if err != nil {
			return err
		}
	}
	alone.beside("create from a snapshot", made, first)
	return nil
}

// made makes a VM of a snapshot.
func (b *bench) made(ctx context.Context, of api.TakenSnapshot, answer, first *series) error {
	id, err := timeCreate(ctx, b.server, string(of.SnapshotID), answer, first)
	if err != nil {
		return err
	}
	return errors.Join(b.server.remove(ctx, id), pause(ctx, time.Second))
}

// rolledBack puts a VM back to a snapshot.
func (b *bench) rolledBack(ctx context.Context, id string, to api.TakenSnapshot, answer, first *series) error {
	began := time.Now()
	if err := b.server.call(ctx, "POST", "/v1/vms/"+id+"/rollback", map[string]any{"to": to.SnapshotID}, nil); err != nil {
		return err
	}
	answer.took(time.Since(began))
	if err := b.server.exec(ctx, id, "true"); err != nil {
		return err
	}
	first.took(time.Since(began))
	return pause(ctx, time.Second)
}

const (
	chained  = 200 // captures of one VM
	chainEnd = 10  // the first and the last of them that are compared
)

// worldChain forks one VM many times, one child after the other, and compares the
// last forks with the first: each capture adds a layer to the VM's disk, to which
// the VM writes in between.
func (b *bench) worldChain(ctx context.Context) (err error) {
	id, err := b.server.createVM(ctx, vm.NetClosed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.server.remove(context.WithoutCancel(ctx), id)) }()
	ends := [2]struct{ pause, took, disk *series }{}
	for i, which := range []string{"first", "last"} {
		what := fmt.Sprintf("%d captures of one VM, the %s %d: ", chained, which, chainEnd)
		ends[i].pause = b.rep.series(what+"VM's pause", "ms", bound{})
		ends[i].took = b.rep.series(what+"fork -> the child's first answer", "ms", bound{})
		ends[i].disk = b.rep.series(what+"disk of VMs and generations", "MB", bound{})
	}
	for i := range chained {
		const write = "cd /root; head -c 60000 /dev/urandom > f%d; head -c 500000 /dev/urandom > same; sync"
		if err := b.server.exec(ctx, id, "sh", "-c", fmt.Sprintf(write, i)); err != nil {
			return err
		}
		began := time.Now()
		f, err := b.fork(ctx, id, 1)
		if err != nil {
			return fmt.Errorf("capture %d: %w", i+1, err)
		}
		took := time.Since(began)
		if err := b.drop(ctx, f); err != nil {
			return err
		}
		end := &ends[0]
		switch {
		case i >= chained-chainEnd:
			end = &ends[1]
		case i >= chainEnd:
			continue
		}
		end.pause.add(f.PauseMs)
		end.took.took(took)
		used, err := b.worldDisk()
		if err != nil {
			return err
		}
		end.disk.add(used)
	}
	b.rep.ratio("200 captures of one VM: pause, last / first", ends[1].pause, ends[0].pause, bound{})
	b.rep.ratio("200 captures of one VM: fork, last / first", ends[1].took, ends[0].took, bound{})
	b.rep.ratio("200 captures of one VM: disk, last / first", ends[1].disk, ends[0].disk, bound{})
	return nil
}

// worldDisk is what VMs and generations take of the disk, in MB.
func (b *bench) worldDisk() (float64, error) {
	vms, err1 := diskUse(b.server.dir.VMs())
	gens, err2 := diskUse(b.server.dir.Generations())
	return vms + gens, errors.Join(err1, err2)
}
