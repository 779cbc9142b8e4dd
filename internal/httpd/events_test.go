// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"bufio"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// sse reads events until one of that type and returns their ids and types.
func sse(t *testing.T, resp *http.Response, until string) (ids []int64, types []string) {
	t.Helper()
	s := bufio.NewScanner(resp.Body)
	var id, typ string
	for s.Scan() {
		switch name, value, _ := strings.Cut(s.Text(), ": "); name {
		case "id":
			id = value
		case "event":
			typ = value
		case "data":
			var e vm.Event
			if err := json.Unmarshal([]byte(value), &e); err != nil {
				t.Fatalf("event %s of type %s carries %q: %v", id, typ, value, err)
			}
			if strconv.FormatInt(e.ID, 10) != id || e.Type != typ || e.Account != "" {
				t.Errorf("id %s, event %s, data %s", id, typ, value)
			}
			ids, types = append(ids, e.ID), append(types, typ)
			if typ == until {
				return ids, types
			}
		}
	}
	t.Fatalf("the stream ended after %v: %v", types, s.Err())
	return nil, nil
}

// TestEvents: readers resume by id without gap or doubling, filter by type and
// VM, and see only what is their account's.
func TestEvents(t *testing.T) {
	b := newBench(t)
	_, _, other, err := b.engine.CreateAccount(t.Context(), b.call, "other")
	if err != nil {
		t.Fatal(err)
	}
	id := b.create(`{"name":"one"}`)
	b.create(`{"name":"two"}`)
	live := b.open(t.Context(), "/v1/events?types=vm.stopped,vm.deleted&vm=one") // resolved to the id now
	b.do("POST", "/v1/vms/"+id+"/stop", nil)
	b.do("DELETE", "/v1/vms/two", nil)
	b.do("DELETE", "/v1/vms/one", nil)
	if _, types := sse(t, live, "vm.deleted"); !slices.Equal(types, []string{"vm.stopped", "vm.deleted"}) {
		t.Errorf("filtered: %v", types)
	}
	all, types := sse(t, b.open(t.Context(), "/v1/events?after=0&vm="+id), "vm.deleted")
	if !slices.IsSorted(all) {
		t.Errorf("the VM's events come as %v, want them in order", all)
	}
	if !slices.Contains(types, "vm.running") {
		t.Errorf("the VM's events %v have no vm.running", types)
	}
	resumed, _ := sse(t, b.open(t.Context(), "/v1/events?vm="+id, "Last-Event-ID", strconv.FormatInt(all[1], 10)), "vm.deleted")
	if !slices.Equal(resumed, all[2:]) {
		t.Errorf("resumed after %d: %v of %v", all[1], resumed, all)
	}
	b.do("GET", "/v1/events", nil, "Last-Event-ID", "x").wants(t, 400, "INVALID_REQUEST")
	b.do("GET", "/v1/events?vm=nobox", nil).wants(t, 404, "VM_NOT_FOUND")

	// The other account is told of its own VM first: nothing came before.
	r := b.open(t.Context(), "/v1/events?after=0", "Authorization", "Bearer "+other)
	b.as(other, "POST", "/v1/vms", `{"name":"theirs"}`).ok(t)
	if _, types := sse(t, r, "vm.running"); slices.Contains(types, "vm.deleted") || slices.Contains(types, "vm.stopped") {
		t.Errorf("another account sees %v", types)
	}
}
