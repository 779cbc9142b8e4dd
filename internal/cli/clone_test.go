// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"testing"

	"github.com/warren-vm/warren/api"
)

// What a VM's git says cannot move the cursor, however it is cut into writes.
func TestPlainWriter(t *testing.T) {
	for in, want := range map[string]string{
		"remote: \x1b]0;x\x07done\n":  "remote: ?]0;x?done\n",
		"10%\r100%\r\n\tü":            "10%\r100%\r\n\tü",
		"a\u202eb\u009bc\xffd\x00":    "a?b?c?d?",
		"cut \xc3":                    "cut ?",
		"remote: \xe2\x80\xaegpj.exe": "remote: ?gpj.exe",
	} {
		var whole, pieces bytes.Buffer
		one, many := &plainWriter{to: &whole}, &plainWriter{to: &pieces}
		_, _ = one.Write([]byte(in))
		for i := range len(in) {
			_, _ = many.Write([]byte(in[i : i+1]))
		}
		one.flush()
		many.flush()
		if whole.String() != want || pieces.String() != want {
			t.Errorf("%q is shown as %q, and byte by byte as %q, want %q", in, whole.String(), pieces.String(), want)
		}
	}
}

// A relative path begins in the VM's working directory, as scp has it; git decodes the
// others.
func TestCloneURL(t *testing.T) {
	for path, want := range map[string]string{
		"/work/repo": "ssh://dev@box.warren/work/repo", "/a b%/ü": "ssh://dev@box.warren/a%20b%25/%C3%BC", "repo": "dev@box.warren:repo",
	} {
		o := cloneOptions{from: place{vm: "box", path: path}, user: "dev"}
		if got := o.remoteURL(); got != want {
			t.Errorf("%s is %s, want %s", path, got, want)
		}
	}
}

// --repo takes names and URLs, with a path or without.
func TestRepoFlags(t *testing.T) {
	for in, want := range map[string]api.Repo{
		"app":                            {Repo: "app"},
		"app:/work/app":                  {Repo: "app", Path: "/work/app"},
		"https://git.example/r":          {Repo: "https://git.example/r"},
		"https://git.example/r:/r":       {Repo: "https://git.example/r", Path: "/r"},
		"https://git.example:8443/r:/r":  {Repo: "https://git.example:8443/r", Path: "/r"},
		"git@git.example:team/r.git:/r":  {Repo: "git@git.example:team/r.git", Path: "/r"},
		"0a1b2c3d-0000-4000-8000-000000": {Repo: "0a1b2c3d-0000-4000-8000-000000"},
	} {
		got, err := repoFlags([]string{in})
		if err != nil || len(got.Repos) != 1 || got.Repos[0] != want {
			t.Errorf("--repo %s is %+v, %v, want %+v", in, got, err, want)
		}
	}
	if _, err := repoFlags([]string{":/work"}); err == nil {
		t.Error("--repo :/work is taken, want a refusal")
	}
}
