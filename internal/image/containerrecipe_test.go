// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	ociregistry "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/warren-vm/warren/internal/oci"
	"github.com/warren-vm/warren/vm"
)

// inRegistry pushes an image of `docker save` to a registry of the test's own.
func inRegistry(t *testing.T, saved oci.Source) string {
	t.Helper()
	srv := httptest.NewServer(ociregistry.New(ociregistry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(srv.Close)
	img, err := tarball.ImageFromPath(saved.Place, nil)
	if err != nil {
		t.Fatalf("the archive is no image: %v", err)
	}
	ref, err := name.ParseReference(strings.TrimPrefix(srv.URL, "http://") + "/t:1")
	if err != nil {
		t.Fatalf("no name: %v", err)
	}
	if err := remote.Write(ref, img); err != nil {
		t.Fatalf("not pushed: %v", err)
	}
	return "oci:" + ref.String()
}

var libraryPath = regexp.MustCompile(`/\S+`)

// programs are programs of this host with their libraries, as members of a layer.
func programs(t *testing.T, names ...string) (out []member) {
	t.Helper()
	seen := map[string]bool{}
	add := func(path string) {
		body, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("no %s on this host: %v", path, err)
		}
		if !seen[path] {
			seen[path] = true
			out = append(out, member{tar.Header{Name: strings.TrimPrefix(path, "/")}, string(body)})
		}
	}
	for _, n := range names {
		path, err := exec.LookPath(n)
		if err != nil {
			t.Fatalf("no %s on this host: %v", n, err)
		}
		if n == "sh" {
			path = "/bin/sh"
		}
		add(path)
		libraries, err := exec.Command("ldd", path).Output()
		if err != nil {
			t.Fatalf("%s has no libraries: %v", path, err)
		}
		for _, l := range libraryPath.FindAllString(string(libraries), -1) {
			add(l)
		}
	}
	return out
}

// TestRecipeAboveContainer: a recipe adds files, and runs steps with the image as their root and without rights on
// the host.
func TestRecipeAboveContainer(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir := kernelOnly(t)
	from := inRegistry(t, savedImage(t, `{"Entrypoint":["/app"],"Env":["A=1","B=1"]}`, programs(t, "sh", "cat", "rm", "basename", "ls")...))
	seen := filepath.Join(t.TempDir(), "host")
	if err := os.WriteFile(seen, []byte("x"), 0o644); err != nil {
		t.Fatalf("no file: %v", err)
	}
	r := Recipe{
		Name: "mine", From: from, Env: map[string]string{"B": "2"}, Files: []RecipeEntry{{Path: "/etc/motd", Content: "hello", Mode: "0640"}},
		Run: []string{"cat /etc/motd >/made; echo \"$B\" >>/made; ls -a / >/root-of-steps; cat /proc/self/uid_map >/uids", "! cat " + seen},
	}
	img, err := Build(t.Context(), BuildOptions{Dir: dir, Recipe: r})
	if err != nil {
		_, log, _ := strings.Cut(vm.AsError(err).Hint, "see ")
		said, _ := os.ReadFile(log) // it may not have come so far
		t.Fatalf("the build fails: %v\n%s", err, said)
	}
	if got := debugfs(t, dir, img, "cat /made"); got != "hello2\n" {
		t.Errorf("the step made %q, want the file and the variable of the recipe", got)
	}
	if got := debugfs(t, dir, img, "cat /root-of-steps"); !strings.Contains(got, "made") || strings.Contains(got, "boot") {
		t.Errorf("the root of the step holds\n%s", got)
	}
	if got := strings.Fields(debugfs(t, dir, img, "cat /uids")); len(got) != 3 || got[1] == "0" {
		t.Errorf("the users of the step are mapped by %q, want none of them to be root of this host", got)
	}
	if got := debugfs(t, dir, img, "ls /"); strings.Contains(got, ".warren-steps") {
		t.Errorf("files of the build are left in the image:\n%s", got)
	}
	if got := debugfs(t, dir, img, "cat /etc/warren/container.json"); !strings.Contains(got, "A=1") || !strings.Contains(got, "B=2") || strings.Contains(got, "B=1") {
		t.Errorf("the variables of the image are in\n%s", got)
	}
	for what, bad := range map[string]Recipe{
		"packages without apt": {Name: "a", From: from, Packages: []string{"jq"}}, "a step that fails": {Name: "b", From: from, Run: []string{"exit 3"}},
		"services without systemd": {Name: "c", From: from, Services: []RecipeService{{Name: "x.service", Unit: "[Service]\n"}}},
	} {
		if _, err := Build(t.Context(), BuildOptions{Dir: dir, Recipe: bad}); vm.KindOf(err) != vm.Invalid {
			t.Errorf("%s: got %v, want the kind invalid", what, err)
		}
	}
}
