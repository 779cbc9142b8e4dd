// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qcow_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/qcow"
	"github.com/warren-vm/warren/vm"
)

// hostile are headers that lead QEMU to other files or hosts.
func hostile(f *foreign) map[string]func(t *testing.T, path string) {
	const dataFile = 1 << 2
	json := func(s string, args ...any) string { return "json:" + fmt.Sprintf(s, args...) }
	return map[string]func(*testing.T, string){
		"data file":        func(t *testing.T, p string) { forge(t, p, dataFile, "", extension{extDataFile, f.file}) },
		"data file of nbd": func(t *testing.T, p string) { forge(t, p, dataFile, "", extension{extDataFile, f.nbd()}) },
		"raw file":         func(t *testing.T, p string) { forge(t, p, 0, f.file, extension{extFormat, "raw"}) },
		"probed file":      func(t *testing.T, p string) { forge(t, p, 0, f.file) },
		"nbd":              func(t *testing.T, p string) { forge(t, p, 0, f.nbd(), extension{extFormat, "raw"}) },
		"nbd as qcow2":     func(t *testing.T, p string) { forge(t, p, 0, f.nbd(), extension{extFormat, "qcow2"}) },
		"json": func(t *testing.T, p string) {
			forge(t, p, 0, json(`{"driver":"nbd","host":"127.0.0.1","port":"%d"}`, f.port), extension{extFormat, "qcow2"})
		},
		"fat directory": func(t *testing.T, p string) {
			forge(t, p, 0, "fat:rw:"+filepath.Dir(f.file), extension{extFormat, "qcow2"})
		},
	}
}

// TestHeaderLeadsNowhere: a disk whose header names something else is refused
// before a program opens it, and a program that opens it in spite of that
// reaches nothing of it.
func TestHeaderLeadsNowhere(t *testing.T) {
	f := newForeign(t)
	vol := volume(t, t.TempDir())
	lay := layer(t, t.TempDir())
	for name, spoil := range hostile(f) {
		for kind, from := range map[qcow.Kind]string{qcow.Volume: vol, qcow.Layer: lay} {
			what := fmt.Sprintf("%s of kind %d", name, kind)
			path := clone(t, from)
			spoil(t, path)
			if _, err := qcow.Check(path, kind); vm.KindOf(err) != vm.Corrupt {
				t.Errorf("%s is let through: %v", what, err)
			}
			if kind == qcow.Volume {
				run(t, path, "resize", "-q", "--image-opts", qcow.Options(path), "64M")
				run(t, path, "check", "-q", "--image-opts", qcow.Options(path))
				f.untouched(t, what)
			}
		}
	}
}

// TestWithoutConfinement: the same headers do lead there where nothing confines
// the program, so the test above can fail.
func TestWithoutConfinement(t *testing.T) {
	needImager(t)
	vol := volume(t, t.TempDir())
	free := func(spoil string) *foreign {
		f := newForeign(t)
		path := clone(t, vol)
		hostile(f)[spoil](t, path)
		cmd := exec.Command("qemu-img", "resize", "--object", "secret,id=k0,data="+string(key), "-q", "--image-opts", qcow.Options(path), "64M")
		_ = cmd.Run() // it may well fail in the end
		return f
	}
	f := free("data file")
	if st, err := os.Stat(f.file); err != nil || st.Size() == int64(len(secret)) {
		t.Errorf("the data file was left alone: %v, %v", st, err)
	}
	if f := free("nbd"); f.calls.Load() == 0 {
		t.Error("nothing was connected to")
	}
}

// fields are those of a header, by offset and size.
var fields = []struct {
	name     string
	at, size int
}{
	{"magic", 0, 4},
	{"version", 4, 4},
	{"backing name's offset", 8, 8},
	{"backing name's length", 16, 4},
	{"cluster bits", 20, 4},
	{"size", 24, 8},
	{"encryption", 32, 4},
	{"entries of the first table", 36, 4},
	{"first table", 40, 8},
	{"reference counts", 48, 8},
	{"clusters of reference counts", 56, 4},
	{"snapshots", 60, 4},
	{"table of snapshots", 64, 8},
	{"incompatible features", 72, 8},
	{"compatible features", 80, 8},
	{"features to clear", 88, 8},
	{"bits of a count", 96, 4},
	{"length", 100, 4},
	{"compression", 104, 4},
	{"first extension", 112, 4},
	{"length of the first extension", 116, 4},
	{"contents of the first extension", 120, 8},
	{"contents of the first extension, second half", 128, 8},
}

