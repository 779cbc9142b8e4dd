// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"

	"github.com/warren-vm/warren/vm"
)

func notBuilt(op vm.Op) error { return vm.Errorf(vm.Unsupported, "", "%s is not built yet", op) }

// Resize changes what a VM gets of the host.
func (e *Engine) Resize(ctx context.Context, c *vm.Call, ref string, r ResizeRequest) (Resized, error) {
	return Resized{}, notBuilt(vm.OpResize)
}
