// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/warren-vm/warren/client"
)

// TestRunOutput: outputs are copied back however the command ended, and its
// status stays; the VM is always removed.
func TestRunOutput(t *testing.T) {
	for _, tc := range []struct {
		name    string
		args    []string
		command string
		code    int
		want    map[string]string
		says    string
	}{
		{"a file", []string{"--output", "out.txt"}, "echo hi > out.txt", 0, map[string]string{"out.txt": "hi\n"}, ""},
		{"of a command that failed", []string{"--output", "out.txt"}, "echo hi > out.txt; exit 3", 3, map[string]string{"out.txt": "hi\n"}, ""},
		{"a directory, under another name", []string{"--output", "/work/d:got"}, "mkdir -p d/e; echo hi > d/e/f", 0, map[string]string{"got/e/f": "hi\n"}, ""},
		{"into a directory that is there", []string{"--output", "d:here"}, "mkdir d; echo hi > d/f", 0, map[string]string{"here/own": "own", "here/d/f": "hi\n"}, ""},
		{"merged with a directory that is there", []string{"--output", "d/.:here"}, "mkdir d; echo hi > d/f", 0, map[string]string{"here/own": "own", "here/f": "hi\n"}, ""},
		{"two", []string{"--output", "a", "--output", "b:c"}, "echo 1 > a; echo 2 > b", 0, map[string]string{"a": "1\n", "c": "2\n"}, ""},
		{"where the command began", []string{"--cwd", "/tmp", "--output", "out.txt"}, "echo hi > out.txt", 0, map[string]string{"out.txt": "hi\n"}, ""},
		{"one that is missing", []string{"--output", "no", "--output", "a"}, "echo 1 > a", 125, map[string]string{"a": "1\n"}, "no: --output: the command has left no such file"},
		{"one that is missing, of a command that failed", []string{"--output", "no"}, "exit 3", 3, map[string]string{}, "no: --output: the command has left no such file"},
		{"one that is too large", []string{"--output", "a", "--max-bytes", "4"}, "echo 12345 > a", 125, map[string]string{}, "warren run --max-bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, dir := newSimulated(t), t.TempDir()
			t.Chdir(dir)
			if strings.HasSuffix(tc.name, "that is there") {
				write(t, dir, map[string]string{"here/own": "own"})
			}
			r := s.run(append(append([]string{"run"}, tc.args...), "--", "sh", "-c", tc.command)...)
			if r.code != tc.code || !strings.Contains(r.stderr, tc.says) {
				t.Errorf("run: %+v, want status %d and %q", r, tc.code, tc.says)
			}
			if strings.Contains(r.stderr, "run-") {
				t.Errorf("it names a VM that nobody knows: %q", r.stderr)
			}
			same(t, "brought", files(t, dir), tc.want)
			if l, err := s.c.List(t.Context(), true); err != nil || len(l.VMs) != 1 {
				t.Errorf("VMs are left: %+v, %v", l, err)
			}
		})
	}
}

// TestRunOutputRefused: a destination that cannot be written is refused before the VM is created.
func TestRunOutputRefused(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, ".", map[string]string{"file": "x"})
	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"no path":                {[]string{"--output", ":x"}, "is not a path of the VM"},
		"no place":               {[]string{"--output", "x:"}, "is not a path of the VM"},
		"a place in no dir":      {[]string{"--output", "x:none/x"}, "none"},
		"a place below a file":   {[]string{"--output", "x:file/x"}, "file"},
		"a directory that isn't": {[]string{"--output", "x:none/"}, "none/: no such directory"},
		"one place for two":      {[]string{"--output", "a/x", "--output", "b/x"}, "would both become x"},
		"a size that is none":    {[]string{"--output", "x", "--max-bytes", "much"}, "is not a size"},
	} {
		f := newFake(t)
		r := run(t, f, Local{}, "", append(append([]string{"run"}, tc.args...), "--", "true")...)
		if r.code != 125 || !strings.Contains(r.stderr, tc.says) {
			t.Errorf("run with %s: %+v, want status 125 and %q", name, r, tc.says)
		}
		if asked := f.requests(); len(asked) > 0 {
			t.Errorf("%s: asked %v", name, asked)
		}
	}
}

// TestRunOutputJSON: the result of each output, including a missing one.
func TestRunOutputJSON(t *testing.T) {
	s, dir := newSimulated(t), t.TempDir()
	t.Chdir(dir)
	var out, errs bytes.Buffer
	a := &app{
		io: &streams{in: strings.NewReader(""), out: &out, err: &errs}, getenv: func(string) string { return "" }, signals: &signals{},
		client: sync.OnceValues(func() (*client.Client, error) { return s.c, nil }), gather: &gathered{},
	}
	o := &runOptions{outputs: []string{"d", "no"}, maxBytes: defaultMaxBytes, exec: execOptions{argv: []string{"sh", "-c", "mkdir d; echo hi > d/f; exit 4"}}}
	var status exitStatus
	if err := a.printGathered(a.run(t.Context(), o)); !errors.As(err, &status) || status != 4 {
		t.Errorf("run ended with %v, want status 4: %s", err, &errs)
	}
	var said struct{ Outputs json.RawMessage }
	if err := json.Unmarshal(out.Bytes(), &said); err != nil {
		t.Fatalf("run printed no JSON: %v: %s", err, &out)
	}
	got := said.Outputs
	var list []struct {
		From, To     string
		Bytes, Files int64
		LeftOut      []leftOut
		Error        *struct{ Code string }
	}
	if err := json.Unmarshal(got, &list); err != nil || len(list) != 2 {
		t.Fatalf("the outputs are %s (%v), want 2", got, err)
	}
	if d := list[0]; d.From != "d" || d.To != "d" || d.Bytes != 3 || d.Files != 1 || d.LeftOut == nil || d.Error != nil {
		t.Errorf("what came: %s", got)
	}
	if no := list[1]; no.From != "no" || no.To != "." || no.LeftOut == nil || no.Error == nil || no.Error.Code != "FILE_NOT_FOUND" {
		t.Errorf("what is missing: %s", got)
	}
}
