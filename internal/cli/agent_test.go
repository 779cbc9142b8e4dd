// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

func TestMachineNames(t *testing.T) {
	for text, want := range map[string]string{
		"claude-shop": "claude-shop", "claude-My Shop_2": "claude-my-shop-2", "9lives": "a-9lives", "--": "a", "x-" + strings.Repeat("y", 60): "x-" + strings.Repeat("y", 39),
	} {
		if got := machineName(text); got != want || vm.CheckName(got) != nil {
			t.Errorf("the name of %q is %q, want %q", text, got, want)
		}
	}
}

func TestAgentChoice(t *testing.T) {
	none := func(string) string { return "" }
	o := &agentOptions{image: "agents"}
	if _, err := o.choose("clippy", nil, none, nil); err == nil || !strings.Contains(vm.AsError(err).Hint, "--cmd") {
		t.Errorf("an unknown agent gives %v, want a hint at --cmd", err)
	}
	if _, err := o.choose("claude", nil, none, nil); !errors.Is(err, vm.NotFound) || !strings.Contains(vm.AsError(err).Hint, "ANTHROPIC_API_KEY") {
		t.Errorf("without a key the error is %v, want one that says where to put it", err)
	}
	c, err := o.choose("claude", []string{"-p", "hi"}, none, []string{"ANTHROPIC_API_KEY"})
	if err != nil || !slices.Equal(c.argv, []string{"claude", "-p", "hi"}) || !slices.Equal(c.hosts, []string{"api.anthropic.com"}) || !slices.Equal(c.secrets, []string{"ANTHROPIC_API_KEY"}) {
		t.Errorf("claude runs as %+v, %v, want its words, one host and one secret", c, err)
	}
	c, err = o.choose("opencode", nil, func(name string) string { return map[string]string{"OPENAI_API_KEY": "sk"}[name] }, nil)
	if err != nil || c.provider.host != "api.openai.com" {
		t.Errorf("opencode uses %+v, %v, want the provider whose key is here", c.provider, err)
	}
	o = &agentOptions{cmd: "/opt/bin/my-agent --fast"}
	if c, err = o.choose("", []string{"a b"}, none, nil); err != nil || c.label != "my-agent" || c.argv[len(c.argv)-1] != "a b" || c.hosts != nil {
		t.Errorf("--cmd runs as %+v, %v, want the command with its words, and no host", c, err)
	}
}

// TestGivenTrees: each start of an agent stands above the last one, so that a machine gets it without a merge.
func TestGivenTrees(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("GIT_CONFIG_GLOBAL", "/dev/null")
	t.Setenv("GIT_AUTHOR_NAME", "me")
	t.Setenv("GIT_AUTHOR_EMAIL", "me@example.com")
	t.Setenv("GIT_COMMITTER_NAME", "me")
	t.Setenv("GIT_COMMITTER_EMAIL", "me@example.com")
	git := func(args ...string) string {
		t.Helper()
		out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "a"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	given := func(prev string) string {
		t.Helper()
		tree, err := readTree(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		linear, err := tree.start(t.Context(), prev)
		if err != nil || linear != (prev != "") {
			t.Fatalf("the start above %q: linear %v, %v", prev, linear, err)
		}
		if prev != "" {
			git("merge-base", "--is-ancestor", prev, tree.commit)
		}
		return tree.commit
	}
	if _, err := readTree(t.Context(), dir); err == nil {
		t.Error("a directory without a repository was taken")
	}
	git("init", "-q", "-b", "main")
	if _, err := readTree(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "no commit") {
		t.Errorf("a repository without a commit gives %v, want that it has none", err)
	}
	write("one")
	git("add", "-A")
	git("commit", "-qm", "one")
	first := given("")
	if first != git("rev-parse", "HEAD") {
		t.Error("a clean tree is given as another commit than its own")
	}
	write("two")
	second := given(first)
	if git("show", second+":a") != "two" || git("status", "--porcelain") != "M a" {
		t.Error("a change is not given, or the repository changed by it")
	}
	if given(second) != second {
		t.Error("an unchanged tree was given as a new commit")
	}
	git("commit", "-qam", "two")
	if third := given(second); git("show", third+":a") != "two" {
		t.Error("a commit of the user after a given change is not given")
	}
	write("three")
	if third := given(second); git("show", third+":a") != "three" {
		t.Error("a change after a commit after a given change is not given")
	}
}
