// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"bufio"
	"context"
	"io"
	"strconv"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// eachBlob calls each with the content of every entry, in order. The content is valid
// only during the call. Entries are blobs of a size that fits into memory.
func (r *Repo) eachBlob(ctx context.Context, id string, list []vm.TreeEntry, each func(i int, data []byte) error) error {
	var buf []byte
	return r.eachBlobStream(ctx, id, list, func(i int, size int64, in io.Reader) error {
		if int64(cap(buf)) < size {
			buf = make([]byte, size)
		}
		buf = buf[:size]
		if _, err := io.ReadFull(in, buf); err != nil {
			return err
		}
		return each(i, buf)
	})
}

// eachBlobStream calls each with a reader of every entry, in order. It reads what each
// has left.
func (r *Repo) eachBlobStream(ctx context.Context, id string, list []vm.TreeEntry, each func(i int, size int64, in io.Reader) error) error {
	if len(list) == 0 {
		return nil
	}
	ask := make([]io.Reader, 0, len(list))
	for _, e := range list {
		ask = append(ask, strings.NewReader(e.SHA+"\n"))
	}
	return r.reading(ctx, id, []string{"cat-file", "--batch", "--buffer"}, io.MultiReader(ask...), func(out io.Reader) error {
		in := bufio.NewReaderSize(out, 256<<10)
		for i, e := range list {
			head, err := in.ReadString('\n')
			if err != nil {
				return err
			}
			f := strings.Fields(head)
			if len(f) != 3 || f[0] != e.SHA || f[1] != "blob" {
				return vm.Errorf(vm.Corrupt, e.SHA, "the repository lacks an object of this commit")
			}
			size, err := strconv.ParseInt(f[2], 10, 64)
			if err != nil {
				return err
			}
			content := io.LimitReader(in, size)
			if err := each(i, size, content); err != nil {
				return err
			}
			if _, err := io.Copy(io.Discard, content); err != nil {
				return err
			}
			if _, err := in.Discard(1); err != nil {
				return err
			}
		}
		return nil
	})
}
