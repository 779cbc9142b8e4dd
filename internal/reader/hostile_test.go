// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package reader_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/reader"
	"github.com/warren-vm/warren/vm"
)

// hostile returns a reader whose program does what it is told to, and a disk.
func hostile(t *testing.T, deadline time.Duration) (*reader.Reader, []string) {
	t.Helper()
	disk := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(disk, []byte("a layer"), 0o600); err != nil {
		t.Fatal(err)
	}
	return reader.New(reader.Config{
		Binary: build(t, "hostile", "./testdata/hostile"), Root: filepath.Join(t.TempDir(), "root"), Deadline: deadline,
	}), []string{disk}
}

// honest is an answer that is taken over: the tests below change one thing in it.
func honest() vm.Diff {
	state := &vm.FileState{Size: 1, Mode: 0o644, Links: 1}
	return vm.Diff{
		Manifest: strings.Repeat("ab", 32), Stat: vm.DiffStat{Added: 1},
		Groups:  []vm.DiffGroup{{Group: vm.GroupSystem, Stat: vm.DiffStat{Added: 1}}},
		Changes: []vm.FileChange{{Verb: vm.FileAdded, Path: "/etc/new", Group: vm.GroupSystem, Type: "file", Now: state}},
	}
}

func answer(t *testing.T, d vm.Diff) string {
	t.Helper()
	data, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// A program that answers wrongly, too much, nothing or never gives a typed error, and
// never a difference.
func TestHostileProgram(t *testing.T) {
	whole := answer(t, honest())
	for do, want := range map[string]vm.Kind{
		"nothing": vm.Internal, "garbage": vm.Internal, "json": vm.Corrupt, "cut " + whole: vm.Internal, "status " + whole: vm.Internal,
		"late " + whole: vm.Limit, "much": vm.Limit, "memory": vm.Limit, "hang": vm.Timeout, "long " + whole: vm.Timeout, "spin": vm.Timeout, "say": vm.Internal,
	} {
		verb, _, _ := strings.Cut(do, " ")
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			deadline := time.Minute
			if want == vm.Timeout {
				deadline = 2 * time.Second
			}
			r, disk := hostile(t, deadline)
			d, err := r.Diff(t.Context(), disk, disk, reader.Options{Workdir: do})
			if vm.KindOf(err) != want || d != nil {
				t.Errorf("the comparison returns %v and the error %v, want no difference and kind %s", d, err, want)
			}
			if err != nil && strings.ContainsRune(err.Error(), '\x1b') {
				t.Errorf("the error has an escape: %q", err)
			}
			if want == vm.Timeout && vm.AsError(err).Hint == "" {
				t.Error("the timeout has no hint")
			}
		})
	}
}

