// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import "github.com/warren-vm/warren/vm"

// maxForksInside bounds the living forks that the programs of one VM made of it.
const maxForksInside = 8

// mayForkInside refuses a fork by the programs of a VM if there are too many such forks, or
// if the VM is one itself: else a program could fill the account's quota by forking forks.
// Kinds Denied and Limit.
func (e *Engine) mayForkInside(who vm.Actor, parent vm.VM, count int) error {
	if who.VM == "" {
		return nil
	}
	if parent.FromInside {
		return vm.Errorf(vm.Denied, label(parent), "it was forked by a program in a VM, so its own programs may not fork it").
			WithCode("FORBIDDEN").WithHint("fork it on the host: `warren fork %s`", label(parent))
	}
	have := len(e.VMsWhere(func(v *vm.VM) bool { return v.Parent == parent.ID && v.FromInside }))
	if have+count > maxForksInside {
		return vm.Errorf(vm.Limit, label(parent), "its programs have made %d forks of it, and may have %d", have, maxForksInside).
			WithCode("VM_LIMIT_EXCEEDED").WithHint("have one removed on the host: `warren rm NAME`")
	}
	return nil
}
