// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package changes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// Undo puts a VM back to a turn (its number, an id, "" = the newest): memory, processes
// and disk. A turn without memory gives the VM its disk and boots it. The present state is
// captured first, and the answer names it, so that an undo can be undone. NotUndone says
// what happened outside the VM since the turn.
func (x *Changes) Undo(ctx context.Context, c *vm.Call, ref, turn, volumes string) (out engine.RolledBack, err error) {
	if err := c.Actor.OwnerOnly(ref); err != nil {
		return out, vm.WithOp(vm.OpUndo, ref, err)
	}
	g, err := x.cfg.Engine.FindTurn(ctx, c, ref, turn)
	if err != nil {
		return out, err
	}
	stays := x.outside(ctx, c, ref, g.CreatedAt)
	out, err = x.cfg.Engine.Rollback(ctx, c, ref, engine.RollbackRequest{To: string(g.ID), Volumes: volumes})
	if err != nil {
		return out, err
	}
	out.NotUndone = stays // that memory is gone is in the VM's losses
	return out, nil
}

// outside lists what a VM did since a time that going back does not undo.
func (x *Changes) outside(ctx context.Context, c *vm.Call, ref string, since time.Time) (list []string) {
	list = append(list, x.pushes(ctx, c, ref, since)...)
	list = append(list, x.connections(ctx, c, ref, since)...)
	mounts, err := x.cfg.Engine.Mounts(ctx, c, ref)
	if err != nil {
		return append(list, "what was written to volumes and shared folders, which could not be listed")
	}
	for _, m := range mounts {
		what := "volume " + m.Name
		switch {
		case vm.IsObjects(m.Host):
			what = "bucket, below " + m.Host
		case m.Host != "":
			what = "directory of the host " + m.Host
		}
		if m.RW && !m.Cut {
			list = append(list, fmt.Sprintf("what was written below %s: it is in the %s", m.Path, what))
		}
	}
	return list
}

// pushes lists the pushes that the VM itself made.
func (x *Changes) pushes(ctx context.Context, c *vm.Call, ref string, since time.Time) (list []string) {
	rec, err := x.cfg.Engine.Get(ctx, c, ref)
	if err != nil {
		return nil
	}
	records, err := x.cfg.Journal.Records(ctx, vm.AuditFilter{Account: rec.Account, Limit: 1000})
	if err != nil {
		return []string{"pushes, which could not be listed"}
	}
	for _, r := range records {
		if r.Time.Before(since) {
			break
		}
		if r.Op == vm.OpPush && (r.Actor.VM == rec.ID || r.VM == rec.ID) && r.Outcome == "ok" {
			list = append(list, fmt.Sprintf("a push to the repository %s at %s", r.Subject, r.Time.Format(time.RFC3339)))
		}
	}
	slices.Reverse(list)
	return list
}

// hostsShown is how many hosts are named.
const hostsShown = 5

// connections counts the connections to the outside, by host.
func (x *Changes) connections(ctx context.Context, c *vm.Call, ref string, since time.Time) []string {
	log, err := x.guests.Connections(ctx, c, ref)
	if err != nil {
		if vm.KindOf(err) == vm.WrongState {
			return []string{"network requests that the VM made before it slept"} // the log went with its machine
		}
		return []string{"network requests, which could not be listed"}
	}
	hosts, n := map[string]int{}, 0
	for _, con := range log {
		if !con.Allowed || con.Proto == "dns" || con.Time.Before(since) {
			continue
		}
		host := con.Name
		if host == "" {
			if h, _, err := net.SplitHostPort(con.Dest); err == nil {
				host = h
			}
		}
		hosts[cmp.Or(host, con.Dest)]++
		n++
	}
	var list []string
	if rec, err := x.cfg.Engine.Get(ctx, c, ref); err == nil && rec.StartedAt.After(since) {
		list = append(list, "network requests before its start at "+rec.StartedAt.Format(time.RFC3339)+", of which there is no log")
	}
	if n == 0 {
		return list
	}
	names := slices.SortedFunc(maps.Keys(hosts), func(a, b string) int { return cmp.Or(cmp.Compare(hosts[b], hosts[a]), cmp.Compare(a, b)) })
	more := ""
	if len(names) > hostsShown {
		more = fmt.Sprintf(" and %d more", len(names)-hostsShown)
		names = names[:hostsShown]
	}
	return append(list, fmt.Sprintf("%d connections to the outside: %s%s", n, strings.Join(names, ", "), more))
}
