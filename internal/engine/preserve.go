// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// Preserved keeps the files of all generations while a backup reads them.
type Preserved struct {
	e       *Engine
	release func()
	// Left names the VMs whose disk is older in the backup than they are, or is not in it,
	// by their ids, and says why.
	Left map[vm.ID]string
}

const (
	preserveWait = 30 * time.Second // for an operation of a VM to end
	captureWait  = 2 * time.Minute  // for the capture of one VM
)

// Preserve freezes the disks of all VMs, one after the other: that of a running or
// stopped VM is captured, without memory. Then no VM begins or ends an operation while
// records, which reads the records, runs. From then on until Release, no file of a
// generation is removed. The captures are recorded as the caller's. A VM that cannot be
// captured is named in Left. progress is told each VM. Guests keep running.
func (e *Engine) Preserve(ctx context.Context, c *vm.Call, progress func(name string), records func(context.Context) error) (*Preserved, error) {
	p := &Preserved{e: e, Left: map[vm.ID]string{}}
	p.release = sync.OnceFunc(func() { e.collectLater() })
	for _, s := range e.everySlot() {
		rec := e.recordOf(s)
		progress(label(rec))
		err := e.preserveDisk(ctx, c, s)
		if ctx.Err() != nil || died(err) {
			p.Release()
			return nil, errors.Join(context.Cause(ctx), err)
		}
		if err != nil && vm.KindOf(err) != vm.NotFound { // deleted meanwhile
			p.Left[s.id] = e.cfg.Journal.ConcealText(err.Error())
		}
	}
	if err := e.still(ctx, p, records); err != nil {
		p.Release()
		return nil, err
	}
	return p, nil
}

// Release lets the files go. It may be called twice.
func (p *Preserved) Release() { p.release() }

// everySlot are the VMs, ordered by id.
func (e *Engine) everySlot() []*slot {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := make([]*slot, 0, len(e.vms))
	for _, s := range e.vms {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *slot) int { return strings.Compare(string(a.id), string(b.id)) })
	return list
}

// preserveDisk captures the disk of a VM, unless a generation has it.
func (e *Engine) preserveDisk(ctx context.Context, c *vm.Call, s *slot) error {
	bounded, stop := context.WithTimeout(ctx, captureWait)
	defer stop()
	op, err := e.beginSlot(bounded, s, vm.OpCapture)
	if err != nil {
		return err
	}
	op.cancelWith(bounded)
	id, err := e.captureDisk(op, c)
	if err = e.finish(op, err); err != nil || id == "" {
		return err
	}
	defer e.unpin(id)
	return e.publish(ctx, id)
}

// captureDisk captures the disk of op's VM into a generation, which stays pinned; "" = a
// generation has it.
func (e *Engine) captureDisk(op *operation, c *vm.Call) (vm.GenerationID, error) {
	if _, ok := e.unchanged(op.before); ok {
		return "", nil
	}
	call := *c // its receipt is the backup's
	if err := e.receiptFor(op.ctx, op, &call, vm.AuditEntry{Detail: map[string]any{"why": string(vm.OpBackup)}}); err != nil {
		return "", err
	}
	g, err := e.capture(op.ctx, op, captureOptions{why: vm.WhyReview, diskOnly: true})
	return g.ID, err
}

// still waits until no VM is in the middle of an operation, keeps others from beginning,
// pins every generation and calls records.
func (e *Engine) still(ctx context.Context, p *Preserved, records func(context.Context) error) error {
	var held []*operation
	defer func() {
		for _, op := range held {
			_ = e.finish(op, nil) // without an error it has none
		}
	}()
	until, stop := context.WithTimeout(ctx, preserveWait)
	defer stop()
	for _, s := range e.everySlot() {
		if e.doubtful(s.id) {
			continue
		}
		op, err := e.beginSlot(until, s, vm.OpCapture)
		switch {
		case err == nil:
			held = append(held, op)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case until.Err() != nil && p.Left[s.id] == "":
			p.Left[s.id] = "another operation on it did not end in time; what the backup has of it may be incomplete"
		}
	}
	// Without this lock a generation could lose its files after it was pinned.
	e.sweeping.Lock()
	p.pinAll()
	e.sweeping.Unlock()
	return records(ctx)
}

// pinAll pins every generation that has files.
func (p *Preserved) pinAll() {
	e := p.e
	var pinned []*generation
	e.mu.Lock()
	for _, g := range e.gens {
		if !g.info.Gone {
			g.pins++
			pinned = append(pinned, g)
		}
	}
	e.mu.Unlock()
	p.release = sync.OnceFunc(func() {
		e.mu.Lock()
		for _, g := range pinned {
			g.pins--
		}
		e.mu.Unlock()
		e.collectLater()
	})
}

// Open opens the files of a generation for reading and returns its record as it is with
// these files. The caller closes them. Kind NotFound when there is no such generation.
func (p *Preserved) Open(id vm.GenerationID) (files []*os.File, g vm.Generation, err error) {
	unlock, ok := p.e.lockMemory(id) // no file is sealed or opened meanwhile
	if !ok {
		return nil, g, noGeneration(string(id))
	}
	defer unlock()
	g, ok = p.e.generationInfo(id)
	if !ok {
		return nil, g, noGeneration(string(id))
	}
	dir := p.e.cfg.Dir.Generation(id)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, g, layout.Error(dir, err)
	}
	for _, entry := range entries {
		if !entry.Type().IsRegular() || layout.IsTemp(entry.Name()) || strings.HasSuffix(entry.Name(), ".tmp") {
			continue
		}
		f, err := os.Open(filepath.Join(dir, entry.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			for _, f := range files {
				_ = f.Close() // it was only read
			}
			return nil, g, layout.Error(dir, err)
		}
		files = append(files, f)
	}
	return files, g, nil
}

// Layers returns the files of a generation's disk, the top first: see Generations.
func (p *Preserved) Layers(id vm.GenerationID) ([]string, error) {
	return p.e.cfg.Generations.Layers(id)
}
