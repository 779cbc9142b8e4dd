// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/vm"
)

// TestConcurrentImportsShareTheQuota: two imports, each of which fits alone, do not both
// pass when they do not fit together. What a refused one held is free again.
func TestConcurrentImportsShareTheQuota(t *testing.T) {
	r := newRoom(t)
	const quota = 5 << 20
	if _, err := r.house.SetQuota(t.Context(), r.call, r.call.Actor.Account, vm.Quota{Disk: quota}); err != nil {
		t.Fatal(err)
	}
	noise := make([]byte, 3<<20)
	_, _ = io.ReadFull(randomness(t), noise)
	data := tarOf(t, entry{name: "noise", text: string(noise)})
	var both, done sync.WaitGroup
	both.Add(2)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.URL.Path == "/together.tar" { // until both imports have begun
			both.Done()
			both.Wait()
		}
		_, _ = w.Write(data)
	}))
	defer web.Close()
	load := func(name string) (vm.Repository, error) {
		return r.CreateImport(t.Context(), r.call, repo.CreateRequest{}, repo.Import{Type: "tar", URL: web.URL + name})
	}
	var errs [2]error
	for i := range errs {
		done.Go(func() { _, errs[i] = load("/together.tar") })
	}
	done.Wait()
	refused := 0
	for _, err := range errs {
		if err == nil {
			continue
		}
		refused++
		if vm.KindOf(err) != vm.Limit {
			t.Errorf("an import that does not fit beside the other ends with %v, want kind limit", err)
		}
	}
	if refused == 0 {
		t.Errorf("two imports of 3 MiB pass together in a quota of %d MiB", quota>>20)
	}
	list, _, err := r.List(t.Context(), r.call, repo.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range list {
		if err := r.Remove(t.Context(), r.call, rec.ID); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := load("/alone.tar"); err != nil {
		t.Errorf("after that an import of 3 MiB alone fails: %v", err)
	}
}
