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

// truthScript makes 100,000 files in 100 directories, each with a content of its own: the
// server looks each of them up in its repositories.
const truthScript = `set -e; mkdir -p /work/tree; cd /work/tree
for d in $(seq 100); do mkdir d$d; (cd d$d; seq -f "$d of %g" 1000 | split -l 1 -a 3 -d - f); done; sync`

// truth asks where the copies of a VM's data are, all of whose 100,000 files are not the
// image's: while no repository has them, and when one has. Then a small VM is stopped, and
// asked for twice.
func (b *bench) truth(ctx context.Context) (err error) {
	id, err := b.server.createVM(ctx, vm.NetClosed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.server.remove(context.WithoutCancel(ctx), id)) }()
	if err := b.server.exec(ctx, id, "sh", "-c", truthScript); err != nil {
		return err
	}
	memory := b.rep.series("truth: the reader's memory", "MB", bound{Max: 64})
	for _, hosted := range []bool{false, true} {
		what := "truth of 100,000 files that are only there"
		if hosted {
			what = "truth of 100,000 files that a repository has"
			var repo struct {
				ID string `json:"repoId"`
			}
			if err := b.server.call(ctx, "POST", "/git/v1/repo", map[string]any{"name": "tree"}, &repo); err != nil {
				return err
			}
			commit := vm.CommitRequest{Repo: repo.ID, Path: "/work/tree", Message: "tree"}
			if err := b.server.call(ctx, "POST", "/v1/vms/"+id+"/commit", commit, &vm.CommitPlan{}); err != nil {
				return err
			}
		}
		took := b.rep.series(what, "ms", bound{Max: 3000})
		for i := range min(b.n, 7) + 1 {
			if err := b.server.exec(ctx, id, "sh", "-c", fmt.Sprintf("echo %d > /work/last; sync", i)); err != nil {
				return err
			}
			seen := watchReader()
			begun := time.Now()
			var t vm.Truth
			err := b.server.call(ctx, "GET", "/v1/vms/"+id+"/truth", nil, &t)
			took1 := time.Since(begun)
			peak := seen()
			if err != nil {
				return err
			}
			if lost := t.Only.Files >= 100_000; lost == hosted {
				return fmt.Errorf("%d files are only in the VM, with a repository: %v", t.Only.Files, hosted)
			}
			if i == 0 {
				continue // a warm-up
			}
			took.took(took1)
			if peak > 0 {
				memory.add(float64(peak) / 1e6)
			}
		}
	}
	return b.truthAtRest(ctx)
}

// truthAtRest asks for the truth of a stopped VM in which little was written: its disk is
// frozen and read for the first answer, and neither for the next ones.
func (b *bench) truthAtRest(ctx context.Context) error {
	first := b.rep.series("truth of a stopped VM with one file of its own", "ms", bound{})
	again := b.rep.series("the same again, nothing written since", "ms", bound{Max: 500})
	for i := range min(b.n, 5) + 1 {
		id, err := b.server.createVM(ctx, vm.NetClosed)
		if err != nil {
			return err
		}
		err = errors.Join(b.server.exec(ctx, id, "sh", "-c", "echo new > /root/new"), b.server.call(ctx, "POST", "/v1/vms/"+id+"/stop", nil, nil))
		for n, s := range []*series{first, again} {
			if err != nil {
				break
			}
			begun := time.Now()
			var t vm.Truth
			err = b.server.call(ctx, "GET", "/v1/vms/"+id+"/truth", nil, &t)
			if took := time.Since(begun); i > 0 {
				s.took(took)
			}
			if err == nil && t.Only.Files != 1 {
				err = fmt.Errorf("answer %d: %d files are only in the VM, want one", n+1, t.Only.Files)
			}
		}
		if err := errors.Join(err, b.server.remove(context.WithoutCancel(ctx), id)); err != nil {
			return err
		}
	}
	return nil
}
