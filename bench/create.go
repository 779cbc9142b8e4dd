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
	"time"

	"github.com/warren-vm/warren/internal/guest"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/vm"
)

// create measures create → first result beside raw QEMU on the same generation
// and beside the cold boot of the same VM.
func (b *bench) create(ctx context.Context) error {
	product := b.rep.series("create -> first exec result", "ms", bound{Max: 400})
	created := b.rep.series("create, until it answers", "ms", bound{})
	floor := b.rep.series("QEMU alone (confined alike): restore + clock + RNG + true", "ms", bound{})
	cold := b.rep.series("cold boot -> first exec result", "ms", bound{})

	id, err := timeCreate(ctx, b.server, nil, nil) // the first one may build the warm generation
	if err != nil {
		return err
	}
	gen, dir, err := b.generation()
	if err != nil {
		return errors.Join(err, b.server.remove(ctx, id))
	}
	if _, err := b.rawRestore(ctx, gen, dir, 0); err != nil { // into the page cache
		return errors.Join(fmt.Errorf("raw restore: %w", err), b.server.remove(ctx, id))
	}
	colds := max(3, b.n/5)
	for i := range b.n {
		one, err := timeCreate(ctx, b.server, created, product)
		if err != nil {
			return err
		}
		if err := b.server.remove(ctx, one); err != nil {
			return err
		}
		took, err := b.rawRestore(ctx, gen, dir, i+1)
		if err != nil {
			return fmt.Errorf("raw restore: %w", err)
		}
		floor.took(took)
		if i*colds/b.n != (i+1)*colds/b.n {
			if err := b.coldBoot(ctx, id, cold); err != nil {
				return err
			}
		}
	}
	b.rep.ratio("create -> first exec / raw floor", product, floor, bound{Max: 1.6})
	b.rep.ratio("cold boot / create -> first exec", cold, product, bound{Min: 8})
	return b.server.remove(ctx, id)
}

func timeCreate(ctx context.Context, on *server, created, first *series) (string, error) {
	began := time.Now()
	id, err := on.createVM(ctx, vm.NetClosed)
	if err != nil {
		return "", err
	}
	answered := time.Since(began)
	if err := on.exec(ctx, id, "true"); err != nil {
		return "", errors.Join(err, on.remove(ctx, id))
	}
	if created != nil {
		created.took(answered)
		first.took(time.Since(began))
	}
	return id, nil
}

// coldBoot stops the VM and boots it on its disk.
func (b *bench) coldBoot(ctx context.Context, id string, s *series) error {
	if err := b.server.call(ctx, "POST", "/v1/vms/"+id+"/stop", nil, nil); err != nil {
		return err
	}
	began := time.Now()
	if err := b.server.call(ctx, "POST", "/v1/vms/"+id+"/start", map[string]any{}, nil); err != nil {
		return err
	}
	if err := b.server.exec(ctx, id, "true"); err != nil {
		return err
	}
	s.took(time.Since(began))
	return nil
}

// generation finds the newest warm generation of the base image in the
// default size, the one that create uses.
func (b *bench) generation() (vm.Generation, layout.GenerationDir, error) {
	var best vm.Generation
	var at layout.GenerationDir
	images, err := filepath.Glob(filepath.Join(b.server.dir.Images(), "im-*"))
	if err != nil {
		return best, at, err
	}
	for _, image := range images {
		id := vm.ImageID(filepath.Base(image))
		var img vm.Image
		if err := layout.ReadJSON(b.server.dir.ImageManifest(id), &img); err != nil || img.Name != "base" {
			continue
		}
		keys, err := os.ReadDir(b.server.dir.WarmRoot(id))
		if err != nil {
			continue
		}
		for _, k := range keys {
			dir := layout.GenerationDir(b.server.dir.Warm(id, k.Name()))
			var g vm.Generation
			if err := layout.ReadJSON(dir.Manifest(), &g); err == nil && g.Size == vm.DefaultSize && g.CreatedAt.After(best.CreatedAt) {
				best, at = g, dir
			}
		}
	}
	if at == "" {
		return best, at, errors.New("no warm generation of the image base in the default size")
	}
	return best, at, nil
}

// rawRestore starts QEMU on the generation with nothing of Warren around it:
// overlay, QEMU, link, clock and RNG, `true`. It returns the time to the
// command's end.
func (b *bench) rawRestore(ctx context.Context, gen vm.Generation, dir layout.GenerationDir, i int) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	id := vm.ID(fmt.Sprintf("raw%017d", i))
	spec, err := b.rawSpec(gen, dir, id)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(spec.Dir), os.RemoveAll(spec.RunDir)) }()

	began := time.Now()
	backing, err := filepath.Rel(spec.Dir, dir.Disk())
	if err != nil {
		return 0, err
	}
	if err := qemu.CreateOverlay(spec.Disk, backing, gen.Size.DiskMiB); err != nil {
		return 0, err
	}
	proc, err := qemu.Spawn(ctx, spec)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, proc.Ident.End(context.WithoutCancel(ctx))) }()
	if err := proc.AwaitRunning(ctx); err != nil {
		return 0, err
	}
	if err := firstTrue(ctx, layout.RunVM(spec.RunDir).Agent(), gen.GuestKey); err != nil {
		return 0, err
	}
	return time.Since(began), nil
}

func (b *bench) rawSpec(gen vm.Generation, dir layout.GenerationDir, id vm.ID) (vm.MachineSpec, error) {
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
		QEMU: binary, Accel: gen.Accel, CPU: gen.CPU, Machine: gen.Machine, Size: gen.Size,
		Disk:       b.server.dir.Overlay(id),
		Generation: &vm.GenerationSource{RAM: dir.RAM(), Device: dir.Device()},
		GuestKey:   gen.GuestKey,
	}
	return spec, errors.Join(os.MkdirAll(filepath.Join(spec.Dir, "logs"), 0o700), os.MkdirAll(spec.RunDir, 0o700))
}

// agentAt speaks to the agent behind a socket, in a machine that is thrown away.
func agentAt(ctx context.Context, socket string, key []byte) (_ *guest.Client, hangUp func(), err error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, nil, err
	}
	session, err := link.Host(ctx, conn, key)
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	g := guest.New(func(context.Context) (net.Conn, error) { return session.OpenStream() })
	return g, func() {
		g.Close()
		_ = errors.Join(session.Close(), conn.Close())
	}, nil
}

// firstTrue does what the floor consists of: the link, clock and RNG, one command.
func firstTrue(ctx context.Context, socket string, key []byte) error {
	var d net.Dialer
	first, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	if err := first.Close(); err != nil {
		return err
	}
	g, hangUp, err := agentAt(ctx, socket, key)
	if err != nil {
		return err
	}
	defer hangUp()
	entropy := make([]byte, 64)
	_, _ = rand.Read(entropy) // never fails
	got, err := g.Reset(ctx, vm.Reset{Time: time.Now(), Entropy: entropy})
	if err != nil {
		return err
	}
	if got[vm.ResetClock] != "ok" || got[vm.ResetRNG] != "ok" {
		return fmt.Errorf("clock: %s, RNG: %s", got[vm.ResetClock], got[vm.ResetRNG])
	}
	if err := g.Thaw(ctx); err != nil { // which it does by itself only after all resets
		return err
	}
	e, err := g.Exec(ctx, vm.ExecSpec{Argv: []string{"true"}})
	if err != nil {
		return err
	}
	st, err := e.Run(io.Discard, io.Discard)
	if err == nil && st.Code != 0 {
		return fmt.Errorf("true gives %d", st.Code)
	}
	return err
}
