// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// TestPublishAndFetch: the two verbs move a file and a directory, and say what they moved.
func TestPublishAndFetch(t *testing.T) {
	s := newSimulated(t)
	t.Chdir(t.TempDir())
	ok := func(want string, args ...string) string {
		t.Helper()
		r := s.run(args...)
		if r.code != 0 || !strings.Contains(r.out, want) {
			t.Fatalf("%v: %+v, want %q", args, r, want)
		}
		return r.out
	}
	ok("", "up", "--name", "shop")
	ok("", "bucket", "create", "made")
	ok("", "exec", "shop", "--", "sh", "-c", "mkdir -p /work/d/e; echo hi > /work/d/e/f; echo 1 > /work/one")
	ok("s3://made/one@", "publish", "shop:/work/one", "s3://made", "--note", "by hand", "--tag", "a=b")
	version := strings.TrimSpace(ok("s3://made/one@", "publish", "shop:/work/one", "s3://made/one", "-q"))
	ok("3 files and directories", "publish", "shop:/work/d", "s3://made/trees/")
	ok("shop:/work/copy\n  from        "+version, "fetch", version, "shop:/work/copy")
	ok("/work/back", "fetch", "s3://made/trees/d.tar.zst", "shop:/work/back", "-q")
	ok(`"tree": true`, "fetch", "s3://made/trees/d.tar.zst", "shop:/work/in/", "--json")
	ok("/work/d.tar.zst", "fetch", "s3://made/trees/d.tar.zst", "shop:/work/", "--unpack=false", "-q")
	ok("1\nhi\nhi\n", "exec", "shop", "--", "cat", "/work/copy", "/work/back/e/f", "/work/in/d/e/f")
	for says, args := range map[string][]string{
		"names no object":       {"publish", "shop:/work/one", "made/one"},
		"does not name a path":  {"publish", "/work/one", "s3://made/one"},
		"a bucket and no":       {"fetch", "s3://made", "shop:/work"},
		"no such file":          {"publish", "shop:/none", "s3://made/"},
		"a tree does not go in": {"fetch", "s3://made/trees/d.tar.zst", "shop:/work/back"},
		"allow more":            {"fetch", version, "shop:/work/x", "--max-bytes", "1"},
	} {
		if r := s.run(args...); r.code == 0 || !strings.Contains(r.stderr, says) {
			t.Errorf("%v: %+v, want %q", args, r, says)
		}
	}
}

// TestRunBatch: a run gets objects, publishes results however its command ended, and is
// gone. The command's status stays.
func TestRunBatch(t *testing.T) {
	s := newSimulated(t)
	t.Chdir(t.TempDir())
	if err := os.WriteFile("in.txt", []byte("input\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"bucket", "create", "made"}, {"artifact", "put", "in.txt", "s3://made/in.txt"}} {
		if r := s.run(args...); r.code != 0 {
			t.Fatalf("%v was refused: %+v", args, r)
		}
	}
	for _, tc := range []struct {
		name    string
		args    []string
		command string
		code    int
		says    string
		object  string // key and content; "" = none
	}{
		{"an input to an output", []string{"--input", "s3://made/in.txt", "--publish", "/work/out=s3://made/a"}, "cat /work/in.txt > /work/out", 0, "published s3://made/a/out@", "a/out input\n"},
		{"an input at a path", []string{"--input", "s3://made/in.txt:/x/y", "--publish", "/work/out=s3://made/b/"}, "cat /x/y > /work/out", 0, "", "b/out input\n"},
		{"of a command that failed", []string{"--publish", "/work/out=s3://made/c"}, "echo hi > /work/out; exit 3", 3, "", "c/out hi\n"},
		{"where the command began", []string{"--cwd", "/tmp", "--publish", "out=s3://made/d"}, "echo hi > out", 0, "", "d/out hi\n"},
		{"in the bucket for runs", []string{"--publish", "/work/out"}, "echo hi > /work/out", 0, "published s3://runs-", ""},
		{"one that is missing", []string{"--publish", "/no=s3://made/e"}, "true", 125, "/no: --publish: the command has left no such file", ""},
		{"one that is missing, of a command that failed", []string{"--publish", "/no=s3://made/e"}, "exit 3", 3, "/no: --publish: the command has left no such file", ""},
		{"into no bucket", []string{"--publish", "/no=s3://none/e"}, "true", 125, "no such bucket", ""},
		{"from no object", []string{"--input", "s3://made/none"}, "true", 125, "no such", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := s.run(append(append([]string{"run"}, tc.args...), "--", "sh", "-c", tc.command)...)
			if r.code != tc.code || !strings.Contains(r.stderr, tc.says) {
				t.Errorf("run: %+v, want status %d and %q", r, tc.code, tc.says)
			}
			if key, content, ok := strings.Cut(tc.object, " "); ok {
				if r := s.run("artifact", "get", "s3://made/"+key, "-"); r.out != content {
					t.Errorf("the object is %q (%s), want %q", r.out, r.stderr, content)
				}
			}
			l, err := s.c.List(t.Context(), true)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range l.VMs {
				if strings.HasPrefix(v.Name, "run-") {
					t.Errorf("the VM %s is left", v.Name)
				}
			}
		})
	}
}

func TestParseVersion(t *testing.T) {
	version := "00000000000051oq7f6i8s2k4g"
	for arg, want := range map[string]vm.ObjectRef{
		"s3://b/k":                   {Bucket: "b", Key: "k"},
		"s3://b/k@" + version:        {Bucket: "b", Key: "k", Version: version},
		"s3://b/mail@example.com":    {Bucket: "b", Key: "mail@example.com"},
		"s3://b/a@b@" + version:      {Bucket: "b", Key: "a@b", Version: version},
		"s3://b/dir/k:80@" + version: {Bucket: "b", Key: "dir/k:80", Version: version},
	} {
		if got, err := parseVersion(arg); err != nil || got != want {
			t.Errorf("%s is read as %+v (%v), want %+v", arg, got, err, want)
		}
	}
	in, err := runInputs([]string{"s3://b/a:80/k@" + version + ":/in/k"})
	if want := (vm.ObjectRef{Bucket: "b", Key: "a:80/k", Version: version}); err != nil || in[0].ObjectRef != want || in[0].path != "/in/k" {
		t.Errorf("an input is read as %+v (%v), want the object %+v at /in/k", in, err, want)
	}
}
