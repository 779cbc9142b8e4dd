// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package dockerfile

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/guest"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/qcow"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/internal/warm"
	"github.com/warren-vm/warren/vm"
)

// A Spec says what to build.
type Spec struct {
	Dir    string            // the build context, absolute
	File   string            // the Dockerfile, relative to Dir
	Args   map[string]string // ARGs
	Target string            // the stage to build; "" = the last
}

// Options say where to build.
type Options struct {
	// Machine is the VM's image, which has Docker, with what boots it.
	Machine warm.Options
	// Pull fetches an image that the Dockerfile names as an archive for `docker load`, and returns
	// its path. The archive has that name. The host pulls, so that no credential enters the VM.
	// Kinds NotFound and Unavailable let BuildKit try; any other kind ends the build.
	Pull func(ctx context.Context, image string) (path string, err error)
	// Progress is called with each step and with each line of BuildKit; may be nil.
	Progress func(step string)
}

const (
	builderDiskMiB   = 32 << 10
	builderMemoryMiB = 2048
	maxKept          = 12 << 30            // bytes of a VM's disk; a larger one is not used again
	keepFor          = 14 * 24 * time.Hour // for the disk of a directory that nobody builds
	maxImage         = 32 << 30            // bytes of the result
	maxSaid          = 4 << 20             // bytes of BuildKit's output that are kept
	bootDeadline     = 240 * time.Second
	commandDeadline  = 2 * time.Minute
	buildDeadline    = 2 * time.Hour
	stopGrace        = 60 * time.Second
	resultTag        = "warren-build:latest"
)

// Report counts the steps of a build.
type Report struct{ Steps, Cached int }

// Build builds a Dockerfile and writes the image to the file out, which must not exist, in
// the format of `docker save`. One build of a directory runs at a time; others wait. Kinds: Invalid
// (the Dockerfile, with the code DOCKERFILE_INVALID, or one of its instructions failed, with the
// code DOCKERFILE_FAILED), Limit, NoSpace, Timeout, Cancelled and those of a start.
func Build(ctx context.Context, o Options, s Spec, out string) (r Report, err error) {
	src, err := Read(s.Dir, s.File, s.Args)
	if err != nil {
		return r, err
	}
	b := &build{Options: o, spec: s, src: src}
	sum := sha256.Sum256([]byte(s.Dir + "\x00" + string(o.Machine.Image.ID)))
	b.dir = o.Machine.Dir.Builder(hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(b.dir, 0o700); err != nil {
		return r, layout.Error(b.dir, err)
	}
	lock, err := layout.WaitLock(ctx, filepath.Join(b.dir, "lock"))
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	if err := b.prepareDisk(); err != nil {
		return r, err
	}
	if err := b.run(ctx, out); err != nil {
		return r, errors.Join(err, removeFile(out))
	}
	return b.report, b.prune()
}

// build is one run of Build.
type build struct {
	Options
	spec Spec
	src  *Source
	dir  string

	report Report
}

func (b *build) progress(format string, args ...any) {
	if b.Progress != nil {
		b.Progress(fmt.Sprintf(format, args...))
	}
}

func (b *build) disk() string { return filepath.Join(b.dir, "disk.qcow2") }

// prepareDisk makes the VM's disk, or finds the one of the last build.
func (b *build) prepareDisk() error {
	st, err := os.Stat(b.disk())
	if err == nil {
		_, err = qcow.Check(b.disk(), qcow.Layer)
	}
	if err == nil && st.Size() <= maxKept {
		return nil
	}
	if err := removeFile(b.disk()); err != nil {
		return err
	}
	below, err := filepath.Rel(b.dir, b.Machine.Dir.ImageDisk(b.Machine.Image.ID))
	if err != nil {
		return vm.Errorf(vm.Internal, b.dir, "%w", err)
	}
	return qemu.CreateOverlay(b.disk(), below, builderDiskMiB)
}

// run starts the VM, builds in it, and ends it. A VM that does not stop in order takes its disk
// with it, because the disk may be damaged.
func (b *build) run(ctx context.Context, out string) (err error) {
	m := b.Machine
	m.Size = vm.Size{VCPU: vm.DefaultSize.VCPU, MemoryMiB: builderMemoryMiB, DiskMiB: builderDiskMiB}
	spec := m.Boots(vm.NewID())
	run, err := m.Dir.Run()
	if err != nil {
		return err
	}
	if err := b.claim(ctx, run, spec.ID); err != nil {
		return err
	}
	work, err := layout.Temp(b.dir)
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	spec.Dir, spec.RunDir, spec.Disk = work, run.VM(spec.ID), b.disk()
	spec.Network = vm.NetworkPolicy{Mode: vm.NetOpen}
	spec.Deadline = bootDeadline
	b.progress("start the builder")
	c, _, err := m.Launcher.Launch(ctx, spec)
	if err != nil {
		return errors.Join(err, removeFile(b.disk()))
	}
	defer c.Close()
	err = b.inside(ctx, c.Guest(), out)
	b.progress("stop the builder")
	ending := context.WithoutCancel(ctx)
	if serr := c.Stop(ending, stopGrace); serr != nil {
		err = errors.Join(err, removeFile(b.disk()))
	}
	return errors.Join(err, m.Launcher.Sweep(ending, spec.RunDir))
}

// claim ends the VM of a build that was killed, which holds the disk, removes its files, and notes the VM
// that starts.
// The caller has the lock, so that no other build runs.
func (b *build) claim(ctx context.Context, run layout.RunDir, id vm.ID) error {
	note := filepath.Join(b.dir, "vm")
	old, err := os.ReadFile(note)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return layout.Error(note, err)
	}
	if vm.IsID(string(old)) {
		if err := b.Machine.Launcher.Sweep(ctx, run.VM(vm.ID(old))); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(b.dir)
	for _, e := range entries {
		if layout.IsTemp(e.Name()) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(b.dir, e.Name())))
		}
	}
	if err != nil {
		return layout.Error(b.dir, err)
	}
	return layout.WriteFile(note, []byte(id), 0o600)
}

