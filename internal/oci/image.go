// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/warren-vm/warren/vm"
)

const (
	maxManifest = 4 << 20
	maxConfig   = 8 << 20
	maxLayers   = 512
	maxIndexes  = 4 // lists of images within lists
)

// Options say how images are got.
type Options struct {
	Cache     string            // directory for parts of images
	Transport http.RoundTripper // nil = this host's own
	Keychain  authn.Keychain    // nil = Docker's configuration of the user who runs this
	// Progress is called with the bytes that have come so far and all that are wanted; may be nil.
	Progress func(done, total int64)
}

// Image is an image whose parts are all in the cache.
type Image struct {
	Source string // as it was named
	Digest string // sha256:… of its manifest; of its configuration where an archive has none
	Config Config
	config v1.Hash // of the whole configuration
	layers []part
	store  store
}

// Config is what an image says of the program in it.
type Config struct {
	Env        []string // NAME=VALUE
	Entrypoint []string
	Cmd        []string
	User       string
	Workdir    string
	StopSignal string
}

// Argv is the program that the image starts.
func (c Config) Argv() []string { return slices.Concat(c.Entrypoint, c.Cmd) }

// part is a layer: its bytes in the cache, and the digest of the tar in it.
type part struct {
	blob v1.Hash
	size int64
	diff v1.Hash
}

// Get brings an image for linux/amd64 into the cache. Its errors have the codes OCI_BAD_REFERENCE,
// OCI_NOT_FOUND, OCI_UNAUTHORIZED, OCI_UNREACHABLE, OCI_WRONG_PLATFORM, OCI_DIGEST_MISMATCH,
// OCI_TOO_LARGE and OCI_INVALID.
func Get(ctx context.Context, s Source, o Options) (*Image, error) {
	st := store{o.Cache}
	var from parts
	var top v1.Descriptor
	var err error
	switch s.Kind {
	case Registry:
		from, top, err = openRegistry(ctx, s, o)
	case Layout:
		from, top, err = openLayout(s)
	case Archive:
		var docker *Image
		if docker, from, top, err = openArchive(ctx, s, st); docker != nil {
			return docker, err
		}
	default:
		err = badReference(s.String(), "is from nowhere that is known")
	}
	if err != nil {
		return nil, err
	}
	g := getter{ctx: ctx, store: st, from: from, progress: o.Progress, subject: s.String()}
	return g.image(top)
}

// parts is where the parts of an image come from.
type parts interface {
	// get stores a part; the store has checked its digest.
	get(ctx context.Context, st store, d v1.Descriptor, moved func(int64)) error
}

type getter struct {
	ctx         context.Context
	store       store
	from        parts
	progress    func(done, total int64)
	subject     string
	done, total int64
}

// fetch brings a part into the store unless it is there.
func (g *getter) fetch(d v1.Descriptor) error {
	if d.Digest.Algorithm != "sha256" {
		return invalid(g.subject, "a part is named by %q, not by its SHA-256", d.Digest.Algorithm)
	}
	if g.store.has(d.Digest) {
		g.moved(d.Size)
		return nil
	}
	return g.from.get(g.ctx, g.store, d, g.moved)
}

func (g *getter) moved(n int64) {
	g.done += n
	if g.progress != nil && g.total > 0 {
		g.progress(min(g.done, g.total), g.total)
	}
}

// image resolves a descriptor to the image for this platform, and gets its parts.
func (g *getter) image(top v1.Descriptor) (*Image, error) {
	for depth := 0; ; depth++ {
		if depth > maxIndexes {
			return nil, invalid(g.subject, "its lists of images hold each other")
		}
		if err := g.fetch(top); err != nil {
			return nil, err
		}
		raw, err := g.store.small(top.Digest, maxManifest)
		if err != nil {
			return nil, err
		}
		if !isIndex(top.MediaType, raw) {
			return g.manifest(top, raw)
		}
		list, err := v1.ParseIndexManifest(bytes.NewReader(raw))
		if err != nil {
			return nil, invalid(g.subject, "its list of images is not readable: %v", err)
		}
		if top, err = choose(g.subject, list.Manifests); err != nil {
			return nil, err
		}
	}
}

// isIndex reports whether bytes are a list of images.
func isIndex(t types.MediaType, raw []byte) bool {
	if t != "" {
		return t.IsIndex()
	}
	return bytes.Contains(raw, []byte(`"manifests"`)) && !bytes.Contains(raw, []byte(`"layers"`))
}

// choose returns the image for linux/amd64.
func choose(subject string, list []v1.Descriptor) (v1.Descriptor, error) {
	var there []string
	for _, d := range list {
		if d.MediaType.IsIndex() && d.Platform == nil {
			return d, nil
		}
		if !d.MediaType.IsImage() && d.MediaType != "" {
			continue
		}
		if d.Platform == nil {
			if len(list) == 1 {
				return d, nil
			}
			continue
		}
		if ours(d.Platform.OS, d.Platform.Architecture) {
			return d, nil
		}
		if p := platform(d.Platform.OS, d.Platform.Architecture, d.Platform.Variant); p != "unknown/unknown" && !slices.Contains(there, p) {
			there = append(there, p)
		}
	}
	return v1.Descriptor{}, wrongPlatform(subject, there)
}

