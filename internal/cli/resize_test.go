// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/warren-vm/warren/api"
)

// TestResize: the flags become a request, and the output tells how each part was changed.
func TestResize(t *testing.T) {
	f := newFake(t)
	var got api.Sizes
	f.mux.HandleFunc("POST /v1/vms/box/resize", func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		_ = json.NewEncoder(w).Encode(api.ResizedVM{
			How: map[string]string{"cpu": "restart", "memory": "restart", "disk": "live"}, Why: map[string]string{"memory": "memory that a guest uses"},
			Sizing: api.Sizing{VCPUCount: 2, MemSizeMib: 256, RootfsSizeMib: 20480}, Losses: []string{"memory"},
		})
	})
	r := run(t, f, Local{}, "", "resize", "box", "--cpu", "2", "--mem", "256", "--disk", "20")
	if got != (api.Sizes{VCPUCount: 2, MemSizeMib: 256, RootfsSizeGb: 20}) {
		t.Errorf("sent %+v", got)
	}
	r.wants(t, 0, "memory could not be changed while it ran: memory that a guest uses")
	r.wants(t, 0, "not restored: memory")
	for _, line := range []string{"box has 2 vCPU, 256 MiB, 20 GiB disk\n", "cpu       changed by a stop and a start\n", "disk      changed while it ran\n"} {
		if !strings.Contains(r.out, line) {
			t.Errorf("%q is missing in %s", line, r.out)
		}
	}
	if r := run(t, f, Local{}, "", "resize", "box", "--mem", "256", "--json"); !strings.Contains(r.out, `"memory": "restart"`) {
		t.Errorf("as JSON: %s", r.out)
	}
	run(t, f, Local{}, "", "resize", "box").wants(t, 2, "nothing to change")
	run(t, f, Local{}, "", "resize", "box", "--mem", "lots").wants(t, 2, "lots")
}
