// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"fmt"
	"io"
)

// WritePatch writes the patches of all changes, one after the other, as "git apply"
// takes them: below PatchBase. Lines with "#" before them say what the patch leaves out.
// The diff must have been asked for with Patch.
func (d Diff) WritePatch(w io.Writer) error {
	if d.PatchBase != "" {
		if _, err := fmt.Fprintf(w, "# paths below %s\n", d.PatchBase); err != nil {
			return err
		}
	}
	for _, c := range d.Changes {
		if len(c.Patch) > 0 || c.Cut == "" {
			continue
		}
		if _, err := fmt.Fprintf(w, "# left out: %s: %s\n", c.Path, c.Cut); err != nil {
			return err
		}
	}
	for _, c := range d.Changes {
		if _, err := w.Write(c.Patch); err != nil {
			return err
		}
	}
	return nil
}
