// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package changes

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/reader"
	"github.com/warren-vm/warren/internal/review"
	"github.com/warren-vm/warren/vm"
)

// Diff compares two states of VMs; see vm.DiffRequest. ref is the VM whose state is the
// newer one unless the request names another. A running VM is paused for a moment when
// its present state is wanted. Kinds: NotFound, Denied, Invalid, and those of
// engine.FrozenDisk and reader.Reader.Diff.
func (x *Changes) Diff(ctx context.Context, c *vm.Call, ref string, r vm.DiffRequest) (d vm.Diff, err error) {
	defer func() { err = vm.WithOp(vm.OpDiff, ref, err) }()
	if err := checkPaths(r.Paths); err != nil {
		return d, err
	}
	// The older state first: a capture of the present may replace the last one.
	from, releaseFrom, err := x.since(ctx, c, ref, r.From)
	if err != nil {
		return d, err
	}
	defer releaseFrom()
	to, releaseTo, err := x.side(ctx, c, ref, r.To)
	if err != nil {
		return d, err
	}
	defer releaseTo()
	if r.Hunks || r.Patch {
		if err := x.shows(ctx, c, ref, r, from.Side, to.Side); err != nil {
			return d, err
		}
	}
	out, err := x.cfg.Reader.Diff(ctx, from.Layers, to.Layers, reader.Options{
		Workdir: to.Workdir, Paths: r.Paths, Hunks: r.Hunks, Patch: r.Patch, All: r.All,
	})
	if err != nil {
		return d, err
	}
	out.From, out.To, out.Workdir = from.Side, to.Side, to.Workdir
	out.Manifest = manifest(from.Side, to.Side, out.Manifest)
	out.NotCompared = append(out.NotCompared, notCompared(from, to)...)
	review.AddLive(out, from.State, to.State)
	return *out, nil
}

// shows has a diff approved that shows the contents of files, for each VM of which it does. What
// is compared is frozen by then, so it is what the approval names.
func (x *Changes) shows(ctx context.Context, c *vm.Call, ref string, r vm.DiffRequest, from, to vm.DiffSide) error {
	if c.Actor.Identity == "" {
		return nil
	}
	rec, err := x.cfg.Engine.Find(c.Actor, ref)
	if err != nil {
		return err
	}
	list := []vm.ID{rec.ID}
	for _, side := range []vm.DiffSide{from, to} {
		if side.VM != "" && !slices.Contains(list, side.VM) { // an image is no VM's
			list = append(list, side.VM)
		}
	}
	for _, id := range list {
		if !x.cfg.Access.Asks(c.Actor, id, vm.OpRead) { // or it has no permission: see engine.FrozenDisk
			continue
		}
		if rec, err = x.cfg.Engine.Find(c.Actor, string(id)); err != nil {
			return err
		}
		err := x.cfg.Access.Approve(ctx, c, rec, access.Act{Verb: vm.OpRead, What: "show what changed in files", All: []any{r, from, to}, Details: map[string]string{
			"from": stateText(r.From, from), "to": stateText(r.To, to), "paths": fmt.Sprint(r.Paths),
		}})
		if err != nil {
			return err
		}
	}
	return nil
}

// stateText names a state as the caller did, and what it is.
func stateText(named string, side vm.DiffSide) string {
	text := "the image " + string(side.Image)
	if side.VM != "" {
		text = string(side.Generation) + " of " + cmp.Or(side.VMName, string(side.VM))
	}
	if named != "" {
		text = named + ": " + text
	}
	return text
}

// since is side for the older state: "" = the last turn, else what the VM was made from,
// or its image if that is gone.
func (x *Changes) since(ctx context.Context, c *vm.Call, ref, state string) (engine.Frozen, func(), error) {
	if state != "" {
		return x.side(ctx, c, ref, state)
	}
	g, err := x.cfg.Engine.FindTurn(ctx, c, ref, "")
	switch {
	case err == nil:
		return x.cfg.Engine.FrozenDisk(ctx, c, ref, string(g.ID))
	case vm.AsError(err).Code != noTurn:
		return engine.Frozen{}, nil, err
	}
	f, release, err := x.cfg.Engine.FrozenDisk(ctx, c, ref, engine.StateOrigin)
	if vm.KindOf(err) == vm.NotFound && vm.AsError(err).Code != "VM_NOT_FOUND" {
		return x.cfg.Engine.FrozenDisk(ctx, c, ref, engine.StateImage)
	}
	return f, release, err
}

// noTurn is the code of FindTurn's error when there is none.
const noTurn = "SNAPSHOT_NOT_FOUND"

// side finds one state; see vm.DiffRequest.From.
func (x *Changes) side(ctx context.Context, c *vm.Call, ref, state string) (engine.Frozen, func(), error) {
	if other, ok := strings.CutPrefix(state, "vm:"); ok {
		return x.cfg.Engine.FrozenDisk(ctx, c, other, engine.StateNow)
	}
	if _, err := strconv.ParseUint(state, 10, 32); err == nil {
		g, err := x.cfg.Engine.FindTurn(ctx, c, ref, state)
		if err != nil {
			return engine.Frozen{}, nil, err
		}
		state = string(g.ID)
	}
	return x.cfg.Engine.FrozenDisk(ctx, c, ref, state)
}

// manifest is the digest that a commit names. The newer state is in it by its VM and its
// content: another capture of the same content has the same digest.
func manifest(from, to vm.DiffSide, content string) string {
	data, err := json.Marshal([]string{"warren diff 1", string(from.Generation), string(from.Image), string(to.VM), string(to.Image), content})
	if err != nil {
		panic(err) // strings
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// notCompared says what the disks do not show: each time, so that nobody takes a diff
// without alerts for proof that nothing happened.
func notCompared(from, to engine.Frozen) (list []string) {
	for _, x := range []struct {
		f    engine.Frozen
		what string
	}{{from, "older"}, {to, "newer"}} {
		if !x.f.Synced {
			list = append(list, "the "+x.what+" state was captured without writing the guest's cache to its disk: what programs had written less than 30 s before may be missing")
		}
	}
	name := cmp.Or(to.Side.VMName, string(to.Side.VM))
	if name == "" {
		return list
	}
	return append(list,
		fmt.Sprintf("what programs read, printed and sent, and the arguments of commands: no disk has them; see `warren net connections %s` and `warren audit ls`", name),
		fmt.Sprintf("memory and older generations (`warren tree %s`): a secret that was deleted may still be there", name))
}

const (
	maxPaths = 1000
	maxPath  = 4096
)

// checkPaths wants absolute paths without "..".
func checkPaths(paths []vm.GuestPath) error {
	if len(paths) > maxPaths {
		return vm.Errorf(vm.Invalid, "paths", "there are %d, the limit is %d", len(paths), maxPaths)
	}
	for _, p := range paths {
		if !strings.HasPrefix(string(p), "/") || len(p) > maxPath || strings.ContainsRune(string(p), 0) || strings.Contains(string(p)+"/", "/../") {
			return vm.Errorf(vm.Invalid, p.String(), "a path is absolute, without \"..\" and has at most %d bytes", maxPath).
				WithHint("name it as in the guest, such as /work/app.go")
		}
	}
	return nil
}
