// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/oci"
	"github.com/warren-vm/warren/vm"
)

// kernelOnly makes a data directory with a base image that has a kernel and nothing else.
func kernelOnly(t *testing.T) layout.Dir {
	t.Helper()
	dir, err := layout.Open(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatalf("no data directory: %v", err)
	}
	img := vm.Image{Format: 1, ID: vm.NewImageID(), Name: DefaultName, CreatedAt: time.Now(), Kernel: "6.1.0-test"}
	at := layout.ImageDir(dir.Image(img.ID))
	err = errors.Join(os.MkdirAll(at.Modules(), 0o700), os.WriteFile(at.Kernel(), []byte("kernel"), 0o600),
		os.WriteFile(at.ModuleOrder(), []byte("a.ko\n"), 0o600), os.WriteFile(filepath.Join(at.Modules(), "a.ko"), []byte("module"), 0o600),
		layout.WriteJSON(at.Manifest(), img, 0o600))
	if err != nil {
		t.Fatalf("no base image: %v", err)
	}
	return dir
}

// member is a file of a layer.
type member struct {
	tar.Header
	body string
}

// savedImage writes what `docker save` wrote of an image with one layer, and returns its source.
func savedImage(t *testing.T, config string, members ...member) oci.Source {
	t.Helper()
	write := func(w io.Writer, list ...member) {
		t.Helper()
		out := tar.NewWriter(w)
		for _, m := range list {
			m.Size = int64(len(m.body))
			if m.Typeflag == 0 {
				m.Typeflag = tar.TypeReg
			}
			if m.Mode == 0 {
				m.Mode = 0o755
			}
			if err := out.WriteHeader(&m.Header); err != nil {
				t.Fatalf("%s is not written: %v", m.Name, err)
			}
			if _, err := io.WriteString(out, m.body); err != nil {
				t.Fatalf("%s is not written: %v", m.Name, err)
			}
		}
		if err := out.Close(); err != nil {
			t.Fatalf("the tar is not written: %v", err)
		}
	}
	var layer bytes.Buffer
	write(&layer, members...)
	sum := sha256.Sum256(layer.Bytes())
	config = `{"os":"linux","architecture":"amd64","config":` + config + `,"rootfs":{"type":"layers","diff_ids":["sha256:` + hex.EncodeToString(sum[:]) + `"]}}`
	file := filepath.Join(t.TempDir(), "image.tar")
	f, err := os.Create(file)
	if err != nil {
		t.Fatalf("no archive: %v", err)
	}
	write(f, member{tar.Header{Name: "c.json"}, config}, member{tar.Header{Name: "layer.tar"}, layer.String()},
		member{tar.Header{Name: "manifest.json"}, `[{"Config":"c.json","RepoTags":["t:1"],"Layers":["layer.tar"]}]`})
	if err := f.Close(); err != nil {
		t.Fatalf("the archive is not written: %v", err)
	}
	return oci.Source{Kind: oci.Archive, Place: file}
}

// debugfs asks for something of the disk of an image.
func debugfs(t *testing.T, dir layout.Dir, img vm.Image, request string) string {
	t.Helper()
	raw := filepath.Join(t.TempDir(), "raw")
	if out, err := exec.Command("qemu-img", "convert", "-O", "raw", dir.ImageDisk(img.ID), raw).CombinedOutput(); err != nil {
		t.Fatalf("the disk is not converted: %v\n%s", err, out)
	}
	cmd := exec.Command("debugfs", "-R", request, raw)
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("debugfs %s: %v", request, err)
	}
	return string(out)
}

