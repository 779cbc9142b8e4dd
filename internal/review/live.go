// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// AddLive adds to a diff what differs between two captures in the ports and processes that
// the guest reported, which parts of the machine the newer disk does not hold, and alerts
// about mounts that cover the working directory. A state is nil if none was recorded.
func AddLive(d *vm.Diff, was, now *vm.GuestState) {
	if now != nil {
		mounts(d, now)
	}
	switch {
	case was == nil && now == nil:
		d.NotCompared = append(d.NotCompared, "ports and processes: neither state was recorded while the machine ran")
		return
	case was == nil:
		d.NotCompared = append(d.NotCompared, "ports and processes: the older state was recorded without them")
		return
	case now == nil:
		d.NotCompared = append(d.NotCompared, "ports and processes: the newer state was recorded without them")
		return
	}
	guestDiffer(d, "port", portsOf(was), portsOf(now))
	guestDiffer(d, "process", processesOf(was), processesOf(now))
	for _, p := range now.Problems {
		d.NotCompared = append(d.NotCompared, "what the guest reported is incomplete: "+words(p))
	}
}

// guestDiffer lists what two maps have differently, as the guest's word.
func guestDiffer(d *vm.Diff, kind string, was, now map[string]string) {
	r := report{out: d}
	before := len(d.System)
	r.differ(kind, was, now)
	for i := range d.System[before:] {
		d.System[before+i].Guest = true
	}
}

// portsOf are the listening ports with their programs.
func portsOf(s *vm.GuestState) map[string]string {
	out := map[string]string{}
	for _, p := range s.Ports {
		if len(out) < maxSystem {
			out[words(fmt.Sprintf("%s %s port %d", p.Proto, p.Address, p.Port))] = words(mask1(p.Command))
		}
	}
	return out
}

// processesOf counts the programs that are not the system's, by user and command: a
// program that was restarted is the same.
func processesOf(s *vm.GuestState) map[string]string {
	count := map[string]int{}
	for _, p := range s.Processes {
		if !p.System && len(count) < maxSystem {
			count[words(mask1(p.Command))+" ("+words(p.User)+")"]++
		}
	}
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(count)) {
		out[name] = "1 process"
		if n := count[name]; n > 1 {
			out[name] = fmt.Sprintf("%d processes", n)
		}
	}
	return out
}

// mounts names what the guest keeps outside of the compared disk.
func mounts(d *vm.Diff, s *vm.GuestState) {
	for _, m := range s.Mounts {
		if m.Path == "/" || below(m.Path, "/proc", "/sys") {
			continue
		}
		what := "another file system"
		if m.Type == "tmpfs" || m.Type == "ramfs" {
			what = "memory"
		}
		used := ""
		if m.Total > 0 && m.Total >= m.Free {
			used = fmt.Sprintf(", %s used", size(m.Total-m.Free))
		}
		if what == "memory" && (below(m.Path, "/run", "/dev") || m.Path == "/tmp") && m.Total-m.Free < 64<<10 {
			continue // nobody put anything there
		}
		d.NotCompared = append(d.NotCompared, fmt.Sprintf("files below %s: they are in %s (%s%s), not on the machine's disk", words(m.Path), what, words(m.Type), used))
		if over := d.Workdir; over != "" && (m.Path == over || strings.HasPrefix(m.Path, over+"/")) {
			d.Alerts = append(d.Alerts, vm.Alert{Kind: "hidden-by-mount", Text: fmt.Sprintf("%s is covered by a mount (%s): programs in the guest see other files there than this diff", words(m.Path), words(m.Type)), Paths: []vm.GuestPath{vm.GuestPath(m.Path)}})
		}
	}
}

// size is a number of bytes for people.
func size(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case n >= 10<<10:
		return fmt.Sprintf("%d KiB", n>>10)
	}
	return fmt.Sprintf("%d B", n)
}
