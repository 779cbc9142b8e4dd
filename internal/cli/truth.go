// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/vm"
)

type truthOptions struct {
	name string
	json bool
}

func newTruth(a *app) *cobra.Command {
	o := &truthOptions{}
	cmd := &cobra.Command{
		Use:   "truth NAME",
		Short: "Show where the authoritative copy of a VM's data is",
		Long: `Show for each tree of a VM (its working directory, git repositories, home, memory, volumes, directories of the
host, previews) which copy counts: the machine at a generation, a repository at a commit, a volume. Then come what
differs between the copies, and what exists only in this VM and is lost when it is removed.

Warren reads the VM's disk on the host: a running VM is paused for a moment, another is not started, and no
program of the VM runs. A file is safe elsewhere if a commit of one of this server's repositories has its content,
or if a snapshot or a fork has it. Nobody asks remotes that a clone names.`,
		Example: "  warren truth app\n  warren truth app --json",
		Args:    args(1, 1, "which VM? warren truth NAME"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			return a.truth(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVM,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) truth(ctx context.Context, o *truthOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	p := a.io.doing("reading %s", o.name)
	t, err := c.Truth(ctx, o.name)
	p.done()
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(t)
	}
	var text bytes.Buffer
	v := truthView{diffView{w: &text, colour: a.io.colour, width: a.io.width}}
	v.truth(&t)
	_, err = a.io.out.Write(text.Bytes())
	return err
}

// truthView prints a truth for people. Everything that a guest chose is escaped.
type truthView struct{ diffView }

// treeNames are the kinds of trees for people.
var treeNames = map[string]string{
	vm.TreeWorkdir: "working directory", vm.TreeRepository: "git repository", vm.TreeMemory: "memory of the agent", vm.TreeHome: "home", vm.TreeSystem: "the system",
	vm.TreeVolume: "volume", vm.TreeFolder: "directory of the host", vm.TreeObjects: "objects, mounted as files", vm.TreePreview: "preview",
}

// row prints a line with a label, folded below its text.
func (v *truthView) row(code, label, text string) {
	const indent = 14
	width := v.width
	if width == 0 {
		width = 80
	}
	folded := fold(plain(text), width-indent)
	for i, line := range strings.Split(folded, "\n") {
		if i > 0 {
			label = ""
			line = strings.TrimPrefix(line, "  ")
		}
		v.line(v.paint(code, "  "+label+strings.Repeat(" ", indent-2-len(label))+line))
	}
}

func (v *truthView) truth(t *vm.Truth) {
	name := printable(or(t.VMName, string(t.VM)))
	v.folded(bold, name+" ("+string(t.State)+") as of "+t.At.Local().Format("2006-01-02 15:04:05")+", generation "+printable(string(t.Generation)))
	for i := range t.Trees {
		v.tree(&t.Trees[i])
	}
	v.line("")
	if only := onlyText(t.Only, false); only != "" {
		v.folded("1;"+red, "! only here, and lost when "+name+" is removed: "+only)
	} else {
		v.folded(green, "nothing was found that exists only in "+name)
	}
	for _, k := range t.Kept {
		v.folded("", "  stays: "+plain(keptText(k)))
	}
	if len(t.NotChecked) > 0 {
		v.line(v.paint(bold, "not checked"))
		for _, text := range t.NotChecked {
			v.folded(dim, "  "+plain(text))
		}
	}
}

func (v *truthView) tree(t *vm.TruthTree) {
	v.line("")
	head := printable(string(t.Path)) + "  " + or(treeNames[t.Kind], printable(t.Kind))
	if c := t.Clone; c != nil {
		if t.Kind != vm.TreeRepository {
			head += ", git repository"
		}
		if c.Branch != "" {
			head += ", branch " + printable(c.Branch)
		}
	}
	v.folded(bold, head)
	v.row("", "authority", t.Authority.String())
	for _, c := range t.Copies {
		v.row("", "also", c.String())
	}
	if n := t.Differs.Files(); n > 0 {
		v.row(yellow, "differs", counted(n, "file")+": "+differText(t.Differs))
	}
	if only := onlyText(t.Only, true); only != "" {
		v.row(red, "only here", only)
	}
	if t.Only.Claimed > 0 {
		v.row(yellow, "claimed", counted(t.Only.Claimed, "file")+" ("+human(t.Only.ClaimedBytes)+") of a commit that only a remote is said to have")
	}
	if t.Only.Ignored > 0 {
		what := "ignored by git, or caches"
		if t.Clone == nil {
			what = "caches, logs, files of packages"
		}
		v.row(dim, "not counted", counted(t.Only.Ignored, "file")+" ("+human(t.Only.IgnoredBytes)+"): "+what)
	}
	for _, note := range t.Notes {
		v.row(dim, "note", note)
	}
}

// keptText names a state of a machine that stays.
func keptText(k vm.DataCopy) string {
	if k.Snapshot == "" && (k.VMName != "" || k.VM != "") {
		return "generation " + string(k.Generation) + ", from which " + or(k.VMName, string(k.VM)) + " was made"
	}
	return "generation " + string(k.Generation) + ": " + k.Note
}

// differText says how files of a machine differ from a commit.
func differText(s vm.DiffStat) string {
	var parts []string
	for _, x := range []struct {
		n    int
		what string
	}{{s.Modified, "other content"}, {s.Added, "not in the commit"}, {s.Deleted, "only in the commit"}} {
		if x.n > 0 {
			parts = append(parts, itoa(x.n)+" "+x.what)
		}
	}
	return strings.Join(parts, ", ")
}

// onlyText says what exists nowhere else; "" = nothing.
func onlyText(o vm.OnlyHere, examples bool) string {
	var parts []string
	if o.Files > 0 {
		text := counted(o.Files, "file") + " (" + human(o.Bytes) + ")"
		if examples {
			var names []string
			for _, p := range o.Examples[:min(3, len(o.Examples))] {
				names = append(names, p.String())
			}
			if more := o.Files - len(names); more > 0 && len(names) > 0 {
				names = append(names, "...")
			}
			text += ": " + strings.Join(names, ", ")
		}
		parts = append(parts, text)
	}
	if o.Commits > 0 {
		text := counted(o.Commits, "commit")
		if o.MoreCommits {
			text = "at least " + text
		}
		if o.Newest != nil {
			text += ", the newest " + plain(o.Newest.String()) + " of " + o.Newest.Time.Local().Format("2006-01-02 15:04")
		}
		parts = append(parts, text)
	} else if o.MoreCommits {
		parts = append(parts, "commits that could not be counted")
	}
	return strings.Join(parts, "; ")
}
