// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package names

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/warren-vm/warren/vm"
)

// maxShownNames bounds the names that are kept for one account.
const maxShownNames = 1000

// shownByOther reports whether another account showed pages under a name recently.
func (n *Names) shownByOther(name string, account vm.AccountID) bool {
	s, ok := n.shown.Get(name)
	return ok && s.Account != account && n.now().Sub(s.SeenAt) < vm.ShownNameLasts
}

// showName durably records, before the first page, that a site's account shows pages
// under the VM's name. It writes at most once a day.
func (n *Names) showName(ctx context.Context, at vm.Site) error {
	if at.Label == "" {
		return nil
	}
	today := n.now().Truncate(24 * time.Hour)
	if done, err := n.noted(at, today); done || err != nil {
		return err
	}
	n.write.Lock()
	defer n.write.Unlock()
	if err := n.forgetShownNames(ctx, at.Account); err != nil {
		return err
	}
	if done, err := n.noted(at, today); done || err != nil {
		return err
	}
	if _, there := n.shown.Get(at.Label); !there {
		return n.shown.Create(ctx, vm.ShownName{Name: at.Label, Account: at.Account, SeenAt: today})
	}
	_, err := n.shown.Change(ctx, at.Label, func(s *vm.ShownName) error {
		if _, err := n.noted(at, today); err != nil { // another server's account was faster
			return err
		}
		s.Account, s.SeenAt = at.Account, today
		return nil
	})
	return err
}

// noted reports whether it is recorded that a site's name was shown today. It fails if
// another account showed pages under the name recently.
func (n *Names) noted(at vm.Site, today time.Time) (done bool, err error) {
	if n.shownByOther(at.Label, at.Account) {
		return false, vm.Errorf(vm.Denied, at.Label, "another account showed pages under this name recently").
			WithHint("use the VM's id in the address, or another name")
	}
	s, _ := n.shown.Get(at.Label)
	return s.Account == at.Account && s.SeenAt.Equal(today), nil
}

// forgetShownNames removes names that browsers have probably forgotten, and the oldest
// names of an account that has too many. The caller holds write.
func (n *Names) forgetShownNames(ctx context.Context, account vm.AccountID) error {
	var old, own []vm.ShownName
	for _, s := range n.shown.All() {
		switch {
		case n.now().Sub(s.SeenAt) >= vm.ShownNameLasts:
			old = append(old, s)
		case s.Account == account:
			own = append(own, s)
		}
	}
	if more := len(own) - maxShownNames + 1; more > 0 {
		slices.SortFunc(own, func(a, b vm.ShownName) int { return a.SeenAt.Compare(b.SeenAt) })
		old = append(old, own[:more]...)
	}
	var errs []error
	for _, s := range old {
		errs = append(errs, n.shown.Drop(ctx, s.Name))
	}
	return errors.Join(errs...)
}
