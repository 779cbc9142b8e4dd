// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"context"

	"github.com/warren-vm/warren/vm"
)

// explain says what a VM's policy says of a request.
func (s *server) explain(context.Context, *vm.Call, vm.VM, vm.NetQuestion) (vm.NetAnswer, error) {
	return vm.NetAnswer{}, vm.Errorf(vm.Unsupported, "", "this server does not explain policies")
}

// propose files a proposal of a VM's programs.
func (s *server) propose(context.Context, *vm.Call, vm.VM, vm.NetRule, string) (vm.Ask, error) {
	return vm.Ask{}, vm.Errorf(vm.Unsupported, "", "this server takes no proposals")
}

// askOf finds an ask of a VM.
func (s *server) askOf(_ context.Context, _ *vm.Call, _ vm.VM, id string) (vm.Ask, error) {
	return vm.Ask{}, vm.Errorf(vm.NotFound, vm.Clip(id, 40), "this VM has no such ask")
}

// awaitAsk returns when an ask is decided, or ctx ends.
func (s *server) awaitAsk(ctx context.Context, _ *vm.Call, _ vm.Ask) { <-ctx.Done() }
