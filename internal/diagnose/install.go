// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// From when on an installer counts as hung.
const (
	idleCPU    = 0.03 // share of the time between the looks
	idleBytes  = 4096
	idleAge    = 10.0 // seconds that it has run
	leastLook  = 1.0  // seconds between the looks
	lockAge    = 2.0  // seconds after which a process that needs a lock would have it
	waitingCPU = 0.5  // of the time; a process that waits for a lock may draw a progress line
)

// debian are installers that need dpkg's locks.
var debian = []string{"apt", "apt-get", "aptitude", "dpkg", "unattended-upgrade", "unattended-upgr"}

// others install only with one of these words.
var others = []string{"pip", "pip3", "uv", "poetry", "pdm", "npm", "npx", "yarn", "pnpm", "bun", "cargo", "gem", "bundle", "composer", "go", "conda", "mamba", "apk", "dnf", "yum", "pacman"}

var installing = []string{"install", "i", "ci", "add", "update", "upgrade", "download", "get", "sync", "fetch", "require", "create", "-S", "-Sy", "-Syu"}

// installer returns the package manager of a command line, "" for none.
func installer(command string) string {
	words := strings.Fields(command)
	for i := range words {
		words[i] = path.Base(words[i])
	}
	for len(words) > 1 && interprets(words[0]) {
		if words = words[1:]; words[0] == "-m" {
			words = words[1:]
		}
		for len(words) > 1 && strings.HasPrefix(words[0], "-") {
			if words[0] == "-c" {
				return ""
			}
			words = words[1:]
		}
	}
	if len(words) == 0 {
		return ""
	}
	name := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(words[0], ".js"), ".cjs"), "-cli")
	if slices.Contains(debian, name) {
		return name
	}
	base := strings.TrimRight(name, "0123456789.")
	if !slices.Contains(others, base) {
		return ""
	}
	if slices.ContainsFunc(words[1:min(len(words), 6)], func(s string) bool { return slices.Contains(installing, s) }) || base == "yarn" && len(words) == 1 {
		return base
	}
	return ""
}

func interprets(word string) bool {
	switch strings.TrimRight(word, "0123456789.") {
	case "python", "node", "ruby", "perl", "sh", "bash", "dash", "env", "sudo", "nice", "time", "timeout":
		return true
	}
	return false
}

// hungInstalls finds installs that make no progress, and what they wait for.
func hungInstalls(w *facts) (out []vm.Finding) {
	for _, p := range w.After.State.Processes {
		name := installer(p.Command)
		if name == "" || p.State == "Z" || w.below(p, func(q *vm.GuestProcess) bool { return installer(q.Command) != "" }) {
			continue
		}
		if f, ok := w.hung(&p, name); ok {
			out = append(out, f)
		}
	}
	return out
}

// below reports whether a process descends from one of a kind.
func (w *facts) below(p vm.GuestProcess, kind func(*vm.GuestProcess) bool) bool {
	for range 32 {
		q := w.byPID[p.PPID]
		if q == nil {
			return false
		}
		if kind(q) {
			return true
		}
		p = *q
	}
	return false
}

// hung judges one install with all processes that it has started.
func (w *facts) hung(p *vm.GuestProcess, name string) (f vm.Finding, ok bool) {
	tree := w.tree(p.PID)
	subject := fmt.Sprintf("process %d", p.PID)
	says := fmt.Sprintf("the install %q ", short(p.Command))
	e := []string{w.about(p)}
	end := fmt.Sprintf("or end it: `warren exec %s -- kill %d`", w.name, p.PID)
	for _, q := range tree {
		if q.State == "T" || q.State == "t" {
			w.tell(tree)
			return finding("install-stopped", vm.SeverityError, subject, says+"is paused: "+w.label(q.PID)+" was stopped by a signal",
				fmt.Sprintf("continue it: `warren exec %s -- kill -CONT %d`, %s", w.name, q.PID, end), append(e, w.about(q))...), true
		}
	}
	spent, moved, known := w.did(tree)
	age := w.After.State.Time.Sub(p.StartedAt).Seconds()
	if slices.Contains(debian, name) && age >= lockAge && spent <= waitingCPU*w.seconds {
		if lock, held := w.dpkgLock(tree, p.Command); held {
			w.tell(tree)
			return w.lockHeld(p, lock, says, e), true
		}
	}
	if !known || w.seconds < leastLook || spent > idleCPU*w.seconds || moved > idleBytes || age < idleAge {
		return f, false
	}
	leaf := w.leaf(tree)
	e = append(e, fmt.Sprintf("%.2f s of CPU and %d bytes in %.1f s, by %d processes", spent, moved, w.seconds, len(tree)))
	if leaf != p {
		e = append(e, w.about(leaf))
	}
	w.tell(tree)
	if strings.HasSuffix(leaf.Waits, readsTerminal) {
		if line := w.screenOf(leaf); line != "" {
			e = append(e, "on its terminal: "+line)
		}
		return finding("install-asks", vm.SeverityError, subject, says+"waits for an answer on its terminal",
			fmt.Sprintf("answer it: `warren pty %s`; next time DEBIAN_FRONTEND=noninteractive and -y", w.name), e...), true
	}
	e = append(e, w.refusedNames()...)
	return finding("install-hung", vm.SeverityError, subject, says+"does nothing: "+w.label(leaf.PID)+" "+leaf.Waits,
		"look at what it waits for; "+strings.TrimPrefix(end, "or "), e...), true
}

