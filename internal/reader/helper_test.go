// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package reader_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/warren-vm/warren/internal/reader"
)

// tool runs a program on disks that the test made, and skips the test where the program
// is not installed.
func tool(t testing.TB, stdin, program string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("%s is not installed", program)
	}
	cmd := exec.Command(program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v failed: %v: %s", program, args, err, out)
	}
	return string(out)
}

var built struct {
	sync.Once
	dir string
	err error
}

// build builds a program of this module once for all tests.
func build(t testing.TB, name, source string) string {
	t.Helper()
	built.Do(func() { built.dir, built.err = os.MkdirTemp("", "reader-test") })
	if built.err != nil {
		t.Fatal(built.err)
	}
	path := filepath.Join(built.dir, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	tool(t, "", "env", "CGO_ENABLED=0", "go", "build", "-o", path, source) // static: it sees no libraries
	if err := os.Chmod(built.dir, 0o755); err != nil {                     // the program runs as another user
		t.Fatal(err)
	}
	return path
}

func TestMain(m *testing.M) {
	code := m.Run()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// newReader returns a reader with the real program.
func newReader(t testing.TB) *reader.Reader {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	return reader.New(reader.Config{Log: log, Binary: build(t, "warren-reader", "../../cmd/warren-reader"), Root: filepath.Join(t.TempDir(), "root")})
}

// disks makes a disk with some files, and a layer above it that commands of debugfs have
// changed. It returns the layers of both, the top first.
func disks(t testing.TB, files map[string]string, commands ...string) (from, to []string) {
	t.Helper()
	tree, dir := t.TempDir(), t.TempDir()
	for name, text := range files {
		path := filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	raw, changed, base, top := filepath.Join(dir, "raw"), filepath.Join(dir, "changed"), filepath.Join(dir, "base.qcow2"), filepath.Join(dir, "top.qcow2")
	tool(t, "", "mke2fs", "-q", "-t", "ext4", "-b", "4096", "-d", tree, raw, "64M")
	tool(t, "", "cp", raw, changed)
	if len(commands) > 0 {
		tool(t, strings.Join(commands, "\n")+"\n", "debugfs", "-w", changed)
	}
	tool(t, "", "qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, base)
	layer(t, raw, changed, base, top)
	return []string{base}, []string{top, base}
}

// layer makes a layer above a disk with what differs between two raw disks, as a guest
// that wrote it would have.
func layer(t testing.TB, raw, changed, base, top string) {
	t.Helper()
	const cluster = 64 << 10
	a, err := os.Open(raw)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := os.Open(changed)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	parts := t.TempDir()
	var do strings.Builder
	pa, pb := make([]byte, cluster), make([]byte, cluster)
	for off := int64(0); ; off += cluster {
		n, err := b.ReadAt(pb, off)
		if n == 0 && errors.Is(err, io.EOF) {
			break
		}
		clear(pa)
		if _, err := a.ReadAt(pa[:n], off); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if bytes.Equal(pa[:n], pb[:n]) {
			continue
		}
		part := filepath.Join(parts, fmt.Sprint(off))
		if err := os.WriteFile(part, pb[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&do, "write -s %s %d %d\n", part, off, n)
	}
	tool(t, "", "qemu-img", "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", base, top)
	tool(t, do.String(), "qemu-io", top)
}
