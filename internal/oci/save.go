// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/warren-vm/warren/vm"
)

// Tag returns the name under which `docker load` finds what a Dockerfile calls ref. A reference
// by digest has none; the error has kind NotFound. Kind Invalid for what is no reference.
func Tag(ref string) (string, error) {
	r, err := name.ParseReference(ref)
	if err != nil {
		return "", badReference(ref, "is no name of a container image")
	}
	tag, ok := r.(name.Tag)
	if !ok {
		return "", vm.Errorf(vm.NotFound, vm.Clip(ref, 200), "an image that is named by its digest cannot be loaded under that name")
	}
	return tag.Name(), nil
}

// Save writes the image in the format that `docker load` reads, under a tag of Tag.
func (i *Image) Save(ctx context.Context, w io.Writer, tag string) error {
	type entry struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	list := entry{Config: i.config.Hex + ".json", RepoTags: []string{tag}}
	tw := tar.NewWriter(w)
	err := i.copy(ctx, tw, i.config, list.Config)
	for _, l := range i.layers {
		file := l.diff.Hex + ".tar"
		list.Layers = append(list.Layers, file)
		if err == nil {
			err = i.copy(ctx, tw, l.blob, file)
		}
	}
	if err != nil {
		return err
	}
	data, err := json.Marshal([]entry{list})
	if err != nil {
		return vm.Errorf(vm.Internal, i.Source, "%w", err)
	}
	err = tw.WriteHeader(&tar.Header{Name: "manifest.json", Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(data))})
	if err == nil {
		_, err = tw.Write(data)
	}
	return errors.Join(err, tw.Close())
}

// copy adds a part to a tar.
func (i *Image) copy(ctx context.Context, tw *tar.Writer, part v1.Hash, file string) error {
	f, err := os.Open(i.store.path(part))
	if err != nil {
		return fileError(strings.TrimPrefix(part.String(), "sha256:"), err)
	}
	defer f.Close() // read only
	st, err := f.Stat()
	if err == nil {
		err = tw.WriteHeader(&tar.Header{Name: file, Typeflag: tar.TypeReg, Mode: 0o644, Size: st.Size()})
	}
	if err == nil {
		_, err = io.Copy(tw, &counting{ctx: ctx, r: f})
	}
	return err
}
