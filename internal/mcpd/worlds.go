// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package mcpd

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

type forkIn struct {
	Machine string            `json:"machine" jsonschema:"name or id of the machine, which keeps running"`
	Count   int               `json:"count,omitempty" jsonschema:"how many copies; default 1, at most 64"`
	Name    string            `json:"name,omitempty" jsonschema:"the copies are called NAME-1, NAME-2, ...; default: after the machine"`
	Network string            `json:"network,omitempty" jsonschema:"what the copies may reach, not more than the machine; default the same"`
	TTL     int               `json:"ttl_seconds,omitempty" jsonschema:"delete the copies after this time; default never"`
	Labels  map[string]string `json:"labels,omitempty"`
}

type copyInfo struct {
	Name string `json:"name,omitempty"`
	ID   string `json:"id"`
}

type forkOut struct {
	Copies  []copyInfo `json:"copies"`
	PauseMs float64    `json:"pause_ms" jsonschema:"how long the machine was paused"`
	Caveats []string   `json:"caveats,omitempty" jsonschema:"what the copies share although they should not"`
}

type compareIn struct {
	Machines []string `json:"machines" jsonschema:"names or ids, usually the copies of one fork"`
	Run      string   `json:"run,omitempty" jsonschema:"a command that is run in each, all at once, such as 'make test'"`
	User     string   `json:"user,omitempty" jsonschema:"Linux user of the command; default root"`
	Cwd      string   `json:"cwd,omitempty" jsonschema:"its directory; default each machine's own"`
	Timeout  int      `json:"timeout_seconds,omitempty" jsonschema:"of the command; default 600"`
}

// stat counts changes.
type stat struct {
	Added        int   `json:"added"`
	Modified     int   `json:"modified"`
	Deleted      int   `json:"deleted"`
	Renamed      int   `json:"renamed"`
	LinesAdded   int   `json:"lines_added"`
	LinesRemoved int   `json:"lines_removed"`
	BytesAdded   int64 `json:"bytes_added"`
	BytesRemoved int64 `json:"bytes_removed"`
}

func statOf(s vm.DiffStat) stat {
	return stat{s.Added, s.Modified, s.Deleted, s.Renamed, s.LinesAdded, s.LinesRemoved, s.BytesAdded, s.BytesRemoved}
}

type candidateRun struct {
	ExitCode int     `json:"exit_code"`
	TimedOut bool    `json:"timed_out,omitempty"`
	Seconds  float64 `json:"seconds"`
	Tail     string  `json:"tail" jsonschema:"the last lines of its output"`
	Error    string  `json:"error,omitempty" jsonschema:"why there is no exit code"`
}

type candidate struct {
	Name    string        `json:"name,omitempty"`
	ID      string        `json:"id"`
	Changes stat          `json:"changes" jsonschema:"files since the fork"`
	Outside []string      `json:"outside,omitempty" jsonschema:"changed paths outside the working directory, the first ones"`
	Alerts  []string      `json:"alerts,omitempty" jsonschema:"what a reviewer should see first"`
	Run     *candidateRun `json:"run,omitempty"`
	Error   string        `json:"error,omitempty" jsonschema:"why it could not be compared"`
}

type compareOut struct {
	SameFork   bool        `json:"same_fork" jsonschema:"all were copied from one state; false = each is compared with its own"`
	Candidates []candidate `json:"candidates"`
}

type keepIn struct {
	Machine       string `json:"machine" jsonschema:"the copy to keep"`
	Over          string `json:"over" jsonschema:"the machine whose name it takes"`
	DeleteReplace bool   `json:"delete_replaced,omitempty" jsonschema:"delete that machine; default: it keeps running under another name"`
	DeleteOthers  bool   `json:"delete_others,omitempty" jsonschema:"delete the other copies of the same fork"`
}

type keepOut struct {
	Machine  machine  `json:"machine"`
	Replaced string   `json:"replaced,omitempty" jsonschema:"what the replaced machine is called now; absent if it is deleted"`
	Deleted  []string `json:"deleted,omitempty" jsonschema:"ids of the other copies"`
}

func (s *Server) addWorlds() {
	add(s, &mcp.Tool{
		Name: "fork", Annotations: adds("Copy a running machine"),
		Description: "Make running copies of a machine, with its files and its running programs. Use it to try several ways, or one risky way, without losing the present state.",
	}, fork)
	add(s, &mcp.Tool{
		Name: "compare", Annotations: runs("Compare copies"),
		Description: "Show beside each other what machines changed since they were copied, and, with run, how a command ends in each.",
	}, compare)
	add(s, &mcp.Tool{
		Name: "keep", Annotations: loses("Keep the best copy"),
		Description: "Put a copy in the place of the machine that it was copied from: it takes its name.",
	}, keep)
}

func fork(ctx context.Context, k *call, in forkIn) (out forkOut, err error) {
	if in.Count == 0 {
		in.Count = 1
	}
	r := api.ForkVM{Count: &in.Count, Name: in.Name, Network: vm.NetworkSpec(in.Network), Labels: in.Labels}
	if in.TTL > 0 {
		r.TTL = vm.Some(secondsOf(in.TTL))
	}
	defer k.doing(ctx, fmt.Sprintf("making %d copies of %s", in.Count, in.Machine))()
	f, err := k.c.Fork(ctx, in.Machine, r)
	out.PauseMs, out.Caveats, out.Copies = f.PauseMs, f.Caveats, []copyInfo{}
	for _, c := range f.Forks {
		out.Copies = append(out.Copies, copyInfo{Name: c.Name, ID: string(c.ID)})
	}
	return out, err
}

func compare(ctx context.Context, k *call, in compareIn) (out compareOut, err error) {
	defer k.doing(ctx, fmt.Sprintf("comparing %d machines", len(in.Machines)))()
	r, err := k.c.Compare(ctx, vm.CompareRequest{VMs: in.Machines, Run: in.Run, User: in.User, Cwd: in.Cwd, Timeout: vm.Millis(secondsOf(in.Timeout))})
	out.SameFork, out.Candidates = r.Common != "", []candidate{}
	for _, c := range r.Candidates {
		a := candidate{Name: c.Name, ID: string(c.VM), Changes: statOf(c.Stat), Outside: shownPaths(c.OutsidePaths), Alerts: alertsOf(c.Alerts), Error: c.Error}
		if c.Run != nil {
			a.Run = &candidateRun{ExitCode: c.Run.ExitCode, TimedOut: c.Run.TimedOut, Seconds: c.Run.Seconds, Tail: c.Run.Tail, Error: c.Run.Error}
		}
		out.Candidates = append(out.Candidates, a)
	}
	return out, err
}

func keep(ctx context.Context, k *call, in keepIn) (out keepOut, err error) {
	defer k.doing(ctx, fmt.Sprintf("putting %s in the place of %s", in.Machine, in.Over))()
	r, err := k.c.Keep(ctx, in.Machine, api.KeepVM{Over: in.Over, Remove: in.DeleteReplace, RemoveOthers: in.DeleteOthers})
	out.Machine = machineOf(r.VM)
	if !in.DeleteReplace {
		out.Replaced = r.Over.Name
	}
	for _, id := range r.Removed {
		out.Deleted = append(out.Deleted, string(id))
	}
	return out, err
}

// shownPaths are paths of a guest as they may be shown.
func shownPaths(list []vm.GuestPath) (out []string) {
	for _, p := range list {
		out = append(out, p.String())
	}
	return out
}

func alertsOf(list []vm.Alert) (out []string) {
	for _, a := range list {
		out = append(out, a.Text)
	}
	return out
}
