// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package reader_test

import (
	"slices"
	"testing"

	"github.com/warren-vm/warren/internal/reader"
	"github.com/warren-vm/warren/vm"
)

// verbs are the changes of a comparison, one a line.
func verbs(d *vm.Diff) (list []string) {
	for _, c := range d.Changes {
		list = append(list, string(c.Verb)+" "+c.Path.String())
	}
	slices.Sort(list)
	return list
}

// The confined program finds what differs, and only below the paths that were asked for.
func TestDiff(t *testing.T) {
	from, to := disks(t, map[string]string{"work/a": "a", "work/b": "b", "etc/c": "c"}, "rm work/a", "rm etc/c", "mkdir new")
	r := newReader(t)
	d, err := r.Diff(t.Context(), from, to, reader.Options{Workdir: "/work"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := verbs(d), []string{"added /new", "deleted /etc/c", "deleted /work/a"}; !slices.Equal(got, want) {
		t.Errorf("the changes are %q, want %q", got, want)
	}
	d, err = r.Diff(t.Context(), from, to, reader.Options{Workdir: "/work", Paths: []vm.GuestPath{"/work"}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := verbs(d), []string{"deleted /work/a"}; !slices.Equal(got, want) {
		t.Errorf("below /work the changes are %q, want %q", got, want)
	}
}