// An answer that contradicts itself, or that leads out of the guest's files, is refused.
// 003-24
func TestHostileAnswer(t *testing.T) {
	r, disk := hostile(t, time.Minute)
	ask := func(d vm.Diff) error {
		t.Helper()
		_, err := r.Diff(t.Context(), disk, disk, reader.Options{Workdir: "answer " + answer(t, d)})
		return err
	}
	if err := ask(honest()); err != nil {
		t.Fatalf("the honest answer is refused: %v", err)
	}
	for name, change := range map[string]func(d *vm.Diff){
		"a path with ..":            func(d *vm.Diff) { d.Changes[0].Path = "/work/../../etc/passwd" },
		"a relative path":           func(d *vm.Diff) { d.Changes[0].Path = "etc/new" },
		"a path with //":            func(d *vm.Diff) { d.Changes[0].Path = "/etc//new" },
		"a path with NUL":           func(d *vm.Diff) { d.Changes[0].Path = "/etc/\x00new" },
		"no path":                   func(d *vm.Diff) { d.Changes[0].Path = "" },
		"a path that is too long":   func(d *vm.Diff) { d.Changes[0].Path = vm.GuestPath("/" + strings.Repeat("a", 70<<10)) },
		"an unknown verb":           func(d *vm.Diff) { d.Changes[0].Verb = "owned" },
		"an unknown group":          func(d *vm.Diff) { d.Changes[0].Group = "nothing to see" },
		"an unknown type":           func(d *vm.Diff) { d.Changes[0].Type = "door" },
		"a side too few":            func(d *vm.Diff) { d.Changes[0].Now = nil },
		"a side too many":           func(d *vm.Diff) { d.Changes[0].Was = d.Changes[0].Now },
		"a rename from nowhere":     func(d *vm.Diff) { d.Changes[0].Verb = vm.FileRenamed },
		"fewer changes than counts": func(d *vm.Diff) { d.Stat.Added = 2 },
		"no changes":                func(d *vm.Diff) { d.Changes = nil },
		"a negative count":          func(d *vm.Diff) { d.Groups[0].Stat.Modified = -1 },
		"no manifest":               func(d *vm.Diff) { d.Manifest = "" },
		"a digest that is none":     func(d *vm.Diff) { d.Changes[0].Now.Digest = "x" },
		"a negative size":           func(d *vm.Diff) { d.Changes[0].Now.Size = -1 },
		"lines nobody asked for":    func(d *vm.Diff) { d.Changes[0].Hunks = "+x\n" },
		"a patch nobody asked for":  func(d *vm.Diff) { d.Changes[0].Patch = []byte("x") },
		"an escape in a text":       func(d *vm.Diff) { d.NotCompared = []string{"\x1b[2J"} },
		"an alert with a newline":   func(d *vm.Diff) { d.Alerts = []vm.Alert{{Kind: "x", Text: "a\nb"}} },
		"an alert that leads out":   func(d *vm.Diff) { d.Alerts = []vm.Alert{{Kind: "x", Text: "a", Paths: []vm.GuestPath{"../x"}}} },
		"a bidi mark in a package": func(d *vm.Diff) {
			d.System = []vm.SystemChange{{Kind: "package", Verb: vm.FileAdded, Name: "a\u202eb"}}
		},
		"a repository that leads out": func(d *vm.Diff) {
			d.Repos = []vm.NestedRepo{{Path: "/.."}}
		},
		"hidden changes that are not counted": func(d *vm.Diff) {
			d.Hidden = []vm.HiddenDir{{Path: "/x", Group: vm.GroupCaches, Stat: vm.DiffStat{Added: 5}, Reason: "files"}}
		},
	} {
		d := honest()
		change(&d)
		if err := ask(d); vm.KindOf(err) != vm.Corrupt {
			t.Errorf("an answer with %s ends with %v, want kind corrupt", name, err)
		}
	}
	// A path that was not asked for is refused, too.
	_, err := r.Diff(t.Context(), disk, disk, reader.Options{Workdir: "answer " + answer(t, honest()), Paths: []vm.GuestPath{"/work"}})
	if vm.KindOf(err) != vm.Corrupt {
		t.Errorf("a change outside of the path that was asked for: %v, want kind corrupt", err)
	}
}

// The program reaches no file but its layers, which it cannot change, no network, no
// other process and no program.
func TestConfined(t *testing.T) {
	r, disk := hostile(t, time.Minute)
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("of another VM"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := r.Diff(t.Context(), disk, disk, reader.Options{Workdir: "reach " + other})
	if got := vm.AsError(err).Msg; got != "worked: " {
		t.Errorf("the program says %q, want that nothing worked", got)
	}
	if data, err := os.ReadFile(disk[0]); err != nil || string(data) != "a layer" {
		t.Errorf("the layer is %q, %v", data, err)
	}
}

// What TestConfined tries does work where nothing confines the program, so that test can
// fail.
func TestUnconfined(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other")
	if err := os.WriteFile(other, []byte("a layer"), 0o644); err != nil {
		t.Fatal(err)
	}
	layer, err := os.Open(other)
	if err != nil {
		t.Fatal(err)
	}
	defer layer.Close()
	cmd := exec.Command(build(t, "hostile", "./testdata/hostile"), "1")
	cmd.Stdin, cmd.ExtraFiles = strings.NewReader(`{"workdir":"reach `+other+`"}`), []*os.File{layer}
	if os.Geteuid() == 0 { // its mount over / is for nobody else
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, what := range []string{"read a file of the host", "list /etc", "reach the network", "make a socket", "run a program"} {
		if !strings.Contains(string(out), what) {
			t.Errorf("without confinement it cannot %s: %q", what, out)
		}
	}
}

// A caller that goes away ends the program.
func TestCancel(t *testing.T) {
	r, disk := hostile(t, time.Minute)
	gone := errors.New("the caller is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(200*time.Millisecond, func() { cancel(gone) })
	begun := time.Now()
	if _, err := r.Diff(ctx, disk, disk, reader.Options{Workdir: "hang"}); !errors.Is(err, gone) {
		t.Errorf("the comparison ends with %v, want the caller's reason", err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
}

// A layer that is no regular file, or missing, is refused before the program starts.
func TestNoLayer(t *testing.T) {
	r, disk := hostile(t, time.Minute)
	for path, want := range map[string]vm.Kind{t.TempDir(): vm.Corrupt, "/dev/null": vm.Corrupt, filepath.Join(t.TempDir(), "none"): vm.NotFound} {
		if _, err := r.Diff(t.Context(), []string{path}, disk, reader.Options{Workdir: "nothing"}); vm.KindOf(err) != want {
			t.Errorf("%s as a layer: %v, want kind %s", path, err, want)
		}
	}
}
