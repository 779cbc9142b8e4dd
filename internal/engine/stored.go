// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"github.com/warren-vm/warren/internal/store"
	"github.com/warren-vm/warren/vm"
)

// StoredRecords returns the records that a store holds.
func StoredRecords(s *store.Store) Records {
	return Records{
		Jobs: store.NewCollection(s, "jobs", func(j *vm.Job) (string, *int64) { return string(j.VM), &j.Revision }),
	}
}
