// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// Initramfs returns the path of the initial file system of img with the agent as its init,
// and makes it on first use: DATA/bin/DIGEST/initramfs-KERNEL-MODULES.cpio. The same agent
// and modules give the same bytes. agentDigest is the hex SHA-256 of the agent.
func Initramfs(dir layout.Dir, img vm.Image, agentPath, agentDigest string) (string, error) {
	mods := layout.ImageDir(dir.Image(img.ID))
	order, err := os.ReadFile(mods.ModuleOrder())
	if err != nil {
		return "", vm.Errorf(vm.Corrupt, string(img.ID), "the image has no list of modules: %w", err).
			WithHint("build it again with `warren image build %s`", img.Name)
	}
	sum := sha256.New()
	names := strings.Fields(string(order))
	bodies := make([][]byte, len(names))
	for i, n := range names {
		if bodies[i], err = os.ReadFile(filepath.Join(mods.Modules(), filepath.Base(n))); err != nil {
			return "", vm.Errorf(vm.Corrupt, string(img.ID), "a module is missing: %w", err).
				WithHint("build it again with `warren image build %s`", img.Name)
		}
		fmt.Fprintf(sum, "%s %d\n", n, len(bodies[i]))
		sum.Write(bodies[i])
	}
	out := dir.Initramfs(agentDigest, img.Kernel+"-"+hex.EncodeToString(sum.Sum(nil)[:16]))
	if exists(out) {
		return out, nil
	}
	agent, err := os.ReadFile(agentPath)
	if err != nil {
		return "", fileError(agentPath, err)
	}
	if err := os.MkdirAll(filepath.Dir(out), 0o700); err != nil {
		return "", fileError(out, err)
	}
	err = layout.WriteFunc(out, 0o644, func(w io.Writer) error {
		c := &cpioWriter{w: w}
		c.dir("dev")
		c.device("dev/console", 0o600, 5, 1) // the kernel opens it as the init's input and output
		c.device("dev/null", 0o666, 1, 3)
		c.file("init", 0o755, agent)
		c.dir("modules")
		c.file("modules/order", 0o644, order)
		for i, n := range names {
			c.file("modules/"+n, 0o644, bodies[i])
		}
		return c.close()
	})
	if err != nil {
		return "", err
	}
	return out, nil
}

// cpioWriter writes the "newc" format that the kernel unpacks. Times, owners
// and inode numbers depend only on the order of the calls.
type cpioWriter struct {
	w    io.Writer
	ino  int
	size int
	err  error
}

const cpioTrailer = "TRAILER!!!"

func (c *cpioWriter) dir(name string) { c.entry(name, 0o040000|0o755, 0, 0, nil) }

func (c *cpioWriter) file(name string, mode fs.FileMode, body []byte) {
	c.entry(name, 0o100000|uint32(mode.Perm()), 0, 0, body)
}

func (c *cpioWriter) device(name string, mode fs.FileMode, major, minor int) {
	c.entry(name, 0o020000|uint32(mode.Perm()), major, minor, nil)
}

func (c *cpioWriter) entry(name string, mode uint32, major, minor int, body []byte) {
	c.ino++
	ino := c.ino
	if name == cpioTrailer {
		ino = 0
	}
	c.write(fmt.Appendf(nil, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		ino, mode, 0, 0, 1, 0, len(body), 0, 0, major, minor, len(name)+1, 0, name))
	c.pad(4)
	c.write(body)
	c.pad(4)
}

func (c *cpioWriter) close() error {
	c.entry(cpioTrailer, 0, 0, 0, nil)
	c.pad(512)
	return c.err
}

func (c *cpioWriter) pad(n int) { c.write(make([]byte, (n-c.size%n)%n)) }

func (c *cpioWriter) write(p []byte) {
	if c.err != nil {
		return
	}
	n, err := c.w.Write(p)
	c.size += n
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	c.err = errors.Join(c.err, err)
}
