// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"
	"os"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// lifecycleEvery is how often the lifecycle rules are carried out.
const lifecycleEvery = time.Hour

// Open opens the index, completes what an earlier server left, and starts the tasks of
// lifecycle, scans and files to delete. Call Close once.
func (o *Objects) Open(ctx context.Context) error {
	if err := o.load(); err != nil {
		return vm.WithOp(vm.OpServe, "objects", err)
	}
	o.life, o.end = context.WithCancel(context.WithoutCancel(ctx))
	o.scans.init(o)
	o.tasks.Add(1)
	go o.maintain() // ends with Close
	return nil
}

func (o *Objects) load() error {
	dir := o.cfg.Dir
	for _, path := range []string{dir.Objects(), dir.ObjectIncoming()} {
		if err := layout.MakeDir(path); err != nil {
			return err
		}
	}
	index, err := openIndex(dir.ObjectIndex())
	if err != nil {
		return err
	}
	if o.cfg.Remote != nil {
		o.bodies = &remote{files: files{dir}, at: o.cfg.Remote, o: o, sent: map[string]func(){}}
	} else {
		o.bodies = files{dir}
	}
	o.index = index
	return o.reconcile()
}

// reconcile completes the moves of bodies that were committed, and deletes those that were
// not. It looks only at the bodies that were being written when the server ended.
func (o *Objects) reconcile() error {
	if r, ok := o.bodies.(*remote); ok {
		return r.reconcile()
	}
	incoming, err := os.ReadDir(o.cfg.Dir.ObjectIncoming())
	if err != nil {
		return layout.Error(o.cfg.Dir.ObjectIncoming(), err)
	}
	if len(incoming) == 0 {
		return nil
	}
	wanted := make(map[string]vm.AccountID, len(incoming))
	for _, e := range incoming {
		wanted[e.Name()] = ""
	}
	err = o.index.view(func(t *tx) error { return o.ownersOf(t, wanted) })
	if err != nil {
		return err
	}
	return files{o.cfg.Dir}.reconcile(func(id string) vm.AccountID { return wanted[id] })
}

// ownersOf fills in the accounts of the bodies that versions or parts have.
func (o *Objects) ownersOf(t *tx, wanted map[string]vm.AccountID) error {
	note := func(account vm.AccountID, body string) {
		if _, asked := wanted[body]; asked {
			wanted[body] = account
		}
	}
	for _, b := range o.buckets.All() {
		err := t.each(b, "", func(s stored, _ bool) error {
			if s.Parts == 0 {
				note(b.Account, s.Body)
				return nil
			}
			var list []segment
			_, err := t.getJSON(inSegments, []byte(s.Body), &list)
			for _, one := range list {
				note(b.Account, one.Body)
			}
			return err
		})
		if err != nil {
			return err
		}
		err = t.uploads(b, "", func(u upload) error {
			return t.parts(u.ID, func(p part) error {
				note(b.Account, p.Body)
				return nil
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Close ends the tasks and waits for them until ctx ends. Requests must have ended.
func (o *Objects) Close(ctx context.Context) error {
	if o.index == nil {
		return nil
	}
	if o.end != nil {
		o.end()
	}
	done := make(chan struct{})
	go func() { // ends with the tasks
		o.tasks.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		return vm.WithOp(vm.OpServe, "", vm.Errorf(vm.Timeout, "", "the tasks of object storage did not end: %w", context.Cause(ctx)))
	}
	o.scans.close()
	return o.index.close()
}

// maintain deletes files and carries out lifecycle rules until Close.
func (o *Objects) maintain() {
	defer o.tasks.Done()
	tick := time.NewTicker(lifecycleEvery)
	defer tick.Stop()
	warn := func(what string, err error) {
		if err != nil && o.life.Err() == nil {
			o.cfg.Log.Warn("object storage: "+what, "err", err)
		}
	}
	warn("files of removed objects remain", o.sweepGarbage(o.life))
	warn("rights of those that are gone remain", o.prune(o.life))
	for {
		select {
		case <-o.dirty:
			warn("files of removed objects remain", o.sweepGarbage(o.life))
		case <-tick.C:
			_, err := o.Sweep(o.life)
			warn("lifecycle rules were not carried out", err)
			warn("rights of those that are gone remain", o.prune(o.life))
		case <-o.life.Done():
			return
		}
	}
}

// prune drops grants and access keys of identities and VMs that are gone. They have no
// effect, and ids are never used twice.
func (o *Objects) prune(ctx context.Context) error {
	for _, g := range o.grants.All() {
		gone := g.Identity != "" && !o.cfg.Access.HasIdentity(g.Account, g.Identity)
		if g.VM != "" && o.cfg.VMAccount != nil {
			_, there := o.cfg.VMAccount(g.VM)
			gone = !there
		}
		if gone {
			if err := o.grants.Drop(ctx, g.ID); err != nil {
				return err
			}
		}
	}
	for _, k := range o.keys.All() {
		if k.Identity != "" && !o.cfg.Access.HasIdentity(k.Account, k.Identity) {
			if err := o.keys.Drop(ctx, k.ID); err != nil {
				return err
			}
			o.secrets.forget(k.ID)
		}
	}
	return nil
}
