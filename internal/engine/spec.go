// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"

	"golang.org/x/crypto/ssh"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// machineSpec returns what all starts of a VM have in common.
func (e *Engine) machineSpec(ctx context.Context, rec vm.VM, img vm.Image) (vm.MachineSpec, error) {
	p, err := e.cfg.Host.Platform(ctx)
	if err != nil {
		return vm.MachineSpec{}, err
	}
	boot, err := e.cfg.Images.Boot(ctx, img)
	if err != nil {
		return vm.MachineSpec{}, err
	}
	return vm.MachineSpec{
		Format: 1, ID: rec.ID,
		Dir: e.cfg.Dir.VM(rec.ID), RunDir: e.cfg.Run.VM(rec.ID),
		QEMU: p.QEMU, Accel: p.Accel, CPU: p.CPU, Machine: p.Machine, QuietNIC: true,
		Size: rec.Size, Disk: e.cfg.Dir.Overlay(rec.ID), Boot: boot,
		Network: rec.Network, Paths: rec.Paths,
		Reset: newReset(rec),
		Agent: p.Agent, AgentDigest: p.AgentDigest,
		Deadline: e.cfg.Settings.StartDeadline,
	}, nil
}

// warmSpec starts a new VM on its image's warm generation.
func (e *Engine) warmSpec(ctx context.Context, p *createPlan, gen vm.Manifest) (vm.MachineSpec, error) {
	spec, err := e.machineSpec(ctx, p.rec, p.image)
	if err != nil {
		return spec, err
	}
	keys, err := hostKeys()
	if err != nil {
		return spec, err
	}
	dir := layout.GenerationDir(e.cfg.Dir.Warm(p.image.ID, gen.Key))
	spec.Generation = &vm.GenerationSource{RAM: dir.RAM(), Device: dir.Device()}
	spec.GuestKey = gen.GuestKey
	spec.Reset.HostKeys = keys
	spec.Deadline = p.deadline
	_, spec.Patient = e.patience(p.deadline)
	// A generation can only continue on the machine type on which it was captured.
	spec.Accel, spec.CPU, spec.Machine, spec.QuietNIC = gen.Accel, gen.CPU, gen.Machine, gen.QuietNIC()
	if gen.Cmdline != "" {
		spec.Boot.Cmdline = gen.Cmdline
	}
	return spec, nil
}

// coldSpec boots a VM on its disk.
func (e *Engine) coldSpec(ctx context.Context, rec vm.VM, img vm.Image) (vm.MachineSpec, error) {
	if err := e.ownLayers(rec.Account, rec.DiskOn); err != nil {
		return vm.MachineSpec{}, err
	}
	spec, err := e.machineSpec(ctx, rec, img)
	if err != nil {
		return spec, err
	}
	spec.GuestKey = randomBytes(32)
	spec.WaitBooted = true
	return spec, nil
}

// newReset returns the identity that a guest gets as this VM. The machine id is derived
// from the VM's id, so that it survives stop and start. The rest is new with each start.
func newReset(rec vm.VM) vm.Reset {
	name := rec.Name
	if name == "" {
		name = string(rec.ID)
	}
	sum := sha256.Sum256([]byte("warren machine-id " + string(rec.ID)))
	return vm.Reset{
		Hostname:  name,
		MachineID: hex.EncodeToString(sum[:16]),
		BootID:    vm.NewUUID(),
		LinkKey:   randomBytes(32),
	}
}

// hostKeys makes the SSH host key of a new VM.
func hostKeys() (map[string]string, error) {
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, vm.Errorf(vm.Internal, "", "no host key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(priv, "")
	if err != nil {
		return nil, vm.Errorf(vm.Internal, "", "no host key: %w", err)
	}
	sshPub, err := ssh.NewPublicKey(pub)
	if err != nil {
		return nil, vm.Errorf(vm.Internal, "", "no host key: %w", err)
	}
	return map[string]string{
		"ssh_host_ed25519_key":     string(pem.EncodeToMemory(block)),
		"ssh_host_ed25519_key.pub": string(ssh.MarshalAuthorizedKey(sshPub)),
	}, nil
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b) // documented never to fail
	return b
}
