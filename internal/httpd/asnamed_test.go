// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// TestErrorsNameTheVMAsCalled: an error calls a VM what the caller called it, and
// the commands of its hint can be typed as they stand.
func TestErrorsNameTheVMAsCalled(t *testing.T) {
	b := newBench(t)
	id := b.create(map[string]any{"name": "app"})
	said := func(method, path string) api.ErrorBody {
		t.Helper()
		var e api.ErrorBody
		a := b.do(method, path, map[string]any{})
		if err := json.Unmarshal(a.body, &e); err != nil || a.status < 400 {
			t.Fatalf("%s %s: status %d: %s", method, path, a.status, a.body)
		}
		return e
	}
	if e := said("DELETE", "/v1/vms/app/holds/hd-0123456789abcdef"); e.Hint != "`warren hold ls app` lists holds" {
		t.Errorf("the hint is %q", e.Hint)
	}
	if e := said("DELETE", "/v1/vms/"+id+"/holds/hd-0123456789abcdef"); e.Hint != "`warren hold ls "+id+"` lists holds" {
		t.Errorf("by its id: the hint is %q", e.Hint)
	}
	b.site.World.Fail("launch", vm.Errorf(vm.GuestFault, id, "no answer").WithHint("see `warren logs %s`", id))
	b.do("POST", "/v1/vms/app/stop", map[string]any{})
	e := said("POST", "/v1/vms/app/start")
	if e.Subject != "app" || strings.Contains(e.Message, id) {
		t.Errorf("the error is of %q: %s", e.Subject, e.Message)
	}
	if e.Hint != "see `warren logs app`" {
		t.Errorf("the hint is %q", e.Hint)
	}
	if e.Op != vm.OpStart {
		t.Errorf("the verb is %q", e.Op)
	}
}
