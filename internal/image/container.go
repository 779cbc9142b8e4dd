// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/oci"
	"github.com/warren-vm/warren/vm"
)

// ImportOptions configure an import.
type ImportOptions struct {
	Dir    layout.Dir
	Source oci.Source
	Name   string // of the image; "" = from the source
	OCI    oci.Options

	// Progress, Warm and Log are as in BuildOptions.
	Progress func(step string, done, total int)
	Warm     func(ctx context.Context, img vm.Image) error
	Log      *slog.Logger

	recipe *Recipe // is built above it; nil = none
	run    runner  // nil = programs of the host
	fetch  func(ctx context.Context, d RecipeDownload) (string, error)
}

// importVersion is part of the digest. Raise it when an import makes something else of the same image.
const importVersion = "1"

// container is the container image of an import.
type container struct {
	image   *oci.Image
	tree    *oci.Tree
	base    vm.Image // has the kernel
	recipe  Recipe   // above it; the zero value = none
	systemd bool
	init    string // of the kernel's command line
}

// Import makes an image of a container image: its files, Warren's kernel, and the agent as init if there is
// no systemd in it. The same container image with the same kernel is imported once. Kinds and codes: those of
// oci.Get and Tree; NotFound without a base image; NoSpace; Busy; Cancelled.
func Import(ctx context.Context, o ImportOptions) (img vm.Image, err error) {
	if o.run == nil {
		o.run = runProgram
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Name == "" {
		o.Name = o.Source.Name()
	}
	if !userName.MatchString(o.Name) || slices.Contains(Names(), o.Name) {
		return vm.Image{}, vm.Errorf(vm.Invalid, o.Name, "cannot be the name of an imported image").
			WithHint("name it with --name: small letters, digits and -, and not like a shipped recipe")
	}
	b := &builder{BuildOptions: BuildOptions{Dir: o.Dir, Progress: o.Progress, Warm: o.Warm, Log: o.Log, run: o.run, fetch: o.fetch}, started: time.Now()}
	img, err = b.importing(ctx, o)
	if ctx.Err() != nil && err != nil {
		return vm.Image{}, vm.Errorf(vm.Cancelled, o.Name, "import interrupted").
			WithHint("the same command uses what was downloaded")
	}
	return img, err
}

func (b *builder) importing(ctx context.Context, o ImportOptions) (img vm.Image, err error) {
	c := &container{}
	if o.recipe != nil {
		c.recipe = *o.recipe
	}
	if c.base, err = Find(b.Dir, DefaultName); err != nil {
		return vm.Image{}, vm.Errorf(vm.NotFound, DefaultName, "an imported image gets the kernel of the base image, which was not built yet").
			WithCode("OCI_NO_KERNEL").WithHint("`warren image build base` builds it")
	}
	o.OCI.Cache = b.Dir.ContainerParts()
	b.progress("pull", 1)
	o.OCI.Progress = func(done, total int64) { b.progress("pull", 1+int(30*done/max(total, 1))) }
	if c.image, err = oci.Get(ctx, o.Source, o.OCI); err != nil {
		return vm.Image{}, err
	}
	c.configure()
	b.container, b.recipe = c, c.recipe
	b.recipe.Name, b.recipe.From, b.recipe.Workdir = o.Name, pinned(o.Source, c.image.Digest), c.image.Config.Workdir
	if b.digest, err = b.recipe.digestWith(importVersion, guestFile("container.sh"), guestFile("mask"), string(c.base.ID), fmt.Sprint(c.image.Config)); err != nil {
		return vm.Image{}, err
	}
	b.digest = b.digest[:16]
	b.dir = layout.ImageDir(b.Dir.ImageBuilding(b.digest))
	if img, ok := b.imported(); ok {
		return img, b.finish(ctx, img)
	}
	lock, err := layout.TryLock(b.Dir.ImageBuildLock(b.digest))
	if err != nil {
		if errors.Is(err, vm.Busy) {
			return vm.Image{}, vm.Errorf(vm.Busy, o.Name, "this image is being imported by another process").
				WithHint("wait for it; `warren image ls` shows it when it is done")
		}
		return vm.Image{}, err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	return b.importStages(ctx)
}

// pinned is a source with the digest that it stood for.
func pinned(s oci.Source, digest string) string {
	if s.Kind != oci.Registry {
		return s.String() + "@" + digest
	}
	place, _, _ := strings.Cut(s.Place, "@")
	if i := strings.LastIndexByte(place, ':'); i > strings.LastIndexByte(place, '/') {
		place = place[:i]
	}
	return string(s.Kind) + ":" + place + "@" + digest
}

// imported returns an image that an earlier import made of the same parts.
func (b *builder) imported() (vm.Image, bool) {
	list, _ := List(b.Dir) // those that can be read
	for _, img := range slices.Backward(list) {
		if img.Container != nil && img.Recipe == b.digest && img.Name == b.recipe.Name {
			return img, true
		}
	}
	return vm.Image{}, false
}

// importStages makes the files of the image. Nothing of a failed import stays but the parts in the cache.
func (b *builder) importStages(ctx context.Context) (img vm.Image, err error) {
	if err := errors.Join(os.RemoveAll(string(b.dir)), os.MkdirAll(b.scratch(""), 0o700)); err != nil {
		return vm.Image{}, fileError(string(b.dir), err)
	}
	published := false
	defer func() {
		if err != nil && !published {
			err = errors.Join(err, b.keepLog())
		}
	}()
	b.progress("read layers", 32)
	if err := b.merge(ctx); err != nil {
		return vm.Image{}, err
	}
	b.progress("unpack", 40)
	if err := b.unpack(ctx); err != nil {
		return vm.Image{}, err
	}
	b.progress("kernel", 60)
	if err := b.borrowKernel(); err != nil {
		return vm.Image{}, err
	}
	b.progress("disk", 63)
	if err := b.disk(ctx); err != nil {
		return vm.Image{}, err
	}
	b.progress("manifest", 72)
	if err := layout.SyncTree(string(b.dir)); err != nil {
		return vm.Image{}, err
	}
	if img, err = b.publish(); err != nil {
		return vm.Image{}, err
	}
	published = true
	if err := b.finish(ctx, img); err != nil {
		return img, err
	}
	b.Log.Info("image imported", "image", img.ID, "name", img.Name, "digest", b.container.image.Digest, "took", time.Since(b.started))
	return img, prune(b.Dir.ContainerParts())
}

// keepLog removes the files of a failed import but for its log, which the error names.
func (b *builder) keepLog() (err error) {
	entries, _ := os.ReadDir(string(b.dir)) // of a directory that was just made
	for _, e := range entries {
		if p := filepath.Join(string(b.dir), e.Name()); p != b.dir.Log() {
			err = errors.Join(err, os.RemoveAll(p))
		}
	}
	_ = os.Remove(string(b.dir)) // unless there is a log
	return err
}

// merge reads the layers, and adds what a guest of Warren needs.
func (b *builder) merge(ctx context.Context) (err error) {
	c := b.container
	if c.tree, err = c.image.Tree(ctx); err != nil {
		return err
	}
	c.init = "none"
	for _, p := range []string{"sbin/init", "lib/systemd/systemd", "usr/lib/systemd/systemd"} {
		if c.tree.Program(p) && (c.tree.Program("lib/systemd/systemd") || c.tree.Program("usr/lib/systemd/systemd")) {
			c.systemd, c.init = true, "/"+p
			break
		}
	}
	if c.tree.Program("sbin/modprobe") || c.tree.Program("usr/sbin/modprobe") {
		if err := b.addModules(ctx); err != nil {
			return err
		}
	}
	if err := b.addRecipe(ctx); err != nil {
		return err
	}
	return b.addOwn(ctx)
}

// unpack writes the files into a disk, in a user namespace.
func (b *builder) unpack(ctx context.Context) (err error) {
	tmp, err := b.privateDir(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.dropTemp(context.WithoutCancel(ctx), filepath.Dir(tmp))) }()
	space, err := openNamespace(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, space.close()) }()
	var opened []*os.File
	defer func() {
		for _, f := range opened {
			err = errors.Join(err, f.Close())
		}
	}()
	open := func(name string) *os.File {
		f, oerr := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
		if oerr != nil {
			err = errors.Join(err, fileError(name, oerr))
			return nil
		}
		opened = append(opened, f)
		return f
	}
	disk, facts, log := open(b.scratch("disk.raw")), open(b.scratch("facts")), open(b.dir.Log())
	if err != nil {
		return err
	}
	// mke2fs opens the disk again, as another user; nobody else reaches its directory.
	if err := disk.Chmod(0o666); err != nil {
		return fileError(disk.Name(), err)
	}
	if _, err := fmt.Fprintf(facts, "kernel=%s\npackages=0\n", b.container.base.Kernel); err != nil {
		return fileError(facts.Name(), err)
	}
	steps, err := b.container.steps(b.scratch("steps.tar"))
	if err != nil {
		return err
	}
	if steps != nil {
		opened = append(opened, steps)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	wrote := make(chan error, 1)
	go func() { // ends with the pipe
		err := b.container.tree.Write(ctx, w)
		wrote <- errors.Join(err, w.Close())
	}()
	watch := &buildWatch{progress: b.progress}
	var env []string
	if steps != nil {
		resolv, err := os.ReadFile("/etc/resolv.conf")
		if err != nil {
			return fileError("/etc/resolv.conf", err)
		}
		env = append(env, "WARREN_RESOLV="+string(resolv))
	}
	files := make([]*os.File, firstExchange-3, firstExchange+3)
	files = append(files, disk, steps, nil, facts, r)
	sum := b.container.tree.Summary()
	err = b.run(ctx, program{
		args: space.script(guestFile("container.sh"), steps != nil, strconv.Itoa(slackMiB), "warren", strconv.Itoa(sum.Files+sum.Dirs)),
		dir:  tmp, files: files, env: env, output: io.MultiWriter(log, watch),
	})
	_ = r.Close() // ends the writer, which may wait
	return b.unpacked(<-wrote, err, watch)
}

// unpacked chooses the error to report: the layers' own, unless it is that the unpacking ended.
func (b *builder) unpacked(wrote, ran error, watch *buildWatch) error {
	var known *vm.Error
	switch {
	case errors.As(wrote, &known):
		return wrote
	case ran != nil && watch.fault != "":
		return vm.Errorf(vm.Invalid, b.recipe.Name, "%s", vm.Clip(watch.fault, 300)).WithHint("see %s", b.dir.Log())
	case ran != nil && strings.Contains(watch.last, "No space left"):
		return vm.Errorf(vm.NoSpace, "import", "the disk is full").
			WithHint("free some space and run the same command: what was downloaded stays in the cache")
	case ran != nil:
		return vm.Errorf(vm.KindOf(ran), "import", "the files could not be unpacked: %s", vm.Clip(watch.last, 300)).WithHint("see %s", b.dir.Log())
	}
	return wrote
}

// privateDir makes a directory that only this user reaches. A process that is started in it works below
// it, also as another user of a namespace.
func (b *builder) privateDir(ctx context.Context) (string, error) {
	tmp, err := b.tempDir(ctx)
	if err != nil {
		return "", err
	}
	inner := filepath.Join(tmp, "space")
	err = errors.Join(os.Chmod(tmp, 0o700), os.Mkdir(inner, 0o700))
	if err == nil {
		err = os.Chmod(inner, 0o777) //nolint:gosec // its parent is closed
	}
	if err != nil {
		return "", errors.Join(fileError(tmp, err), os.RemoveAll(tmp))
	}
	return inner, nil
}

// borrowKernel links the kernel and the modules of the base image.
func (b *builder) borrowKernel() error {
	from := layout.ImageDir(b.Dir.Image(b.container.base.ID))
	for _, p := range [][2]string{{from.Kernel(), b.dir.Kernel()}, {from.Modules(), b.dir.Modules()}} {
		if err := linkTree(p[0], p[1]); err != nil {
			return fileError(p[1], err)
		}
	}
	return nil
}

// describe completes the image's manifest.
func (c *container) describe(img *vm.Image) {
	img.Cmdline += " warren.init=" + c.init
	img.Container = &vm.ContainerImage{
		Source: c.image.Source, Digest: c.image.Digest, User: c.image.Config.User, Systemd: c.systemd, Service: c.service(),
	}
}

// service is the name of the service that runs the entrypoint; "" if there is none to run.
func (c *container) service() string {
	argv := c.image.Config.Argv()
	if len(argv) == 0 || c.systemd && slices.Contains([]string{"/sbin/init", "/lib/systemd/systemd", "/usr/lib/systemd/systemd", "/usr/sbin/init"}, argv[0]) {
		return ""
	}
	return vm.ContainerService
}
