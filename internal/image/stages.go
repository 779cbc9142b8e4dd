// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// download fetches the archives of the recipe, or finds them in the cache.
func (b *builder) download(ctx context.Context) error {
	b.fetched = nil
	for _, d := range b.recipe.Downloads {
		path, err := b.fetch(ctx, d)
		if err != nil {
			return err
		}
		b.fetched = append(b.fetched, fetched{d, path})
	}
	return nil
}

// rootfs runs mmdebstrap, which installs the packages and calls customize.sh.
// That writes the raw disk, the boot files and the facts.
func (b *builder) rootfs(ctx context.Context) (err error) {
	if err := os.RemoveAll(b.scratch("")); err != nil {
		return fileError(b.scratch(""), err)
	}
	if err := os.MkdirAll(b.scratch(""), 0o700); err != nil {
		return fileError(b.scratch(""), err)
	}
	defer func() {
		if err != nil { // its contents are useless, and the disk may be large
			err = errors.Join(err, os.RemoveAll(b.scratch("")))
		}
	}()
	tmp, err := b.tempDir(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.dropTemp(context.WithoutCancel(ctx), tmp)) }()
	if err := b.download(ctx); err != nil {
		return err
	}
	files, closeAll, err := b.openExchange()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()
	watch := &buildWatch{progress: b.progress}
	out, err := os.OpenFile(b.dir.Log(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fileError(b.dir.Log(), err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	l, err := b.openLayers()
	if err != nil {
		return err
	}
	err = b.run(ctx, program{
		args:   b.mmdebstrapArgs(l),
		env:    append(l.env(), "TMPDIR="+tmp, "WARREN_CUSTOMIZE="+guestFile("customize.sh"), "WARREN_KERNEL="+kernelPackage),
		stdin:  strings.NewReader(b.sources.String()),
		files:  slices.Concat(make([]*os.File, firstExchange-3), files, []*os.File{l.restored, l.saved}),
		output: io.MultiWriter(out, watch),
	})
	// A saved layer is useful even if a later step failed.
	if lerr := l.close(watch.saved); lerr != nil {
		return errors.Join(lerr, err)
	}
	if err != nil {
		return watch.explain(err, b.dir.Log())
	}
	return nil
}

func (b *builder) mmdebstrapArgs(l *openLayers) []string {
	args := []string{
		"mmdebstrap", "--mode=unshare", "--format=null", "--skip=cleanup",
		`--aptopt=Acquire::Languages "none"`, `--aptopt=Acquire::Retries "3"`,
	}
	if l.restored != nil {
		args = append(args, "--variant=custom", `--setup-hook=exec bash -c "$WARREN_CUSTOMIZE" restore "$1"`)
	} else {
		args = append(args, "--variant=minbase", "--include="+strings.Join(l.first, ","))
	}
	for _, o := range dpkgOptions {
		args = append(args, "--dpkgopt="+o)
	}
	return append(args, `--customize-hook=exec bash -c "$WARREN_CUSTOMIZE" customize "$1"`, b.sources.Codename, "-", "-")
}

// firstExchange is the descriptor of the first file of openExchange.
const firstExchange = 20

// openExchange opens the files that customize.sh gets as descriptors,
// starting with firstExchange.
func (b *builder) openExchange() (files []*os.File, closeAll func() error, err error) {
	closeAll = func() error {
		var errs []error
		for _, f := range files {
			errs = append(errs, f.Close())
		}
		return errors.Join(errs...)
	}
	for _, name := range []string{"disk.raw", "files.tar", "boot.tar", "facts"} {
		f, err := os.OpenFile(b.scratch(name), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return nil, nil, errors.Join(fileError(b.scratch(name), err), closeAll())
		}
		files = append(files, f)
	}
	// mke2fs opens the disk again through /proc/self/fd, as another user. The
	// parent directory has mode 0700, so nobody else can reach it.
	err = files[0].Chmod(0o666)
	if err == nil {
		err = b.writeTar(files[1])
	}
	if err == nil {
		_, err = files[1].Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, nil, errors.Join(fileError(b.scratch(""), err), closeAll())
	}
	return files, closeAll, nil
}

// boot extracts the kernel and the modules from boot.tar.
func (b *builder) boot(ctx context.Context) error {
	f, err := os.Open(b.scratch("boot.tar"))
	if err != nil {
		return fileError(b.scratch("boot.tar"), err)
	}
	defer f.Close() // read only
	if err := os.RemoveAll(b.dir.Modules()); err != nil {
		return fileError(b.dir.Modules(), err)
	}
	if err := os.Mkdir(b.dir.Modules(), 0o700); err != nil {
		return fileError(b.dir.Modules(), err)
	}
	var dep, builtin string
	var order []string
	found := 0
	tr := tar.NewReader(bufio.NewReaderSize(f, 1<<20))
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return vm.Errorf(vm.Corrupt, "boot.tar", "not readable: %w", err)
		}
		switch base := filepath.Base(h.Name); {
		case strings.HasPrefix(base, "vmlinuz-"):
			err = b.unpackKernel(ctx, tr)
		case base == "modules.dep":
			dep, err = readText(tr)
		case base == "modules.builtin":
			if builtin, err = readText(tr); err == nil {
				order, err = moduleOrder(dep, builtin, wantedModules)
			}
		case slices.ContainsFunc(order, func(m string) bool { return strings.HasSuffix(h.Name, "/"+m) }):
			found++
			err = b.unpackModule(ctx, h.Name, tr)
		}
		if err != nil {
			return err
		}
	}
	if found != len(order) || len(order) == 0 {
		return vm.Errorf(vm.Corrupt, "boot.tar", "holds %d of the %d modules that the guest needs", found, len(order))
	}
	return layout.WriteFile(b.dir.ModuleOrder(), []byte(orderFile(order)), 0o644)
}

