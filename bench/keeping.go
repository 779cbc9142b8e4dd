// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/monitor"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/vm"
)

const (
	keptRunning  = 50 // of the VMs that the server finds at its start
	keptStarts   = 5
	besideRounds = 40
)

// keeping measures how long a server takes to start with many VMs, and how much a
// busy VM slows down another one.
func (b *bench) keeping(ctx context.Context) error {
	return errors.Join(b.comeBack(ctx), b.beside(ctx))
}

// comeBack measures the start of a server that finds 1,000 VMs on record, 50 of
// them running. Their monitors are simulated: processes of this program that
// answer as monitors do. They cost the server what real ones cost it.
func (b *bench) comeBack(ctx context.Context) (err error) {
	dir, err := b.onRecord(ctx)
	if err != nil {
		return err
	}
	stop, err := keepRunning(ctx, dir, keptRunning)
	defer func() { err = errors.Join(err, stop()) }()
	if err != nil {
		return err
	}
	took := b.rep.series("serve's start with 1,000 VMs, 50 of them running", "ms", bound{Max: 2000})
	for range keptStarts {
		began := time.Now()
		s, err := startServer(ctx, b.binary, string(dir), "", 0)
		if err != nil {
			return err
		}
		took.took(time.Since(began))
		var out struct{ RunningCount, TotalCount int }
		if err := errors.Join(s.call(ctx, "GET", "/v1/vms", nil, &out), s.stop()); err != nil {
			return err
		}
		if out.RunningCount != keptRunning || out.TotalCount != listed {
			return fmt.Errorf("it found %d of %d VMs, %d of %d running", out.TotalCount, listed, out.RunningCount, keptRunning)
		}
	}
	return nil
}

// keepRunning starts a simulated monitor for n of the recorded VMs, and marks them
// as running in the records.
func keepRunning(ctx context.Context, dir layout.Dir, n int) (stop func() error, err error) {
	var monitors []*exec.Cmd
	stop = func() error {
		for _, m := range monitors {
			_ = m.Process.Kill() // ours; it may have ended
			_ = m.Wait()
		}
		return nil
	}
	run, err := dir.Run()
	if err != nil {
		return stop, err
	}
	vms, done, err := openRecords(ctx, dir)
	if err != nil {
		return stop, err
	}
	defer func() { err = errors.Join(err, done()) }()
	for _, rec := range vms.All()[:n] {
		m, err := simulate(run.VM(rec.ID), rec)
		if err != nil {
			return stop, err
		}
		monitors = append(monitors, m)
		id, err := qemu.Identify(m.Process.Pid)
		if err != nil {
			return stop, err
		}
		if _, err := vms.Change(ctx, rec.ID, func(v *vm.VM) error {
			v.State, v.StartedAt, v.LastActive = vm.Running, time.Now(), time.Now()
			v.Machine = vm.MachineRef{MonitorPID: id.PID, MonitorStart: id.Start, BootID: id.BootID, Protocol: monitor.Protocol}
			return nil
		}); err != nil {
			return stop, err
		}
	}
	return stop, nil
}

// simulate starts this program as the monitor of a VM and waits until it
// answers.
func simulate(runDir string, rec vm.VM) (*exec.Cmd, error) {
	if err := os.MkdirAll(runDir, 0o700); err != nil {
		return nil, err
	}
	spec, err := json.Marshal(rec)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, asMonitor, runDir, string(spec))
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // it writes one byte when it listens
		return nil, errors.Join(fmt.Errorf("the simulated monitor: %w", err), cmd.Process.Kill(), cmd.Wait())
	}
	return cmd, nil
}

// asMonitor is the argument that makes this program a simulated monitor.
const asMonitor = "simulated-monitor"

// beMonitor answers a server like the monitor of an idle VM. The process plays its
// own QEMU. It runs until it is killed.
func beMonitor(runDir, spec string, said io.Writer) error {
	var rec vm.VM
	if err := json.Unmarshal([]byte(spec), &rec); err != nil {
		return err
	}
	self, err := qemu.Identify(os.Getpid())
	if err != nil {
		return err
	}
	dir := layout.RunVM(runDir)
	note := struct {
		qemu.Ident
		Spec     string `json:"spec"`
		Protocol int    `json:"protocol"`
		Ready    bool   `json:"ready"`
	}{self, "", monitor.Protocol, true}
	if err := errors.Join(writeJSON(dir.MonitorPID(), note), writeJSON(dir.QEMUPID(), self)); err != nil {
		return err
	}
	l, err := net.Listen("unix", dir.Monitor())
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(vm.MachineStatus{
			ID: rec.ID, Protocol: monitor.Protocol, MonitorPID: self.PID, QEMUPID: self.PID, Ready: true, RunState: "running",
			Size: rec.Size, StartedAt: time.Now(),
		})
	})
	mux.HandleFunc("GET /wait", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	if _, err := said.Write([]byte{'\n'}); err != nil {
		return err
	}
	return (&http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}).Serve(l)
}

// beside measures `true` in a VM alternately while another VM uses 100 % of its CPU
// and while that one is quiet.
func (b *bench) beside(ctx context.Context) (err error) {
	var ids [2]string
	for i := range ids {
		if ids[i], err = b.server.createVM(ctx, vm.NetClosed); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, b.server.remove(context.WithoutCancel(ctx), ids[i])) }()
	}
	quiet := b.rep.series("exec true, the other VM quiet", "ms", bound{})
	busy := b.rep.series("exec true, the other VM at 100 % CPU", "ms", bound{})
	for range 4 {
		if err := b.trueIn(ctx, ids[0], quiet); err != nil {
			return err
		}
		spin := b.server.cli(ctx, "exec", ids[1], "-d", "--", "timeout", "60", "sh", "-c", "while :; do :; done")
		if err := finish(spin); err != nil {
			return err
		}
		if err := b.trueIn(ctx, ids[0], busy); err != nil {
			return err
		}
		if err := b.server.exec(ctx, ids[1], "pkill", "-f", "while :"); err != nil {
			return err
		}
	}
	b.rep.ratio("exec true beside a busy VM / beside a quiet one", busy, quiet, bound{Max: 3})
	return nil
}

// trueIn takes samples of `true` in a VM; the first ones are warm-up.
func (b *bench) trueIn(ctx context.Context, id string, into *series) error {
	for i := range besideRounds/4 + 3 {
		began := time.Now()
		if err := b.server.exec(ctx, id, "true"); err != nil {
			return err
		}
		if i >= 3 {
			into.took(time.Since(began))
		}
	}
	return nil
}