func values(size int) (out []uint64) {
	for bit := range size * 8 {
		out = append(out, 1<<bit)
	}
	return append(out, 0, 2<<16|8, 104, 1<<32-1, 1<<64-1)
}

// TestEveryField rewrites each field of a header. What a disk of a VM lies on is a
// path or nothing. A disk of a volume never lies on anything, and a program that
// opens one that is let through touches nothing else and ends.
func TestEveryField(t *testing.T) {
	f := newForeign(t)
	for kind, from := range map[qcow.Kind]string{qcow.Layer: layer(t, t.TempDir()), qcow.Volume: volume(t, t.TempDir())} {
		if _, err := qcow.Check(from, kind); err != nil {
			t.Fatal(err)
		}
		cluster, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		for _, field := range fields {
			refused := 0
			var through []byte
			for _, value := range values(field.size) {
				c := append([]byte{}, cluster[:qcow.ClusterSize]...)
				if field.size == 8 {
					binary.BigEndian.PutUint64(c[field.at:], value)
				} else {
					binary.BigEndian.PutUint32(c[field.at:], uint32(value))
				}
				got, err := qcow.Parse(c, kind)
				switch {
				case err != nil && vm.KindOf(err) != vm.Corrupt:
					t.Errorf("%s = %#x: error %v, want corrupt", field.name, value, err)
				case err != nil:
					refused++
				case kind == qcow.Volume && got.Backing != "", strings.ContainsAny(got.Backing, ":\x00"):
					t.Errorf("%s = %#x: it lies on %q", field.name, value, got.Backing)
				case got.LUKSOffset < 0 || got.LUKSLength < 0 || got.LUKSLength > 16<<20:
					t.Errorf("%s = %#x: the LUKS header is out of bounds: %+v", field.name, value, got)
				case value != binary.BigEndian.Uint64(append(make([]byte, 8-field.size), cluster[field.at:field.at+field.size]...)):
					through = c
				}
			}
			if refused == 0 && field.name != "table of snapshots" { // there are none
				t.Errorf("kind %d: every value of %s is let through", kind, field.name)
			}
			if kind == qcow.Volume && through != nil {
				path := clone(t, from)
				write(t, path, through, 0)
				run(t, path, "check", "-q", "--image-opts", qcow.Options(path))
				f.untouched(t, field.name)
			}
		}
	}
}

// TestNotADisk: what is no regular file is not waited for, and a volume is no
// link.
func TestNotADisk(t *testing.T) {
	dir := t.TempDir()
	vol := volume(t, dir)
	link := filepath.Join(dir, "link")
	if err := os.Symlink(vol, link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]vm.Kind{vol: "", link: vm.Corrupt, dir: vm.Corrupt, "/dev/null": vm.Corrupt, filepath.Join(dir, "none"): vm.NotFound} {
		if _, err := qcow.Check(path, qcow.Volume); vm.KindOf(err) != want && (want != "" || err != nil) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if err := os.WriteFile(link+"2", []byte("QFI\xfb short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := qcow.Check(link+"2", qcow.Layer); vm.KindOf(err) != vm.Corrupt {
		t.Errorf("a short file: %v", err)
	}
}

// TestRunEnds: a run that is not wanted any more is killed, and leaves nothing in
// the scratch directory.
func TestRunEnds(t *testing.T) {
	path := volume(t, t.TempDir())
	scratch := t.TempDir()
	why := errors.New("not wanted")
	ctx, stop := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, why)
	defer stop()
	// Its second key has no end.
	_, _, err := qcow.Run(ctx, qcow.Image{
		Path: path, Scratch: scratch, Keys: []vm.VolumeKey{key}, Verb: "check",
		Args: []string{"--object", "secret,id=k1,file=/dev/urandom", "--image-opts", qcow.Options(path)},
	})
	if !errors.Is(err, why) {
		t.Errorf("it ended with %v", err)
	}
	if left, err := os.ReadDir(scratch); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	// One that cannot open its disk says so without the host's path.
	if err := os.WriteFile(path, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	status, said := run(t, path, "check", "--image-opts", qcow.Options(path))
	if status == 0 || said == "" || strings.Contains(said, path) {
		t.Errorf("a disk that cannot be opened: status %d, output %q, want a failure without the host's path", status, said)
	}
}
