// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"strings"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

// remaining asks the server what remains of a VM. If it cannot, it says so and
// does not fail: the verb itself succeeded.
func (a *app) remaining(ctx context.Context, c *client.Client, ref string) (vm.Remaining, bool) {
	r, err := c.Remains(ctx, ref)
	if err != nil && vm.KindOf(err) != vm.NotFound { // an unknown VM is the verb's error
		a.io.notef("cannot find out what else remains: %s", err)
	}
	return r, err == nil
}

// ownRemains prints what remains of a VM after a verb ended it, unless the
// verb deleted it.
func (a *app) ownRemains(ctx context.Context, c *client.Client, before api.VM, event, id, own string) {
	if endsWith(before, event) || a.io.quiet {
		return
	}
	a.details("  remains   %s\n", own)
	if r, ok := a.remaining(ctx, c, id); ok {
		a.others(r)
	}
}

// others prints what remains in addition to a VM's own files; with -v also
// the ids of audit records.
func (a *app) others(r vm.Remaining) {
	row := func(what string, list []string) {
		if len(list) > 0 {
			a.details("%s\n", fold("            "+what+": "+strings.Join(list, ", "), a.io.width))
		}
	}
	var snapshots, forks, copies []string
	for _, s := range r.Snapshots {
		kind := "disk"
		if s.Memory {
			kind = "memory and disk"
		}
		snapshots = append(snapshots, printable(or(s.Name, string(s.ID)))+" ("+kind+", "+human(s.Bytes)+")")
	}
	for _, f := range r.Forks {
		forks = append(forks, printable(or(f.Name, string(f.ID))))
	}
	for _, c := range r.Copies {
		text := "the VM"
		if c.Path != "" {
			text = printable(c.Path)
		}
		if c.To != "" {
			text += " to " + printable(c.To)
		}
		if a.verbose {
			text += " (" + c.Receipt + ")"
		}
		copies = append(copies, text)
	}
	row("folders of the host", foldersLeft(r))
	row("volumes", volumesLeft(r))
	row("snapshots", snapshots)
	row("VMs made from it", forks)
	row("copied out", short(copies, 5))
	row("artifacts", short(artifactsLeft(r), 5))
	if r.OtherBytes > 0 {
		row("caches", []string{"captured generations, " + human(r.OtherBytes) + ", which the server removes by itself"})
	}
	if a.verbose {
		row("audit records", r.Receipts)
	} else if len(r.Receipts) > 0 {
		row("audit records", []string{itoa(len(r.Receipts))})
	}
}

// artifactsLeft describes the stored objects that come from a VM.
func artifactsLeft(r vm.Remaining) (list []string) {
	for _, o := range r.Artifacts {
		list = append(list, o.String()+" ("+human(o.Size)+")")
	}
	return list
}

// foldersLeft describes the folders of the host that a VM has.
func foldersLeft(r vm.Remaining) (list []string) {
	for _, f := range r.Folders {
		list = append(list, printable(f.Host)+" at "+printable(f.Path))
	}
	return list
}

// volumesLeft describes the volumes that a VM used.
func volumesLeft(r vm.Remaining) (list []string) {
	for _, v := range r.Volumes {
		text := printable(v.Project + "/" + v.Name)
		if v.Path != "" {
			text += " at " + printable(v.Path)
		}
		state := "locked"
		if v.Unlocked {
			state = "UNLOCKED"
		}
		list = append(list, text+" ("+state+", "+human(v.Bytes)+")")
	}
	return list
}

// short cuts a list, saying how many more there are.
func short(list []string, most int) []string {
	if len(list) <= most {
		return list
	}
	return append(append([]string{}, list[:most]...), "and "+itoa(len(list)-most)+" more")
}
