// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"maps"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

// TestFileAttrs: a written file has the extended attributes of its write and no others, and
// a description of a file has those that a program of the guest set, within a limit.
func TestFileAttrs(t *testing.T) {
	r := newRig(t)
	ctx := within(t, 30*time.Second)
	path := t.TempDir() + "/noted"
	wants := func(what string, want map[string]string) {
		t.Helper()
		if i, err := r.Stat(ctx, "", path); err != nil || !maps.Equal(i.Attrs, want) {
			t.Errorf("%s: attributes %v, %v; want %v", what, i.Attrs, err, want)
		}
	}
	given := map[string]string{"a.b": "x=y & z", "empty": ""}
	i, err := r.WriteFile(ctx, "", path, vm.WriteOptions{Size: 1, Attrs: given}, strings.NewReader("1"))
	if err != nil || !maps.Equal(i.Attrs, given) {
		t.Fatalf("written: %v, %v", i.Attrs, err)
	}
	wants("after a write", given)
	if err := syscall.Setxattr(path, "user.inside", []byte("by a program"), 0); err != nil {
		t.Fatal(err)
	}
	if list, err := r.ReadDir(ctx, "", path[:strings.LastIndex(path, "/")]); err != nil || len(list) != 1 || list[0].Attrs["inside"] != "by a program" {
		t.Errorf("a list: %v, %v", list, err)
	}
	if err := syscall.Setxattr(path, "user.binary", []byte{0xff, 0}, 0); err != nil {
		t.Fatal(err)
	}
	if i, err := r.Stat(ctx, "", path); err != nil || i.Attrs["binary"] != "" {
		t.Errorf("a value that is no text is told: %v, %v", i.Attrs, err)
	}
	if _, err := r.WriteFile(ctx, "", path, vm.WriteOptions{Size: 1}, strings.NewReader("2")); err != nil {
		t.Fatal(err)
	}
	wants("after a write without attributes", nil)
	if _, err := r.WriteFile(ctx, "", path, vm.WriteOptions{Size: 1, Attrs: map[string]string{"": "x"}}, strings.NewReader("3")); vm.KindOf(err) != vm.Invalid {
		t.Errorf("an attribute without a name: %v", err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "2" {
		t.Errorf("a refused write left %q, %v", data, err)
	}
}