// inside builds in the running VM.
func (b *build) inside(ctx context.Context, g *guest.Client, out string) error {
	if err := g.Grow(ctx, vm.Size{DiskMiB: builderDiskMiB}); err != nil {
		return err
	}
	if _, err := must(ctx, g, "systemctl", "start", "docker"); err != nil {
		return err
	}
	for _, image := range b.src.Images {
		if err := b.load(ctx, g, image); err != nil {
			return err
		}
	}
	b.progress("send the build context")
	if _, err := must(ctx, g, "rm", "-rf", contextDir); err != nil {
		return err
	}
	if err := sendContext(ctx, g, b.spec); err != nil {
		return err
	}
	if err := b.buildkit(ctx, g); err != nil {
		return err
	}
	b.progress("read the image")
	return b.save(ctx, g, out)
}

const contextDir = "/var/lib/warren-build"

func sendContext(ctx context.Context, g *guest.Client, s Spec) error {
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		err := writeContext(ctx, w, s.Dir, s.File)
		packed <- err
		w.CloseWithError(err)
	}()
	err := g.TarUp(ctx, "", contextDir, r)
	r.CloseWithError(io.ErrClosedPipe) // ends the packer if the guest did not read all
	if perr := <-packed; perr != nil && !errors.Is(perr, io.ErrClosedPipe) {
		return perr
	}
	return err
}

// load puts an image that the Dockerfile names into the VM, unless it is there.
func (b *build) load(ctx context.Context, g *guest.Client, image string) error {
	if b.Pull == nil {
		return nil
	}
	b.progress("pull %s", image)
	path, err := b.Pull(ctx, image)
	switch vm.KindOf(err) {
	case "":
	case vm.NotFound, vm.Unavailable:
		return nil // BuildKit reports it, if it cannot find the image either
	default:
		return err
	}
	sum, err := digest(path)
	if err != nil {
		return err
	}
	// The name may stand for another image than at the last build.
	name := sha256.Sum256([]byte(image))
	mark := "/var/lib/docker/.warren-loaded-" + hex.EncodeToString(name[:8])
	if said, code, err := run(ctx, g, "readlink", mark); err != nil || code == 0 && strings.TrimSpace(said) == sum {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return layout.Error(path, err)
	}
	defer f.Close() // read only
	b.progress("load %s", image)
	if err := feed(ctx, g, f, "docker", "load", "--quiet"); err != nil {
		return err
	}
	_, err = must(ctx, g, "ln", "-sfn", sum, mark)
	return err
}

