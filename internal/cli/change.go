// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

// change is the result of a verb that changes something: a sentence for people,
// or with --json an object of a list.
type change struct {
	Name   string `json:"name"` // the name in the command line
	Result string `json:"result"`

	To         string        `json:"to,omitempty"`         // its new name
	VM         *api.VM       `json:"vm,omitempty"`         // its state afterwards
	Remains    *vm.Remaining `json:"remains,omitempty"`    // what was not removed with it
	Unreadable []string      `json:"unreadable,omitempty"` // its key was destroyed
	Readable   []string      `json:"readable,omitempty"`   // not erased

	Network *api.Network `json:"network,omitempty"` // what it may reach afterwards
	Cut     int          `json:"cut,omitempty"`     // open connections that were closed

	text string // the sentence; "" = "NAME is RESULT"
}

// changing adds --json to a command that reports its results with changed.
// Main prints the list at the end, even if a part of the command failed.
func (a *app) changing(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&a.listed, "json", false, "print a JSON list of the changes")
	return cmd
}

func (a *app) changed(c change) {
	a.changes = append(a.changes, c)
	a.details("%s\n", plain(or(c.text, c.Name+" is "+c.Result)))
}

// changedQuietly records a change for --json, unless err is set. People see
// only the exit status, as with rm and mkdir.
func (a *app) changedQuietly(err error, c change) error {
	if err == nil {
		a.changes = append(a.changes, c)
	}
	return err
}

// details prints lines below a change, for people.
func (a *app) details(format string, args ...any) {
	if !a.listed && !a.io.quiet {
		a.io.printf(format, args...)
	}
}

// endsWith reports whether a VM is deleted once it has stopped (onstop) or is
// suspended (onsuspend).
func endsWith(v api.VM, event string) bool {
	on := deleteEvent(v)
	return v.Persistence.Type == vm.Ephemeral && (on == "" || on == event)
}

// nextSteps prints how to use a VM again after a verb stopped or suspended it.
// event is onstop or onsuspend; before is the VM before the verb.
func (a *app) nextSteps(before api.VM, name, event, verb string) {
	n := printable(name)
	if endsWith(before, event) {
		a.details("  it is ephemeral: it is deleted now, with its disk, memory and logs\n")
		return
	}
	a.details("  continue  warren %s %s\n  erase     warren rm %s\n", verb, n, n)
}

// known reads a VM before a verb ends or deletes it. It ignores errors: the verb
// will report them.
func known(ctx context.Context, c *client.Client, name string) api.VM {
	v, _ := c.Get(ctx, name)
	return v
}
