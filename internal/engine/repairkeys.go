// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"path/filepath"
	"slices"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// maxOtherKeys bounds the keys that a start tries in addition to the manifest's.
const maxOtherKeys = 16

// repairKeys repairs a generation that an older Warren captured. For a machine from the
// pool, that Warren wrote a key into the manifest that the agent no longer accepted, so
// the generation could not start. repairKeys adds the other keys that the agent may hold.
// Each manifest is checked once.
func (e *Engine) repairKeys(g vm.Generation) {
	if !g.Whole() {
		return
	}
	m, err := e.cfg.Generations.Load(g.ID)
	if err != nil || m.TrueKey || len(m.OtherKeys) > 0 || len(m.GuestKey) == 0 {
		return // a start on the generation reports a missing or damaged manifest
	}
	if m.OtherKeys = e.otherKeys(m); len(m.OtherKeys) == 0 {
		return
	}
	if err := e.cfg.Generations.Rewrite(m); err != nil {
		e.log.Error("the keys of an older generation could not be repaired; it may not start", "generation", g.ID, "err", err)
		return
	}
	e.log.Info("repaired the keys of an older generation", "generation", g.ID, "keys", len(m.OtherKeys))
}

// otherKeys returns the keys that the agent of a captured machine may hold instead of the
// manifest's: those of its VM's machine, and those of the warm generations of its image.
// An agent accepts its previous key until somebody has used the next.
func (e *Engine) otherKeys(m vm.Manifest) [][]byte {
	var keys [][]byte
	add := func(key []byte) {
		same := func(other []byte) bool { return bytes.Equal(key, other) }
		if len(key) > 0 && !same(m.GuestKey) && !slices.ContainsFunc(keys, same) && len(keys) < maxOtherKeys {
			keys = append(keys, key)
		}
	}
	var spec vm.MachineSpec
	if layout.ReadJSON(layout.VMDir(e.cfg.Dir.VM(m.VM)).Machine(), &spec) == nil {
		add(spec.Reset.LinkKey)
		add(spec.GuestKey)
	}
	warm, err := filepath.Glob(layout.GenerationDir(e.cfg.Dir.Warm(m.Image, "*")).Manifest())
	if err != nil {
		return keys // the pattern is constant and well formed
	}
	for _, path := range warm {
		var w vm.Manifest
		if layout.ReadJSON(path, &w) == nil {
			add(w.GuestKey)
		}
	}
	return keys
}
