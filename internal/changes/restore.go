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
	"io"
	"path"
	"strings"
	"sync"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/reader"
	"github.com/warren-vm/warren/vm"
)

// maxRestored is how many bytes one restore brings back, holes included: the guest's agent
// gets them all.
const maxRestored = 1 << 30

// restoredShown is how many changes an answer lists.
const restoredShown = 1000

// Restore brings one path of a VM (a file, a directory with all that is below it, a link)
// back from an older state, in one step, while the VM keeps running; all else stays. It
// marks a turn first. It follows no links on the way to the path. Kinds: NotFound when the
// path was not there, WrongState when it has changed since the caller saw it.
func (x *Changes) Restore(ctx context.Context, c *vm.Call, ref string, r vm.RestoreRequest) (out vm.Restored, err error) {
	defer func() { err = vm.WithOp(vm.OpRestore, ref, err) }()
	if err := c.Actor.OwnerOnly(ref); err != nil {
		return out, err
	}
	if err := checkPaths([]vm.GuestPath{r.Path}); err != nil {
		return out, err
	}
	if r.Path = vm.GuestPath(path.Clean(string(r.Path))); r.Path == "/" {
		return out, vm.Errorf(vm.Invalid, "/", "the whole disk is not one path").
			WithHint("`warren undo` puts the whole VM back")
	}
	then, release, err := x.since(ctx, c, ref, r.From)
	if err != nil {
		return out, err
	}
	defer release()
	own := *c // the receipt of the answer is the restore's
	if out, err = x.planRestore(ctx, &own, ref, r, then); err != nil {
		return out, err
	}
	if r.IfUnchanged != "" && r.IfUnchanged != out.State {
		return out, vm.Errorf(vm.WrongState, r.Path.String(), "it has changed since state %s was shown", r.IfUnchanged).
			WithHint("look again: `warren restore %s %s --dry-run`", ref, r.Path)
	}
	if out.DryRun = r.DryRun; r.DryRun || out.Stat.Files() == 0 {
		return out, nil
	}
	if !r.NoTurn {
		if out.Turn, err = x.turnBefore(ctx, &own, ref, r.Path); err != nil {
			return out, err
		}
	}
	return out, x.putBack(ctx, c, ref, r.Path, then)
}

// planRestore finds out what a restore changes.
func (x *Changes) planRestore(ctx context.Context, c *vm.Call, ref string, r vm.RestoreRequest, then engine.Frozen) (out vm.Restored, err error) {
	now, release, err := x.side(ctx, c, ref, engine.StateNow)
	if err != nil {
		return out, err
	}
	defer release()
	d, err := x.cfg.Reader.Diff(ctx, now.Layers, then.Layers, reader.Options{Paths: []vm.GuestPath{r.Path}, All: true})
	if vm.KindOf(err) == vm.NotFound {
		return out, notThere(r.Path)
	}
	if err != nil {
		return out, err
	}
	out = vm.Restored{Path: r.Path, From: then.Side, Stat: d.Stat, Changes: d.Changes}
	special := 0
	for _, ch := range d.Changes {
		if ch.Verb != vm.FileDeleted && ch.Now != nil && ch.Type == "file" && ch.Now.Size > maxRestored {
			return out, vm.Errorf(vm.Limit, ch.Path.String(), "it has %d MiB, with its holes, and a restore brings back at most %d MiB", ch.Now.Size>>20, maxRestored>>20).
				WithHint("restore the paths beside it one by one, or the whole VM: `warren undo %s`", ref)
		}
		if ch.Path == r.Path && ch.Verb == vm.FileDeleted {
			return out, notThere(r.Path)
		}
		switch ch.Type {
		case "fifo", "socket", "block", "char":
			if ch.Verb != vm.FileDeleted {
				special++
			}
		}
	}
	if len(d.Changes) == 0 {
		if err := x.cfg.Reader.Tar(ctx, then.Layers, []vm.GuestPath{r.Path}, reader.TarOptions{}, io.Discard); vm.KindOf(err) == vm.NotFound {
			return out, notThere(r.Path)
		}
	}
	out.State = restoreState(then.Side, d.Changes)
	if special > 0 {
		out.NotKept = append(out.NotKept, fmt.Sprintf("%d devices, pipes and sockets", special))
	}
	if len(out.Changes) > restoredShown {
		out.Changes, out.More = out.Changes[:restoredShown], len(d.Changes)-restoredShown
	}
	return out, nil
}

