// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/warren-vm/warren/vm"
)

// publishedSize is the size in MiB of the file that is published.
const publishedSize = 256

// publish measures `warren publish` of a file beside `warren cp` of the same file out of
// the same VM, and `warren fetch` beside `warren cp` into it, in turns.
func (b *bench) publish(ctx context.Context) (err error) {
	id, err := b.server.createVM(ctx, vm.NetClosed)
	if err != nil {
		return err
	}
	s := b.server
	defer func() { err = errors.Join(err, s.remove(context.WithoutCancel(ctx), id)) }()
	src, dst := filepath.Join(b.dir, "published"), filepath.Join(b.dir, "copied")
	defer func() { err = errors.Join(err, removeFile(src), removeFile(dst)) }()
	err = errors.Join(fill(src, publishedSize<<20), finish(s.cli(ctx, "bucket", "create", "bench-published")))
	if err != nil {
		return err
	}
	const object = "s3://bench-published/big"
	limit := strconv.Itoa(publishedSize << 20)
	type step struct {
		to   *series
		args []string
	}
	rate := func(name string) *series { return b.rep.series("file of 256 MiB "+name, "MB/s", bound{}) }
	cp, publish := rate("out of the guest: warren cp"), rate("out of the guest: warren publish")
	in, fetch := rate("into the guest: warren cp"), rate("into the guest: warren fetch")
	for round := range max(5, b.n/2) + 1 { // the first one is warm-up
		for _, st := range []step{
			{in, []string{"cp", src, id + ":/root/big"}},
			{nil, []string{"exec", id, "--", "sync"}},
			{cp, []string{"cp", "--max-bytes", limit, id + ":/root/big", dst}},
			{publish, []string{"publish", id + ":/root/big", object}},
			{fetch, []string{"fetch", object, id + ":/root/big"}},
		} {
			_ = os.Remove(dst) // absent at first
			began := time.Now()
			if err := finish(s.cli(ctx, st.args...)); err != nil {
				return err
			}
			if st.to != nil && round > 0 {
				st.to.add(float64(publishedSize<<20) / 1e6 / time.Since(began).Seconds())
			}
		}
	}
	b.rep.ratio("rate of publish, of warren cp out of the guest", publish, cp, bound{Min: 0.8})
	b.rep.ratio("rate of fetch, of warren cp into the guest", fetch, in, bound{})
	return nil
}
