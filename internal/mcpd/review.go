// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package mcpd

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

type diffIn struct {
	Machine string   `json:"machine" jsonschema:"name or id of the machine"`
	From    string   `json:"from,omitempty" jsonschema:"the older state: a turn's number, a snapshot, 'image' (as it was made), 'parent' (as it was copied), or vm:NAME for another machine; default the last turn, else as it was made"`
	To      string   `json:"to,omitempty" jsonschema:"the newer state, in the same forms; default now"`
	Paths   []string `json:"paths,omitempty" jsonschema:"only these absolute paths and what is below them"`
	Lines   bool     `json:"lines,omitempty" jsonschema:"with the changed lines"`
	Caches  bool     `json:"caches,omitempty" jsonschema:"also files in caches and logs, which are else only counted"`
}

type changeInfo struct {
	Verb    string `json:"verb" jsonschema:"added, modified, deleted or renamed"`
	Path    string `json:"path"`
	From    string `json:"from,omitempty" jsonschema:"the path before a rename"`
	Type    string `json:"type"`
	Added   int    `json:"lines_added,omitempty"`
	Removed int    `json:"lines_removed,omitempty"`
	Lines   string `json:"lines,omitempty" jsonschema:"changed lines in unified form"`
	Cut     string `json:"cut,omitempty" jsonschema:"why lines are missing"`
}

type diffOut struct {
	Changes []changeInfo `json:"changes"`
	More    int          `json:"more,omitempty" jsonschema:"how many changes are left out: ask with paths"`
	Stat    stat         `json:"stat" jsonschema:"of all changes"`
	System  []string     `json:"system,omitempty" jsonschema:"what it means for the machine: packages, services, users"`
	Alerts  []string     `json:"alerts,omitempty" jsonschema:"what a reviewer should see first"`
	Hidden  []string     `json:"hidden,omitempty" jsonschema:"directories whose changes are only counted"`
}

type turnIn struct {
	Machine string `json:"machine" jsonschema:"name or id of the machine"`
	Note    string `json:"note,omitempty" jsonschema:"what is tried next"`
	List    bool   `json:"list,omitempty" jsonschema:"mark nothing, and only list the turns"`
}

type turnInfo struct {
	Number int    `json:"number"`
	Note   string `json:"note,omitempty"`
	At     string `json:"at"`
	Memory bool   `json:"memory" jsonschema:"undo brings processes back, too"`
}

type turnOut struct {
	Turns []turnInfo `json:"turns" jsonschema:"the marked one, or all"`
}

type undoIn struct {
	Machine string `json:"machine" jsonschema:"name or id of the machine"`
	Turn    string `json:"turn,omitempty" jsonschema:"number of the turn; default the newest"`
	Path    string `json:"path,omitempty" jsonschema:"bring back only this absolute path, and leave the rest of the machine as it is"`
}

type undoOut struct {
	Turn      int      `json:"turn,omitempty" jsonschema:"the machine is as it was at this turn"`
	Before    string   `json:"before,omitempty" jsonschema:"undo with this as turn undoes the undo"`
	NotUndone []string `json:"not_undone,omitempty" jsonschema:"what happened outside the machine since then"`
	Restored  string   `json:"restored,omitempty" jsonschema:"the path that was brought back"`
}

// Limits of a diff.
const (
	changesMost = 200
	linesMost   = 96 << 10 // bytes of changed lines in one answer
)

func (s *Server) addReview() {
	add(s, &mcp.Tool{
		Name: "diff", Annotations: reads("Show what changed"),
		Description: "Show what differs between two states of a machine, read from its disk: files, packages, services, and what a reviewer should see first.",
	}, diff)
	add(s, &mcp.Tool{
		Name: "mark_turn", Annotations: adds("Mark a state"),
		Description: "Mark the present state of a machine, with its processes, before something is tried. undo returns to it.",
	}, markTurn)
	add(s, &mcp.Tool{
		Name: "undo", Annotations: loses("Go back to a turn"),
		Description: "Put a machine, its files and its processes, back to a turn; or with path only one file or directory. The state before is kept and can be returned to.",
	}, undo)
}

func diff(ctx context.Context, k *call, in diffIn) (out diffOut, err error) {
	r := vm.DiffRequest{From: in.From, To: in.To, Hunks: in.Lines, All: in.Caches}
	for _, p := range in.Paths {
		r.Paths = append(r.Paths, vm.GuestPath(p))
	}
	defer k.doing(ctx, "comparing two states of "+in.Machine)()
	d, err := k.c.Diff(ctx, in.Machine, r)
	if err != nil {
		return out, err
	}
	out.Changes, out.Stat, out.Alerts = []changeInfo{}, statOf(d.Stat), alertsOf(d.Alerts)
	out.More = max(0, len(d.Changes)-changesMost)
	left := linesMost
	for _, c := range d.Changes[:len(d.Changes)-out.More] {
		i := changeInfo{Verb: string(c.Verb), Path: c.Path.String(), Type: c.Type, Added: c.LinesAdded, Removed: c.LinesRemoved, Lines: c.Hunks, Cut: c.Cut}
		if c.From != "" {
			i.From = c.From.String()
		}
		if len(i.Lines) > left {
			i.Lines, i.Cut = "", "the answer is full: ask with its path"
		}
		left -= len(i.Lines)
		out.Changes = append(out.Changes, i)
	}
	for _, c := range d.System[:min(len(d.System), changesMost)] {
		out.System = append(out.System, string(c.Verb)+" "+c.Kind+" "+c.Name)
	}
	for _, h := range d.Hidden[:min(len(d.Hidden), changesMost)] {
		out.Hidden = append(out.Hidden, h.Path.String()+": "+h.Reason)
	}
	return out, nil
}

func markTurn(ctx context.Context, k *call, in turnIn) (out turnOut, err error) {
	var turns []vm.Turn
	if in.List {
		turns, err = k.c.Turns(ctx, in.Machine, false)
	} else {
		defer k.doing(ctx, "marking a turn of "+in.Machine)()
		t, e := k.c.Turn(ctx, in.Machine, api.MarkTurn{Note: in.Note})
		turns, err = []vm.Turn{t}, e
	}
	out.Turns = []turnInfo{}
	for _, t := range turns {
		out.Turns = append(out.Turns, turnInfo{Number: t.Number, Note: t.Note, At: t.At.Format(time.RFC3339), Memory: t.Memory})
	}
	return out, err
}

func undo(ctx context.Context, k *call, in undoIn) (undoOut, error) {
	defer k.doing(ctx, "putting "+in.Machine+" back")()
	if in.Path != "" {
		_, err := k.c.Restore(ctx, in.Machine, vm.RestoreRequest{Path: vm.GuestPath(in.Path), From: in.Turn})
		return undoOut{Restored: in.Path}, err
	}
	r, err := k.c.Undo(ctx, in.Machine, api.UndoVM{Turn: in.Turn})
	return undoOut{Turn: r.Turn.Number, Before: string(r.Before), NotUndone: r.NotUndone}, err
}
