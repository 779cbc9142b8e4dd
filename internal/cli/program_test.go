// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// TestOtherName: called by its other name the program takes the same command
// lines, and help, messages and hints say that name. What a guest or a user
// wrote is left alone.
func TestOtherName(t *testing.T) {
	f := newFake(t)
	f.on("POST /v1/vms/{vm}/mounts", vm.Errorf(vm.WrongState, "agent-cache", "the volume is locked").WithHint("unlock it: `warren volume unlock agent-cache`"))
	f.on("POST /v1/volumes", api.Volume{Name: "warren ls", Project: "default", State: api.VolumeLocked})
	for _, program := range []string{"/usr/local/bin/mvmctl", "/usr/local/bin/warren", ""} {
		local := Local{Program: program}
		name, not := "warren", "mvmctl"
		if strings.HasSuffix(program, "mvmctl") {
			name, not = not, name
		}
		calls := regexp.MustCompile(`(^|[\s"` + "`" + `])` + not + `( [a-z]|:)`)
		for _, line := range [][]string{
			{},
			{"help"},
			{"volume", "mount", "--help"},
			{"run", "--help"},
			{"nosuch"},
			{"volume", "mount"},
			{"volume", "create"},
			{"volume", "mount", "agent-sandbox", "--volume", "agent-cache", "--guest", "/cache", "--rw"},
		} {
			r := run(t, f, local, "", line...)
			if text := r.out + r.stderr; !strings.Contains(text, name+" ") || calls.MatchString(text) {
				t.Errorf("%q %q does not call itself %s: %s", program, line, name, text)
			}
		}
		r := run(t, f, local, "", "volume", "mount", "agent-sandbox", "--volume", "agent-cache", "--guest", "/cache", "--rw")
		r.wants(t, 6, name+": ")
		r.wants(t, 6, "`"+name+" volume unlock agent-cache`")
		if r := run(t, f, local, "", "volume", "create", "x"); r.code != 0 || !strings.Contains(r.out, "warren ls") {
			t.Errorf("a volume's name: %+v", r)
		}
	}
}
