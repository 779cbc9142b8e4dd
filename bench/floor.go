// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/guest"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/vm"
)

// floor holds the times of QEMU alone on the generations from which Warren starts
// VMs: confined like Warren's, with the link to the agent and the resets, and
// nothing else.
type floor struct {
	rep    *report
	answer *series // the agent has done every reset, and programs continue
	exec   *series // `true` has ended
}

// floor begins the floor of a verb.
func (b *bench) floor(verb string) *floor {
	return &floor{
		rep:    b.rep,
		answer: b.rep.series("QEMU alone, as for "+verb+" -> first answer", "ms", bound{}),
		exec:   b.rep.series("QEMU alone, as for "+verb+" -> first exec result", "ms", bound{}),
	}
}

// beside notes the ratios of Warren's figures to the floor.
func (f *floor) beside(verb string, answer, exec *series) {
	f.rep.ratio(verb+" -> first answer / QEMU alone", answer, f.answer, bound{Max: 1.2})
	f.rep.ratio(verb+" -> first exec result / QEMU alone", exec, f.exec, bound{Max: 1.2})
}

// rawRestore starts QEMU on the generation without Warren: overlay, QEMU, link,
// resets, `true`. Its times go into a floor, unless it is a warm-up.
func (b *bench) rawRestore(ctx context.Context, gen vm.Manifest, dir layout.GenerationDir, to *floor) (err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	defer func() {
		if err != nil {
			err = fmt.Errorf("QEMU alone: %w", err)
		}
	}()
	spec, err := b.rawSpec(gen, dir, "rawrestore0000000000")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(spec.Dir), os.RemoveAll(spec.RunDir)) }()

	began := time.Now()
	backing, err := filepath.Rel(spec.Dir, dir.Disk())
	if err != nil {
		return err
	}
	if err := qemu.CreateOverlay(spec.Disk, backing, gen.Size.DiskMiB); err != nil {
		return err
	}
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
	if err := proc.AwaitRunning(ctx); err != nil {
		return err
	}
	answered, err := firstTrue(ctx, conn, gen.GuestKey)
	if err == nil && to != nil { // not a warm-up
		to.answer.took(answered.Sub(began))
		to.exec.took(time.Since(began))
	}
	return err
}

func (b *bench) rawSpec(gen vm.Manifest, dir layout.GenerationDir, id vm.ID) (vm.MachineSpec, error) {
	binary, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		return vm.MachineSpec{}, err
	}
	run, err := b.server.dir.Run()
	if err != nil {
		return vm.MachineSpec{}, err
	}
	spec := vm.MachineSpec{
		Format: 1, ID: id, Dir: b.server.dir.VM(id), RunDir: string(run.VM(id)),
		QEMU: binary, Accel: gen.Accel, CPU: gen.CPU, Machine: gen.Machine, QuietNIC: gen.QuietNIC(), Size: gen.Size,
		Disk:       b.server.dir.Overlay(id),
		Generation: &vm.GenerationSource{RAM: dir.RAM(), Device: dir.Device()},
		GuestKey:   gen.GuestKey,
	}
	return spec, errors.Join(os.MkdirAll(filepath.Join(spec.Dir, "logs"), 0o700), os.MkdirAll(spec.RunDir, 0o700))
}

// dialAgent connects to the port of an agent. Warren does so before QEMU loads.
func dialAgent(ctx context.Context, socket string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", socket)
}

// agentAt talks to the agent behind a socket, in a machine that is discarded.
func agentAt(ctx context.Context, socket string, key []byte) (_ *guest.Client, hangUp func(), err error) {
	conn, err := dialAgent(ctx, socket)
	if err != nil {
		return nil, nil, err
	}
	return agentOver(ctx, conn, key)
}

// agentOver talks to the agent over a connection, which hangUp closes; so does a
// failure.
func agentOver(ctx context.Context, conn net.Conn, key []byte) (_ *guest.Client, hangUp func(), err error) {
	session, err := link.Host(ctx, conn, nil, key)
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	g := guest.New(func(context.Context) (net.Conn, error) { return session.OpenStream() })
	return g, func() {
		g.Close()
		_ = errors.Join(session.Close(), conn.Close())
	}, nil
}

// firstTrue does the work of the floor in the shortest way: every reset by the link's
// first message, a session, one command. answered is when the agent had done every
// reset and programs continued.
func firstTrue(ctx context.Context, conn net.Conn, key []byte) (answered time.Time, err error) {
	wake := link.NewWaking(func() []byte { return link.EncodeReset(anyReset()) })
	if err := link.Wake(ctx, conn, wake, time.Minute, key); err != nil {
		return answered, err
	}
	_, got, err := guest.ReadWake(wake.Answer())
	if err != nil {
		return answered, err
	}
	for _, name := range vm.Resets {
		if got[name] != "ok" {
			return answered, fmt.Errorf("%s: %q", name, got[name])
		}
	}
	answered = time.Now()
	g, hangUp, err := agentOver(ctx, conn, key)
	if err != nil {
		return answered, err
	}
	defer hangUp()
	e, err := g.Exec(ctx, vm.ExecSpec{Argv: []string{"true"}})
	if err != nil {
		return answered, err
	}
	st, err := e.Run(io.Discard, io.Discard)
	if err == nil && st.Code != 0 {
		err = fmt.Errorf("true gives %d", st.Code)
	}
	return answered, err
}

// anyReset is an identity that no other machine has.
func anyReset() vm.Reset {
	r := vm.Reset{
		Time: time.Now(), Entropy: make([]byte, 64), Hostname: "raw", MachineID: strings.ReplaceAll(vm.NewUUID(), "-", ""),
		BootID: vm.NewUUID(), LinkKey: make([]byte, link.KeySize),
	}
	_, _ = rand.Read(r.Entropy) // never fails
	_, _ = rand.Read(r.LinkKey)
	return r
}
