// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/warren-vm/warren/vm"
)

const (
	tagAnnotation  = "org.opencontainers.image.ref.name"
	nameAnnotation = "io.containerd.image.name"
	maxMembers     = 4096 // files of an archive
)

// directory is an image in the OCI layout on this host.
type directory struct{ path string }

func openLayout(s Source) (parts, v1.Descriptor, error) {
	dir, tag := s.path()
	f, err := os.Open(filepath.Join(dir, "index.json"))
	if err != nil {
		return nil, v1.Descriptor{}, fileError(dir, err)
	}
	defer f.Close() // read only
	raw, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err != nil {
		return nil, v1.Descriptor{}, fileError(dir, err)
	}
	top, err := pick(s, raw, tag)
	return directory{dir}, top, err
}

// pick returns the image that an index.json has for a tag.
func pick(s Source, raw []byte, tag string) (v1.Descriptor, error) {
	list, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil || len(raw) > maxManifest {
		return v1.Descriptor{}, invalid(s.String(), "its index.json is not readable")
	}
	var tags []string
	var fit []v1.Descriptor
	for _, d := range list.Manifests {
		t := d.Annotations[tagAnnotation]
		if n := d.Annotations[nameAnnotation]; tag != "" && n == tag || t == tag {
			return d, nil
		}
		if t != "" {
			tags = append(tags, vm.Clip(t, 100))
		}
		if d.MediaType.IsIndex() || d.MediaType.IsImage() || d.MediaType == "" {
			fit = append(fit, d)
		}
	}
	switch {
	case tag != "":
		return v1.Descriptor{}, noTag(s, tag, tags)
	case len(fit) == 1:
		return fit[0], nil
	case len(tags) > 1:
		return v1.Descriptor{}, severalTags(s, tags)
	}
	return choose(s.String(), fit)
}

func noTag(s Source, tag string, tags []string) error {
	return vm.Errorf(vm.NotFound, s.String(), "holds no image with the tag %q", vm.Clip(tag, 100)).WithCode("OCI_NOT_FOUND").
		WithHint("tags that it holds: %s", strings.Join(tags[:min(len(tags), 20)], ", "))
}

func severalTags(s Source, tags []string) error {
	return vm.Errorf(vm.Invalid, s.String(), "holds more than one image").WithCode("OCI_BAD_REFERENCE").
		WithHint("write one of its tags after a #: %s", strings.Join(tags[:min(len(tags), 20)], ", "))
}

func (d directory) get(ctx context.Context, st store, want v1.Descriptor, moved func(int64)) error {
	name := filepath.Join(d.path, "blobs", want.Digest.Algorithm, want.Digest.Hex)
	f, err := os.Open(name)
	if err != nil {
		return fileError(name, err)
	}
	defer f.Close() // read only
	return st.put(ctx, want.Digest, want.Size, f, moved)
}

// stored are parts that were all stored before.
type stored struct{ subject string }

func (s stored) get(_ context.Context, _ store, d v1.Descriptor, _ func(int64)) error {
	return vm.Errorf(vm.Corrupt, s.subject, "the part %s is missing", d.Digest).WithCode("OCI_INVALID").WithHint("make the archive again")
}

// openArchive stores all parts of an archive. It returns an index of the OCI layout, or the whole
// image if only `docker save` of before 2024 wrote it.
func openArchive(ctx context.Context, s Source, st store) (*Image, parts, v1.Descriptor, error) {
	file, tag := s.path()
	f, err := os.Open(file)
	if err != nil {
		return nil, nil, v1.Descriptor{}, fileError(file, err)
	}
	defer f.Close() // read only
	plain, err := decompress(bufio.NewReaderSize(f, 1<<20))
	if err != nil {
		return nil, nil, v1.Descriptor{}, invalid(s.String(), "is neither a tar nor a compressed tar: %v", err)
	}
	defer plain.Close() // read only
	a := &archive{subject: s.String(), store: st, parts: map[string]v1.Hash{}, links: map[string]string{}}
	if err := a.read(ctx, plain); err != nil {
		return nil, nil, v1.Descriptor{}, err
	}
	switch {
	case a.index != nil:
		top, err := pick(s, a.index, tag)
		return nil, stored{s.String()}, top, err
	case a.docker != nil:
		img, err := a.image(s, tag)
		return img, nil, v1.Descriptor{}, err
	}
	return nil, nil, v1.Descriptor{}, invalid(s.String(), "holds neither index.json nor manifest.json, so it is no image")
}

