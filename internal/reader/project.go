// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"
	"io"

	"github.com/warren-vm/warren/internal/review"
	"github.com/warren-vm/warren/vm"
)

// projectBytes bounds the tar of a project.
const projectBytes = 4<<30 + tarOverhead

// Project writes the files of a directory that git would track to w as a tar; see
// review.WriteProject. Whoever reads it must treat it as hostile. Kinds: those of Tar, and
// Invalid. After an error w has a part of the tar.
func (r *Reader) Project(ctx context.Context, layers []string, o review.ProjectOptions, w io.Writer) error {
	request := review.Request{Verb: review.VerbProject, Project: &o}
	files := newFiles()
	defer files.close()
	var err error
	if request.To, err = files.add(layers); err != nil {
		return err
	}
	return r.run(ctx, request, files, func(answer io.Reader) error {
		bounded := &io.LimitedReader{R: answer, N: projectBytes}
		_, err := io.Copy(w, bounded)
		if err == nil && bounded.N == 0 {
			err = vm.Errorf(vm.Limit, "", "the files have more bytes than the limit")
		}
		return err
	})
}
