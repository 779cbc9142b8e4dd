// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/warren-vm/warren/vm"
)

// dockerMiB is the memory of the VMs that the section compares.
const dockerMiB = 1024

// stackPort is the port that the example's stack publishes.
const stackPort = 8080

// docker measures what an idle Docker Engine takes, and a fork of a stack of three
// containers beside one of an idle VM with as many private pages.
func (b *bench) docker(ctx context.Context) (err error) {
	var ids []string
	defer func() { err = errors.Join(err, b.server.removeVMs(context.WithoutCancel(ctx), ids)) }()
	for _, image := range []string{"base", "docker"} {
		id, err := b.sized(ctx, image)
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	if err := b.dockerIdle(ctx, ids[0], ids[1]); err != nil {
		return err
	}
	plain, stack := ids[0], ids[1]
	if err := b.startStack(ctx, stack); err != nil {
		return err
	}
	private := b.rep.series("Docker: QEMU's private memory, three containers", "MB", bound{})
	same := b.rep.series("Docker: QEMU's private memory, an idle VM", "MB", bound{})
	of := b.rep.series("fork: parent's pause, a stack of three containers", "ms", bound{})
	by := b.rep.series("fork: parent's pause, an idle VM with as many private pages", "ms", bound{})
	if err := errors.Join(b.reseat(ctx, plain), b.reseat(ctx, stack), pause(ctx, 5*time.Second)); err != nil {
		return err
	}
	if err := errors.Join(b.pauses(ctx, stack, min(b.n, 7), of), b.anonymous(stack, private), b.anonymous(plain, same)); err != nil {
		return err
	}
	if lacks := int(private.median() - same.median()); lacks > 0 {
		write := fmt.Sprintf("mkdir -p /run/fill && mount -t tmpfs -o size=100%% fill /run/fill && dd if=/dev/urandom of=/run/fill/more bs=1M count=%d status=none", lacks)
		if err := b.server.exec(ctx, plain, "sh", "-c", write); err != nil {
			return err
		}
	}
	if err := errors.Join(pause(ctx, 3*time.Second), b.pauses(ctx, plain, min(b.n, 7), by)); err != nil {
		return err
	}
	b.rep.ratio("pause of a fork, a stack of three containers / an idle VM with as many private pages", of, by, bound{Max: 1.5})
	return b.stackAnswers(ctx, stack)
}

// sized makes a VM of an image, with the section's memory.
func (b *bench) sized(ctx context.Context, image string) (string, error) {
	var out struct{ ID string }
	err := b.server.call(ctx, "POST", "/v1/vms", map[string]any{
		"image": image, "network": vm.NetClosed, "idleTimeoutSeconds": nil, "memSizeMib": dockerMiB,
	}, &out)
	if err != nil {
		return "", err
	}
	return out.ID, b.server.exec(ctx, out.ID, "true")
}

// dockerIdle notes which share of one processor an idle VM takes without Docker and
// with an engine that runs nothing, and the difference.
func (b *bench) dockerIdle(ctx context.Context, without, with string) error {
	if err := pause(ctx, 20*time.Second); err != nil {
		return err
	}
	base := b.rep.series("idle VM, share of a core", "%", bound{})
	engine := b.rep.series("idle VM with an idle Docker Engine, share of a core", "%", bound{})
	cost := b.rep.series("Docker's idle cost, share of a core", "%", bound{Max: 5})
	host := b.rep.series("idle share of all CPUs meanwhile", "%", bound{})
	for range 3 {
		for id, to := range map[string]*series{without: base, with: engine} {
			of := &series{}
			if err := b.idleUse(ctx, []string{id}, of, host); err != nil {
				return err
			}
			to.add(of.median() * float64(cpus()))
		}
	}
	cost.add(max(0.01, engine.median()-base.median()))
	return nil
}

// startStack starts the example's stack, with an image made of the VM's own Python.
func (b *bench) startStack(ctx context.Context, id string) error {
	for _, argv := range [][]string{
		{"cp", "-r", "examples/docker-compose", id + ":/srv/stack"},
		{"cp", "test/system/testdata/docker/image.py", id + ":/srv/image.py"},
	} {
		if err := finish(b.server.cli(ctx, argv...)); err != nil {
			return err
		}
	}
	const start = "python3 /srv/image.py | docker import - python:3-slim && cd /srv/stack && docker compose up -d && until curl -sfo /dev/null localhost:%d; do sleep 0.2; done"
	return b.server.exec(ctx, id, "sh", "-c", fmt.Sprintf(start, stackPort))
}

// stackAnswers notes how long after a fork of two the parent's and both copies'
// published ports answer.
func (b *bench) stackAnswers(ctx context.Context, id string) error {
	answers := b.rep.series("fork of a stack of three containers: until three VMs' published ports answer", "ms", bound{Max: 2000})
	for range min(b.n, 5) {
		f, err := b.fork(ctx, id, 2)
		if err != nil {
			return err
		}
		began := time.Now()
		err = b.allAnswer(ctx, id, f.Forks[0].ID, f.Forks[1].ID)
		answers.took(time.Since(began))
		if err := errors.Join(err, b.drop(ctx, f), pause(ctx, time.Second)); err != nil {
			return err
		}
	}
	return nil
}

// allAnswer asks the stacks of VMs, one after the other.
func (b *bench) allAnswer(ctx context.Context, ids ...string) error {
	for _, id := range ids {
		w, err := b.throughGateway(id, stackPort)
		if err != nil {
			return err
		}
		err = w.get(ctx, len("[]"), nil) // no row is committed
		w.http.CloseIdleConnections()
		if err != nil {
			return err
		}
	}
	return nil
}
