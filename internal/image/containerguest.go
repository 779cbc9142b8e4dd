// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

// foreignMask are services of systemd that a foreign image may start and that would take over what Warren's
// initial file system has set up.
var foreignMask = []string{
	"systemd-networkd.service", "systemd-networkd.socket", "systemd-networkd-wait-online.service", "systemd-resolved.service",
	"NetworkManager.service", "NetworkManager-wait-online.service", "networking.service", "systemd-timesyncd.service",
}

// stopSignal is a signal as images and systemd name it.
var stopSignal = vm.NewPattern(`^(SIG)?[A-Z0-9+-]{1,15}$`)

// addOwn puts Warren's own files above the image's, as one more layer: so they never lead out of it.
func (b *builder) addOwn(ctx context.Context) error {
	c := b.container
	var body bytes.Buffer
	t := &treeWriter{tw: tar.NewWriter(&body), made: map[string]bool{}}
	for _, d := range []string{"dev", "proc", "sys", "run", "etc"} {
		if _, ok := c.tree.Stat(d); !ok {
			t.dir(d)
		}
	}
	for _, d := range []string{"tmp", "var/tmp"} {
		if _, ok := c.tree.Stat(d); !ok {
			t.mode(d, 0o1777)
		}
	}
	if w := strings.Trim(c.image.Config.Workdir, "/"); w != "" {
		if _, ok := c.tree.Stat(w); !ok { // as `docker run` does it
			t.dir(path.Clean(w))
		}
	}
	config, err := json.MarshalIndent(vm.ContainerConfig{
		Env: c.image.Config.Env, Argv: c.argv(), User: c.image.Config.User, Workdir: c.image.Config.Workdir, StopSignal: c.image.Config.StopSignal,
	}, "", "  ")
	if err != nil {
		return vm.Errorf(vm.Internal, b.recipe.Name, "%w", err)
	}
	t.file(strings.TrimPrefix(vm.ContainerFile, "/"), 0o644, string(config)+"\n")
	own := plan{}.finalFiles()
	for _, f := range []string{"etc/resolv.conf", "etc/hostname", "etc/hosts"} {
		t.file(f, 0o644, own[f])
	}
	t.file("etc/machine-id", 0o444, "")
	if c.systemd {
		c.units(t)
	}
	if err := errors.Join(t.err, t.tw.Close()); err != nil {
		return fmt.Errorf("files of the image: %w", err)
	}
	return c.tree.Add(ctx, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body.Bytes())), nil })
}

// argv is the program of the service.
func (c *container) argv() []string {
	if c.service() == "" {
		return nil
	}
	return c.image.Config.Argv()
}

// units writes what systemd needs to start fast in a VM, and the service of the entrypoint.
func (c *container) units(t *treeWriter) {
	const dir = "etc/systemd/system/"
	for _, m := range append(strings.Fields(guestFile("mask")), foreignMask...) {
		t.link(dir+m, "/dev/null")
	}
	t.link(dir+"default.target", "/lib/systemd/system/multi-user.target")
	for _, g := range strings.Fields(guestFile("generators")) {
		t.link("etc/systemd/system-generators/systemd-"+g+"-generator", "/dev/null")
	}
	t.file(dir+"warren-booted.service", 0o644, strings.ReplaceAll(guestFile("warren-booted.service"), "/usr/bin/install -D -m 0644 /dev/null /run/warren/booted", "/bin/touch /run/warren/booted"))
	t.link(dir+"multi-user.target.wants/warren-booted.service", "/etc/systemd/system/warren-booted.service")
	own := plan{}.finalFiles()
	t.file("etc/systemd/journald.conf.d/warren.conf", 0o644, own["etc/systemd/journald.conf.d/warren.conf"])
	t.file("etc/systemd/system.conf.d/warren.conf", 0o644, "[Manager]\nDefaultTimeoutStopSec=10s\n")
	if c.service() != "" {
		t.file(dir+vm.ContainerService+".service", 0o644, c.unit())
		t.link(dir+"multi-user.target.wants/"+vm.ContainerService+".service", "/etc/systemd/system/"+vm.ContainerService+".service")
	}
}