func ours(os, arch string) bool { return os == "linux" && arch == "amd64" }

func platform(os, arch, variant string) string {
	p := vm.Clip(os, 40) + "/" + vm.Clip(arch, 40)
	if variant != "" {
		p += "/" + vm.Clip(variant, 40)
	}
	return p
}

func wrongPlatform(subject string, there []string) error {
	has := "it has none that says its platform"
	if len(there) > 0 {
		has = "it has " + strings.Join(there[:min(len(there), 20)], ", ")
	}
	return vm.Errorf(vm.Unsupported, subject, "the image is not for linux/amd64: %s", has).WithCode("OCI_WRONG_PLATFORM").
		WithHint("use a tag that has linux/amd64, or build the image for it: docker build --platform linux/amd64")
}

func invalid(subject, format string, args ...any) error {
	return vm.Errorf(vm.Invalid, vm.Clip(subject, 300), "%s", vm.Clip(fmt.Sprintf(format, args...), 400)).WithCode("OCI_INVALID").
		WithHint("the image was not used; build it again with another program, or get it from elsewhere")
}

// manifest gets the configuration and the layers of one image.
func (g *getter) manifest(top v1.Descriptor, raw []byte) (*Image, error) {
	m, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, invalid(g.subject, "its manifest is not readable: %v", err)
	}
	switch {
	case m.SchemaVersion != 2 || m.Config.Digest.Hex == "":
		return nil, invalid(g.subject, "its manifest has the format of before 2017")
	case len(m.Layers) > maxLayers:
		return nil, tooLarge(g.subject, "has %d layers, at most %d are read", len(m.Layers), maxLayers)
	case m.Config.Size > maxConfig:
		return nil, tooLarge(g.subject, "its configuration is larger than %d MiB", maxConfig>>20)
	}
	g.total = m.Config.Size
	for _, l := range m.Layers {
		if l.Size < 0 || l.Size > maxBlob {
			return nil, tooLarge(g.subject, "a layer is larger than %d GiB", maxBlob>>30)
		}
		if !l.MediaType.IsLayer() || !l.MediaType.IsDistributable() {
			return nil, invalid(g.subject, "holds a part of the type %q, which is no layer of files", l.MediaType)
		}
		g.total += l.Size
	}
	g.done = 0
	if err := g.fetch(m.Config); err != nil {
		return nil, err
	}
	raw, err = g.store.small(m.Config.Digest, maxConfig)
	if err != nil {
		return nil, err
	}
	img := &Image{Source: g.subject, Digest: top.Digest.String(), config: m.Config.Digest, store: g.store}
	diffs, err := img.configure(raw)
	if err != nil {
		return nil, err
	}
	if len(diffs) != len(m.Layers) {
		return nil, invalid(g.subject, "its configuration has %d layers, its manifest %d", len(diffs), len(m.Layers))
	}
	for i, l := range m.Layers {
		if err := g.fetch(l); err != nil {
			return nil, err
		}
		img.layers = append(img.layers, part{blob: l.Digest, size: l.Size, diff: diffs[i]})
	}
	return img, nil
}

// configure reads the image's configuration, and returns the digests of its layers' tars.
func (i *Image) configure(raw []byte) ([]v1.Hash, error) {
	c, err := v1.ParseConfigFile(bytes.NewReader(raw))
	if err != nil {
		return nil, invalid(i.Source, "its configuration is not readable: %v", err)
	}
	if !ours(c.OS, c.Architecture) {
		return nil, wrongPlatform(i.Source, []string{platform(c.OS, c.Architecture, c.Variant)})
	}
	i.Config = Config{
		Env: c.Config.Env, Entrypoint: c.Config.Entrypoint, Cmd: c.Config.Cmd, User: c.Config.User,
		Workdir: c.Config.WorkingDir, StopSignal: c.Config.StopSignal,
	}
	return c.RootFS.DiffIDs, i.Config.check(i.Source)
}

// check refuses a configuration that no program could be started with.
func (c Config) check(subject string) error {
	for _, s := range slices.Concat(c.Env, c.Entrypoint, c.Cmd, []string{c.User, c.Workdir, c.StopSignal}) {
		if strings.IndexByte(s, 0) >= 0 || len(s) > 128<<10 {
			return invalid(subject, "its configuration holds a text that no program can be given")
		}
	}
	for _, e := range c.Env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" {
			return invalid(subject, "its variable %q has no name or no value", vm.Clip(e, 100))
		}
	}
	if c.Workdir != "" && !strings.HasPrefix(c.Workdir, "/") {
		return invalid(subject, "its working directory %q is not absolute", vm.Clip(c.Workdir, 100))
	}
	if strings.ContainsAny(c.User, " \t\n/") {
		return invalid(subject, "its user %q is no name of a user", vm.Clip(c.User, 100))
	}
	return nil
}
