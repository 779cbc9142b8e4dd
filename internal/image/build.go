// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// BuildOptions configure a build.
type BuildOptions struct {
	Dir     layout.Dir
	Recipe  Recipe // as parsed; Build resolves it
	HostCAs bool   // the guest trusts the CAs that the operator added to this host

	// Progress is called with the current step and the progress of the whole
	// build, by one goroutine at a time; may be nil.
	Progress func(step string, done, total int)
	// Warm captures the warm generation of the finished image; nil = none. If
	// it fails, the image stays, because it boots without one.
	Warm func(ctx context.Context, img vm.Image) error
	// Log gets one line per stage; may be nil.
	Log *slog.Logger

	hostRoot string // "/" outside tests
	run      runner // nil = programs of the host
	// fetch returns the file of a download; nil = from the network or the cache.
	fetch func(ctx context.Context, d RecipeDownload) (string, error)
}

// total is the final value of Progress.
const total = 100

// Build builds an image and returns it. An interrupted build with the same recipe,
// sources and CAs continues after its last finished stage. The image appears whole or
// not at all. Kinds: Invalid (recipe), Busy (another process builds the same recipe),
// Unsupported (the host has no Debian sources or lacks a program), NoSpace, Cancelled.
func Build(ctx context.Context, o BuildOptions) (img vm.Image, err error) {
	if source, ok := o.Recipe.containerSource(); ok {
		return Import(ctx, ImportOptions{
			Dir: o.Dir, Source: source, Name: o.Recipe.Name, Progress: o.Progress, Warm: o.Warm, Log: o.Log, recipe: &o.Recipe, run: o.run, fetch: o.fetch,
		})
	}
	if o.hostRoot == "" {
		o.hostRoot = "/"
	}
	if o.run == nil {
		o.run = runProgram
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	b := &builder{BuildOptions: o, started: time.Now()}
	if b.fetch == nil {
		b.fetch = newDownloader(o.Dir, func(from string) { b.progress("download "+from, 1) }).get
	}
	if err := b.prepare(); err != nil {
		return vm.Image{}, err
	}
	lock, err := layout.TryLock(o.Dir.ImageBuildLock(b.digest))
	if err != nil {
		if errors.Is(err, vm.Busy) {
			return vm.Image{}, vm.Errorf(vm.Busy, b.recipe.Name, "this image is being built by another process").
				WithHint("wait for it; `warren image ls` shows it when it is done")
		}
		return vm.Image{}, err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	img, err = b.stages(ctx)
	if ctx.Err() != nil && err != nil {
		return vm.Image{}, vm.Errorf(vm.Cancelled, b.recipe.Name, "build interrupted").
			WithHint("the same command continues where it stopped")
	}
	if err == nil {
		o.Log.Info("image built", "image", img.ID, "name", img.Name, "took", time.Since(b.started))
	}
	return img, err
}

// builder is one run of Build.
type builder struct {
	BuildOptions
	plan
	layers  []layer // lowest first
	digest  string
	dir     layout.ImageDir // .building-DIGEST
	started time.Time

	container *container // the image is made of a container image; nil = of packages
}

// buildVersion is part of the digest. Raise it when the build makes something
// else from the same input.
const buildVersion = "2"

func (b *builder) prepare() error {
	var err error
	if b.recipe, err = b.Recipe.Resolve(); err != nil {
		return err
	}
	if b.sources, err = hostSources(b.hostRoot); err != nil {
		return err
	}
	if b.layers, err = b.findLayers(); err != nil {
		return err
	}
	more := []string{buildVersion, guestFile("customize.sh"), guestFile("mask"), b.sources.String()}
	if b.HostCAs {
		if b.cas, err = hostCAs(b.hostRoot); err != nil {
			return err
		}
	}
	for _, ca := range b.cas {
		more = append(more, ca.Name+string(ca.PEM))
	}
	if b.digest, err = b.recipe.digestWith(more...); err != nil {
		return err
	}
	b.digest = b.digest[:16]
	b.dir = layout.ImageDir(b.Dir.ImageBuilding(b.digest))
	return nil
}

// A stage is a part of the build that leaves files behind. It is not repeated
// once its marker exists.
type stage struct {
	name string
	from int // progress at its start
	do   func(ctx context.Context) error
}

func (b *builder) stages(ctx context.Context) (vm.Image, error) {
	if id, ok := b.published(); ok { // only the warm generation was missing
		img, err := Get(b.Dir, id)
		if err == nil {
			return img, b.finish(ctx, img)
		}
	}
	if err := os.MkdirAll(string(b.dir), 0o700); err != nil {
		return vm.Image{}, fileError(string(b.dir), err)
	}
	for _, s := range []stage{
		{"packages", 1, b.rootfs},
		{"kernel", 60, b.boot},
		{"disk", 63, b.disk},
	} {
		if err := b.stage(ctx, s); err != nil {
			return vm.Image{}, err
		}
	}
	b.progress("manifest", 72)
	img, err := b.publish()
	if err != nil {
		return vm.Image{}, err
	}
	return img, b.finish(ctx, img)
}

func (b *builder) stage(ctx context.Context, s stage) error {
	marker := b.marker(s.name)
	b.progress(s.name, s.from)
	if !exists(marker) {
		start := time.Now()
		if err := s.do(ctx); err != nil {
			return err
		}
		// The marker survives a power cut, so the files must survive it, too.
		if err := layout.SyncTree(string(b.dir)); err != nil {
			return err
		}
		took := fmt.Sprintf("%.1f\n", time.Since(start).Seconds())
		if err := layout.WriteFile(marker, []byte(took), 0o600); err != nil {
			return err
		}
		b.Log.Info("image stage done", "stage", s.name, "seconds", took[:len(took)-1])
	}
	return nil
}

func (b *builder) progress(step string, done int) {
	if b.Progress != nil {
		b.Progress(step, done, total)
	}
}

// finish makes the warm generation and removes files that only the build needs.
func (b *builder) finish(ctx context.Context, img vm.Image) error {
	if b.Warm != nil {
		b.progress("warm", 75)
		if err := b.Warm(ctx, img); err != nil {
			return fmt.Errorf("warm generation of %s: %w", img.ID, err)
		}
	}
	if err := os.RemoveAll(string(b.dir)); err != nil {
		return fileError(string(b.dir), err)
	}
	b.progress("done", total)
	return errors.Join(prune(b.Dir.Downloads()), prune(b.Dir.Layers()))
}

// Files of a build that are not part of the image.
func (b *builder) marker(stage string) string { return filepath.Join(string(b.dir), ".done-"+stage) }

func (b *builder) scratch(name string) string { return filepath.Join(string(b.dir), ".scratch", name) }
func (b *builder) publishedMark() string      { return filepath.Join(string(b.dir), ".published") }

// published returns the image that an earlier run of this build made.
func (b *builder) published() (vm.ImageID, bool) {
	data, err := os.ReadFile(b.publishedMark())
	id := vm.ImageID(data)
	return id, err == nil && exists(b.Dir.ImageManifest(id))
}

// publish writes the manifest and gives the image its name. It assembles the image in
// a separate directory, so that the build's directory still shows what is left to do.
func (b *builder) publish() (vm.Image, error) {
	img, err := b.manifest()
	if err != nil {
		return vm.Image{}, err
	}
	tmp := filepath.Join(string(b.dir), ".publish")
	if err := errors.Join(os.RemoveAll(tmp), os.Mkdir(tmp, 0o700)); err != nil {
		return vm.Image{}, fileError(tmp, err)
	}
	into := layout.ImageDir(tmp)
	recipe, err := b.recipe.yaml()
	if err != nil {
		return vm.Image{}, err
	}
	for _, p := range [][2]string{
		{b.dir.Disk(), into.Disk()}, {b.dir.Kernel(), into.Kernel()}, {b.dir.Modules(), into.Modules()}, {b.dir.Log(), into.Log()},
	} {
		if err := linkTree(p[0], p[1]); err != nil {
			return vm.Image{}, fileError(p[1], err)
		}
	}
	if err := os.WriteFile(into.Recipe(), recipe, 0o644); err != nil {
		return vm.Image{}, fileError(into.Recipe(), err)
	}
	if err := layout.WriteJSON(into.Manifest(), img, 0o644); err != nil {
		return vm.Image{}, err
	}
	if err := ShareFiles(b.Dir, tmp, img); err != nil {
		return vm.Image{}, err
	}
	if err := layout.Publish(tmp, b.Dir.Image(img.ID)); err != nil {
		return vm.Image{}, err
	}
	return img, layout.WriteFile(b.publishedMark(), []byte(img.ID), 0o600)
}

// linkTree makes to a hard link to the file from, or a copy of the directory
// from with hard links to its files.
func linkTree(from, to string) error {
	st, err := os.Stat(from)
	if err != nil {
		return err
	}
	if !st.IsDir() {
		return os.Link(from, to)
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(from)
	for _, e := range entries {
		err = errors.Join(err, os.Link(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())))
	}
	return err
}
