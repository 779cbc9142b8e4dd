// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import "github.com/warren-vm/warren/vm"

// gone ignores NotFound errors of a removal.
func gone(err error) error {
	if vm.KindOf(err) == vm.NotFound {
		return nil
	}
	return err
}
