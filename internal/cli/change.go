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

// change is what a verb did that only changes something: a sentence for people,
// an object of a list with --json.
type change struct {
	Name   string `json:"name"` // as it was typed
	Result string `json:"result"`

	To         string        `json:"to,omitempty"`         // its new name
	VM         *api.VM       `json:"vm,omitempty"`         // as it is then
	Remains    *vm.Remaining `json:"remains,omitempty"`    // what was not removed with it
	Unreadable []string      `json:"unreadable,omitempty"` // its key was destroyed
	Readable   []string      `json:"readable,omitempty"`   // not erased

	text string // the sentence; "" = "NAME is RESULT"
}

// changing gives --json to a command that tells what it does by changed. Main
// prints the list at the end, also where a part of it failed.
func (a *app) changing(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&a.listed, "json", false, "print as JSON: a list of what was changed")
	return cmd
}

// changed tells of a change.
func (a *app) changed(c change) {
	a.changes = append(a.changes, c)
	a.details("%s\n", plain(or(c.text, c.Name+" is "+c.Result)))
}

// changedQuietly notes a change, unless err says that there was none, of which
// people are told by the exit status alone, as by rm and mkdir.
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

// goOn says how a VM is used again that a verb has ended: event is onstop or
// onsuspend, before is the VM before that.
func (a *app) goOn(before api.VM, name, event, verb string) {
	n := printable(name)
	if endsWith(before, event) {
		a.details("  it is ephemeral: it is deleted now, with its disk, memory and logs\n")
		return
	}
	a.details("  go on     warren %s %s\n  erase     warren rm %s\n", verb, n, n)
}

// known is a VM as it is before a verb ends it, which may delete it. What cannot
// be asked is left to the verb to tell.
func known(ctx context.Context, c *client.Client, name string) api.VM {
	v, _ := c.Get(ctx, name)
	return v
}
