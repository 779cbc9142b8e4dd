// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/warren-vm/warren/internal/pathrule"
	"github.com/warren-vm/warren/vm"
)

// EditPaths changes a VM's path rules, at once if it runs. edit gets a copy of the list and
// returns the new one; its error is returned as it is. Only the account's owner may do this.
// The machine gets the rules before the record; if the record cannot be written, the machine
// gets the old ones back. Kinds: of edit; Invalid, Limit; Unsupported when a folder of the VM
// cannot hold rules.
func (e *Engine) EditPaths(ctx context.Context, c *vm.Call, ref string, edit func(rec vm.VM, list []vm.PathRule) ([]vm.PathRule, error)) (v vm.VM, err error) {
	if err := c.Actor.OwnerOnly(ref); err != nil {
		return vm.VM{}, fail(vm.OpPaths, ref, err)
	}
	op, err := e.begin(ctx, c, ref, vm.OpPaths)
	if err != nil {
		return vm.VM{}, fail(vm.OpPaths, ref, err)
	}
	defer func() { err = e.finish(op, err) }()
	list, err := edit(op.before, slices.Clone(op.before.Paths))
	if err == nil {
		err = namePaths(list)
	}
	if err != nil {
		return vm.VM{}, err
	}
	entry := vm.AuditEntry{Detail: map[string]any{"rules": list, "pathsDigest": pathsDigest(list)}}
	if err := e.receiptFor(op.ctx, op, c, entry); err != nil {
		return vm.VM{}, err
	}
	if r := e.runOf(op.slot); r != nil {
		undo := func(ctx context.Context) error { return tellPaths(ctx, r, op.before.Paths) }
		if err := op.undo.add(op.ctx, "path rules", undo); err != nil {
			return vm.VM{}, err
		}
		if err := tellPaths(op.ctx, r, list); err != nil { // it may have taken the rules nevertheless
			return vm.VM{}, err
		}
	}
	rec, err := e.update(op.ctx, op.slot, func(rec *vm.VM) { rec.Paths = list })
	if err == nil {
		e.cfg.Journal.EmitVM(rec, "vm.paths", map[string]any{"rules": len(list)})
	}
	return rec, err
}

// namePaths checks rules and gives those without an id one.
func namePaths(list []vm.PathRule) error {
	if err := pathrule.Check(list); err != nil {
		return err
	}
	for i := range list {
		if list[i].ID == "" {
			list[i].ID = vm.NewPathRuleID()
		}
	}
	return nil
}

// pathsDigest names a list of rules by its content: the SHA-256 of its JSON, in hex.
func pathsDigest(list []vm.PathRule) string {
	data, err := json.Marshal(list)
	if err != nil {
		return "" // it has only types that JSON can write
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func tellPaths(ctx context.Context, r *run, list []vm.PathRule) error {
	ctx, stop := context.WithTimeout(ctx, machineDeadline)
	defer stop()
	return r.machine.SetPaths(ctx, list)
}

// fillPaths gives a new VM the requested path rules.
func fillPaths(rec *vm.VM, r CreateRequest, _ vm.Image) error {
	rec.Paths = slices.Clone(r.Paths)
	return namePaths(rec.Paths)
}

// Why a rule does not bind the programs in a guest.
const (
	voidDisk    = "root in the guest writes to the VM's disk directly: there the rule binds only calls of the file API"
	voidObjects = "objects are read by their keys: there the rule binds only calls of the file API. Mount a narrower prefix instead"
	voidVolume  = "root in the guest writes to the decrypted disk of the volume: there the rule binds only calls of the file API"
)

// ShowPaths returns the rules of a VM with the places that each reaches.
func (e *Engine) ShowPaths(rec vm.VM) []vm.PathRuleShown {
	out := []vm.PathRuleShown{}
	mounts := e.pathMounts(rec)
	for _, r := range rec.Paths {
		shown := vm.PathRuleShown{PathRule: r, Places: []vm.PathPlace{}}
		set, err := pathrule.Compile([]vm.PathRule{r})
		if err != nil {
			continue // it was checked when it was made
		}
		inside := false
		for _, m := range mounts {
			if set.Reaches(m.Path) {
				shown.Places = append(shown.Places, m)
			}
			inside = inside || pathrule.Within(r.Path, m.Path)
		}
		if !inside {
			shown.Places = append(shown.Places, vm.PathPlace{Kind: vm.PathOnDisk, Path: "/", Void: true, Why: voidDisk})
		}
		out = append(out, shown)
	}
	return out
}

// pathMounts lists the mounts of a VM.
func (e *Engine) pathMounts(rec vm.VM) (list []vm.PathPlace) {
	for _, f := range rec.Folders {
		p := vm.PathPlace{Kind: vm.PathInFolder, Path: f.Path}
		if vm.IsObjects(f.Host) {
			p.Void, p.Why = true, voidObjects
		}
		list = append(list, p)
	}
	for _, m := range e.mountsOf(rec.ID) {
		list = append(list, vm.PathPlace{Kind: vm.PathInVolume, Path: m.Path, Void: true, Why: voidVolume})
	}
	return list
}
