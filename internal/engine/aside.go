// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// setAside moves a directory that has no record out of the way, where nothing touches it.
// A record is written before the files and removed after them. Files without one mean
// that records were lost, for example by restoring a backup, and may be the only copy of
// somebody's work.
func (e *Engine) setAside(path string) error {
	if e.dead.Load() {
		return ErrDied
	}
	to := filepath.Join(e.cfg.Dir.Unrecorded(), filepath.Base(filepath.Dir(path)), filepath.Base(path))
	for n, base := 2, to; ; n++ { // an earlier one may have been moved there, and copied back
		if _, err := os.Lstat(to); err != nil {
			break
		}
		to = fmt.Sprintf("%s.%d", base, n)
	}
	e.log.Error("a directory has no record: moved aside", "path", path, "to", to)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return diskError(to, err)
	}
	if err := os.Rename(path, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return diskError(to, err)
	}
	return nil
}

// hasRun reports whether a directory belongs to a VM that somebody has used. Machines of
// the pool, and VMs that never ran, hold no data.
func (e *Engine) hasRun(id vm.ID) bool {
	var spec vm.MachineSpec
	err := layout.ReadJSON(layout.VMDir(e.cfg.Dir.VM(id)).Machine(), &spec)
	return err == nil && !spec.Pooled || vm.KindOf(err) == vm.Corrupt
}
