// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package gitignore

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// ignored lists the files below a directory of this computer that Dir ignores.
func ignored(t *testing.T, at string, d *Dir, rel string, all bool) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(at, rel))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		path := strings.TrimPrefix(rel+"/"+e.Name(), "/")
		skip := all || e.Name() != ".git" && d.Ignored(e.Name(), e.IsDir())
		switch {
		case e.Name() == ".git":
		case e.IsDir():
			file, _ := os.ReadFile(filepath.Join(at, path, ".gitignore")) // it may have none
			list = append(list, ignored(t, at, d.Below(e.Name(), file), path, skip)...)
		case skip:
			list = append(list, path)
		}
	}
	return list
}

func byGit(t *testing.T, at string) []string {
	t.Helper()
	cmd := exec.Command("git", "-C", at, "ls-files", "-z", "--others", "--ignored", "--exclude-standard")
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	list := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if list[0] == "" {
		return nil
	}
	slices.Sort(list)
	return list
}

func TestIgnoresWhatGitIgnores(t *testing.T) {
	words := []string{"a", "b", "*", "**", "?", "/", "/", "!", "[ab]", "[!a]", "[a-c]", "[[:digit:]]", "1", ".o", "\\*", " ", "\\ ", "build", "#", "[", "x"}
	names := []string{"a", "b", "ab", "a1", "c.o", "build", "x", "*", "a ", "1", "[ab]"}
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 25 {
		dir := t.TempDir()
		if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
			t.Fatalf("git init: %v: %s", err, out)
		}
		fill(t, rng, dir, names, 3)
		for _, sub := range []string{"", "a", "build"} {
			var lines strings.Builder
			for range 1 + rng.IntN(4) {
				for range 1 + rng.IntN(5) {
					lines.WriteString(words[rng.IntN(len(words))])
				}
				lines.WriteByte('\n')
			}
			if st, err := os.Stat(filepath.Join(dir, sub)); err == nil && st.IsDir() {
				if err := os.WriteFile(filepath.Join(dir, sub, ".gitignore"), []byte(lines.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		root, _ := os.ReadFile(filepath.Join(dir, ".gitignore"))
		got, want := ignored(t, dir, Root(root), "", false), byGit(t, dir)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("round %d, with .gitignore %q: ignored %q, and git ignores %q", round, root, minus(got, want), minus(want, got))
		}
	}
}

// fill makes files and directories with each name, some levels deep.
func fill(t *testing.T, rng *rand.Rand, dir string, names []string, depth int) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(dir, name)
		var err error
		switch rng.IntN(3) {
		case 0:
			err = os.WriteFile(path, nil, 0o644)
		case 1:
			if err = os.Mkdir(path, 0o755); err == nil {
				if err = os.WriteFile(filepath.Join(path, "in"), nil, 0o644); err == nil && depth > 1 {
					fill(t, rng, path, names[:5], depth-1)
				}
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func minus(a, b []string) (out []string) {
	for _, s := range a {
		if !slices.Contains(b, s) {
			out = append(out, s)
		}
	}
	return out
}

func TestHostilePatternsCostLittle(t *testing.T) {
	d := Root([]byte(strings.Repeat("*a", 500) + "b\n" + strings.Repeat("**/", 300) + "x"))
	began := time.Now()
	for i := range 20 {
		if d.Ignored(fmt.Sprint(strings.Repeat("a", 250), i), false) {
			t.Error("a pattern that asks for a b at the end matched a name without one")
		}
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("twenty names took %v with patterns of many asterisks, want less than 10 s", took)
	}
}
