// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/interpreter"
	"github.com/warren-vm/warren/vm"
)

const goodRecipe = `
name: mine
from: dev
packages: [redis-server, golang-go=2:1.19~1]
files:
  - path: /etc/motd
    content: "hello\n"
    mode: "0600"
    owner: ann:users
users:
  - name: ann
    uid: 1000
    groups: [users, docker]
services:
  - name: web.service
    unit: |
      [Service]
      ExecStart=/bin/true
  - name: redis-server.service
    enable: false
run:
  - echo one
  - |
    echo two
    echo three
env: {A_B: some value}
workdir: /srv/app
`

func TestParse(t *testing.T) {
	r, err := Parse("warren.yaml", []byte(goodRecipe))
	if err != nil {
		t.Fatal(err)
	}
	if r.Name != "mine" || r.Files[0].Content != "hello\n" || r.Users[0].Groups[1] != "docker" || *r.Services[1].Enable || len(r.Run) != 2 {
		t.Errorf("parsed %+v", r)
	}
}

// Bad recipes are refused with the line that is wrong.
func TestParseErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "r.yaml: empty"},
		{"unknown key", "name: a\n\npakages: [x]\n", `r.yaml:3: unknown key "pakages"`},
		{"unknown key below", "name: a\nfiles:\n  - path: /x\n    contents: y\n", `r.yaml:4: unknown key "contents"`},
		{"wrong type", "name: a\npackages: vim\n", "r.yaml:2: `vim`: a list (`- ...` on lines of its own, or [...]) is wanted here"},
		{"not yaml", "name: [a\n", "r.yaml:1: "},
		{"key twice", "name: a\nname: b\n", "r.yaml:2: mapping key"},
		{"two documents", "name: a\n---\nname: b\n", "more than one"},
		{"no name", "packages: [vim]\n", `name ""`},
		{"bad name", "packages: [vim]\nname: A/B\n", "r.yaml:2: name"},
		{"bad from", "name: a\nfrom: ../x\n", "r.yaml:2: from"},
		{"bad package", "name: a\npackages:\n  - vim\n  - --force\n", `r.yaml:4: "--force"`},
		{"context without a Dockerfile", "name: a\ncontext: src\n", "r.yaml:2: context is for a recipe with a dockerfile"},
		{"packages and a Dockerfile", "name: a\ndockerfile: Dockerfile\npackages: [vim]\n", "r.yaml:3: a recipe with a dockerfile has no packages"},
		{"from and a Dockerfile", "name: a\ndockerfile: Dockerfile\nfrom: dev\n", "r.yaml:3: a recipe with a dockerfile has no from"},
		{"Dockerfile outside", "name: a\ndockerfile: ../Dockerfile\n", "r.yaml:2: dockerfile"},
		{"context outside", "name: a\ndockerfile: Dockerfile\ncontext: /etc\n", "r.yaml:3: context"},
		{"target", "name: a\ndockerfile: Dockerfile\ntarget: --push\n", "r.yaml:3: target"},
		{"ARG", "name: a\ndockerfile: Dockerfile\nargs: {A-B: c}\n", "r.yaml:3: args"},
		{"relative path", "name: a\nfiles:\n  - path: /ok\n  - path: etc/x\n", "r.yaml:4: path"},
		{"dots in path", "name: a\nfiles: [{path: /a/../b}]\n", "r.yaml:2: path"},
		{"our own path", "name: a\nfiles: [{path: /.warren/run/1}]\n", "used by the build"},
		{"path twice", "name: a\nfiles:\n- path: /x\n- path: /x\n", "r.yaml:4: path \"/x\" appears twice"},
		{"content and source", "name: a\nfiles:\n- {path: /x, content: a, source: b}\n", "r.yaml:3: give content or source"},
		{"source outside", "name: a\nfiles:\n- {path: /x, source: ../../etc/shadow}\n", "r.yaml:3: source"},
		{"mode", "name: a\nfiles:\n- {path: /x, mode: rwx}\n", "r.yaml:3: mode"},
		{"owner", "name: a\nfiles:\n- {path: /x, owner: 'a; rm'}\n", "r.yaml:3: owner"},
		{"root again", "name: a\nusers:\n- name: root\n", "r.yaml:3: \"root\""},
		{"uid", "name: a\nusers:\n- {name: b, uid: 5}\n", "r.yaml:3: uid"},
		{"group", "name: a\nusers:\n- {name: b, groups: ['x y']}\n", "r.yaml:3: \"x y\""},
		{"unit", "name: a\nservices:\n- name: ../x\n", "r.yaml:3: \"../x\""},
		{"empty step", "name: a\nrun:\n- 'true'\n- ''\n", "r.yaml:4: an empty run step"},
		{"env name", "name: a\nenv:\n  A: b\n  'X Y': c\n", "r.yaml:4: env"},
		{"env value", "name: a\nenv:\n  A: \"x\\ny\"\n", "r.yaml:3: env"},
		{"workdir", "name: a\nworkdir: here\n", "r.yaml:2: workdir"},
		{"little memory", "name: a\nmemory: 128\n", "r.yaml:2: memory 128"},
		{"odd memory", "name: a\nmemory: 1000\n", "r.yaml:2: memory 1000"},
		{"too large", "name: a\n#" + strings.Repeat("x", maxRecipe), "larger than"},
	} {
		_, err := Parse("r.yaml", []byte(c.text))
		if !errors.Is(err, vm.Invalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
			continue
		}
		if vm.AsError(err).Hint == "" {
			t.Errorf("%s: no hint", c.name)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(goodRecipe))
	for _, n := range Names() {
		data, err := shipped.ReadFile("recipes/" + n + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("name: a\nfiles: [{path: /x, content: &a [*a]}]"))
	f.Add([]byte("name: a\nenv: {? [x] : y}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse("f.yaml", data)
		if err != nil {
			if !errors.Is(err, vm.Invalid) {
				t.Fatalf("kind of %v", err)
			}
			return
		}
		// What is accepted can be written and read again, and fits into a build.
		text, err := r.yaml()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Parse("again.yaml", text); err != nil {
			t.Fatalf("refused its own rendering: %v\n%s", err, text)
		}
		var out strings.Builder
		if err := (plan{recipe: r}).writeTar(&out); err != nil {
			t.Fatal(err)
		}
	})
}

func TestShipped(t *testing.T) {
	if got := Names(); !slices.Equal(got, []string{"agents", "base", "desktop", "dev", "docker", "go", "node", "python", "python-interpreter"}) {
		t.Errorf("shipped %q", got)
	}
	for _, n := range Names() {
		r, err := Shipped(n)
		if err != nil || r.Name != n {
			t.Errorf("the recipe %s is read as %+v (%v), want one of that name", n, r, err)
		}
	}
	if _, err := Shipped("gentoo"); !errors.Is(err, vm.NotFound) {
		t.Errorf("unknown recipe: %v", err)
	}
}

func TestResolve(t *testing.T) {
	r, err := Parse("x", []byte("name: x\nfrom: dev\npackages: [git, jq]\nfiles: [{path: /a, content: b}]\nenv: {PIP_ROOT_USER_ACTION: warn}\n"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"python3", "build-essential", "jq"} {
		if !slices.Contains(got.Packages, p) {
			t.Errorf("lacks %s", p)
		}
	}
	if n := len(got.Packages); len(slices.Compact(slices.Sorted(slices.Values(got.Packages)))) != n {
		t.Errorf("packages twice: %q", got.Packages)
	}
	if got.Name != "x" || got.From != fromNothing || got.Workdir != "/workspace" || got.Env["PIP_ROOT_USER_ACTION"] != "warn" || got.Env["PIP_BREAK_SYSTEM_PACKAGES"] != "1" {
		t.Errorf("resolved %+v", got)
	}
	for _, from := range []string{"nothing", "x-y"} {
		if _, err := (Recipe{Name: "x", From: from}).Resolve(); !errors.Is(err, vm.Invalid) {
			t.Errorf("from %s: %v", from, err)
		}
	}
	if got, err := (Recipe{Name: "base"}).Resolve(); err != nil || len(got.Packages) == 0 {
		t.Errorf("one's own base from the shipped one: %v, %v", got, err)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	write := func(name, body string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("hello.txt", "hi")
	write(RecipeFile, "name: a\nfiles: [{path: /x, source: hello.txt}]\n")
	r, err := FindRecipe(dir)
	if err != nil || r.Files[0].Content != "hi" || r.Files[0].Source != "" {
		t.Fatalf("the recipe is read as %+v (%v), want the file's content in place of its source", r, err)
	}
	first, err := r.digestWith()
	if err != nil {
		t.Fatal(err)
	}
	write("hello.txt", "ho")
	if r, err = Load(filepath.Join(dir, RecipeFile)); err != nil {
		t.Fatal(err)
	}
	if second, err := r.digestWith(); err != nil || second == first {
		t.Errorf("another source, the same digest (%v)", err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	write(RecipeFile, "name: a\nfiles: [{path: /x, source: link}]\n")
	if r, err := Load(dir); !errors.Is(err, vm.Invalid) {
		t.Errorf("a source that leads outside: %+v, %v", r, err)
	}
	if _, err := Load(filepath.Join(dir, "none")); !errors.Is(err, vm.NotFound) {
		t.Errorf("no recipe: %v", err)
	}
}

const dockerRecipe = "name: a\ndockerfile: ./docker/Dockerfile\nargs: {VERSION: '3'}\ntarget: run\n"

func writeRecipe(t *testing.T, recipe, dockerfile string) string {
	t.Helper()
	dir := t.TempDir()
	err := os.Mkdir(filepath.Join(dir, "docker"), 0o755)
	err = errors.Join(err, os.WriteFile(filepath.Join(dir, RecipeFile), []byte(recipe), 0o644))
	err = errors.Join(err, os.WriteFile(filepath.Join(dir, "docker/Dockerfile"), []byte(dockerfile), 0o644))
	if err != nil {
		t.Fatal("the recipe is not written:", err)
	}
	return dir
}

// The digest of a recipe, which somebody trusts, changes with the Dockerfile.
func TestDockerfileIsPartOfTheRecipe(t *testing.T) {
	var digests []string
	for _, text := range []string{"FROM scratch\n", "FROM debian\n"} {
		r, err := Load(writeRecipe(t, dockerRecipe, text))
		if err != nil {
			t.Fatal("the recipe is refused:", err)
		}
		d, err := r.Digest()
		if err != nil {
			t.Fatal("the recipe has no digest:", err)
		}
		digests = append(digests, d)
		if says := strings.Join(r.Says(), "\n"); !strings.Contains(says, text) {
			t.Errorf("what the recipe does leaves out its Dockerfile: %s", says)
		}
	}
	if digests[0] == digests[1] {
		t.Error("two Dockerfiles give the same digest")
	}
}

func TestBuildContext(t *testing.T) {
	for _, c := range []struct{ context, dir, file string }{
		{"", "", "docker/Dockerfile"}, {".", "", "docker/Dockerfile"}, {"docker", "docker", "Dockerfile"},
	} {
		recipe := dockerRecipe
		if c.context != "" {
			recipe += "context: " + c.context + "\n"
		}
		at := writeRecipe(t, recipe, "FROM scratch\n")
		r, err := Load(at)
		if err != nil {
			t.Fatal("the recipe is refused:", err)
		}
		dir, file, err := r.BuildContext()
		if err != nil {
			t.Errorf("context %q: %v", c.context, err)
		}
		if dir != filepath.Join(at, c.dir) {
			t.Errorf("context %q: the directory is %s", c.context, dir)
		}
		if file != c.file {
			t.Errorf("context %q: the Dockerfile is %s, not %s", c.context, file, c.file)
		}
	}
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "src"), 0o755), os.Symlink("/etc", filepath.Join(dir, "link"))); err != nil {
		t.Fatal("the directory is not made:", err)
	}
	for what, r := range map[string]Recipe{
		"a Dockerfile outside of its context": {Dockerfile: "Dockerfile", Context: "src", Dir: dir},
		"a link as the context":               {Dockerfile: "link/passwd", Context: "link", Dir: dir},
		"no such context":                     {Dockerfile: "none/Dockerfile", Context: "none", Dir: dir},
	} {
		if _, _, err := r.BuildContext(); vm.KindOf(err) != vm.Invalid {
			t.Errorf("%s: the error is %v", what, err)
		}
	}
}

// Each example builds on the recipe of its directory's name.
func TestExamples(t *testing.T) {
	for _, name := range []string{"agents", "go", "node", "python"} {
		r, err := Load(filepath.Join("../../examples", name))
		if err != nil {
			t.Errorf("the example %s: %v, want a recipe", name, err)
			continue
		}
		if _, err := r.Resolve(); err != nil || r.From != name {
			t.Errorf("the example %s is from %q (%v), want %s", name, r.From, err, name)
		}
	}
}

// What recipes share with dev is the same there.
func TestSameNode(t *testing.T) {
	dev, err := Shipped("dev")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"node", "python"} {
		r, err := Shipped(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range r.Downloads {
			pkg := d.From[:strings.LastIndexAny(d.From, "@:")+1] // with the @ before the version
			for _, other := range dev.Downloads {
				if pkg != "pypi:" && strings.HasPrefix(other.From, pkg) && other.From != d.From {
					t.Errorf("%s has %s, dev has %s, want the same version", name, d.From, other.From)
				}
			}
		}
	}
}

// A recipe says how much memory its VMs have, and those on it have as much.
func TestMemory(t *testing.T) {
	for text, want := range map[string]int{"name: a\n": 0, "name: a\nfrom: desktop\n": 2048, "name: a\nfrom: desktop\nmemory: 4096\n": 4096} {
		r, err := Parse("r.yaml", []byte(text))
		if err == nil {
			r, err = r.Resolve()
		}
		if err != nil || r.Memory != want {
			t.Errorf("%q: %d MiB (%v), want %d", text, r.Memory, err, want)
		}
	}
}

// TestShippedInterpreter: the image for E2B's code interpreter has the program as the service that the door looks for.
func TestShippedInterpreter(t *testing.T) {
	r, err := Shipped("python-interpreter")
	if err != nil || len(r.Services) != 1 {
		t.Fatalf("%d services, %v", len(r.Services), err)
	}
	if s := r.Services[0]; "/etc/systemd/system/"+s.Name != interpreter.Unit || !strings.Contains(s.Unit, fmt.Sprintf("python3 %s %d --warm\n", interpreter.Path, interpreter.Port)) {
		t.Errorf("its service %s is %s", s.Name, s.Unit)
	}
	if i := slices.IndexFunc(r.Files, func(f RecipeEntry) bool { return f.Path == interpreter.Path }); i < 0 || r.Files[i].Content != interpreter.Server {
		t.Errorf("it has not the program as %s", interpreter.Path)
	}
}