func (w *facts) tell(tree []*vm.GuestProcess) {
	for _, p := range tree {
		w.told[p.PID] = true
	}
}

// did sums what processes did between the looks. known is false when one of them is
// new: starting it was progress.
func (w *facts) did(tree []*vm.GuestProcess) (cpu float64, moved int64, known bool) {
	known = true
	for _, p := range tree {
		if _, ok := w.same(p); !ok {
			known = false
		}
		cpu += w.spent(p)
		moved += w.moved[p.PID]
	}
	return cpu, moved, known
}

// leaf is the process for which the others of a tree wait.
func (w *facts) leaf(tree []*vm.GuestProcess) *vm.GuestProcess {
	p := tree[0]
	for range 32 {
		var next *vm.GuestProcess
		for _, pid := range w.children[p.PID] {
			if c := w.byPID[pid]; c != nil && c.State != "Z" && c != p {
				next = c
			}
		}
		if next == nil || strings.HasSuffix(p.Waits, readsTerminal) {
			break
		}
		p = next
	}
	return p
}

var dpkgLocks = []string{"/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock", "/var/cache/apt/archives/lock", "/var/lib/apt/lists/lock"}

// dpkgLock finds the lock that an install needs and another process has.
func (w *facts) dpkgLock(tree []*vm.GuestProcess, command string) (vm.FileLock, bool) {
	need := dpkgLocks[:3]
	if words := strings.Fields(command); slices.Contains(words, "update") {
		need = dpkgLocks[3:]
	}
	for _, file := range need {
		for _, l := range w.After.Locks {
			if l.Path != file || l.Waits {
				continue
			}
			mine := slices.ContainsFunc(tree, func(p *vm.GuestProcess) bool { return p.PID == l.PID })
			return l, !mine
		}
	}
	return vm.FileLock{}, false
}

// lockHeld reports an install that waits for a lock, and the lock's holder.
func (w *facts) lockHeld(p *vm.GuestProcess, l vm.FileLock, says string, e []string) vm.Finding {
	holder := w.byPID[l.PID]
	do := fmt.Sprintf("let %s end, or end it: `warren exec %s -- kill %d`", w.label(l.PID), w.name, l.PID)
	if holder != nil {
		e = append(e, "holder: "+w.about(holder))
		if spent, moved, known := w.did(w.tree(l.PID)); known && spent <= idleCPU*w.seconds && moved <= idleBytes {
			e = append(e, fmt.Sprintf("the holder did nothing in %.1f s", w.seconds))
		}
	}
	return finding("install-locked", vm.SeverityError, fmt.Sprintf("process %d", p.PID),
		says+"waits for the lock "+l.Path+", which "+w.label(l.PID)+" holds", do, append(e, fmt.Sprintf("lock %s (%s) is held by pid %d", l.Path, l.File, l.PID))...)
}

// refusedNames lists hosts that were refused, as a hint to what the install waits
// for.
func (w *facts) refusedNames() (out []string) {
	for _, f := range refusedConnections(w) {
		out = append(out, "refused by the network policy: "+f.Subject)
	}
	return out[:min(len(out), 3)]
}