// TestImport: the files of a container image become a disk with their owners, modes and attributes, and nothing
// of the image runs on the host or stays there.
func TestImport(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir := kernelOnly(t)
	source := savedImage(t, `{"Entrypoint":["/app"],"Env":["A=b c"],"User":"1234:99","WorkingDir":"/data"}`,
		member{tar.Header{Name: "app", Uid: 1234, Gid: 99, Mode: 0o4755, PAXRecords: map[string]string{
			"SCHILY.xattr.security.capability": "\x01\x00\x00\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00",
		}}, "program"},
		member{tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}, ""},
		member{tar.Header{Name: "etc", Typeflag: tar.TypeSymlink, Linkname: "../../../../tmp"}, ""},
		member{tar.Header{Name: "secret", Mode: 0o400, Uid: 65535}, "x"},
		member{tar.Header{Name: "closed/", Typeflag: tar.TypeDir, Mode: 0o700, Uid: 7}, ""},
	)
	img, err := Import(t.Context(), ImportOptions{Dir: dir, Source: source})
	if err != nil {
		t.Fatalf("the import fails: %v (%s)", err, vm.AsError(err).Hint)
	}
	if want := (&vm.ContainerImage{Source: source.String(), Digest: img.Container.Digest, User: "1234:99", Service: "app"}); *img.Container != *want {
		t.Errorf("the manifest says %+v, want %+v", img.Container, want)
	}
	if !strings.Contains(img.Cmdline, "warren.init=none") || img.Kernel != "6.1.0-test" || img.Workdir != "/data" {
		t.Errorf("the image boots with %q and the kernel %s in %s", img.Cmdline, img.Kernel, img.Workdir)
	}
	if got := debugfs(t, dir, img, "stat /app"); !strings.Contains(got, "Mode:  04755") || !strings.Contains(got, "User:  1234") || !strings.Contains(got, "security.capability") {
		t.Errorf("the program on the disk is\n%s", got)
	}
	var config vm.ContainerConfig
	if err := json.Unmarshal([]byte(debugfs(t, dir, img, "cat /tmp/warren/container.json")), &config); err != nil {
		t.Errorf("the configuration is not where the image's link leads: %v", err)
	}
	if !slices.Equal(config.Argv, []string{"/app"}) || !slices.Equal(config.Env, []string{"A=b c"}) {
		t.Errorf("the configuration is %+v", config)
	}
	again, err := Import(t.Context(), ImportOptions{Dir: dir, Source: source})
	if err != nil || again.ID != img.ID {
		t.Errorf("the same import makes %s, want %s: %v", again.ID, img.ID, err)
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(left) > 0 {
		t.Errorf("%d files are left behind, err %v", len(left), err)
	}
}

// TestImportFails: an import that fails leaves no image and no files but the parts in the cache.
func TestImportFails(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir := kernelOnly(t)
	fine := savedImage(t, `{"Cmd":["/app"]}`, member{tar.Header{Name: "app"}, "program"})
	for name, c := range map[string]struct {
		source oci.Source
		run    runner
		kind   vm.Kind
		code   string
	}{
		"a layer that leads out": {savedImage(t, `{}`, member{tar.Header{Name: "../x"}, ""}), nil, vm.Invalid, "OCI_INVALID"},
		"a full disk": {fine, func(_ context.Context, p program) error {
			_, _ = io.WriteString(p.output, "tar: ./app: Cannot write: No space left on device\n")
			return vm.Errorf(vm.Internal, "bash", "exit status 2")
		}, vm.NoSpace, ""},
		"a name that a recipe has": {oci.Source{Kind: oci.Archive, Place: "/x/base.tar"}, nil, vm.Invalid, ""},
	} {
		_, err := Import(t.Context(), ImportOptions{Dir: dir, Source: c.source, run: c.run})
		if vm.KindOf(err) != c.kind || vm.AsError(err).Code != c.code {
			t.Errorf("%s: got %v (%s, %s), want %s, %s", name, err, vm.KindOf(err), vm.AsError(err).Code, c.kind, c.code)
		}
		list, err := List(dir)
		if err != nil || len(list) != 1 {
			t.Errorf("%s: %d images are there, want the base image only; err %v", name, len(list), err)
		}
		if left, err := filepath.Glob(filepath.Join(dir.Images(), ".building-*", "*")); err != nil || slices.ContainsFunc(left, func(p string) bool { return filepath.Base(p) != "build.log" }) {
			t.Errorf("%s: half an image is left: %v", name, left)
		}
		if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
			t.Errorf("%s: %d files are left behind, err %v", name, len(left), err)
		}
	}
	if kept, err := os.ReadDir(dir.ContainerParts()); err != nil || len(kept) == 0 {
		t.Errorf("the cache keeps %d parts, err %v", len(kept), err)
	}
	if _, err := Import(t.Context(), ImportOptions{Dir: dir, Source: fine}); err != nil {
		t.Errorf("after the failures the import still fails: %v", err)
	}
}

// TestUnit: the service of a systemd image has the image's words, whatever characters they hold.
func TestUnit(t *testing.T) {
	for in, want := range map[string]string{`a "b" \ c`: `"a \"b\" \\ c"`, "$HOME 100%": `"$$HOME 100%%"`, "a\nb": `"a\x0ab"`} {
		if got := quoteUnit(in, true); got != want {
			t.Errorf("%q is written as %s, want %s", in, got, want)
		}
	}
}
