// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

// lately is how old a line of the kernel's log may be for a finding.
const lately = time.Hour

func readOnlyRoot(w *facts) []vm.Finding {
	for _, m := range w.After.State.Mounts {
		if m.Path == "/" && m.ReadOnly {
			return []vm.Finding{finding("root-read-only", vm.SeverityError, "/", "the root file system can only be read",
				fmt.Sprintf("`warren exec %s -- mount -o remount,rw /` if it was meant to be; after errors of the disk go back: `warren rollback %s`", w.name, w.name),
				fmt.Sprintf("%s is mounted read-only at / (%s)", m.Source, m.Type))}
		}
	}
	return nil
}

// Full reports whether a file system has no room left, or nearly none.
func Full(m vm.GuestMount) bool {
	return m.Total > 0 && !m.ReadOnly && m.Type != "squashfs" && m.Type != "iso9660" && (m.Free < 16<<20 && m.Total > 64<<20 || percent(m.Free, m.Total) < 2)
}

// low reports whether it is almost full.
func low(m vm.GuestMount) bool {
	return m.Total > 0 && !m.ReadOnly && m.Type != "squashfs" && m.Type != "iso9660" && percent(m.Free, m.Total) < 10 && m.Free < 1<<30
}

// disks lists each file system once, whatever its number of mounts.
func (w *facts) disks(f func(vm.GuestMount)) {
	type id struct {
		source      string
		total, free int64
	}
	seen := map[id]bool{}
	for _, m := range w.After.State.Mounts {
		if k := (id{m.Source, m.Total, m.Free}); !seen[k] {
			seen[k] = true
			f(m)
		}
	}
}

func fullDisks(w *facts) (out []vm.Finding) {
	w.disks(func(m vm.GuestMount) {
		code, severity, says := "disk-full", vm.SeverityError, "has no room left"
		switch {
		case Full(m):
		case low(m):
			code, severity, says = "disk-low", vm.SeverityWarning, "is almost full"
		default:
			return
		}
		e := []string{fmt.Sprintf("%s of %s free (%s)", bytes(m.Free), bytes(m.Total), m.Source)}
		for _, u := range w.Usage[m.Path] {
			e = append(e, fmt.Sprintf("%s in %s", bytes(u.Bytes), u.Path))
		}
		do := "delete what is not needed"
		if m.Path == "/" {
			do += fmt.Sprintf(", or make the disk larger: `warren resize %s --disk SIZE`", w.name)
		}
		out = append(out, finding(code, severity, m.Path, "the file system at "+m.Path+" "+says, do, e...))
	})
	return out
}

func fewFiles(w *facts) (out []vm.Finding) {
	w.disks(func(m vm.GuestMount) {
		if m.Files > 0 && !m.ReadOnly && percent(m.FilesLeft, m.Files) < 1 {
			out = append(out, finding("no-inodes", vm.SeverityError, m.Path, "the file system at "+m.Path+" can hold no more files, though it may have room",
				"delete many small files (caches, sessions, node_modules)", fmt.Sprintf("%d of %d inodes free", m.FilesLeft, m.Files)))
		}
	})
	return out
}

// deletedFiles finds deleted files that still take space on a full disk.
func deletedFiles(w *facts) (out []vm.Finding) {
	full := slices.ContainsFunc(w.After.State.Mounts, func(m vm.GuestMount) bool { return Full(m) || low(m) })
	for _, d := range w.After.Deleted {
		if full {
			out = append(out, finding("deleted-file-open", vm.SeverityWarning, fmt.Sprintf("process %d", d.PID),
				fmt.Sprintf("%s was deleted and still takes %s, because a process has it open", d.Path, bytes(d.Bytes)),
				fmt.Sprintf("restart that process, or end it: `warren exec %s -- kill %d`", w.name, d.PID), w.label(d.PID)))
		}
	}
	return out
}

func (w *facts) kernel(word string) (out []vm.KernelLine) {
	for _, l := range w.After.Kernel {
		if strings.Contains(l.Text, word) {
			out = append(out, l)
		}
	}
	return out
}

func diskErrors(w *facts) []vm.Finding {
	var e []string
	for _, word := range []string{"EXT4-fs error", "EXT4-fs warning", "I/O error", "Remounting filesystem read-only"} {
		for _, l := range w.kernel(word) {
			e = append(e, stamp(l))
		}
	}
	if len(e) == 0 {
		return nil
	}
	return []vm.Finding{finding("disk-errors", vm.SeverityError, "disk", "the kernel reports errors of a disk or file system",
		fmt.Sprintf("look whether the host's disk is full (`warren doctor`), then go back to before: `warren rollback %s`", w.name), e...)}
}

func stamp(l vm.KernelLine) string { return l.Time.UTC().Format("2006-01-02 15:04:05Z ") + l.Text }

var killed = regexp.MustCompile(`Killed process (\d+) \(([^)]*)\)(?:.*anon-rss:(\d+)kB)?`)

