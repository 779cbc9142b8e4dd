// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// flattenJob names the block job.
const flattenJob = "flatten"

// imageInfo is the part of a query-block answer that names a chain of layers.
type imageInfo struct {
	Filename string     `json:"filename"`
	Backing  *imageInfo `json:"backing-image"`
}

// Flatten copies what the layers above base hold into the disk that the machine
// writes to, beside the running guest, so that it lies on the first layer whose
// path begins with base. A machine whose disk does so already is left alone.
// When ctx ends the disk is what it was. (QEMU, docs/interop/live-block-operations.rst)
func (p *Process) Flatten(ctx context.Context, base string) error {
	node, err := p.diskNode(ctx)
	if err != nil {
		return err
	}
	chain, err := p.chain(ctx)
	if err != nil {
		return err
	}
	var below *imageInfo
	depth := 0
	for below = chain.Backing; below != nil; below = below.Backing {
		if strings.HasPrefix(filepath.Clean(below.Filename), filepath.Clean(base)+"/") {
			break
		}
		depth++
	}
	if below == nil {
		return vm.Errorf(vm.Internal, string(p.Spec.ID), "its disk lies on nothing below %s", base)
	}
	if depth == 0 {
		return nil
	}
	name, err := filepath.Rel(filepath.Dir(p.Spec.Disk), filepath.Clean(below.Filename))
	if err != nil {
		return vm.Errorf(vm.Internal, below.Filename, "%w", err)
	}
	events := p.QMP.Subscribe()
	defer events.Close()
	err = p.QMP.Execute(ctx, "block-stream", map[string]any{
		"job-id": flattenJob, "device": node, "base": below.Filename, "backing-file": name,
	}, nil)
	if err != nil {
		return fileError(p.Spec.Disk, err)
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

// chain asks for the layers of the disk.
func (p *Process) chain(ctx context.Context) (imageInfo, error) {
	var devices []struct {
		Inserted *struct {
			Node  string    `json:"node-name"`
			Image imageInfo `json:"image"`
		} `json:"inserted"`
	}
	if err := p.QMP.Execute(ctx, "query-block", nil, &devices); err != nil {
		return imageInfo{}, p.failure(err)
	}
	for _, d := range devices {
		if d.Inserted != nil && !vm.IsVolumeID(d.Inserted.Node) {
			return d.Inserted.Image, nil
		}
	}
	return imageInfo{}, vm.Errorf(vm.Internal, string(p.Spec.ID), "the machine has no disk")
}

// cancelFlatten ends the job and waits until it is gone.
func (p *Process) cancelFlatten(ctx context.Context, why error) error {
	settle, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	if err := p.QMP.Execute(settle, "block-job-cancel", map[string]any{"device": flattenJob}, nil); err != nil {
		return why // it has ended by itself
	}
	for {
		var jobs []struct {
			Device string `json:"device"`
		}
		if err := p.QMP.Execute(settle, "query-block-jobs", nil, &jobs); err != nil || len(jobs) == 0 {
			return why
		}
	}
}