// archive is a tar of an image while it is read.
type archive struct {
	subject       string
	store         store
	index, docker []byte
	parts         map[string]v1.Hash // by name
	links         map[string]string
}

func (a *archive) read(ctx context.Context, from io.Reader) error {
	r := tar.NewReader(&counting{ctx: ctx, r: from})
	for n := 0; ; n++ {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return invalid(a.subject, "is no readable tar: %v", err)
		case n > maxMembers:
			return tooLarge(a.subject, "holds more than %d files, so it is no archive of an image", maxMembers)
		}
		name := path.Clean(h.Name)
		switch {
		case h.Typeflag == tar.TypeSymlink:
			a.links[name] = path.Join(path.Dir(name), h.Linkname)
			continue
		case h.Typeflag != tar.TypeReg:
			continue
		case name == "index.json" || name == "manifest.json":
			var raw []byte
			if raw, err = io.ReadAll(io.LimitReader(r, maxManifest)); name == "index.json" {
				a.index = raw
			} else {
				a.docker = raw
			}
		case strings.HasPrefix(name, "blobs/sha256/"):
			want := v1.Hash{Algorithm: "sha256", Hex: path.Base(name)}
			if len(want.Hex) != 64 || strings.Trim(want.Hex, "0123456789abcdef") != "" {
				return invalid(a.subject, "holds %q, which is no name of a part", name)
			}
			if a.parts[name] = want; !a.store.has(want) {
				err = a.store.put(ctx, want, 0, r, nil)
			}
		default:
			a.parts[name], _, err = a.store.putAny(ctx, r)
		}
		if err != nil {
			return fileError(a.subject, err)
		}
	}
}

// image reads manifest.json, the list of `docker save`.
func (a *archive) image(s Source, tag string) (*Image, error) {
	var list []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if json.Unmarshal(a.docker, &list) != nil || len(list) == 0 {
		return nil, invalid(a.subject, "its manifest.json is not readable")
	}
	one := 0
	if tag != "" || len(list) > 1 {
		var tags []string
		for _, m := range list {
			tags = append(tags, m.RepoTags...)
		}
		if tag == "" {
			return nil, severalTags(s, tags)
		}
		for one = 0; one < len(list) && !slices.Contains(list[one].RepoTags, tag); one++ {
		}
		if one == len(list) {
			return nil, noTag(s, tag, tags)
		}
	}
	m := list[one]
	config, ok := a.part(m.Config)
	if !ok || len(m.Layers) > maxLayers {
		return nil, invalid(a.subject, "its configuration is missing, or it has more than %d layers", maxLayers)
	}
	raw, err := a.store.small(config, maxConfig)
	if err != nil {
		return nil, err
	}
	img := &Image{Source: a.subject, Digest: config.String(), config: config, store: a.store}
	diffs, err := img.configure(raw)
	if err != nil {
		return nil, err
	}
	if len(diffs) != len(m.Layers) {
		return nil, invalid(a.subject, "its configuration has %d layers, its manifest.json %d", len(diffs), len(m.Layers))
	}
	for i, name := range m.Layers {
		h, ok := a.part(name)
		if !ok {
			return nil, invalid(a.subject, "its layer %q is missing", name)
		}
		st, err := os.Stat(a.store.path(h))
		if err != nil {
			return nil, fileError(a.store.path(h), err)
		}
		img.layers = append(img.layers, part{blob: h, size: st.Size(), diff: diffs[i]})
	}
	return img, nil
}

// part returns a file of the archive, also by a symbolic link, which `docker save` used to write.
func (a *archive) part(name string) (v1.Hash, bool) {
	name = path.Clean(name)
	if to, ok := a.links[name]; ok {
		name = to
	}
	h, ok := a.parts[name]
	return h, ok
}
