// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package evidence keeps what a VM did for those who ask later: it records the connections
// that monitors report, and makes receipts.
package evidence

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/receipt"
	"github.com/warren-vm/warren/vm"
)

// Config is what the room works with. Every field is required.
type Config struct {
	Dir     layout.Dir
	Journal *journal.Journal
	VM      func(id vm.ID) (vm.VM, bool)
	Locked  func(id vm.VolumeID) (name string, locked bool, ok bool)
	Now     func() time.Time
	Version string // of Warren
}

// Evidence is the room. Its methods may be called at once from many goroutines.
type Evidence struct {
	cfg     Config
	leaving sync.Mutex // held while a file that monitors left is read and removed
}

// New returns the room.
func New(c Config) *Evidence { return &Evidence{cfg: c} }

const (
	maxBatch = 256      // connections of one report
	maxText  = 512      // bytes of each text in a record: a guest may have chosen it
	maxLeft  = 64 << 20 // bytes of the file that monitors leave
)

// Connections records the connections that a VM's monitor reports: durably when it
// returns nil.
func (e *Evidence) Connections(ctx context.Context, c *vm.Call, v vm.VM, b vm.ConnectionBatch) error {
	if len(b.List) > maxBatch {
		return vm.Errorf(vm.Limit, string(v.ID), "%d connections in one report, at most %d", len(b.List), maxBatch)
	}
	var list []vm.AuditEntry
	for i, x := range b.List {
		n := b.First + int64(i)
		entry := vm.AuditEntry{Op: vm.OpConnection, VM: v.ID, Subject: vm.Clip(subject(x), maxText), Network: vm.Clip(x.Policy, maxText), Outcome: "ok", Detail: detailOf(x)}
		if !x.Allowed {
			entry.Outcome = string(vm.Denied)
		}
		entry.Detail["number"] = n
		if i == 0 && b.Dropped > 0 {
			entry.Detail["dropped"] = b.Dropped
		}
		list = append(list, entry)
	}
	if s := b.Sum; s != nil {
		list = append(list, vm.AuditEntry{
			Op: vm.OpConnection, VM: v.ID, Subject: fmt.Sprintf("%d connections beyond the budget of records", s.Allowed+s.Refused), Outcome: "ok",
			Detail: map[string]any{"since": s.Since, "until": s.Until, "allowed": s.Allowed, "refused": s.Refused, "up": s.Up, "down": s.Down},
		})
	}
	if len(list) == 0 {
		return nil
	}
	return e.cfg.Journal.Happened(ctx, c, list)
}

// RecordLeft durably records what monitors of a VM could not report because the server was
// away until the machine's end, and removes the file in which it is. No file is no error.
// After an error the file stays; what was recorded by then is recorded again the next time, under
// the same numbers.
func (e *Evidence) RecordLeft(ctx context.Context, v vm.VM) error {
	e.leaving.Lock()
	defer e.leaving.Unlock()
	path := layout.VMDir(e.cfg.Dir.VM(v.ID)).Connections()
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return layout.Error(path, err)
	case st.Size() > maxLeft:
		return vm.Errorf(vm.Limit, path, "it has %d bytes, at most %d are read", st.Size(), maxLeft)
	}
	var list []vm.ConnectionBatch
	if err := layout.ReadJSON(path, &list); err != nil {
		return err
	}
	if len(list) > vm.MaxLeft {
		return vm.Errorf(vm.Limit, path, "it has %d reports, at most %d are recorded", len(list), vm.MaxLeft)
	}
	for _, b := range list {
		c := &vm.Call{Actor: vm.Actor{Account: v.Account, VM: v.ID}, Request: vm.NewRequestID()}
		if err := e.Connections(ctx, c, v, b); err != nil {
			return err
		}
	}
	return layout.Error(path, os.Remove(path))
}

func subject(x vm.Connection) string {
	if x.Name != "" && x.Name != x.Dest {
		return x.Proto + " " + x.Name + " " + x.Dest
	}
	return x.Proto + " " + x.Dest
}

func detailOf(x vm.Connection) map[string]any {
	d := map[string]any{"at": x.Time, "up": x.Up, "down": x.Down, "durationMs": x.Duration.Milliseconds()}
	for name, text := range map[string]string{
		"proto": x.Proto, "dest": x.Dest, "name": x.Name, "reason": x.Reason, "how": x.How, "rule": x.Rule, "method": x.Method, "path": x.Path,
	} {
		if text != "" {
			d[name] = vm.Clip(text, maxText)
		}
	}
	if len(x.Secrets) > 0 {
		d["secrets"] = x.Secrets[:min(len(x.Secrets), 32)]
	}
	return d
}

// Receipt makes the signed receipt of a VM, which may be deleted. Kinds NotFound (no
// record), Limit (too many records), Denied, and those of the signer.
func (e *Evidence) Receipt(ctx context.Context, c *vm.Call, id vm.ID) (vm.Receipt, error) {
	lines, at, partial, err := e.cfg.Journal.Proven(ctx, c, id)
	if err != nil {
		return vm.Receipt{}, err
	}
	r := vm.Receipt{
		Kind: vm.ReceiptKind, Version: vm.ReceiptVersion, VM: id, Made: e.cfg.Now().UTC(), Warren: e.cfg.Version,
		Key: at.Key, Checkpoint: at, Lines: lines,
	}
	if r.Summary, err = receipt.Summarize(id, lines); err != nil {
		return r, err
	}
	if v, ok := e.cfg.VM(id); ok {
		r.Summary.Name = v.Name
	}
	r.Summary.Locked, r.Summary.Partial = e.locked(lines), partial
	message, err := receipt.Message(r)
	if err != nil {
		return r, vm.Errorf(vm.Internal, string(id), "the receipt cannot be signed: %w", err)
	}
	sig, key, err := e.cfg.Journal.Sign(ctx, message)
	if err == nil && key != at.Key {
		err = vm.Errorf(vm.Busy, string(id), "the key that signs was rotated in this moment").WithHint("ask again")
	}
	r.Signature = hex.EncodeToString(sig)
	return r, err
}

// locked says of each volume that the records mount whether it is locked now.
func (e *Evidence) locked(lines []vm.ReceiptLine) map[string]string {
	out := map[string]string{}
	for _, l := range lines {
		var in struct {
			Op     vm.Op `json:"op"`
			Detail struct {
				Volume vm.VolumeID `json:"volume"`
			} `json:"detail"`
		}
		if json.Unmarshal([]byte(l.Record), &in) != nil || in.Op != vm.OpMount || in.Detail.Volume == "" {
			continue
		}
		name, locked, ok := e.cfg.Locked(in.Detail.Volume)
		switch {
		case !ok:
			out[string(in.Detail.Volume)] = "removed"
		case locked:
			out[name] = "locked"
		default:
			out[name] = "unlocked"
		}
	}
	return out
}
