// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package diagnose finds out what is wrong with a VM, from facts that were
// collected in it. Its rules are pure functions of a report. Texts of a guest are
// cut here, and made safe where they are printed.
package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/warren-vm/warren/vm"
)

// Limits of a diagnosis: a guest can report any amount of trouble.
const (
	maxFindings = 100
	maxPerRule  = 12
	maxEvidence = 12
	maxText     = 300 // characters
)

// Report holds the facts for the rules.
type Report struct {
	VM            vm.VM
	Before, After vm.Evidence // two looks, some seconds apart
	// ClockOff is how far the guest's clock is ahead of the host's, with an error
	// of at most ClockSlack.
	ClockOff, ClockSlack time.Duration
	Units                []Unit // those that failed or restart repeatedly
	Commands             []Command
	Connections          []vm.Connection
	Now                  time.Time            // of the host
	Usage                map[string][]DiskUse // the largest directories, by the mount's path
	Screens              map[int]string       // the last line of a terminal, by the pid of its session
	Services             []vm.GuestService    // all
}

// Unit is a systemd unit in trouble.
type Unit struct {
	vm.GuestService
	Exec  string   // its command lines, as systemd shows them
	Lines []string // the last of its journal
}

// Command is a command of exec with the end of its log.
type Command struct {
	vm.Process
	Lines []string
}

// DiskUse is the space that a directory takes.
type DiskUse struct {
	Path  string
	Bytes int64
}

// Find applies every rule. The worst finding comes first.
func Find(r *Report) []vm.Finding {
	w := newFacts(r)
	out := []vm.Finding{}
	for _, rule := range []func(*facts) []vm.Finding{
		readOnlyRoot, fullDisks, fewFiles, deletedFiles, diskErrors, oomKills, lowMemory, clockOff,
		hungInstalls, takenPorts, failedUnits, stuckProcesses, stoppedProcesses, deadBrowsers, watchLimits, blindWatchers, remoteWatchers,
		waitingForLocks, silentPorts, refusedConnections, crashes, waitingTerminals, zombies, busyCPUs,
	} {
		found := rule(w)
		if len(found) > maxPerRule {
			more := len(found) - maxPerRule
			found = found[:maxPerRule]
			last := &found[maxPerRule-1]
			last.Evidence = append(last.Evidence, fmt.Sprintf("and %d more of this kind", more))
		}
		out = append(out, found...)
	}
	for i := range out {
		tidy(&out[i])
	}
	slices.SortStableFunc(out, func(a, b vm.Finding) int {
		return slices.Index(vm.Severities, a.Severity) - slices.Index(vm.Severities, b.Severity)
	})
	return out[:min(len(out), maxFindings)]
}

// tidy bounds the texts of a finding.
func tidy(f *vm.Finding) {
	f.Subject, f.Says, f.Do = Clip(f.Subject), Clip(f.Says), Clip(f.Do)
	if len(f.Evidence) > maxEvidence {
		f.Evidence = append(f.Evidence[:maxEvidence-1:maxEvidence-1], f.Evidence[len(f.Evidence)-1])
	}
	for i, e := range f.Evidence {
		f.Evidence[i] = Clip(e)
	}
	if f.Evidence == nil {
		f.Evidence = []string{}
	}
}

// Clip cuts a text of a guest.
func Clip(s string) string {
	if len(s) <= maxText {
		return strings.ToValidUTF8(s, "�")
	}
	s = strings.ToValidUTF8(s[:min(len(s), 4*maxText)], "�")
	if utf8.RuneCountInString(s) > maxText {
		s = string([]rune(s)[:maxText-1]) + "…"
	}
	return s
}

// facts is a report with values that several rules need.
type facts struct {
	*Report
	name     string  // of the VM in commands
	seconds  float64 // between the two looks
	byPID    map[int]*vm.GuestProcess
	children map[int][]int
	before   map[int]vm.GuestProcess
	moved    map[int]int64 // bytes by process, between the two looks
	told     map[int]bool  // processes that already have a finding
}

func newFacts(r *Report) *facts {
	w := &facts{
		Report: r, name: string(r.VM.ID), seconds: r.After.State.UptimeSeconds - r.Before.State.UptimeSeconds,
		byPID: make(map[int]*vm.GuestProcess), children: make(map[int][]int), before: make(map[int]vm.GuestProcess),
		moved: make(map[int]int64), told: make(map[int]bool),
	}
	if r.VM.Name != "" {
		w.name = r.VM.Name
	}
	for i := range r.After.State.Processes {
		p := &r.After.State.Processes[i]
		w.byPID[p.PID] = p
		w.children[p.PPID] = append(w.children[p.PPID], p.PID)
	}
	for _, p := range r.Before.State.Processes {
		w.before[p.PID] = p
	}
	was := make(map[int]int64)
	for _, c := range r.Before.Counters {
		was[c.PID] = c.IO
	}
	for _, c := range r.After.Counters {
		w.moved[c.PID] = c.IO - was[c.PID]
	}
	return w
}

// spent is the CPU time of a process between the looks. A process that was not
// there at the first look counts with all its time.
func (w *facts) spent(p *vm.GuestProcess) float64 {
	if b, ok := w.same(p); ok {
		return p.CPUSeconds - b.CPUSeconds
	}
	return p.CPUSeconds
}

// same returns a process as it was at the first look.
func (w *facts) same(p *vm.GuestProcess) (vm.GuestProcess, bool) {
	b, ok := w.before[p.PID]
	return b, ok && b.StartedAt.Sub(p.StartedAt).Abs() < time.Second
}

// tree is a process with all below it, by pid.
func (w *facts) tree(pid int) []*vm.GuestProcess {
	var out []*vm.GuestProcess
	seen := map[int]bool{}
	for next := []int{pid}; len(next) > 0; next = next[1:] {
		if p := w.byPID[next[0]]; p != nil && !seen[p.PID] {
			seen[p.PID] = true
			out = append(out, p)
			next = append(next, w.children[p.PID]...)
		}
	}
	return out
}

// label names a process: "61 (apt-get install x)".
func (w *facts) label(pid int) string {
	p := w.byPID[pid]
	if p == nil {
		return fmt.Sprintf("process %d", pid)
	}
	return fmt.Sprintf("process %d (%s)", pid, short(p.Command))
}

// about describes a process further: where it belongs and since when it runs.
func (w *facts) about(p *vm.GuestProcess) string {
	s := w.label(p.PID) + " of user " + p.User
	if p.Unit != "" {
		s += ", unit " + p.Unit
	}
	if p.Exec != "" {
		s += ", command " + p.Exec
	}
	return s + ", for " + span(w.After.State.Time.Sub(p.StartedAt)) + ", " + p.Waits
}

// short cuts a command line for use in a sentence.
func short(s string) string {
	if utf8.RuneCountInString(s) > 80 {
		return string([]rune(s)[:79]) + "…"
	}
	return s
}

func span(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", max(int(d.Seconds()), 0))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	}
	return fmt.Sprintf("%d h", int(d.Hours()))
}

func bytes(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 10<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}

func percent(part, of int64) int64 { return part * 100 / max(of, 1) }

func finding(code string, s vm.Severity, subject, says, do string, evidence ...string) vm.Finding {
	return vm.Finding{Code: code, Severity: s, Subject: subject, Says: says, Evidence: evidence, Do: do}
}
