// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"context"
	"encoding/json"

	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/vm"
)

// Stored returns the records of a kind that a backend holds, ordered by id.
func Stored[T any](b ledger.Backend, kind string) ([]T, error) {
	entries, _, err := b.ReadAll(context.Background(), kind)
	if err != nil {
		return nil, err
	}
	list := make([]T, len(entries))
	for i, e := range entries {
		if err := json.Unmarshal(e.Value, &list[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// Put overwrites a stored record, as another server would.
func Put[T any](b ledger.Backend, kind, id string, rec T) error {
	value, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	old, err := b.Read(context.Background(), kind, id)
	if vm.KindOf(err) == vm.NotFound {
		old.Revision = 0
	} else if err != nil {
		return err
	}
	_, err = b.Write(context.Background(), ledger.Op{Kind: kind, ID: id, Revision: old.Revision, Value: value})
	return err
}

// Erase removes a record from a backend, as another server would.
func Erase(b ledger.Backend, kind, id string) error {
	old, err := b.Read(context.Background(), kind, id)
	if err != nil {
		return err
	}
	_, err = b.Write(context.Background(), ledger.Op{Kind: kind, ID: id, Revision: old.Revision, Delete: true})
	return err
}
