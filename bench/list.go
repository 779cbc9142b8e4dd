// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/internal/store"
	"github.com/warren-vm/warren/vm"
)

const listed = 1000

// list measures the API's list of 1,000 VM records, on a server of its own
// whose records were written before it started.
func (b *bench) list(ctx context.Context) (err error) {
	dir, err := b.onRecord(ctx)
	if err != nil {
		return err
	}
	s, err := startServer(ctx, b.binary, string(dir), "", 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	took := b.rep.series("list of 1,000 VMs", "ms", bound{Max: 6})
	for i := range max(30, 2*b.n) {
		var out struct {
			VMs []struct{ ID string } `json:"vms"`
		}
		began := time.Now()
		if err := s.call(ctx, "GET", "/v1/vms", nil, &out); err != nil {
			return err
		}
		if i >= 3 { // the first ones are warm-up
			took.took(time.Since(began))
		}
		if len(out.VMs) != listed {
			return fmt.Errorf("the list has %d of %d VMs", len(out.VMs), listed)
		}
	}
	return nil
}

// onRecord makes a data directory with the records of 1,000 stopped VMs, once.
func (b *bench) onRecord(ctx context.Context) (layout.Dir, error) {
	if b.recorded != "" {
		return b.recorded, nil
	}
	data := filepath.Join(b.dir, "recorded")
	s, err := startServer(ctx, b.binary, data, b.images, 0)
	if err != nil {
		return "", err
	}
	var who struct {
		AccountID string `json:"accountId"`
	}
	if err := errors.Join(s.call(ctx, "GET", "/auth/v1/whoami", nil, &who), s.stop()); err != nil {
		return "", err
	}
	err = insert(ctx, layout.Dir(data), vm.AccountID(who.AccountID))
	if err == nil {
		b.recorded = layout.Dir(data)
	}
	return layout.Dir(data), err
}

// insert writes the records of stopped VMs into an unused data directory.
func insert(ctx context.Context, dir layout.Dir, account vm.AccountID) (err error) {
	vms, done, err := openRecords(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, done()) }()
	disks, err := filepath.Glob(filepath.Join(dir.Images(), "*", "disk.qcow2"))
	if err != nil || len(disks) == 0 {
		return fmt.Errorf("no image in %s: %w", dir.Images(), err)
	}
	below, err := filepath.Rel(dir.VM(vm.NewID()), disks[0])
	if err != nil {
		return err
	}
	for i := range listed {
		rec := vm.VM{
			ID: vm.NewID(), Account: account, Name: fmt.Sprintf("vm-%d", i), State: vm.Stopped,
			Image: vm.NewImageID(), ImageName: "base", Size: vm.DefaultSize,
			Network: vm.NetworkPolicy{Mode: vm.NetClosed}, Persistence: vm.DefaultPersistence(), CreatedAt: time.Now(),
		}
		if err := os.MkdirAll(dir.VM(rec.ID), 0o700); err != nil {
			return err
		}
		if err := qemu.CreateOverlay(dir.Overlay(rec.ID), below, rec.Size.DiskMiB); err != nil {
			return err
		}
		if err := vms.Create(ctx, rec); err != nil {
			return err
		}
	}
	return nil
}

// openRecords opens the records of VMs of a data directory that no server uses. The
// caller calls done.
func openRecords(ctx context.Context, dir layout.Dir) (vms *ledger.Table[vm.ID, vm.VM], done func() error, err error) {
	sockets, err := os.MkdirTemp("", "wb-")
	if err != nil {
		return nil, nil, err
	}
	log := slog.New(slog.DiscardHandler)
	st, err := store.Open(ctx, store.Options{Dir: dir.Etcd(), SocketDir: sockets, Log: log})
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(sockets))
	}
	l := ledger.New(store.Backend{Store: st}, "", log)
	vms = ledger.Add(l, ledger.Kind[vm.ID, vm.VM]{Name: "vms", Key: func(v *vm.VM) vm.ID { return v.ID }})
	done = func() error {
		l.Close()
		return errors.Join(st.Close(), os.RemoveAll(sockets))
	}
	if err := l.Load(ctx); err != nil {
		return nil, nil, errors.Join(err, done())
	}
	return vms, done, nil
}
