// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package secret

import (
	"context"
	"time"

	"github.com/warren-vm/warren/vm"
)

// SwapSealed gives a secret the sealed value of another one, as somebody with the record
// store could.
func (s *Secrets) SwapSealed(from, to string, a vm.AccountID) error {
	x, _ := s.named(a, from)
	y, _ := s.named(a, to)
	_, err := s.table.Change(context.Background(), y.ID, func(rec *vm.Secret) error {
		rec.Sealed = x.Sealed
		return nil
	})
	return err
}

// Expire ends the access token of a secret.
func (s *Secrets) Expire(name string, a vm.AccountID) {
	rec, _ := s.named(a, name)
	s.dropTokens(rec.ID)
}

// SetPatience sets how long the room waits for a service.
func (s *Secrets) SetPatience(d time.Duration) { s.patience = d }

// SetRotator names another rotator in the record of a secret, as somebody with the record
// store could.
func (s *Secrets) SetRotator(name, url string, a vm.AccountID) error {
	rec, _ := s.named(a, name)
	_, err := s.table.Change(context.Background(), rec.ID, func(rec *vm.Secret) error {
		rec.RotateURL = url
		return nil
	})
	return err
}