func readText(r io.Reader) (string, error) {
	data, err := io.ReadAll(io.LimitReader(r, 16<<20))
	return string(data), err
}

func (b *builder) unpackKernel(ctx context.Context, r io.Reader) error {
	bz, err := io.ReadAll(io.LimitReader(r, 256<<20))
	if err != nil {
		return err
	}
	kernel, err := extractVmlinux(ctx, bz)
	if err != nil {
		return err
	}
	if err := os.WriteFile(b.dir.Kernel(), kernel, 0o644); err != nil {
		return fileError(b.dir.Kernel(), err)
	}
	return nil
}

func (b *builder) unpackModule(ctx context.Context, name string, r io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(r, 64<<20))
	if err != nil {
		return err
	}
	switch filepath.Ext(name) {
	case ".xz":
		data, err = unXZ(ctx, data)
	case ".zst":
		data, err = unZstd(data)
	case ".gz":
		data, err = unGzip(data)
	}
	if err != nil {
		return vm.Errorf(vm.Corrupt, filepath.Base(name), "does not unpack: %w", err)
	}
	to := filepath.Join(b.dir.Modules(), koName(name))
	if err := os.WriteFile(to, data, 0o644); err != nil {
		return fileError(to, err)
	}
	return nil
}

// disk converts the raw disk to qcow2.
func (b *builder) disk(ctx context.Context) error {
	err := b.run(ctx, program{
		args: []string{"qemu-img", "convert", "-q", "-f", "raw", "-O", "qcow2", "-o", "lazy_refcounts=off", b.scratch("disk.raw"), b.dir.Disk()},
	})
	if err != nil {
		return vm.Errorf(vm.KindOf(err), "disk", "conversion failed: %w", err)
	}
	if err := os.Chmod(b.dir.Disk(), 0o600); err != nil {
		return fileError(b.dir.Disk(), err)
	}
	return nil
}

// facts are properties of the system that customize.sh made.
type facts struct {
	kernel     string
	packages   int
	diskMiB    int
	registries []vm.Registry
}