// oomKills finds processes that the kernel killed for lack of memory.
func oomKills(w *facts) (out []vm.Finding) {
	type victim struct {
		last  vm.KernelLine
		lines []string
	}
	victims := map[string]*victim{}
	var order []string
	for _, l := range w.kernel("Killed process") {
		m := killed.FindStringSubmatch(l.Text)
		if m == nil {
			continue
		}
		v := victims[m[2]]
		if v == nil {
			v = &victim{}
			victims[m[2]] = v
			order = append(order, m[2])
		}
		v.last, v.lines = l, append(v.lines, stamp(l))
	}
	for _, name := range order {
		v := victims[name]
		severity := vm.SeverityError
		ago := w.After.State.Time.Sub(v.last.Time)
		if ago > lately {
			severity = vm.SeverityWarning
		}
		says := fmt.Sprintf("the kernel killed %s for lack of memory, %s ago", name, span(ago))
		if len(v.lines) > 1 {
			says += fmt.Sprintf(" (%d times)", len(v.lines))
		}
		e := append(v.lines[max(len(v.lines)-4, 0):], fmt.Sprintf("memory now: %s of %s available", bytes(w.After.MemAvailable), bytes(w.After.MemTotal)))
		out = append(out, finding("oom-kill", severity, name, says,
			fmt.Sprintf("give it more memory (`warren resize %s --mem SIZE`) or let the program use less", w.name), e...))
	}
	return out
}

func lowMemory(w *facts) []vm.Finding {
	if w.After.MemTotal == 0 || percent(w.After.MemAvailable, w.After.MemTotal) >= 6 {
		return nil
	}
	e := []string{fmt.Sprintf("%s of %s available", bytes(w.After.MemAvailable), bytes(w.After.MemTotal))}
	for _, p := range w.most(func(p *vm.GuestProcess) float64 { return float64(p.RSS) }) {
		e = append(e, fmt.Sprintf("%s in %s", bytes(p.RSS), w.label(p.PID)))
	}
	return []vm.Finding{finding("memory-low", vm.SeverityWarning, "memory", "memory is almost used up; programs that need more get slow or are killed",
		fmt.Sprintf("`warren resize %s --mem SIZE`, or end a program", w.name), e...)}
}

// most returns the three processes with the greatest value.
func (w *facts) most(of func(*vm.GuestProcess) float64) []*vm.GuestProcess {
	var all []*vm.GuestProcess
	for _, p := range w.byPID {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *vm.GuestProcess) int { return cmp.Or(cmp.Compare(of(b), of(a)), a.PID-b.PID) })
	return all[:min(len(all), 3)]
}

func busyCPUs(w *facts) []vm.Finding {
	if w.seconds <= 0 || w.After.VCPU == 0 {
		return nil
	}
	used := (w.After.CPUSeconds - w.Before.CPUSeconds) / w.seconds / float64(w.After.VCPU)
	if used < 0.9 || w.After.Load1 < float64(w.After.VCPU) {
		return nil
	}
	e := []string{fmt.Sprintf("%.0f %% of %d CPUs in %.1f s, load %.1f", 100*used, w.After.VCPU, w.seconds, w.After.Load1)}
	for _, p := range w.most(w.spent) {
		e = append(e, fmt.Sprintf("%.0f %% of a CPU: %s", 100*w.spent(p)/w.seconds, w.label(p.PID)))
	}
	return []vm.Finding{finding("cpu-busy", vm.SeverityInfo, "cpu", "all CPUs are busy", fmt.Sprintf("wait, or give it more: `warren resize %s --cpu N`", w.name), e...)}
}

// tolerated is the difference of clocks that is not reported.
const tolerated = 2 * time.Second

func clockOff(w *facts) []vm.Finding {
	if w.ClockOff.Abs() <= tolerated+w.ClockSlack {
		return nil
	}
	way := "ahead of"
	if w.ClockOff < 0 {
		way = "behind"
	}
	return []vm.Finding{finding("clock-off", vm.SeverityWarning, "clock",
		fmt.Sprintf("the guest's clock is %s %s the host's; certificates and builds may fail", w.ClockOff.Abs().Round(time.Second), way),
		fmt.Sprintf("suspend and start it (a start sets the clock): `warren suspend %s && warren start %s`; look for what set it (date, faketime, ntp)", w.name, w.name),
		"guest "+w.After.State.Time.UTC().Format(time.RFC3339), fmt.Sprintf("known to within %s", w.ClockSlack.Round(time.Millisecond)))}
}

func failedUnits(w *facts) (out []vm.Finding) {
	for _, u := range w.Units {
		if w.portTaken(u.Lines) {
			continue // takenPorts says it
		}
		e := []string{u.Active + " (" + u.Sub + ")"}
		e = append(e, u.Lines[max(len(u.Lines)-6, 0):]...)
		do := fmt.Sprintf("`warren logs %s --service %s`, then `warren service restart %s %s`", w.name, u.Name, w.name, u.Name)
		if u.Active == "failed" {
			out = append(out, finding("unit-failed", vm.SeverityError, "unit "+u.Name, "the service "+u.Name+" has failed", do, e...))
			continue
		}
		out = append(out, finding("unit-restarting", vm.SeverityError, "unit "+u.Name, "the service "+u.Name+" ends and is restarted repeatedly", do, e...))
	}
	return out
}

func crashes(w *facts) (out []vm.Finding) {
	for _, l := range w.kernel("segfault at") {
		if w.After.State.Time.Sub(l.Time) > lately {
			continue
		}
		name, _, _ := strings.Cut(l.Text, "[")
		out = append(out, finding("crash", vm.SeverityWarning, name, name+" crashed (segmentation fault)", "look at its log; a core is kept only where the guest is set up to", stamp(l)))
	}
	return out
}
