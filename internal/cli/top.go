// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

type topOptions struct {
	app   *app
	name  string
	once  bool
	all   bool
	every time.Duration
	json  bool
}

func newTop(a *app) *cobra.Command {
	o := &topOptions{app: a}
	cmd := &cobra.Command{
		Use:   "top NAME",
		Short: "Watch what a VM does: programs, ports, services, last log lines",
		Long: `Show what a VM does now, the busiest processes first: their share of a CPU, memory and what each waits for;
blocked programs and what they wait for; ports with the process behind each; failed services; disks; the last
lines of running commands and of the journal.

On a terminal the page is updated every --every; q ends it. Otherwise, and with --once or --json, it is printed
once. The command does not wake a VM: if it is suspended, the page says why.`,
		Example: `  warren top box
  warren top box --once
  warren top box --json`,
		Args:              args(1, 1, "which VM? give its name or id; `warren ls` lists VMs"),
		ValidArgsFunction: a.completeVM,
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			return o.run(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.once, "once", false, "print once and exit")
	f.BoolVarP(&o.all, "all", "a", false, "also the system's own processes")
	f.DurationVar(&o.every, "every", 2*time.Second, "time between two updates")
	f.BoolVar(&o.json, "json", false, "print an object as JSON, once")
	return cmd
}

// onceApart is the time between the two samples of a page that is printed
// once.
const onceApart = time.Second

func (o *topOptions) run(ctx context.Context) error {
	if o.every < 500*time.Millisecond || o.every > time.Hour {
		return usage("--every %s is not within 0.5 seconds and 1 hour", o.every)
	}
	c, err := o.app.client()
	if err != nil {
		return err
	}
	if !o.once && !o.json && o.app.io.outTTY {
		return o.live(ctx, c)
	}
	t, err := c.Top(ctx, o.name, onceApart, false)
	if err != nil {
		return err
	}
	if o.json {
		return o.app.io.json(t)
	}
	o.page(o.app.io, t, 0)
	return nil
}

// seldom is how many pages pass before services and journal are read again:
// each read starts a program in the guest.
const seldom = 5

// live redraws the page until q, ^C, or the VM's end.
func (o *topOptions) live(ctx context.Context, c *client.Client) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	restore := o.keys(stop)
	defer restore()
	o.app.io.printf("\x1b[?1049h\x1b[?25l")
	defer o.app.io.printf("\x1b[?25h\x1b[?1049l")
	var before, slow vm.Top
	for n := 0; ; n++ {
		full := n%seldom == 1 // the first page comes at once
		t, err := c.Top(ctx, o.name, 0, !full)
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		if full {
			slow = t
		}
		t.Services, t.Logs = slow.Services, slow.Logs
		t.Rate(before)
		o.draw(t)
		before = t
		wait := o.every
		if n == 0 { // shares of the CPU soon
			wait = min(wait, onceApart)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
	}
}

// keys cancels at q or ^C, typed without Enter. The function that it returns
// resets the terminal.
func (o *topOptions) keys(stop func()) (restore func()) {
	fd, ok := terminal(o.app.io.in)
	if !ok {
		return func() {}
	}
	was, err := term.MakeRaw(fd)
	if err != nil {
		return func() {}
	}
	go func() { // nothing interrupts a read of a terminal: it ends with the program
		b := make([]byte, 1)
		for {
			n, err := o.app.io.in.Read(b)
			if err != nil || n == 1 && (b[0] == 'q' || b[0] == 'Q' || b[0] == 3) {
				stop()
				return
			}
		}
	}()
	return func() { _ = term.Restore(fd, was) } // it may be gone
}

// draw puts one page on the screen, cut to its size.
func (o *topOptions) draw(t vm.Top) {
	cols, rows := o.app.io.size()
	var b bytes.Buffer
	page := &streams{out: &b, width: cols}
	o.page(page, t, rows)
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	if rows > 0 && len(lines) > rows {
		lines = lines[:rows]
	}
	for i, l := range lines {
		if cols > 0 && utf8.RuneCountInString(l) > cols {
			lines[i] = string([]rune(l)[:cols-1]) + "…"
		}
	}
	o.app.io.printf("\x1b[H%s\x1b[K\x1b[J", strings.Join(lines, "\x1b[K\r\n"))
}

// page writes everything. rows is the screen's height, 0 = unlimited:
// processes get the rows that remain.
func (o *topOptions) page(s *streams, t vm.Top, rows int) {
	s.printf("%s  %s", printable(or(t.Name, string(t.ID))), s.state(t.State))
	if !t.Live {
		s.printf(": %s\n", plain(t.Why))
		return
	}
	cpu := "-"
	if t.CPUPercent != nil {
		cpu = fmt.Sprintf("%.0f%%", *t.CPUPercent)
	}
	s.printf("  up %s, CPU %s of %d, load %.2f, memory %s of %s used\n", span(time.Duration(t.UptimeSeconds*float64(time.Second))), cpu, t.VCPU, t.Load1,
		human(t.MemTotal-t.MemAvailable), human(t.MemTotal))
	var rest bytes.Buffer
	o.rest(&streams{out: &rest, width: s.width}, t)
	room := len(t.Processes)
	if rows > 0 {
		room = max(rows-bytes.Count(rest.Bytes(), []byte("\n"))-4, 5)
	}
	o.processes(s, t, room)
	s.printf("%s", rest.String())
}

func (o *topOptions) processes(s *streams, t vm.Top, room int) {
	tab := &table{head: []string{"PID", "USER", "CPU", "MEMORY", "STATE", "DOES", "COMMAND"}}
	hidden := 0
	for _, p := range t.Processes {
		if p.System && !o.all && p.CPUPercent < 5 {
			hidden++
			continue
		}
		cpu := "-"
		if t.CPUPercent != nil {
			cpu = fmt.Sprintf("%.1f%%", p.CPUPercent)
		}
		if len(tab.rows) < room {
			tab.add(itoa(p.PID), printable(p.User), cpu, human(p.RSS), plain(p.State), shorten(plain(or(p.Waits, "-")), 44), plain(p.Command))
		}
	}
	s.print(tab)
	if hidden > 0 {
		s.printf("and %d of the system\n", hidden)
	}
}

func (o *topOptions) rest(s *streams, t vm.Top) {
	if len(t.Blocked) > 0 {
		tab := &table{head: []string{"BLOCKED", "STATE", "COMMAND", "WAITS"}}
		for _, b := range t.Blocked {
			tab.add(itoa(b.PID), plain(b.State), shorten(plain(b.Command), 40), plain(b.Waits))
		}
		s.printf("\n")
		s.print(tab)
	}
	if len(t.Ports) > 0 {
		tab := &table{head: []string{"PORT", "PROTO", "PID", "COMMAND"}}
		for _, p := range t.Ports {
			tab.add(net.JoinHostPort(plain(p.Address), itoa(p.Port)), plain(p.Proto), dashZero(p.PID), plain(or(p.Command, "-")))
		}
		s.printf("\n")
		s.print(tab)
	}
	var disks []string
	for _, m := range t.Mounts {
		if m.Total > 0 && !m.ReadOnly {
			disks = append(disks, fmt.Sprintf("%s %s free of %s", plain(m.Path), human(m.Free), human(m.Total)))
		}
	}
	s.printf("\nDISKS     %s\nSERVICES  %s\n", or(strings.Join(disks, ", "), "-"), serviceLine(t.Services))
	for i, l := range t.Logs {
		if i == 0 {
			s.printf("\nLOGS\n")
		}
		s.printf("  %s: %s\n", plain(or(l.Source, "-")), plain(l.Text))
	}
	for _, p := range t.Problems {
		s.printf("not checked: %s\n", plain(p))
	}
}

// serviceLine counts services and names the failed ones.
func serviceLine(list []vm.GuestService) string {
	active := 0
	var other []string
	for _, u := range list {
		switch {
		case u.Active == "active":
			active++
		case u.Active != "inactive":
			other = append(other, plain(u.Name)+" "+plain(u.Active+" ("+u.Sub+")"))
		}
	}
	out := itoa(active) + " active"
	if len(other) > 0 {
		out += "; " + strings.Join(other, ", ")
	}
	return out
}
