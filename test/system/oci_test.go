//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	ociregistry "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/warren-vm/warren/vm"
)

// importer is a host whose images are its own, with the tests' base image among them.
func importer(t *testing.T) *host {
	t.Helper()
	h := ownImages(t)
	own := filepath.Join(h.data, "images")
	shared, err := filepath.Abs(env("WARREN_TEST_IMAGES", "../../.work/data/images"))
	if err != nil {
		t.Fatalf("the tests' images are nowhere: %v", err)
	}
	if err := os.Remove(own); err != nil {
		t.Fatalf("the empty directory of images stays: %v", err)
	}
	// Hard links where the file system gives them; a copy else.
	if exec.Command("cp", "-al", shared, own).Run() != nil {
		_ = os.RemoveAll(own)
		if out, err := exec.Command("cp", "-a", shared, own).CombinedOutput(); err != nil {
			t.Fatalf("the tests' images are not copied: %v\n%s", err, out)
		}
	}
	h.serve()
	t.Cleanup(h.close)
	return h
}

// layerOf makes a layer of files.
func layerOf(t *testing.T, files map[string][]byte) v1.Layer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for path, body := range files {
		if err := w.WriteHeader(&tar.Header{Name: path, Mode: 0o755, Size: int64(len(body)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatalf("%s is not written: %v", path, err)
		}
		if _, err := w.Write(body); err != nil {
			t.Fatalf("%s is not written: %v", path, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatalf("the layer is not written: %v", err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		t.Fatalf("the layer is none: %v", err)
	}
	return l
}

// pushed pushes an image to a registry of the test's own and returns its name.
func pushed(t *testing.T, repo string, c v1.Config, layers ...v1.Layer) string {
	t.Helper()
	srv := httptest.NewServer(ociregistry.New(ociregistry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(srv.Close)
	img := imageOf(t, c, layers...)
	ref, err := name.ParseReference(strings.TrimPrefix(srv.URL, "http://") + "/" + repo)
	if err != nil {
		t.Fatalf("the name is refused: %v", err)
	}
	if err := remote.Write(ref, img); err != nil {
		t.Fatalf("the image is not pushed: %v", err)
	}
	return "oci:" + ref.String()
}

// imageOf makes an image for linux/amd64.
func imageOf(t *testing.T, c v1.Config, layers ...v1.Layer) v1.Image {
	t.Helper()
	img, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		t.Fatalf("the image has no layers: %v", err)
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		t.Fatalf("the image has no configuration: %v", err)
	}
	cfg.OS, cfg.Architecture, cfg.Config = "linux", "amd64", c
	if img, err = mutate.ConfigFile(img, cfg); err != nil {
		t.Fatalf("the configuration is refused: %v", err)
	}
	return img
}

// TestOCIStatic: an image with one static program and nothing else, no shell, no /etc, becomes a VM that does what
// all VMs do. // 002-44
func TestOCIStatic(t *testing.T) {
	h := importer(t)
	app := filepath.Join(t.TempDir(), "app")
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", app, "./testdata/ociapp")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("the program is not built: %v\n%s", err, out)
	}
	body, err := os.ReadFile(app)
	if err != nil {
		t.Fatalf("the program is not there: %v", err)
	}
	ref := pushed(t, "test/tiny:1", v1.Config{
		Entrypoint: []string{"/app"}, Env: []string{"GREETING=hello world", "PATH=/"}, User: "1234:99", WorkingDir: "/data",
	}, layerOf(t, map[string][]byte{"app": body}))

	began := time.Now()
	h.ok("up", ref, "--name", "one")
	t.Logf("import and up: %v", time.Since(began))
	h.wantsApp(t, "one")

	h.run("exec", "one", "--", "sh", "-c", "true").wants(t, 127, "not found")
	if out := h.ok("ps", "one"); !strings.Contains(out, "/app") {
		t.Errorf("ps does not show the image's program:\n%s", out)
	}
	h.eventually("the service's log", func() bool {
		return strings.Contains(h.run("logs", "one", "--service", "app").stdout, "listens as 1234 in /data greeting hello world")
	})
	counted := func(vm string) int {
		t.Helper()
		n, err := strconv.Atoi(strings.TrimSpace(h.ok("exec", vm, "--", "/app", "get")))
		if err != nil {
			t.Fatalf("%s counts in no numbers: %v", vm, err)
		}
		return n
	}
	first := counted("one")
	h.ok("fork", "one", "--name", "two")
	const two = "two-1"
	if got := counted(two); got != first+1 {
		t.Errorf("the fork counts %d, want %d: it has not continued", got, first+1)
	}
	h.ok("suspend", "one")
	h.ok("start", "one")
	if got := counted("one"); got != first+1 {
		t.Errorf("after a suspend it counts %d, want %d", got, first+1)
	}
	h.run("exec", "one", "--", "/app", "get", "crash")
	h.eventually("the service runs again", func() bool {
		return h.run("exec", "one", "--", "/app", "get").code == 0
	})
	h.ok("service", "stop", "one", "app")
	if r := h.run("exec", "one", "--", "/app", "get"); r.code == 0 {
		t.Errorf("the stopped service answers: %s", r.stdout)
	}
	h.ok("service", "start", "one", "app")
	h.eventually("the started service", func() bool { return h.run("exec", "one", "--", "/app", "get").code == 0 })
	if a, b := h.ok("exec", "one", "--", "/app", "read", "/etc/machine-id"), h.ok("exec", two, "--", "/app", "read", "/etc/machine-id"); a == b || len(a) != 33 {
		t.Errorf("the machine ids are %q and %q, want two different ones", a, b)
	}
	h.ok("stop", "one")
	h.ok("start", "one")
	h.eventually("the service after a boot", func() bool { return h.run("exec", "one", "--", "/app", "get").code == 0 })

	if got, want := strings.TrimSpace(h.ok("run", ref, "--", "/app", "env")), "1234 /data hello world"; got != want {
		t.Errorf("a one-shot run prints %q, want %q", got, want)
	}
	var made vm.Image
	if err := json.Unmarshal([]byte(h.ok("image", "import", ref, "--if-missing", "--json")), &made); err != nil {
		t.Fatalf("image import prints no JSON: %v", err)
	}
	if made.Container == nil || !strings.HasPrefix(made.Container.Digest, "sha256:") || made.Container.Systemd {
		t.Errorf("the image says of its container image %+v", made.Container)
	}
}

// wantsApp wants a command to run as the image says.
func (h *host) wantsApp(t *testing.T, name string) {
	t.Helper()
	if got, want := strings.TrimSpace(h.ok("exec", name, "--", "/app", "env")), "1234 /data hello world"; got != want {
		t.Errorf("a command runs as %q, want %q", got, want)
	}
}

// debian makes an archive of a container image of the tests' Debian, whose program is a shell's line.
func debian(t *testing.T, line string) string {
	t.Helper()
	files, err := filepath.Abs(env("WARREN_TEST_DEBIAN", "../../.work/oci/debian.tar"))
	if err != nil {
		t.Fatalf("the tests' Debian is nowhere: %v", err)
	}
	if _, err := os.Stat(files); err != nil {
		t.Fatalf("no Debian for the tests: run scripts/test-image.sh (%v)", err)
	}
	layer, err := tarball.LayerFromFile(files)
	if err != nil {
		t.Fatalf("the tests' Debian is no layer: %v", err)
	}
	archive := filepath.Join(t.TempDir(), "debian.tar")
	img := imageOf(t, v1.Config{
		Cmd: []string{"sh", "-c", line}, Env: []string{"GREETING=hello", "PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}, User: "nobody", WorkingDir: "/srv",
	}, layer)
	ref, err := name.NewTag("test/debian:1")
	if err != nil {
		t.Fatalf("the name is refused: %v", err)
	}
	if err := tarball.WriteToFile(archive, ref, img); err != nil {
		t.Fatalf("the archive is not written: %v", err)
	}
	return "archive:" + archive
}

// TestOCIDebian: a Debian with systemd boots it; its program is a service, and forks and starts are as for
// images of one's own. // 002-44
func TestOCIDebian(t *testing.T) {
	h := importer(t)
	ref := debian(t, "echo started as $(id -un) in $PWD with $GREETING; while :; do sleep 1; date +%s >/tmp/beat; done")
	began := time.Now()
	h.ok("up", ref, "--name", "deb")
	t.Logf("import and up: %v", time.Since(began))
	if got, want := h.sh("deb", "id -un; pwd; echo $GREETING"), "nobody\n/srv\nhello"; got != want {
		t.Errorf("a command runs as %q, want %q", got, want)
	}
	asRoot := func(vm, line string) string {
		t.Helper()
		return strings.TrimSpace(h.ok("exec", "--user", "root", vm, "--", "sh", "-c", line))
	}
	if got := asRoot("deb", "cat /proc/1/comm; systemctl --failed --no-legend --plain | wc -l"); got != "systemd\n0" {
		t.Errorf("PID 1 and the number of failed units are %q", got)
	}
	if got := asRoot("deb", "modprobe overlay && grep -c overlay /proc/filesystems"); got != "1" {
		t.Errorf("the modules of the kernel give %q, want a file system", got)
	}
	h.eventually("the service's log", func() bool {
		return strings.Contains(h.run("logs", "deb", "--service", "app").stdout, "started as nobody in /srv with hello")
	})
	h.ok("fork", "deb", "--name", "copy")
	if a, b := asRoot("deb", "hostname; cat /etc/machine-id"), asRoot("copy-1", "hostname; cat /etc/machine-id"); a == b {
		t.Errorf("the fork has the names of its parent: %q", a)
	}
	h.ok("suspend", "deb")
	h.ok("start", "deb")
	before := asRoot("deb", "cat /tmp/beat")
	h.eventually("the program continues after a suspend", func() bool { return asRoot("deb", "cat /tmp/beat") != before })
	// A second VM starts on the warm generation, as those of base do.
	again := h.run("up", ref, "--name", "again")
	again.wants(t, 0, "")
	base := h.run("up", "--name", "base")
	base.wants(t, 0, "")
	t.Logf("up of the imported image: %v, of base: %v", again.took, base.took)
}
