// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"time"

	"github.com/warren-vm/warren/vm"
)

// reasons explain to people why a VM has no machine.
var reasons = map[string]string{
	"idle":           "it was idle for its idle timeout",
	"stop":           "it was stopped",
	"kill":           "it was killed",
	"suspend":        "it was suspended",
	"host-restart":   "the host restarted while it ran",
	"memory-lost":    "the files of its memory are gone",
	"memory-dropped": "its memory was removed", // from an older Warren
	"memory-left":    "it was started from its disk alone; its memory is kept",
	"guest-shutdown": "its guest powered off",
	"guest-reboot":   "its guest rebooted",
	"qemu-crash":     "its machine ended unexpectedly",
	"files-missing":  "files of it are missing",
}

// Why returns why a VM does not run.
func Why(rec vm.VM) string {
	reason := rec.Reason
	if reason == "" {
		reason = rec.Exit.Reason
	}
	says := reasons[reason]
	switch {
	case says == "" && reason == "":
		says = "its record does not say why"
	case says == "":
		says = reason
	}
	if rec.Exit.Detail != "" {
		says += ": " + rec.Exit.Detail
	}
	if !rec.Exit.Time.IsZero() {
		says += ", at " + rec.Exit.Time.UTC().Format(time.RFC3339)
	}
	return Clip(says)
}

// Asleep is the diagnosis of a VM without a machine.
func Asleep(rec vm.VM) []vm.Finding {
	name := rec.Name
	if name == "" {
		name = string(rec.ID)
	}
	f := finding("not-running", vm.SeverityInfo, "vm", fmt.Sprintf("the VM is %s: %s", rec.State, Why(rec)),
		fmt.Sprintf("`diagnose` does not wake a VM; `warren start %s` starts it", name))
	switch {
	case rec.State == vm.Lost:
		f.Severity, f.Do = vm.SeverityError, fmt.Sprintf("`warren inspect %s` says what is left", name)
	case rec.Reason == "qemu-crash" || rec.Reason == "host-restart" || rec.Reason == "memory-lost":
		f.Severity = vm.SeverityWarning
	}
	if rec.Reason != "" {
		f.Evidence = append(f.Evidence, "reason "+rec.Reason)
	}
	for _, l := range rec.Losses {
		f.Evidence = append(f.Evidence, "lost: "+l)
	}
	tidy(&f)
	return []vm.Finding{f}
}
