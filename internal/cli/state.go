// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

type stateOptions struct {
	app    *app
	name   string
	expect []string
	diff   string
	all    bool
	json   bool
}

func newState(a *app) *cobra.Command {
	o := &stateOptions{app: a}
	cmd := &cobra.Command{
		Use:   "state NAME",
		Short: "Show what runs in a VM, and whether it answers",
		Long: `Show what runs in a VM: its processes and what each waits for, the terminals with their directory and foreground
command, the listening ports with their answer to a real request, services, file systems, and whether a file
watcher, queue worker, database, browser or REPL is alive, with the evidence. At the end it says what the last
start restored, what it lost, and why. For a VM that does not run it shows the record.

The request is GET / with User-Agent warren-state, so that you can find it in the server's log; known databases
are asked in their own protocol.

--expect prints no page: it names what is missing, and the exit status is then 1. It takes port:N (answers),
process:PROGRAM, service:NAME (active), terminal:NAME, mount:PATH, file:PATH and role:ROLE (alive: watcher,
worker, database, browser, repl). --diff lists the differences between two VMs, as after a fork.`,
		Example: `  warren state box
  warren state box --expect port:3000 --expect process:python3
  warren state box --diff box-1
  warren state box --json`,
		Args:              args(1, 1, "which VM? give its name or id; `warren ls` lists VMs"),
		ValidArgsFunction: a.completeVM,
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			return o.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.expect, "expect", nil, "fail with status 1 unless this exists; KIND:VALUE; may repeat")
	f.StringVar(&o.diff, "diff", "", "list the differences to another VM")
	f.BoolVarP(&o.all, "all", "a", false, "also list the system's own processes and inactive services")
	f.BoolVar(&o.json, "json", false, "print an object as JSON; with --diff a list of differences")
	return cmd
}

func (o *stateOptions) run(ctx context.Context) error {
	for _, e := range o.expect {
		if _, err := expectation(e); err != nil {
			return err
		}
	}
	if o.diff != "" && len(o.expect) > 0 {
		return usage("--expect and --diff cannot be combined")
	}
	c, err := o.app.client()
	if err != nil {
		return err
	}
	w, err := c.State(ctx, o.name)
	if err != nil {
		return err
	}
	if o.diff != "" {
		other, err := c.State(ctx, o.diff)
		if err != nil {
			return err
		}
		return o.differ(w, other)
	}
	switch {
	case o.json:
		if err := o.app.io.json(w); err != nil {
			return err
		}
	case len(o.expect) == 0:
		o.page(w)
	}
	return o.check(ctx, c, w)
}

// check compares the state and the files with the expectations. "The program
// answers" and "the file exists" are separate results.
func (o *stateOptions) check(ctx context.Context, c *client.Client, w vm.GuestState) error {
	missing := 0
	for _, e := range o.expect {
		there, _ := expectation(e) // run has read it
		why := there(w)
		if path, ok := strings.CutPrefix(e, "file:"); ok && why == "" {
			if _, err := c.Stat(ctx, o.name, "", path); vm.KindOf(err) == vm.NotFound {
				why = "there is no such file"
			} else if err != nil {
				return err
			}
		}
		if why != "" {
			o.app.io.tellf("missing: %s: %s", plain(e), plain(why))
			missing++
		}
	}
	if missing > 0 {
		return exitStatus(1)
	}
	return nil
}

// page prints everything for a person.
func (o *stateOptions) page(w vm.GuestState) {
	io := o.app.io
	io.printf("%s  %s", printable(or(w.Name, string(w.ID))), io.state(w.State))
	if !w.StartedAt.IsZero() && w.Live {
		io.printf(" for %s", age(w.StartedAt))
	}
	switch {
	case w.From != "" && w.Live:
		io.printf(", from %s", plain(w.From))
	case w.From != "":
		io.printf(", %s", plain(w.From))
	}
	if w.Parent != "" {
		io.printf(", forked from %s", w.Parent)
	}
	io.printf("\n")
	if w.Live {
		o.processes(w)
		o.section("TERMINALS", terminalTable(w))
		o.section("PORTS", portTable(w))
		o.services(w)
		o.section("MOUNTS", mountTable(w))
		o.section("ROLES", roleTable(w))
	}
	o.lines("RESTORED", w.Restored)
	o.lines("LOST", w.Losses)
	o.lines("NOT CHECKED", w.Problems)
}