// digest is the hex SHA-256 of a file.
func digest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", layout.Error(path, err)
	}
	defer f.Close() // read only
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", layout.Error(path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// buildkit runs the build.
func (b *build) buildkit(ctx context.Context, g *guest.Client) error {
	argv := []string{"docker", "build", "--progress=plain", "--tag", resultTag, "--file", filepath.Join(contextDir, b.spec.File)}
	for _, name := range slices.Sorted(maps.Keys(b.spec.Args)) {
		argv = append(argv, "--build-arg", name+"="+b.spec.Args[name])
	}
	if b.spec.Target != "" {
		argv = append(argv, "--target", b.spec.Target)
	}
	ctx, cancel := context.WithTimeout(ctx, buildDeadline)
	defer cancel()
	e, err := g.Exec(ctx, vm.ExecSpec{Argv: append(argv, contextDir), Env: map[string]string{"DOCKER_BUILDKIT": "1"}})
	if err != nil {
		return err
	}
	said := &output{line: func(s string) { b.progress("build: %s", s) }}
	st, err := e.Run(said, said)
	b.report = count(said.String())
	if err != nil || st.Code == 0 && st.Signal == "" {
		return err
	}
	return b.failed(said.String())
}

var (
	stepBegins = regexp.MustCompile(`(?m)^#(\d+) \[[^\]]*\d+/\d+\] (\S+)`)
	stepCached = regexp.MustCompile(`(?m)^#(\d+) CACHED`)
)

// count reads the steps from BuildKit's output.
func count(said string) (r Report) {
	steps := map[string]bool{}
	for _, m := range stepBegins.FindAllStringSubmatch(said, -1) {
		if m[2] != "FROM" { // it builds nothing
			steps[m[1]] = true
		}
	}
	r.Steps = len(steps)
	for _, m := range stepCached.FindAllStringSubmatch(said, -1) {
		if steps[m[1]] {
			r.Cached++
			steps[m[1]] = false
		}
	}
	return r
}

// failed makes BuildKit's failure an error for people.
func (b *build) failed(said string) error {
	subject := b.spec.File
	line, text := b.src.Locate(said)
	if line > 0 {
		subject = fmt.Sprintf("%s:%d", b.spec.File, line)
	}
	code := "DOCKERFILE_FAILED"
	msg := "the build failed"
	if text != "" {
		msg = fmt.Sprintf("the instruction %q failed", clip(text, 200))
	}
	return vm.Errorf(vm.Invalid, subject, "%s: %s", msg, reason(said)).WithCode(code).
		WithHint("correct the Dockerfile and build again; instructions before the failed one are not repeated")
}

var chatter = regexp.MustCompile(`^#\d+ (\d+\.\d+ )?`)

// reason is what the failing instruction said last.
func reason(said string) string {
	var kept []string
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(chatter.ReplaceAllString(strings.TrimSpace(line), ""))
		if line != "" && !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "> [") {
			kept = append(kept, line)
		}
	}
	kept = kept[max(len(kept)-4, 0):]
	return clip(strings.Join(kept, "; "), 600)
}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}