// readFacts parses lines of the form key=value.
func readFacts(r io.Reader) (facts, error) {
	var f facts
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		key, value, _ := strings.Cut(sc.Text(), "=")
		var err error
		switch key {
		case "kernel":
			f.kernel = value
		case "packages":
			f.packages, err = strconv.Atoi(strings.TrimSpace(value))
		case "diskMib":
			f.diskMiB, err = strconv.Atoi(value)
		case "registry":
			manager, addr, _ := strings.Cut(value, " ")
			if reg, ok := registry(manager, strings.TrimSpace(addr)); ok && !slices.Contains(f.registries, reg) {
				f.registries = append(f.registries, reg)
			}
		}
		if err != nil {
			return facts{}, vm.Errorf(vm.Corrupt, "facts", "%s: %w", key, err)
		}
	}
	if err := sc.Err(); err != nil {
		return facts{}, vm.Errorf(vm.Corrupt, "facts", "not readable: %w", err)
	}
	if f.kernel == "" || f.diskMiB == 0 {
		return facts{}, vm.Errorf(vm.Corrupt, "facts", "the build did not report its kernel or disk")
	}
	return f, nil
}

// registry parses an address in a package manager's configuration: a URL, or for go
// a host or a name and a URL. It returns false for other values ("direct", "off").
func registry(manager, addr string) (vm.Registry, bool) {
	if f := strings.Fields(addr); len(f) > 0 {
		addr = f[len(f)-1]
	}
	if !strings.Contains(addr, "://") && strings.Contains(addr, ".") {
		addr = "https://" + addr
	}
	u, err := url.Parse(addr)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return vm.Registry{}, false
	}
	port := 443
	if u.Scheme == "http" {
		port = 80
	}
	if p := u.Port(); p != "" {
		if port, err = strconv.Atoi(p); err != nil || port < 1 || port > 65535 {
			return vm.Registry{}, false
		}
	}
	return vm.Registry{Host: strings.ToLower(u.Hostname()), Port: port, Manager: manager}, true
}

// manifest describes the image in the build's directory.
func (b *builder) manifest() (vm.Image, error) {
	raw, err := os.Open(b.scratch("facts"))
	if err != nil {
		return vm.Image{}, fileError(b.scratch("facts"), err)
	}
	defer raw.Close() // read only
	f, err := readFacts(raw)
	if err != nil {
		return vm.Image{}, err
	}
	img := vm.Image{
		Format: manifestFormat, ID: vm.NewImageID(), Name: b.recipe.Name, Recipe: b.digest, Snapshot: vm.NewSnapshotID(),
		CreatedAt: time.Now().UTC().Truncate(time.Second), BuildTook: time.Since(b.started).Seconds(),
		DiskMiB: f.diskMiB, Kernel: f.kernel, Cmdline: baseCmdline, Workdir: b.recipe.Workdir, MemoryMiB: b.recipe.Memory,
		Packages: f.packages, Registries: f.registries,
	}
	for _, ca := range b.cas {
		img.HostCAs = append(img.HostCAs, ca.Name)
	}
	names := []string{filepath.Base(b.dir.Disk()), filepath.Base(b.dir.Kernel())}
	mods, err := os.ReadDir(b.dir.Modules())
	if err != nil {
		return vm.Image{}, fileError(b.dir.Modules(), err)
	}
	for _, m := range mods {
		names = append(names, filepath.Join(filepath.Base(b.dir.Modules()), m.Name()))
	}
	for _, n := range names {
		file, err := digestFile(string(b.dir), n)
		if err != nil {
			return vm.Image{}, err
		}
		img.Files = append(img.Files, file)
	}
	img.DiskBytes = img.Files[0].Size
	if b.container != nil {
		b.container.describe(&img)
	}
	return img, nil
}

func digestFile(dir, name string) (vm.File, error) {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return vm.File{}, fileError(name, err)
	}
	defer f.Close() // read only
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return vm.File{}, fmt.Errorf("digest of %s: %w", name, err)
	}
	return vm.File{Name: name, Size: n, SHA256: hex.EncodeToString(h.Sum(nil))}, nil
}
