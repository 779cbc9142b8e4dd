// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// TestServiceAdd: words reach systemd as they were typed, and flags become members of the unit.
func TestServiceAdd(t *testing.T) {
	var got vm.Unit
	cmd := newServiceAdd(&app{}, func(_ context.Context, o *serviceOptions) error { got = o.unit; return nil })
	cmd.SetArgs([]string{"box", "web", "--user", "ann", "-e", "A=1=2", "--restart", "always", "--disabled", "--", "sh", "-c", `echo "$HOME" \ 5%`, ""})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := `sh -c "echo \"$$HOME\" \\ 5%" ""`; len(got.Exec) != 1 || got.Exec[0] != want {
		t.Errorf("the unit's commands are %q, want %q", got.Exec, want)
	}
	if got.Name != "web" || got.Mode != vm.UnitService || *got.User != "ann" || got.Env["A"] != "1=2" || got.RestartPolicy.Policy != "always" || *got.Enable {
		t.Errorf("the unit is %+v, want what the flags say", got)
	}
	for _, line := range [][]string{{"box", "web", "true"}, {"box", "web"}, {"box", "web", "-e", "A", "--", "true"}, {"box", "--", "true", "x"}} {
		cmd := newServiceAdd(&app{}, func(context.Context, *serviceOptions) error { t.Errorf("%q is taken", line); return nil })
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetArgs(line)
		if cmd.ExecuteContext(t.Context()) == nil {
			t.Errorf("%q is no error", line)
		}
	}
}
