// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"context"

	"github.com/warren-vm/warren/vm"
)

// Repositories are git repositories by id.
type Repositories map[string]vm.Repository

// Repository finds a repository.
func (r Repositories) Repository(_ context.Context, id string) (vm.Repository, error) {
	found, ok := r[id]
	if !ok {
		return found, vm.Errorf(vm.NotFound, id, "no such repository")
	}
	return found, nil
}