// save writes the built image to a file of the host.
func (b *build) save(ctx context.Context, g *guest.Client, out string) (err error) {
	f, err := os.OpenFile(out, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return layout.Error(out, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	ctx, cancel := context.WithTimeout(ctx, buildDeadline)
	defer cancel()
	e, err := g.Exec(ctx, vm.ExecSpec{Argv: []string{"docker", "save", resultTag}})
	if err != nil {
		return err
	}
	var said output
	st, err := e.Run(&limited{w: f, left: maxImage}, &said)
	if err == nil && st.Code != 0 {
		err = vm.Errorf(vm.GuestFault, resultTag, "the built image could not be read: %s", clip(said.String(), 400))
	}
	return layout.Error(out, err)
}

// prune keeps BuildKit's cache of other directories for a while only.
func (b *build) prune() error {
	entries, err := os.ReadDir(filepath.Dir(b.dir))
	if err != nil {
		return layout.Error(b.dir, err)
	}
	for _, e := range entries {
		old := filepath.Join(filepath.Dir(b.dir), e.Name())
		st, serr := os.Stat(filepath.Join(old, "disk.qcow2"))
		if old == b.dir || serr == nil && time.Since(st.ModTime()) < keepFor {
			continue
		}
		lock, lerr := layout.TryLock(filepath.Join(old, "lock"))
		if lerr != nil {
			continue // somebody builds there
		}
		err = errors.Join(err, os.RemoveAll(old), lock.Unlock())
	}
	return err
}

// output keeps the end of what a program wrote, and reports each line.
type output struct {
	buf  bytes.Buffer
	rest string
	line func(string)
}

func (o *output) Write(p []byte) (int, error) {
	if o.buf.Len()+len(p) > maxSaid {
		o.buf.Next(o.buf.Len() / 2)
	}
	o.buf.Write(p[max(len(p)-maxSaid, 0):])
	if o.line == nil {
		return len(p), nil
	}
	o.rest += string(p)
	for {
		line, rest, ok := strings.Cut(o.rest, "\n")
		if !ok {
			o.rest = clip(o.rest, 4096)
			return len(p), nil
		}
		o.rest = rest
		if line = strings.TrimSpace(line); line != "" {
			o.line(clip(line, 200))
		}
	}
}

func (o *output) String() string { return o.buf.String() }

// limited refuses to write more than left bytes.
type limited struct {
	w    io.Writer
	left int64
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= int64(len(p)); l.left < 0 {
		return 0, vm.Errorf(vm.Limit, resultTag, "the built image is larger than %d GiB", int64(maxImage)>>30)
	}
	return l.w.Write(p)
}

// run runs a program in the guest to its end. Its own failure is no error.
func run(ctx context.Context, g *guest.Client, argv ...string) (said string, code int, err error) {
	ctx, cancel := context.WithTimeout(ctx, commandDeadline)
	defer cancel()
	e, err := g.Exec(ctx, vm.ExecSpec{Argv: argv})
	if err != nil {
		return "", 0, err
	}
	var out output
	st, err := e.Run(&out, &out)
	return out.String(), st.Code, err
}

// must is run for a program that must succeed.
func must(ctx context.Context, g *guest.Client, argv ...string) (string, error) {
	said, code, err := run(ctx, g, argv...)
	if err == nil && code != 0 {
		err = vm.Errorf(vm.GuestFault, argv[0], "failed in the builder with status %d: %s", code, clip(strings.TrimSpace(said), 400))
	}
	return said, err
}

// feed is must for a program that reads in.
func feed(ctx context.Context, g *guest.Client, in io.Reader, argv ...string) error {
	ctx, cancel := context.WithTimeout(ctx, buildDeadline)
	defer cancel()
	e, err := g.Exec(ctx, vm.ExecSpec{Argv: argv, Stdin: true})
	if err != nil {
		return err
	}
	sent := make(chan error, 1)
	go func() {
		_, err := io.Copy(e, in)
		sent <- errors.Join(err, e.CloseStdin())
	}()
	var out output
	st, err := e.Run(&out, &out)
	if err != nil {
		cancel()
		return errors.Join(err, <-sent)
	}
	if serr := <-sent; st.Code == 0 && serr != nil {
		return serr
	}
	if st.Code != 0 {
		return vm.Errorf(vm.GuestFault, argv[0], "failed in the builder with status %d: %s", st.Code, clip(strings.TrimSpace(out.String()), 400))
	}
	return nil
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return layout.Error(path, err)
	}
	return nil
}
