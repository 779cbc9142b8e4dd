// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

// memory measures what an idle server and an idle VM hold.
func (b *bench) memory(ctx context.Context) error {
	serve := b.rep.series("idle serve, resident", "MB", bound{Max: 70})
	monitor := b.rep.series("idle monitor, resident", "MB", bound{Max: 12})
	pss := b.rep.series("idle VM of 512 MiB, alone: QEMU's PSS", "MB", bound{Max: 90})
	shared := b.rep.series("idle VM of 512 MiB, one of 4: QEMU's PSS", "MB", bound{})
	if err := pause(ctx, 3*time.Second); err != nil {
		return err
	}
	for range 2 {
		v, err := procField(b.server.cmd.Process.Pid, "status", "VmRSS")
		if err != nil {
			return err
		}
		serve.add(v)
		id, err := b.server.createVM(ctx, vm.NetClosed)
		if err != nil {
			return err
		}
		err = errors.Join(b.server.exec(ctx, id, "true"), pause(ctx, 10*time.Second), b.machineMemory(id, monitor, pss))
		if err := errors.Join(err, b.server.remove(ctx, id)); err != nil {
			return err
		}
		if err := pause(ctx, 2*time.Second); err != nil {
			return err
		}
	}
	return b.herdMemory(ctx, monitor, shared)
}

// herdMemory measures VMs that share the pages of their generation.
func (b *bench) herdMemory(ctx context.Context, monitor, pss *series) (err error) {
	var ids []string
	defer func() { err = errors.Join(err, b.server.removeVMs(context.WithoutCancel(ctx), ids)) }()
	for range 4 {
		id, err := b.server.createVM(ctx, vm.NetClosed)
		if err != nil {
			return err
		}
		ids = append(ids, id)
		if err := b.server.exec(ctx, id, "true"); err != nil {
			return err
		}
	}
	if err := pause(ctx, 10*time.Second); err != nil {
		return err
	}
	for _, id := range ids {
		if err := b.machineMemory(id, monitor, pss); err != nil {
			return err
		}
	}
	return nil
}

// machineMemory finds the processes of a VM by their command lines.
func (b *bench) machineMemory(id string, monitor, pss *series) error {
	found := 0
	pids, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	for _, dir := range pids {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil || !bytes.Contains(line, []byte(id)) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		name, _, _ := bytes.Cut(line, []byte{0})
		switch base := filepath.Base(string(name)); {
		case strings.Contains(base, "warren-monitor"):
			v, err := procField(pid, "status", "VmRSS")
			if err != nil {
				return err
			}
			monitor.add(v)
			found++
		case strings.Contains(base, "qemu"):
			v, err := procField(pid, "smaps_rollup", "Pss")
			if err != nil {
				return err
			}
			pss.add(v)
			found++
		}
	}
	if found != 2 {
		return fmt.Errorf("found %d processes of VM %s, want its monitor and its QEMU", found, id)
	}
	return nil
}

// procField reads a figure in kB of /proc, in MB (10^6).
func procField(pid int, file, field string) (float64, error) {
	path := fmt.Sprintf("/proc/%d/%s", pid, file)
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	v, err := kilobytes(data, field)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return v, err
}

// kilobytes finds a figure in kB in a file of /proc, in MB (10^6).
func kilobytes(data []byte, field string) (float64, error) {
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kib * 1024 / 1e6, err
		}
	}
	return 0, fmt.Errorf("no %s in it", field)
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// oneShot measures `warren run -- true`, alone and two at a time.
func (b *bench) oneShot(ctx context.Context) error {
	one := b.rep.series("warren run -- true", "ms", bound{Max: 600})
	many := b.rep.series("20 times warren run -- true, two at a time", "s", bound{Max: 4})
	run := func() error { return finish(b.server.cli(ctx, "run", "base", "--", "true")) }
	if err := run(); err != nil {
		return err
	}
	for range min(b.n, 9) {
		began := time.Now()
		if err := run(); err != nil {
			return err
		}
		one.took(time.Since(began))
	}
	for range 3 {
		began := time.Now()
		if _, err := parallel(run, 2, 20); err != nil {
			return err
		}
		many.took(time.Since(began))
	}
	return nil
}
