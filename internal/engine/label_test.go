// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// TestLabels: a VM has the labels of its create request. A change is audited and reported
// once, and the record keeps it.
func TestLabels(t *testing.T) {
	s, e, c := site(t)
	v := create(t, e, c, engine.CreateRequest{Name: "box", Labels: map[string]string{"team": "web", "old": ""}})
	if !maps.Equal(v.Labels, map[string]string{"team": "web", "old": ""}) {
		t.Errorf("made with %v", v.Labels)
	}
	db, c2 := "db", &vm.Call{Actor: c.Actor}
	want := map[string]string{"team": "db", "tier": "db"}
	for range 2 { // the second changes nothing
		v, err := e.Label(t.Context(), c2, "box", map[string]*string{"team": &db, "tier": &db, "old": nil, "none": nil})
		if err != nil || !maps.Equal(v.Labels, want) {
			t.Fatalf("the labels are %v (%v), want %v", v.Labels, err, want)
		}
	}
	if n := eventsOf(s, "vm.labelled"); n != 1 {
		t.Errorf("%d events", n)
	}
	n := 0
	for _, r := range records(t, s) {
		if r.Op == vm.OpLabel && r.VM == v.ID && r.Outcome == "ok" && r.ID == c2.Receipt {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d audit records", n)
	}
	bad := "a b"
	_, err := e.Label(t.Context(), c, "box", map[string]*string{"team": &bad})
	wantCode(t, err, vm.Invalid, "INVALID_REQUEST")
	_, err = e.Create(t.Context(), c, engine.CreateRequest{Labels: map[string]string{"-": "x"}})
	wantCode(t, err, vm.Invalid, "INVALID_REQUEST")
	if _, err := e.Stop(t.Context(), c, "box"); err != nil {
		t.Fatal(err)
	}
	closeEngine(t, e)
	e, c = open(t, s)
	if v, err := e.Get(t.Context(), c, "box"); err != nil || !maps.Equal(v.Labels, want) {
		t.Errorf("the next server finds %v, %v", v.Labels, err)
	}
}

// TestForkLabels: children have their parent's labels and those of the request, which the
// parent does not get.
func TestForkLabels(t *testing.T) {
	_, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "box", Labels: map[string]string{"team": "web", "try": "0"}})
	f, err := e.Fork(t.Context(), c, "box", engine.ForkRequest{Count: 2, Prefix: "copy", Labels: map[string]string{"try": "1"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range f.Children {
		if !maps.Equal(child.Labels, map[string]string{"team": "web", "try": "1"}) {
			t.Errorf("%s has %v", child.Name, child.Labels)
		}
	}
	two := "2"
	if _, err := e.Label(t.Context(), c, "copy-1", map[string]*string{"try": &two}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"box": "0", "copy-1": "2", "copy-2": "1"} {
		if v, err := e.Get(t.Context(), c, name); err != nil || v.Labels["try"] != want {
			t.Errorf("%s has %v, %v", name, v.Labels, err)
		}
	}
	_, err = e.Fork(t.Context(), c, "box", engine.ForkRequest{Labels: map[string]string{"": "x"}})
	wantCode(t, err, vm.Invalid, "INVALID_REQUEST")
}

// TestListByLabel: all selectors must match; counts by state are not filtered.
func TestListByLabel(t *testing.T) {
	_, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "a", Labels: map[string]string{"team": "web"}})
	create(t, e, c, engine.CreateRequest{Name: "b", Labels: map[string]string{"team": "web", "old": ""}})
	create(t, e, c, engine.CreateRequest{Name: "c"})
	for _, tc := range []struct{ selectors, want []string }{
		{[]string{"team=web"}, []string{"a", "b"}},
		{[]string{"team", "!old"}, []string{"a"}},
		{[]string{"team!=web"}, []string{"c"}},
		{[]string{"team=web", "team=db"}, nil},
	} {
		var f engine.Filter
		for _, text := range tc.selectors {
			l, err := vm.ParseLabelSelector(text)
			if err != nil {
				t.Fatal(err)
			}
			f.Labels = append(f.Labels, l)
		}
		vms, total, counts, err := e.List(t.Context(), c, f)
		var names []string
		for _, v := range vms {
			names = append(names, v.Name)
		}
		if err != nil || !slices.Equal(names, tc.want) || total != len(tc.want) {
			t.Errorf("%v selects %v of %d (%v), want %v", tc.selectors, names, total, err, tc.want)
		}
		if counts[vm.Running] != 3 {
			t.Errorf("%v counts %v, want 3 running", tc.selectors, counts)
		}
	}
}
