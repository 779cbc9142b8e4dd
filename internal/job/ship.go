// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package job

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/warren-vm/warren/vm"
)

// Shipper stores what is left of a VM as objects; ship.Ship implements it.
type Shipper interface {
	// MayStore refuses a caller that may not store below a prefix, or a bucket that is not
	// there.
	MayStore(c *vm.Call, of vm.Job, to vm.ObjectRef) error
	// StoreLogs stores the console's log, and the logs of commands of a running VM.
	StoreLogs(ctx context.Context, c *vm.Call, of vm.Job, to vm.ObjectRef) ([]vm.Shipped, error)
	StoreBytes(ctx context.Context, c *vm.Call, of vm.Job, to vm.ObjectRef, part, contentType string, data []byte) (vm.Shipped, error)
}

// shipLogs stores the logs of a job's VM, if that is asked for and the VM is there.
func (j *Job) shipLogs(ctx context.Context, c *vm.Call, job *vm.Job, to *vm.ObjectRef) error {
	if to == nil {
		return nil
	}
	job.Shipped = nil
	if _, err := j.cfg.Engine.Find(c.Actor, string(job.VM)); err != nil {
		return nil // it is gone, with its logs
	}
	list, err := j.cfg.Ship.StoreLogs(ctx, c, *job, *to)
	job.Shipped = list
	return err
}

// shipRecord stores the record of a job, and the audit records of its VM.
func (j *Job) shipRecord(ctx context.Context, c *vm.Call, job *vm.Job, to *vm.ObjectRef) error {
	if to == nil {
		return nil
	}
	records, err := j.recordsOf(ctx, c.Actor.Account, job.VM)
	if err != nil {
		return err
	}
	var lines bytes.Buffer
	enc := json.NewEncoder(&lines)
	for _, r := range records {
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	shown := bound(*job)
	shown.Host = "" // the server's id is only for its own records
	record, err := json.MarshalIndent(shown, "", "  ")
	if err != nil {
		return err
	}
	for _, part := range []struct {
		name, kind string
		data       []byte
	}{{"receipts.jsonl", "application/jsonl", lines.Bytes()}, {"record.json", "application/json", append(record, '\n')}} {
		one, err := j.cfg.Ship.StoreBytes(ctx, c, *job, *to, part.name, part.kind, part.data)
		if err != nil {
			return err
		}
		job.Shipped = append(job.Shipped, one)
	}
	return nil
}
