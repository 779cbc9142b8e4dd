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

// setAside moves a directory of the data directory that belongs to no record to
// where nothing touches it. A record is there before the files are and goes
// after them: files without one mean that records were lost, such as by a
// restored backup, and are perhaps all that is left of somebody's work.
func (e *Engine) setAside(path string) error {
	if e.dead.Load() {
		return ErrDied
	}
	to := filepath.Join(e.cfg.Dir.Unrecorded(), filepath.Base(filepath.Dir(path)), filepath.Base(path))
	for n, base := 2, to; ; n++ { // it may have been put aside before, and copied back
		if _, err := os.Lstat(to); err != nil {
			break
		}
		to = fmt.Sprintf("%s.%d", base, n)
	}
	e.log.Error("there is no record of it: it is put aside", "path", path, "to", to)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return diskError(to, err)
	}
	if err := os.Rename(path, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return diskError(to, err)
	}
	return nil
}

// hasRun reports whether a directory is of a VM that was somebody's: machines of
// the pool, and VMs that have never run, hold nothing.
func (e *Engine) hasRun(id vm.ID) bool {
	var spec vm.MachineSpec
	err := layout.ReadJSON(layout.VMDir(e.cfg.Dir.VM(id)).Machine(), &spec)
	return err == nil && !spec.Pooled || vm.KindOf(err) == vm.Corrupt
}
