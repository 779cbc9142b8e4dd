// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// TestUndo: steps run last in first out, all of them, once; errors are joined; a step
// added too late runs at once.
func TestUndo(t *testing.T) {
	var u undo
	var ran []string
	bad := errors.New("bad")
	add := func(name string, err error) error {
		return u.add(t.Context(), name, func(ctx context.Context) error {
			if ctx.Err() != nil {
				t.Errorf("%s runs under a cancelled context", name)
			}
			ran = append(ran, name)
			return err
		})
	}
	for _, step := range []struct {
		name string
		err  error
	}{{"a", nil}, {"b", bad}, {"c", errors.New("worse")}} {
		if err := add(step.name, step.err); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := u.run(ctx)
	if !errors.Is(err, bad) || err.Error() != "undo of c: worse\nundo of b: bad" {
		t.Errorf("error %v", err)
	}
	if !slices.Equal(ran, []string{"c", "b", "a"}) {
		t.Errorf("ran %v", ran)
	}
	if err := u.run(ctx); err != nil || len(ran) != 3 {
		t.Errorf("a second run: %v, %v", err, ran)
	}
	if err := add("late", bad); !errors.Is(err, bad) || ran[len(ran)-1] != "late" {
		t.Errorf("a late step: %v, %v", err, ran)
	}
}

// TestMeetings holds the table of which verb may interrupt or await which.
func TestMeetings(t *testing.T) {
	for _, tc := range []struct {
		running, verb vm.Op
		own           bool
		want          meeting
	}{
		{vm.OpCreate, vm.OpDelete, false, preempt},
		{vm.OpCreate, vm.OpKill, false, refuse},
		{vm.OpCreate, vm.OpStart, false, await},
		{vm.OpCreate, vm.OpStop, false, refuse},
		{vm.OpStart, vm.OpStart, false, await},
		{vm.OpStart, vm.OpStop, false, refuse},
		{vm.OpStart, vm.OpKill, false, preempt},
		{vm.OpStart, vm.OpDelete, false, preempt},
		{vm.OpStop, vm.OpStart, false, refuse},
		{vm.OpStop, vm.OpKill, false, preempt},
		{vm.OpStop, vm.OpDelete, false, preempt},
		{vm.OpKill, vm.OpDelete, false, await},
		{vm.OpDelete, vm.OpDelete, false, await},
		{vm.OpDelete, vm.OpStart, false, refuse},
		{vm.OpKill, vm.OpStart, false, refuse},
		{vm.OpKill, vm.OpStart, true, await},
		{vm.OpStop, vm.OpStart, true, await},
		{vm.OpStop, vm.OpKill, true, preempt},
	} {
		if got := meet(tc.running, tc.verb, tc.own); got != tc.want {
			t.Errorf("%s meets %s (own %v): %d, want %d", tc.verb, tc.running, tc.own, got, tc.want)
		}
	}
}