// section prints a table below its heading; an empty one says so.
func (o *stateOptions) section(name string, t *table) {
	if len(t.rows) == 0 {
		o.app.io.printf("\n%s  none\n", name)
		return
	}
	o.app.io.printf("\n%s\n", name)
	o.app.io.print(t)
}

func (o *stateOptions) lines(name string, list []string) {
	if len(list) == 0 {
		return
	}
	o.app.io.printf("\n%s\n", name)
	for _, l := range list {
		o.app.io.printf("  %s\n", plain(l))
	}
}

func (o *stateOptions) processes(w vm.GuestState) {
	t := &table{head: []string{"PID", "USER", "MEMORY", "CPU", "SINCE", "OF", "DOES", "COMMAND"}}
	hidden := 0
	for _, p := range w.Processes {
		if p.System && !o.all {
			hidden++
			continue
		}
		t.add(itoa(p.PID), printable(p.User), human(p.RSS), fmt.Sprintf("%.1fs", p.CPUSeconds), span(w.Time.Sub(p.StartedAt)),
			plain(or(or(p.Exec, strings.TrimSuffix(p.Unit, ".service")), "-")), plain(or(p.Waits, "-")), plain(p.Command))
	}
	o.section("PROCESSES", t)
	if hidden > 0 {
		o.app.io.printf("and %d of the system; -a lists them\n", hidden)
	}
}

func terminalTable(w vm.GuestState) *table {
	t := &table{head: []string{"TERMINAL", "SHELL", "IN FRONT", "USER", "CWD", "DOES"}}
	for _, l := range w.Terminals {
		shell := "-"
		if l.Leader != 0 {
			shell = itoa(l.Leader) + " " + plain(l.Shell)
		}
		front := "-"
		if l.Foreground != 0 {
			front = itoa(l.Foreground) + " " + plain(l.Command)
		}
		t.add(plain(l.Name), shell, front, plain(or(l.User, "-")), plain(or(l.Cwd, "-")), plain(or(l.Waits, "-")))
	}
	return t
}

func portTable(w vm.GuestState) *table {
	t := &table{head: []string{"PORT", "PROTO", "ANSWER", "ASKED FROM", "PID", "COMMAND"}}
	for _, p := range w.Ports {
		t.add(net.JoinHostPort(plain(p.Address), itoa(p.Port)), plain(p.Proto), answerText(p.Probe), plain(or(p.Probe.From, "-")),
			dashZero(p.PID), plain(or(p.Command, "-")))
	}
	return t
}

// answerText summarises a port's answer.
func answerText(p vm.Probe) string {
	if !p.OK {
		if p.Kind == "none" {
			return "not asked: " + plain(p.Why)
		}
		return "NO: " + plain(or(p.Why, p.Kind))
	}
	text := plain(p.Kind)
	if p.Status != 0 {
		text += " " + strconv.Itoa(p.Status)
	}
	if p.Server != "" {
		text += " " + plain(p.Server)
	}
	if p.Answer != "" && p.Kind != "postgres" {
		text += " " + strconv.Quote(shorten(plain(p.Answer), 40))
	}
	return text + fmt.Sprintf(" in %d ms", p.Millis)
}

