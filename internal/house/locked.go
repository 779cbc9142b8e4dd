// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package house

import "github.com/warren-vm/warren/vm"

// locked says whether a volume is locked now; ok is false if it does not exist.
func (h *House) locked(id vm.VolumeID) (name string, locked, ok bool) {
	v := h.Vault.VolumeByID(id)
	if v == nil {
		return "", false, false
	}
	rec := v.Record()
	return rec.Name, !v.Info().Unlocked, true
}
