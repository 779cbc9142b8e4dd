// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/tools/results"
)

// sentences is the digest of all numbers with their sentences, as they were
// asked for. Whoever changes one on purpose changes this, too.
const sentences = "9608d8e6c7f79db9f10b944bde6d3c101b3b4ff0d63e59c324c55d1c7acdb7f0"

// TestRepository: the table of this repository agrees with its citations, and
// its sentences are unchanged.
func TestRepository(t *testing.T) {
	const root = "../.."
	lines, err := readRequirements(filepath.Join(root, "docs/requirements.md"))
	if err != nil {
		t.Fatal(err)
	}
	cited, err := findCitations(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range faults(lines, cited) {
		t.Errorf("requirements: %s", wrong)
	}
	sum := sha256.New()
	for _, l := range lines {
		fmt.Fprintf(sum, "%s %s\n", l.number, l.text)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); len(lines) != 212 || got != sentences {
		t.Errorf("docs/requirements.md has %d sentences with the digest %s: a sentence is edited, missing or new", len(lines), got)
	}
}

const aTest = `package p

import "testing"

// TestOne: words. 000-01, 000-02
//
// 000-03
func TestOne(t *testing.T) {
	helper() // 000-04
	t.Run("sub", func(t *testing.T) {
		// 000-05: in a subtest
		s := "000-06 in a text"
	})
}

// TestNone cites nothing.
func TestNone(t *testing.T) {}

// FuzzIt: 000-07
func FuzzIt(f *testing.F) {}

// 000-08, above a blank line

func TestApart(t *testing.T) {}

// helper is no test. 000-09
func helper() {
	// 000-10
}

// Testify is none, for its name continues in small letters. 000-11
func Testify() {}

// BenchmarkIt: 000-12
func BenchmarkIt(b *testing.B) {}

type suite struct{}

// TestMethod is none that go test runs. 000-13
func (suite) TestMethod(t *testing.T) {}
`

const aScript = `import x from "y"; // 000-01
const s = "000-02";
// 000-03, 000-03
test("a", () => {});
`

// tree writes a repository with those files and returns its root.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestCitations: which numbers are citations, and of which test.
func TestCitations(t *testing.T) {
	cited, err := findCitations(tree(t, map[string]string{
		"a/a_test.go": aTest, "a/a.go": "package p // 000-20", "c/life.test.mjs": aScript, "c/common.mjs": "// 000-21",
		"node_modules/x/x_test.go": aTest, ".work/x_test.go": aTest, "bin/x_test.go": aTest,
	}))
	if err != nil {
		t.Fatal(err)
	}
	one, fuzz, script := citation{pkg: "a", test: "TestOne"}, citation{pkg: "a", test: "FuzzIt"}, citation{pkg: "c", test: "life", script: true}
	for n, want := range map[string][]citation{
		"000-01": {one, script}, "000-02": {one}, "000-03": {one, script}, "000-04": {one}, "000-05": {one}, "000-06": nil, "000-07": {fuzz},
		"000-08": nil, "000-09": nil, "000-10": nil, "000-11": nil, "000-12": nil, "000-13": nil, "000-20": nil, "000-21": nil,
	} {
		if got := cited.of[n]; !slices.Equal(got, want) {
			t.Errorf("%s is cited by %v, want %v", n, got, want)
		}
	}
	var stray []string
	for _, s := range cited.stray {
		stray = append(stray, strings.Fields(s)[2])
	}
	if want := []string{"000-08", "000-09", "000-10", "000-11", "000-12", "000-13", "000-21"}; !slices.Equal(stray, want) {
		t.Errorf("outside any test: %q, want %q", cited.stray, want)
	}
}

// TestFaults: an unknown number, a citation outside a test, and a table that
// contradicts the citations.
func TestFaults(t *testing.T) {
	by := []citation{{pkg: "a", test: "TestA"}}
	lines := []requirement{
		{"000-01", "holds", "a"}, {"000-02", "planned: Git", "b"}, {"000-03", "not shown: no KVM", "c"},
	}
	good := citations{of: map[string][]citation{"000-01": by}}
	if got := faults(lines, good); len(got) != 0 {
		t.Errorf("nothing is wrong, said are %q", got)
	}
	for want, change := range map[string]func(l []requirement, c *citations){
		"000-04, which is not a requirement": func(_ []requirement, c *citations) { c.of["000-04"] = by },
		"x_test.go:1":                        func(_ []requirement, c *citations) { c.stray = []string{"x_test.go:1 cites"} },
		"000-01 holds":                       func(_ []requirement, c *citations) { delete(c.of, "000-01") },
		"TestA cites it":                     func(_ []requirement, c *citations) { c.of["000-02"] = by },
		`"planned: " is not a state`:         func(l []requirement, _ *citations) { l[1].state = "planned: " },
		`"planned" is not a state`:           func(l []requirement, _ *citations) { l[1].state = "planned" },
		`"done: by hand" is not a state`:     func(l []requirement, _ *citations) { l[2].state = "done: by hand" },
		"000-01 appears twice":               func(l []requirement, _ *citations) { l[2] = l[0] },
	} {
		l, c := slices.Clone(lines), citations{of: map[string][]citation{"000-01": by}}
		change(l, &c)
		if got := faults(l, c); len(got) != 1 || !strings.Contains(got[0], want) {
			t.Errorf("want one fault %q, got %q", want, got)
		}
	}
}

// TestOutcome: a citing test passed only if all of it did.
func TestOutcome(t *testing.T) {
	goTest, script := citation{pkg: "internal/a", test: "TestA"}, citation{pkg: "test/contract", test: "life", script: true}
	for _, c := range []struct {
		by   citation
		ran  map[string]string
		want string
	}{
		{goTest, nil, "not run"},
		{goTest, map[string]string{"m/internal/a TestA": "pass"}, "pass"},
		{goTest, map[string]string{"m/internal/a TestAB": "pass"}, "not run"},
		{goTest, map[string]string{"m/xinternal/a TestA": "pass"}, "not run"},
		{goTest, map[string]string{"m/internal/a TestA": "pass", "m/internal/a TestA/one": "pass", "m/internal/a TestA/two": "skip"}, "skip"},
		{goTest, map[string]string{"m/internal/a TestA": "fail", "m/internal/a TestA/one": "skip"}, "fail"},
		{script, map[string]string{"m/test/contract TestScripts/life": "pass"}, "not run"}, // by the simulator alone
		{script, map[string]string{"m/test/contract TestScripts/life": "pass", "m/test/system TestContract/life": "pass"}, "pass"},
		{script, map[string]string{"m/test/contract TestScripts/life": "fail", "m/test/system TestContract/life": "pass"}, "fail"},
		{script, map[string]string{"m/other TestX/life": "fail", "m/test/system TestContract/life": "pass"}, "pass"},
	} {
		kept := map[string]results.Test{}
		for key, o := range c.ran {
			kept[key] = results.Test{Outcome: o}
		}
		if got := outcome(c.by, kept); got != c.want {
			t.Errorf("%v: %s, want %s", c.ran, got, c.want)
		}
	}
	two := results.Run{Tests: map[string]results.Test{"m/internal/a TestA": {Outcome: "pass"}}}
	if lines, shown := outcomes([]citation{goTest, {pkg: "internal/a", test: "TestB"}}, two, true); shown {
		t.Errorf("one of two was not run, and the number counts: %q", lines)
	}
}

// TestRun: the whole program on a small repository: at the commit of its
// results, with changes, and at another commit.
func TestRun(t *testing.T) {
	table := "| 000-01 | holds | It works. |\n| 000-02 | planned: Git | It is pushed. |\n"
	root := tree(t, map[string]string{
		".gitignore": ".work\n", "docs/requirements.md": table, "a/a_test.go": "package a\n\n// 000-01\nfunc TestA() {}\n",
	})
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", root, "-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v failed: %v: %s", args, err, out)
		}
	}
	git("init", "-q")
	git("add", "-A")
	git("commit", "-q", "-m", "one")
	says := func(want string) {
		t.Helper()
		var out bytes.Buffer
		if err := run(&out, root, false); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s%v", want, out.String(), err)
		}
	}
	keep := func() {
		t.Helper()
		source, err := results.Of(root)
		if err != nil {
			t.Fatal(err)
		}
		r := results.Run{Source: source}
		r.Add("m/a TestA", results.Test{Outcome: "pass"})
		if err := results.Save(root, r); err != nil {
			t.Fatal(err)
		}
	}
	says("no test has been run")
	keep()
	says("000-01  It works.  [holds]\n        pass    a TestA\n")
	says("1 of 2 requirements hold by docs/requirements.md; every test that cites them passed at this commit for 1\n")
	if err := os.WriteFile(filepath.Join(root, "new.go"), []byte("package a\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	says("stale   a TestA")
	says("with changes: none of them counts")
	keep() // what is tested with changes is nobody's commit, also when they are taken back
	says("passed at this commit for 0")
	if err := os.Remove(filepath.Join(root, "new.go")); err != nil {
		t.Fatal(err)
	}
	says("stale   a TestA")
	table += "| 000-03 | planned: more | It grows. |\n"
	if err := os.WriteFile(filepath.Join(root, "docs/requirements.md"), []byte(table), 0o644); err != nil {
		t.Fatal(err)
	}
	git("add", "-A")
	git("commit", "-q", "-m", "two")
	says("passed at this commit for 0")
	keep()
	says("passed at this commit for 1")
	if err := os.WriteFile(filepath.Join(root, "a/a_test.go"), []byte("package a\n\n// 000-09\nfunc TestA() {}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := run(&bytes.Buffer{}, root, true); err == nil || !strings.Contains(err.Error(), "000-09, which is not a requirement") {
		t.Errorf("an unknown number: %v", err)
	}
}