func shorten(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

func (o *stateOptions) services(w vm.GuestState) {
	t := &table{head: []string{"SERVICE", "STATE", "DESCRIPTION"}}
	hidden := 0
	for _, s := range w.Services {
		if s.Active == "inactive" && !o.all {
			hidden++
			continue
		}
		t.add(plain(s.Name), plain(s.Active+" ("+s.Sub+")"), plain(s.Description))
	}
	o.section("SERVICES", t)
	if hidden > 0 {
		o.app.io.printf("and %d inactive; -a lists them\n", hidden)
	}
}

func mountTable(w vm.GuestState) *table {
	t := &table{head: []string{"MOUNT", "TYPE", "MODE", "FREE", "SOURCE"}}
	for _, m := range w.Mounts {
		mode, free := "rw", "-"
		if m.ReadOnly {
			mode = "ro"
		}
		if m.Total > 0 {
			free = human(m.Free) + " of " + human(m.Total)
		}
		t.add(plain(m.Path), plain(m.Type), mode, free, plain(m.Source))
	}
	return t
}

func roleTable(w vm.GuestState) *table {
	t := &table{head: []string{"ROLE", "ALIVE", "PID", "SEEN", "WHY"}}
	for _, r := range w.Roles {
		alive := "yes"
		if !r.Alive {
			alive = "NO"
		}
		t.add(string(r.Role), alive, itoa(r.PID), plain(r.Seen), plain(r.Why))
	}
	return t
}

// expectation reads KIND:VALUE. The function that it returns gives the reason
// why the thing is missing, or "" if it exists.
func expectation(text string) (func(vm.GuestState) string, error) {
	kind, value, ok := strings.Cut(text, ":")
	test, known := expectations[kind]
	if !ok || value == "" || !known {
		return nil, usage("%s is not an expectation", printable(text)).
			WithHint("write one such as port:3000, process:python3, service:nginx, role:repl, terminal:pts/0, mount:/data, file:/work/app.db")
	}
	if n, err := strconv.Atoi(value); kind == "port" && (err != nil || n < 1 || n > 65535) {
		return nil, usage("%s is not a port", printable(value)).WithHint("write one such as port:3000")
	}
	return func(w vm.GuestState) string {
		if !w.Live {
			return "the VM is " + string(w.State)
		}
		return test(w, value)
	}, nil
}

var expectations = map[string]func(vm.GuestState, string) string{
	"file": func(vm.GuestState, string) string { return "" }, // the state names no files: check asks for it
	"port": func(w vm.GuestState, value string) string {
		why := "nothing listens on it"
		for _, p := range w.Ports {
			if itoa(p.Port) != value {
				continue
			}
			if p.Probe.OK || !strings.HasPrefix(p.Proto, "tcp") {
				return ""
			}
			why = or(p.Probe.Why, "it listens but does not answer")
		}
		return why
	},
	"process": func(w vm.GuestState, value string) string {
		why := "there is no such process"
		for _, p := range w.Processes {
			if !runs(p.Command, value) {
				continue
			}
			if p.State != "Z" {
				return ""
			}
			why = "process " + itoa(p.PID) + " has ended"
		}
		return why
	},
	"service": func(w vm.GuestState, value string) string {
		for _, s := range w.Services {
			if s.Name == strings.TrimSuffix(value, ".service") {
				if s.Active == "active" {
					return ""
				}
				return "it is " + s.Active + " (" + s.Sub + ")"
			}
		}
		return "there is no such service"
	},
	"role": func(w vm.GuestState, value string) string {
		why := "no program was seen in this role"
		for _, r := range w.Roles {
			if string(r.Role) != value {
				continue
			}
			if r.Alive {
				return ""
			}
			why = r.Seen + " is not alive: " + r.Why
		}
		return why
	},
	"terminal": func(w vm.GuestState, value string) string {
		for _, t := range w.Terminals {
			if t.Name == strings.TrimPrefix(value, "/dev/") {
				return ""
			}
		}
		return "there is no such terminal"
	},
	"mount": func(w vm.GuestState, value string) string {
		for _, m := range w.Mounts {
			if m.Path == value {
				return ""
			}
		}
		return "nothing is mounted there"
	},
}

// runs reports whether a command line's program, or the script or module that
// it runs, has this name.
func runs(command, name string) bool {
	if vm.ProgramName(command) == name {
		return true
	}
	for _, word := range strings.Fields(command)[min(1, len(strings.Fields(command))):] {
		if word == "-c" || word == "-e" {
			return false // what follows is a text, not a name
		}
		if !strings.HasPrefix(word, "-") {
			return word == name || word[strings.LastIndexByte(word, '/')+1:] == name
		}
	}
	return false
}
