// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

// Exit statuses of exec, run and wait, in addition to those of the command in
// the guest.
const (
	statusTimeout = 124 // the time limit was reached
	statusOurs    = 125 // Warren failed, not the command
)

// exitStatus is an error that ends the program with a status and no message.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// passing marks an error of a command that returns the guest's exit status:
// failures of Warren then get a separate status.
type passing struct{ error }

func (p passing) Unwrap() error { return p.error }

// usage is an error in the command line.
func usage(format string, args ...any) *vm.Error {
	return vm.Errorf(vm.Invalid, "", format, args...)
}

// report says on stderr why a command failed and returns its exit status.
func (a *app) report(err error) int {
	var status exitStatus
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	}
	if !errors.Is(err, errReported) {
		a.complain(err)
	}
	code := api.ExitCode(err)
	var p passing
	if errors.As(err, &p) && vm.KindOf(err) != vm.Cancelled {
		return statusOurs
	}
	return code
}

// errReported marks errors that were already printed.
var errReported = errors.New("reported")

// complain prints an error for people.
func (a *app) complain(err error) {
	if vm.KindOf(err) == vm.Cancelled {
		a.io.tellf("warren: interrupted")
		return
	}
	e := vm.AsError(err)
	text := err.Error()
	if e.Op != "" && a.verb != "" { // the verb in the command line
		text = strings.Replace(text, string(e.Op)+": ", a.verb+": ", 1)
	}
	text = strings.ReplaceAll(text, "\n", "; ")
	a.io.tellf("warren: %s", plain(text))
	if e.Hint != "" {
		a.io.tellf("  hint: %s", plain(e.Hint))
	}
}

// each calls a function for several VMs. It prints a failure at once and
// continues with the next VM. The first failure decides the exit status.
func (a *app) each(names []string, do func(name string) error) error {
	var first error
	for _, n := range names {
		if err := do(n); err != nil {
			if vm.KindOf(err) == vm.Cancelled || len(names) == 1 {
				return err
			}
			a.complain(err)
			if first == nil {
				first = errors.Join(err, errReported)
			}
		}
	}
	return first
}

// endEach is each for verbs that remove things on the server; it prints a
// line for each.
func (a *app) endEach(names []string, ended string, do func(c *client.Client, name string) error) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	return a.each(names, func(name string) error {
		err := do(c, name)
		if err == nil {
			a.changed(change{Name: name, Result: ended})
		}
		return err
	})
}
