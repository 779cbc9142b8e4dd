// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// TestServiceAdd: words reach systemd as they were typed, and flags become members of the unit.
func TestServiceAdd(t *testing.T) {
	var got vm.Unit
	f := newFake(t)
	f.mux.HandleFunc("POST /v1/vms/box/systemd/services", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewDecoder(r.Body).Decode(&got)
		reply(w, api.AddedService{Success: true, ServiceName: "web"})
	})
	line := []string{"box", "web", "--user", "ann", "-e", "A=1=2", "--restart", "always", "--disabled", "--", "sh", "-c", `echo "$HOME" \ 5%`, ""}
	if r := run(t, f, Local{}, "", append([]string{"service", "add"}, line...)...); r.code != 0 {
		t.Fatalf("it ends with %d: %s", r.code, r.stderr)
	}
	if want := `sh -c "echo \"$$HOME\" \\ 5%" ""`; len(got.Exec) != 1 || got.Exec[0] != want {
		t.Errorf("the unit's commands are %q, want %q", got.Exec, want)
	}
	if got.Name != "web" || got.Mode != vm.UnitService || *got.User != "ann" || got.Env["A"] != "1=2" || got.RestartPolicy.Policy != "always" || *got.Enable {
		t.Errorf("the unit is %+v, want what the flags say", got)
	}
	for _, line := range [][]string{{"box", "web", "true"}, {"box", "web"}, {"box", "web", "-e", "A", "--", "true"}, {"box", "--", "true", "x"}} {
		if r := run(t, nil, Local{}, "", append([]string{"service", "add"}, line...)...); r.code != 2 {
			t.Errorf("%q ends with %d: %s", line, r.code, r.stderr)
		}
	}
}