// unit is systemd's description of the entrypoint.
func (c *container) unit() string {
	var b strings.Builder
	cfg := c.image.Config
	b.WriteString("# Made by Warren from the container image's own configuration.\n[Unit]\nDescription=The program of the container image\nAfter=network.target\nStartLimitIntervalSec=0\n\n[Service]\n")
	b.WriteString("ExecStart=")
	for i, a := range c.argv() {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(quoteUnit(a, true))
	}
	b.WriteByte('\n')
	for _, e := range cfg.Env {
		b.WriteString("Environment=" + quoteUnit(e, false) + "\n")
	}
	user, group, _ := strings.Cut(cfg.User, ":")
	if user != "" {
		b.WriteString("User=" + user + "\n")
	}
	if group != "" {
		b.WriteString("Group=" + group + "\n")
	}
	if cfg.Workdir != "" {
		b.WriteString("WorkingDirectory=" + strings.ReplaceAll(cfg.Workdir, "%", "%%") + "\n")
	}
	if s := stopSignal.Regexp().FindString(cfg.StopSignal); s != "" {
		b.WriteString("KillSignal=" + s + "\n")
	}
	b.WriteString("Restart=on-failure\nRestartSec=1\n\n[Install]\nWantedBy=multi-user.target\n")
	return b.String()
}

// quoteUnit quotes a word for a unit file.
func quoteUnit(s string, command bool) string {
	s = strings.ReplaceAll(s, "%", "%%")
	if command {
		s = strings.ReplaceAll(s, "$", "$$")
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch ch := s[i]; {
		case ch == '"' || ch == '\\':
			b.WriteByte('\\')
			b.WriteByte(ch)
		case ch < ' ':
			fmt.Fprintf(&b, "\\x%02x", ch)
		default:
			b.WriteByte(ch)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// mode writes a directory with a mode of its own.
func (t *treeWriter) mode(name string, mode int64) {
	if t.err == nil {
		t.err = t.tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode, ModTime: time.Unix(guestEpoch, 0)})
	}
}

// link writes a symbolic link.
func (t *treeWriter) link(name, target string) {
	if t.err == nil {
		t.err = t.tw.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777, ModTime: time.Unix(guestEpoch, 0), Format: tar.FormatGNU})
	}
}

// addModules gives an image that has modprobe the modules of its kernel, from a layer of the base image. Without
// such a layer the image works, and modprobe finds nothing.
func (b *builder) addModules(ctx context.Context) error {
	layers, err := filepath.Glob(filepath.Join(b.Dir.Layers(), DefaultName+"-*.tar"))
	if err != nil {
		return err
	}
	release := b.container.base.Kernel
	for _, l := range slices.Backward(layers) {
		open := func() (io.ReadCloser, error) { return openModules(l, release) }
		if found, err := anyEntry(open); err != nil || !found {
			continue // of another kernel
		}
		return b.container.tree.Add(ctx, open)
	}
	b.Log.Warn("no modules for the imported image", "kernel", release)
	return nil
}

func anyEntry(open func() (io.ReadCloser, error)) (bool, error) {
	r, err := open()
	if err != nil {
		return false, err
	}
	_, err = tar.NewReader(r).Next()
	return err == nil, r.Close()
}

// openModules returns a tar of the modules of a kernel, in lib/modules, from the tar of a saved layer.
func openModules(file, release string) (io.ReadCloser, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fileError(file, err)
	}
	r, w := io.Pipe()
	go func() { // ends with the pipe's reader
		err := copyModules(f, w, release)
		_ = f.Close()             // read only
		_ = w.CloseWithError(err) // never fails
	}()
	return r, nil
}

func copyModules(from io.Reader, to io.Writer, release string) error {
	in, out := tar.NewReader(from), tar.NewWriter(to)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return out.Close()
		}
		if err != nil {
			return err
		}
		_, rest, ok := strings.Cut(strings.TrimPrefix(h.Name, "./"), "lib/modules/"+release)
		if !ok || h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir {
			continue
		}
		h.Name = "lib/modules/" + release + rest
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(out, in); err != nil {
			return err
		}
	}
}
