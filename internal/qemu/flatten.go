// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/vm"
)

const (
	// flattenJob names the block job.
	flattenJob = "flatten"
	// keptLayers is the largest number of layers after a partial merge.
	keptLayers = 4
)

// Flatten copies the content of the layers above base into the disk that the
// machine writes to, beside the running guest. After that the disk is directly
// above the first layer beneath the directory base. In part, it merges only the
// upper layers and copies little: see mergeTo. It leaves a disk alone that is there
// already. If ctx ends, the disk is as before. (QEMU,
// docs/interop/live-block-operations.rst)
func (p *Process) Flatten(ctx context.Context, base string, part bool) error {
	if err := p.endFlatten(ctx); err != nil {
		return err
	}
	active, err := p.ActiveDisk(ctx)
	if err != nil {
		return err
	}
	spec := p.Spec
	spec.Disk = active
	layers, err := layersBelow(spec)
	if err != nil {
		return err
	}
	to := lowest(layers, base)
	if to < 0 {
		return vm.Errorf(vm.Internal, string(p.Spec.ID), "its disk lies on nothing that may stay")
	}
	if part {
		to = mergeTo(layers[:to])
	}
	if to == 0 {
		return nil
	}
	node, err := p.diskNode(ctx)
	if err != nil {
		return err
	}
	nodes, err := p.backing(ctx, node)
	if err != nil {
		return err
	}
	if len(nodes) != len(layers) {
		return vm.Errorf(vm.Internal, string(p.Spec.ID), "its disk has %d layers, and qemu has %d", len(layers), len(nodes))
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(active))
	if err != nil {
		return fileError(active, err)
	}
	name, err := filepath.Rel(dir, layers[to])
	if err != nil {
		return vm.Errorf(vm.Internal, layers[to], "%w", err)
	}
	return p.stream(ctx, node, nodes[to], name)
}

// stream makes QEMU copy the layers above the node base into the node top, which
// then has base as its backing file; name is how top's header calls it.
func (p *Process) stream(ctx context.Context, top, base, name string) error {
	events := p.QMP.Subscribe()
	defer events.Close()
	err := p.QMP.Execute(ctx, "block-stream", map[string]any{
		"job-id": flattenJob, "device": top, "base-node": base, "backing-file": name,
	}, nil)
	if unheard(err) {
		return p.cancelFlatten(ctx, err) // it may have begun
	}
	if err != nil {
		return p.refused(err)
	}
	for {
		e, err := events.Next(ctx)
		if err != nil {
			return p.cancelFlatten(ctx, err)
		}
		if e.Name != "BLOCK_JOB_COMPLETED" && e.Name != "BLOCK_JOB_CANCELLED" {
			continue
		}
		var done struct{ Device, Error string }
		if err := json.Unmarshal(e.Data, &done); err != nil || done.Device != flattenJob {
			continue
		}
		if e.Name == "BLOCK_JOB_CANCELLED" || done.Error != "" {
			return vm.Errorf(vm.Internal, string(p.Spec.ID), "its disk could not be flattened: %s", done.Error)
		}
		return nil
	}
}

// lowest finds the first layer beneath a directory, as named or without links; -1 =
// none is.
func lowest(layers []string, dir string) int {
	dirs := []string{filepath.Clean(dir) + "/"}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dirs = append(dirs, real+"/")
	}
	for i, layer := range layers {
		names := []string{filepath.Clean(layer)}
		if real, err := filepath.EvalSymlinks(layer); err == nil {
			names = append(names, real)
		}
		for _, n := range names {
			if strings.HasPrefix(n, dirs[0]) || strings.HasPrefix(n, dirs[len(dirs)-1]) {
				return i
			}
		}
	}
	return -1
}

// mergeTo returns the layer (the next one first) on which a partial merge leaves
// the disk. Few layers remain, and no layer is copied that holds more than all
// above it. So data is copied again only when as much has been written above it,
// and the cost per capture does not grow.
func mergeTo(layers []string) (to int) {
	var sum int64
	for to < len(layers) {
		n := onDisk(layers[to])
		if len(layers)-to <= keptLayers && n > sum {
			break
		}
		sum += n
		to++
	}
	return to
}

// onDisk returns how many bytes of a file are allocated; 0 when that is not known.
func onDisk(path string) int64 {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return 0
	}
	return st.Blocks * 512
}

// cancelFlatten cancels the job and waits until it is gone.
func (p *Process) cancelFlatten(ctx context.Context, why error) error {
	cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTime)
	defer cancel()
	if err := p.endFlatten(cleanup); err != nil {
		return errors.Join(why, err)
	}
	return why
}

// endFlatten ends a job, also one that an earlier monitor began, and waits until it
// is gone.
func (p *Process) endFlatten(ctx context.Context) error {
	for {
		var jobs []struct {
			Device string `json:"device"`
		}
		if err := p.QMP.Execute(ctx, "query-block-jobs", nil, &jobs); err != nil {
			return p.failure(err)
		}
		if len(jobs) == 0 {
			return nil
		}
		err := p.QMP.Execute(ctx, "block-job-cancel", map[string]any{"device": jobs[0].Device}, nil)
		if unheard(err) { // refused: it has ended, or is about to
			return p.failure(err)
		}
		select {
		case <-time.After(closeAgain):
		case <-ctx.Done():
			return p.failure(ctx.Err())
		}
	}
}
