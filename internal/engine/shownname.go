// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/warren-vm/warren/vm"
)

// maxShownNames bounds the names that are kept for one account.
const maxShownNames = 1000

// shownByOtherLocked reports whether another account showed pages under a name
// lately. e.mu is held.
func (e *Engine) shownByOtherLocked(name string, account vm.AccountID) bool {
	n, ok := e.names.shown[name]
	return ok && n.Account != account && e.now().Sub(n.SeenAt) < vm.ShownNameLasts
}

// showName notes, durably and before the first page is shown, that a site's
// account shows pages under the VM's name. It writes once a day at most.
func (e *Engine) showName(ctx context.Context, at vm.Site) error {
	if at.Label == "" {
		return nil
	}
	today := e.now().UTC().Truncate(24 * time.Hour)
	noted := func() (n vm.ShownName, done bool, err error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.shownByOtherLocked(at.Label, at.Account) {
			err = vm.Errorf(vm.Denied, at.Label, "another account showed pages under this name lately").
				WithHint("use the VM's id in the address, or another name")
		}
		n = e.names.shown[at.Label]
		return n, n.Account == at.Account && n.SeenAt.Equal(today), err
	}
	if _, done, err := noted(); done || err != nil {
		return err
	}
	e.nameWrite.Lock()
	defer e.nameWrite.Unlock()
	if err := e.forgetShownNames(ctx, at.Account); err != nil {
		return err
	}
	n, done, err := noted()
	if done || err != nil {
		return err
	}
	write := e.cfg.Records.ShownNames.Update
	if n.Revision == 0 {
		n.Name, write = at.Label, e.cfg.Records.ShownNames.Create
	}
	n.Account, n.SeenAt = at.Account, today
	rev, err := saved(ctx, n, write)
	if err != nil {
		return err
	}
	n.Revision = rev
	e.mu.Lock()
	defer e.mu.Unlock()
	e.names.shown[n.Name] = n
	return nil
}

// forgetShownNames drops names that nobody's browser is likely to remember, and
// of an account with too many those that were seen longest ago. The caller holds
// nameWrite.
func (e *Engine) forgetShownNames(ctx context.Context, account vm.AccountID) error {
	e.mu.Lock()
	var old, own []vm.ShownName
	for _, n := range e.names.shown {
		switch {
		case e.now().Sub(n.SeenAt) >= vm.ShownNameLasts:
			old = append(old, n)
		case n.Account == account:
			own = append(own, n)
		}
	}
	e.mu.Unlock()
	if more := len(own) - maxShownNames + 1; more > 0 {
		slices.SortFunc(own, func(a, b vm.ShownName) int { return a.SeenAt.Compare(b.SeenAt) })
		old = append(old, own[:more]...)
	}
	var errs []error
	for _, n := range old {
		if _, err := saved(ctx, n, deleting(e.cfg.Records.ShownNames)); err != nil {
			errs = append(errs, err)
			continue
		}
		e.mu.Lock()
		delete(e.names.shown, n.Name)
		e.mu.Unlock()
	}
	return errors.Join(errs...)
}
