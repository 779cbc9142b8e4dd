// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// TestForkIsAllOrNone dies at each occurrence of each step of a fork of three. The next
// engine has all three children, running, or none.
func TestForkIsAllOrNone(t *testing.T) {
	died := true
	for k := 1; died; k++ {
		t.Run(fmt.Sprintf("step %d", k), func(t *testing.T) { died = forkDiesAt(t, k) })
	}
}

// forkDiesAt dies at the k-th step of a fork and checks what is left. It reports whether
// the fork has that many steps.
func forkDiesAt(t *testing.T, k int) bool {
	const n = 3
	s, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	closeEngine(t, e)
	var mu sync.Mutex
	var passed []string
	s.Fault = func(label string) error {
		if !slices.Contains(engine.Labels(), engine.Label{Verb: "fork", At: label}) {
			return nil // of a task behind it
		}
		mu.Lock()
		defer mu.Unlock()
		if passed = append(passed, label); len(passed) < k {
			return nil
		}
		return engine.ErrDied
	}
	e, c = open(t, s)
	_, err := e.Fork(t.Context(), c, "box", engine.ForkRequest{Count: n, Prefix: "kid"})
	if err == nil {
		return false
	}
	if !errors.Is(err, engine.ErrDied) {
		t.Fatalf("the fork ends with %v, want the engine's death", err)
	}
	closeEngine(t, e)
	s.Fault = nil
	e, c = open(t, s)
	list, _, counts, err := e.List(t.Context(), c, engine.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	if kids := len(list) - 1; kids != 0 && kids != n || counts[vm.Running] != len(list) {
		t.Errorf("dead at %s: %d children, %v", passed[k-1], kids, counts)
	}
	consistent(t, s)
	afterwards(t, e, c)
	return true
}