func notThere(p vm.GuestPath) error {
	return vm.Errorf(vm.NotFound, p.String(), "it was not there in that state").WithCode("FILE_NOT_FOUND", "path", p.String()).
		WithHint("`warren turns NAME` lists the turns of a VM; name one with --from")
}

// restoreState is a digest of what a restore changes. Inode numbers are left out.
func restoreState(then vm.DiffSide, changes []vm.FileChange) string {
	sum := sha256.New()
	enc := json.NewEncoder(sum)
	_ = enc.Encode([]string{string(then.Generation), string(then.Image)}) // a hash takes everything
	for _, ch := range changes {
		sides := [2]vm.FileState{}
		for i, s := range []*vm.FileState{ch.Was, ch.Now} {
			if s != nil {
				sides[i] = *s
				sides[i].Inode = 0
			}
		}
		_ = enc.Encode([]any{ch.Verb, ch.Path, ch.From, ch.Type, sides})
	}
	return hex.EncodeToString(sum.Sum(nil))[:16]
}

// turnBefore marks the state before a restore, without memory if volumes are mounted.
func (x *Changes) turnBefore(ctx context.Context, c *vm.Call, ref string, p vm.GuestPath) (*vm.Turn, error) {
	req := engine.TurnRequest{Note: "before restore of " + p.String()}
	t, err := x.cfg.Engine.Turn(ctx, c, ref, req)
	if vm.AsError(err) != nil && vm.AsError(err).Code == "VOLUMES_ATTACHED" {
		req.DiskOnly = true
		t, err = x.cfg.Engine.Turn(ctx, c, ref, req)
	}
	if err != nil {
		return nil, err
	}
	return &t, nil
}

// putBack sends a path of a frozen state to the guest.
func (x *Changes) putBack(ctx context.Context, c *vm.Call, ref string, p vm.GuestPath, then engine.Frozen) error {
	v, err := x.cfg.Engine.Visit(ctx, c, ref, vm.OpRestore, "")
	if err != nil {
		return err
	}
	from := cmp.Or(string(then.Side.Generation), string(then.Side.Image))
	if err := v.Begin(ctx, vm.AuditEntry{Subject: vm.Clip(p.String(), 1024), Detail: map[string]any{"from": from}}); err != nil {
		v.End(err, nil)
		return err
	}
	err = x.sendBack(v.Context(), v.Guest(), p, then)
	if vm.KindOf(err) == vm.Unsupported {
		err = vm.AsError(err).WithHint("its agent is too old to restore paths: `warren undo` puts the whole VM back")
	}
	err = v.Fail(v.Context(), err)
	v.End(err, nil)
	return err
}

// sendBack streams a path from the reader to the guest's agent. What fails first is the
// error: the other ends fail because of it.
func (x *Changes) sendBack(ctx context.Context, g engine.Guest, p vm.GuestPath, then engine.Frozen) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var all sync.WaitGroup
	read, readEnd := io.Pipe()
	send, sendEnd := io.Pipe()
	part := func(do func() error, ends ...interface{ CloseWithError(error) error }) {
		err := do()
		if err != nil {
			stop(err) // only the first counts
		}
		for _, end := range ends {
			_ = end.CloseWithError(err) // always nil
		}
	}
	all.Go(func() {
		part(func() error {
			return x.cfg.Reader.Tar(ctx, then.Layers, []vm.GuestPath{p}, reader.TarOptions{Bytes: maxRestored}, readEnd)
		}, readEnd)
	})
	all.Go(func() {
		part(func() error { return renameEntries(strings.TrimPrefix(string(p), "/"), read, sendEnd) }, read, sendEnd)
	})
	part(func() error { return g.Restore(ctx, string(p), send) }, send)
	all.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
