// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/vm"
)

type diffOptions struct {
	name  string
	req   vm.DiffRequest
	stat  bool
	json  bool
	patch bool
	pager bool // false = never
	exit  bool
}

func newDiff(a *app) *cobra.Command {
	o := &diffOptions{}
	noPager := false
	cmd := &cobra.Command{
		Use:   "diff NAME [PATH...]",
		Short: "Show what changed in a VM",
		Long: `Compare two states of a VM's whole disk, or with PATHs only these and what is below them. Warren reads frozen
disks on the host, and runs no program of the VM. The first screen shows what a reviewer should know at once:
deleted trees, possible secrets, programs that start by themselves. Then come the files in groups, with their
changed lines.

A state is a generation, a snapshot, a turn, "image", "parent" (the state in which a fork left its parent), "now",
or vm:NAME (the present state of another VM). The default compares the VM's last turn, or else the state that it
was made from, with its state now. A running VM is paused for a moment.`,
		Example: "  warren diff app\n  warren diff app --stat\n  warren diff app /work --patch > app.patch\n  warren diff app --from before-upgrade --to now\n  warren diff try-2 --from vm:try-1 /work",
		Args:    args(1, -1, "which VM? warren diff NAME [PATH...]"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name, o.pager = list[0], !noPager
			for _, p := range list[1:] {
				o.req.Paths = append(o.req.Paths, vm.GuestPath(p))
			}
			return a.diff(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVM,
	}
	fs := cmd.Flags()
	fs.StringVar(&o.req.From, "from", "", "the older state (default: the last turn, else the state that the VM was made from)")
	fs.StringVar(&o.req.To, "to", "", "the newer state (default now)")
	fs.BoolVar(&o.stat, "stat", false, "show no changed lines")
	fs.BoolVar(&o.patch, "patch", false, "print a patch that \"git apply\" takes; files with possible secrets are left out")
	fs.BoolVar(&o.req.All, "all", false, "also list the files that are else only counted: caches, logs, git's own")
	fs.BoolVar(&noPager, "no-pager", false, "do not use a pager")
	fs.BoolVar(&o.exit, "exit-code", false, "exit with status 1 if something differs")
	fs.BoolVar(&o.json, "json", false, "print as JSON")
	a.completeFlag(cmd, "from", "image", "parent", "vm:")
	a.completeFlag(cmd, "to", "now", "vm:")
	return cmd
}

func (a *app) diff(ctx context.Context, o *diffOptions) error {
	if o.patch && (o.json || o.stat) {
		return usage("--patch prints a patch; leave out --json and --stat")
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	o.req.Hunks, o.req.Patch = !o.stat && !o.patch, o.patch
	p := a.io.doing("comparing %s", o.name)
	d, err := c.Diff(ctx, o.name, o.req)
	p.done()
	if err != nil {
		return err
	}
	if err := a.printDiff(ctx, o, &d); err != nil {
		return err
	}
	if o.exit && (d.Stat.Files() > 0 || len(d.System) > 0) {
		return exitStatus(1)
	}
	return nil
}

// printDiff prints a diff in the form that was asked for.
func (a *app) printDiff(ctx context.Context, o *diffOptions, d *vm.Diff) error {
	switch {
	case o.json:
		return a.io.json(d)
	case o.patch && !a.io.outTTY:
		return d.WritePatch(a.io.out)
	case o.patch: // bytes of the guest must not reach a terminal as they are
		w := &safeWriter{w: a.io.out}
		if err := d.WritePatch(w); err != nil {
			return err
		}
		return w.Close()
	}
	var text bytes.Buffer
	v := diffView{w: &text, colour: a.io.colour, width: a.io.width, o: o}
	v.diff(d)
	if a.io.outTTY && o.pager {
		return a.page(ctx, text.Bytes())
	}
	_, err := a.io.out.Write(text.Bytes())
	return err
}

// diffView prints a diff for people. Everything that a guest chose is escaped.
type diffView struct {
	w      io.Writer
	colour bool
	width  int // of the terminal; 0 = any
	o      *diffOptions
}

// paint colours a text on a terminal.
func (v *diffView) paint(code, text string) string { return paint(v.colour, code, text) }

// The colours of a diff.
const (
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
	dim    = "2"
)

func (v *diffView) line(text string) { _, _ = io.WriteString(v.w, text+"\n") }

// folded prints a line that is broken at spaces, 80 columns wide where the terminal is
// not known.
func (v *diffView) folded(code, text string) {
	width := v.width
	if width == 0 {
		width = 80
	}
	for line := range strings.SplitSeq(fold(text, width), "\n") {
		v.line(v.paint(code, line))
	}
}

// diff prints the first screen, then the files.
func (v *diffView) diff(d *vm.Diff) {
	v.folded(bold, diffSide(d.From, "")+" → "+diffSide(d.To, v.o.req.To))
	if len(d.Workdir) > 0 {
		v.line(v.paint(dim, "working directory "+printable(d.Workdir)))
	}
	if len(d.Alerts) > 0 {
		v.line("")
	}
	for _, alert := range d.Alerts {
		v.folded("1;"+red, "! "+plain(alert.Text))
	}
	v.line("")
	v.groups(d)
	v.system(d)
	v.repos(d)
	v.hidden(d)
	if len(d.NotCompared) > 0 {
		v.line("")
		v.line(v.paint(bold, "not compared"))
		for _, text := range d.NotCompared {
			v.folded(dim, "  "+plain(text))
		}
	}
	v.files(d)
}

// diffSide names a state that was compared.
func diffSide(s vm.DiffSide, asked string) string {
	name := printable(or(s.VMName, string(s.VM)))
	at := ""
	if !s.At.IsZero() {
		at = " of " + s.At.Local().Format("2006-01-02 15:04:05")
	}
	switch {
	case s.Generation == "":
		return "image " + printable(string(s.Image))
	case s.Why == vm.WhyReview && (asked == "" || asked == "now" || strings.HasPrefix(asked, "vm:")):
		return name + " now" + at
	case s.Note != "":
		return name + " " + plain(s.Note) + " (" + string(s.Generation) + at + ")"
	}
	return name + " " + string(s.Generation) + " (" + string(s.Why) + at + ")"
}

// groups prints the counts.
func (v *diffView) groups(d *vm.Diff) {
	if d.Stat.Files() == 0 {
		v.line("no file differs")
		return
	}
	rows := [][]string{{"", "deleted", "modified", "renamed", "added", "lines", "bytes"}}
	for _, g := range d.Groups {
		rows = append(rows, statRow(printable(g.Group), g.Stat))
	}
	if len(d.Groups) > 1 {
		rows = append(rows, statRow("all", d.Stat))
	}
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, c := range r {
			widths[i] = max(widths[i], cellWidth(c))
		}
	}
	for n, r := range rows {
		var out strings.Builder
		for i, c := range r {
			pad := strings.Repeat(" ", widths[i]-cellWidth(c))
			if i == 0 {
				out.WriteString(c + pad)
			} else {
				out.WriteString("  " + pad + c)
			}
		}
		text := strings.TrimRight(out.String(), " ")
		if n == 0 {
			text = v.paint(dim, text)
		}
		v.line(text)
	}
}

func statRow(name string, s vm.DiffStat) []string {
	return []string{name, some(s.Deleted), some(s.Modified), some(s.Renamed), some(s.Added), signed(s.LinesAdded, s.LinesRemoved), signedBytes(s.BytesAdded, s.BytesRemoved)}
}

// some is a count, with nothing for none.
func some(n int) string {
	if n == 0 {
		return "-"
	}
	return itoa(n)
}

func signed(added, removed int) string {
	var parts []string
	if added > 0 {
		parts = append(parts, "+"+itoa(added))
	}
	if removed > 0 {
		parts = append(parts, "-"+itoa(removed))
	}
	return strings.Join(parts, " ")
}

func signedBytes(added, removed int64) string {
	var parts []string
	if added > 0 {
		parts = append(parts, "+"+human(added))
	}
	if removed > 0 {
		parts = append(parts, "-"+human(removed))
	}
	return strings.Join(parts, " ")
}

// verbSigns are the signs of what happened to a thing.
var verbSigns = map[vm.ChangeVerb]string{vm.FileAdded: "+", vm.FileModified: "~", vm.FileDeleted: "-", vm.FileRenamed: ">"}

// verbColours are those of the signs.
var verbColours = map[vm.ChangeVerb]string{vm.FileAdded: green, vm.FileModified: yellow, vm.FileDeleted: red, vm.FileRenamed: cyan}

// system prints packages, units, users, cron jobs, ports and processes.
func (v *diffView) system(d *vm.Diff) {
	const most = 15 // of one kind and verb, unless all are asked for
	if len(d.System) == 0 {
		return
	}
	v.line("")
	v.line(v.paint(bold, "system"))
	count, left := map[string]int{}, map[string]int{}
	for _, s := range d.System {
		key := s.Kind + " " + string(s.Verb)
		if count[key]++; count[key] > most && !v.o.req.All {
			left[key]++
			continue
		}
		text := "  " + verbSigns[s.Verb] + " " + plain(s.Kind+" "+s.Name)
		switch {
		case s.Was != "" && s.Now != "":
			text += ": " + plain(s.Was) + " → " + plain(s.Now)
		case s.Was+s.Now != "":
			text += ": " + plain(s.Was+s.Now)
		}
		if s.Guest {
			text += " (the guest says)"
		}
		v.folded(verbColours[s.Verb], text)
	}
	for _, key := range slices.Sorted(maps.Keys(left)) {
		v.line("    and " + itoa(left[key]) + " more: " + plain(key) + " (--all lists them)")
	}
}

// repos prints what became of nested repositories.
func (v *diffView) repos(d *vm.Diff) {
	const most = 10
	if len(d.Repos) == 0 {
		return
	}
	v.line("")
	v.line(v.paint(bold, "repositories"))
	for i, r := range d.Repos {
		if i == most && !v.o.req.All {
			v.line("  and " + itoa(len(d.Repos)-most) + " more (--all lists them)")
			return
		}
		text := "  " + printable(string(r.Path))
		switch {
		case r.HeadWas == r.HeadNow && r.HeadNow != "":
			text += ": " + plain(r.HeadNow)
		case r.HeadWas != "" && r.HeadNow != "":
			text += ": " + plain(r.HeadWas) + " → " + plain(r.HeadNow)
		case r.HeadWas+r.HeadNow != "":
			text += ": " + plain(r.HeadWas+r.HeadNow)
		}
		notes := slices.Clone(r.Notes)
		if r.Submodule {
			notes = append([]string{"submodule"}, notes...)
		}
		if r.Untracked > 0 {
			notes = append(notes, itoa(r.Untracked)+" untracked")
		}
		if r.Ignored > 0 {
			notes = append(notes, itoa(r.Ignored)+" ignored")
		}
		if len(notes) > 0 {
			text += "; " + plain(strings.Join(notes, ", "))
		}
		v.folded("", text)
	}
}

// hidden prints what is only counted.
func (v *diffView) hidden(d *vm.Diff) {
	if len(d.Hidden) == 0 {
		return
	}
	v.line("")
	v.line(v.paint(bold, "only counted; --all shows them"))
	for _, h := range d.Hidden {
		v.folded("", "  "+itoa(h.Stat.Files())+" in "+printable(string(h.Path))+": "+plain(h.Reason))
	}
}
