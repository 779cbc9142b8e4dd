// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// readsTerminal is the agent's word for a process that waits for input.
const readsTerminal = "reads its terminal"

// stuckProcesses finds processes that wait for a device and take no signal.
func stuckProcesses(w *facts) (out []vm.Finding) {
	for _, p := range w.After.State.Processes {
		if b, ok := w.same(&p); p.State != "D" || !ok || b.State != "D" || w.spent(&p) > 0 {
			continue
		}
		e := []string{w.about(&p)}
		for _, l := range w.kernel("blocked for more than") {
			if strings.Contains(l.Text, fmt.Sprintf(":%d blocked", p.PID)) {
				e = append(e, stamp(l))
			}
		}
		w.told[p.PID] = true
		out = append(out, finding("process-stuck", vm.SeverityError, fmt.Sprintf("process %d", p.PID),
			w.label(p.PID)+" is stuck in the kernel (state D) and cannot be ended", "look at its disk or mount; a server of a network file system may be gone", e...))
	}
	return out
}

// stoppedProcesses finds processes that a signal stopped. A whole job is reported
// once.
func stoppedProcesses(w *facts) (out []vm.Finding) {
	for _, p := range w.After.State.Processes {
		if p.State != "T" && p.State != "t" || w.told[p.PID] {
			continue
		}
		if parent := w.byPID[p.PPID]; parent != nil && (parent.State == "T" || parent.State == "t") {
			continue
		}
		severity, says := vm.SeverityError, " was stopped by a signal (state "+p.State+") and does nothing"
		e := []string{w.about(&p)}
		do := fmt.Sprintf("continue it: `warren exec %s -- kill -CONT %d`", w.name, p.PID)
		if p.Terminal != "" {
			severity = vm.SeverityWarning // ctrl-Z, or it wanted to read in the background
			e = append(e, "a job of terminal "+p.Terminal)
			do += ", or `fg` in that terminal"
		}
		if p.State == "t" {
			says = " is stopped under a debugger"
		}
		for _, r := range w.After.State.Roles {
			if r.PID == p.PID {
				e = append(e, fmt.Sprintf("it is a %s: %s", r.Role, r.Seen))
			}
		}
		for _, l := range w.After.State.Ports {
			if l.PID == p.PID {
				e = append(e, "it listens on "+netAddr(l)+"; connections to it hang")
			}
		}
		w.tell(w.tree(p.PID))
		out = append(out, finding("process-stopped", severity, fmt.Sprintf("process %d", p.PID), w.label(p.PID)+says, do, e...))
	}
	return out
}

// deadBrowsers finds browsers that show nothing.
func deadBrowsers(w *facts) (out []vm.Finding) {
	for _, r := range w.After.State.Roles {
		if r.Role != vm.RoleBrowser || w.told[r.PID] {
			continue
		}
		subject := fmt.Sprintf("process %d", r.PID)
		do := fmt.Sprintf("end it (`warren exec %s -- kill %d`) and start it again; `oom-kill` and `disk-full` here would say why", w.name, r.PID)
		switch {
		case !r.Alive:
			out = append(out, finding("browser-dead", vm.SeverityError, subject, "the browser is not alive: "+r.Seen, do, r.Why))
		case strings.Contains(r.Why, "have ended and were not cleared away"):
			out = append(out, finding("browser-crashed", vm.SeverityWarning, subject, "processes of the browser have ended and it has not noticed", do, r.Why))
		case strings.Contains(r.Seen, " 0 page processes"):
			out = append(out, finding("browser-empty", vm.SeverityInfo, subject, "the browser shows no page", do, r.Why))
		}
	}
	return out
}

// saysLimit matches complaints about the kernel's watch limits.
var saysLimit = regexp.MustCompile(`(?i)ENOSPC.*watch|file watchers reached|inotify.{0,40}(limit|no space left|too many open files)|EMFILE.*watch`)

// watchLimits finds users whose inotify limits are used up.
func watchLimits(w *facts) (out []vm.Finding) {
	type use struct {
		instances, watches int
		most               []vm.Counter
	}
	users := map[string]*use{}
	for _, c := range w.After.Counters {
		p := w.byPID[c.PID]
		if p == nil || c.Instances == 0 {
			continue
		}
		if users[p.User] == nil {
			users[p.User] = &use{}
		}
		u := users[p.User]
		u.instances, u.watches, u.most = u.instances+c.Instances, u.watches+c.Watches, append(u.most, c)
	}
	var complaints []string
	for _, c := range w.Commands {
		for _, l := range c.Lines {
			if saysLimit.MatchString(l) {
				complaints = append(complaints, "command "+c.ID+": "+strings.TrimSpace(l))
			}
		}
	}
	limit := w.After.Inotify
	for _, name := range sorted(users) {
		u := users[name]
		full, key, n, most := "watches", "max_user_watches", u.watches, limit.Watches
		if limit.Instances > 0 && u.instances >= limit.Instances {
			full, key, n, most = "instances", "max_user_instances", u.instances, limit.Instances
		}
		if most == 0 || n < most {
			continue
		}
		slices.SortStableFunc(u.most, func(a, b vm.Counter) int {
			return cmp.Or(cmp.Compare(b.Watches, a.Watches), cmp.Compare(b.Instances, a.Instances))
		})
		e := []string{fmt.Sprintf("%d of %d inotify %s in use by user %s", n, most, full, name)}
		for _, c := range u.most[:min(len(u.most), 4)] {
			e = append(e, fmt.Sprintf("%d watches, %d instances: %s", c.Watches, c.Instances, w.label(c.PID)))
		}
		out = append(out, w.limitFound("user "+name, key, most, append(e, complaints...)))
	}
	if len(out) == 0 && len(complaints) > 0 {
		out = append(out, w.limitFound("inotify", "max_user_watches", limit.Watches, complaints))
	}
	return out
}

func (w *facts) limitFound(subject, key string, most int, e []string) vm.Finding {
	return finding("watch-limit", vm.SeverityError, subject, "no more files can be watched; watchers that start now run and see nothing",
		fmt.Sprintf("raise it: `warren exec %s -- sysctl -w fs.inotify.%s=%d`, then start the watcher again; or let it leave out node_modules", w.name, key, max(most*4, 1<<10)), e...)
}

func sorted[T any](m map[string]T) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// blindWatchers finds programs that have an inotify descriptor and no watch.
func blindWatchers(w *facts) (out []vm.Finding) {
	for _, c := range w.After.Counters {
		p := w.byPID[c.PID]
		if c.Instances == 0 || c.Watches > 0 || p == nil || p.System {
			continue
		}
		out = append(out, finding("watcher-blind", vm.SeverityInfo, fmt.Sprintf("process %d", c.PID),
			w.label(c.PID)+" opened a file watcher that watches nothing", "if it should watch: start it again and look at its first lines; `watch-limit` here would say why",
			fmt.Sprintf("%d inotify descriptors, 0 watches", c.Instances), w.about(p)))
	}
	return out
}

// remote are file systems whose other writers cause no events in the guest.
var remote = []string{"nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "fuse", "sshfs", "ceph"}

// remoteWatchers finds watchers of files that are changed elsewhere.
func remoteWatchers(w *facts) (out []vm.Finding) {
	for _, r := range w.After.State.Roles {
		p := w.byPID[r.PID]
		if r.Role != vm.RoleWatcher || p == nil || p.Cwd == "" {
			continue
		}
		var at vm.GuestMount
		for _, m := range w.After.State.Mounts {
			if within(p.Cwd, m.Path) && len(m.Path) >= len(at.Path) {
				at = m
			}
		}
		kind, _, _ := strings.Cut(at.Type, ".")
		if !slices.Contains(remote, kind) {
			continue
		}
		out = append(out, finding("watcher-remote", vm.SeverityWarning, fmt.Sprintf("process %d", r.PID),
			fmt.Sprintf("%s watches files on %s (%s): it gets no events for changes by other hosts", w.label(r.PID), at.Path, at.Type),
			"let it poll (CHOKIDAR_USEPOLLING=1, --poll), or work on the VM's own disk", r.Why))
	}
	return out
}

func within(file, dir string) bool {
	return file == dir || strings.HasPrefix(path.Clean(file), strings.TrimSuffix(dir, "/")+"/")
}

// waitingForLocks finds processes that wait for a file lock.
func waitingForLocks(w *facts) (out []vm.Finding) {
	for _, l := range w.After.Locks {
		if !l.Waits || w.told[l.PID] || w.byPID[l.PID] == nil {
			continue
		}
		name, do := l.Path, "look at who has it: `warren top "+w.name+"`"
		if name == "" {
			name = "file " + l.File
		}
		e, says := []string{w.about(w.byPID[l.PID])}, w.label(l.PID)+" waits for a lock on "+name
		if h, ok := w.holder(l); ok {
			says += ", which " + w.label(h) + " holds"
			do = fmt.Sprintf("let the holder end, or end it: `warren exec %s -- kill %d`", w.name, h)
			if p := w.byPID[h]; p != nil {
				e = append(e, "holder: "+w.about(p))
			}
		}
		out = append(out, finding("lock-wait", vm.SeverityWarning, fmt.Sprintf("process %d", l.PID), says, do, e...))
	}
	return out
}

// holder is the process that has the lock.
func (w *facts) holder(l vm.FileLock) (int, bool) {
	for _, h := range w.After.Locks {
		if h.File == l.File && !h.Waits && h.PID != l.PID {
			return h.PID, true
		}
	}
	return 0, false
}

// waitingTerminals finds terminals in which a program, not a shell, waits for
// input.
func waitingTerminals(w *facts) (out []vm.Finding) {
	for _, t := range w.After.State.Terminals {
		if !strings.HasSuffix(t.Waits, readsTerminal) || w.told[t.Foreground] || t.Foreground == 0 {
			continue
		}
		p := w.byPID[t.Foreground]
		repl := slices.ContainsFunc(w.After.State.Roles, func(r vm.GuestRole) bool { return r.PID == t.Foreground && r.Role == vm.RoleREPL })
		if p == nil || p.System || repl && !scripted(p.Command) {
			continue
		}
		e := []string{w.about(p)}
		if line := w.screenOf(p); line != "" {
			e = append(e, "on the screen: "+line)
		}
		out = append(out, finding("terminal-waits", vm.SeverityInfo, "terminal "+t.Name, w.label(p.PID)+" waits for somebody to type in "+t.Name,
			fmt.Sprintf("answer it: `warren pty ls %s`, `warren pty attach %s SESSION`", w.name, w.name), e...))
	}
	return out
}

// scripted reports whether an interpreter was given a program: then the program
// asks, not a prompt.
func scripted(command string) bool {
	words := strings.Fields(command)
	if len(words) == 0 || !interprets(path.Base(strings.TrimPrefix(words[0], "-"))) {
		return false
	}
	return slices.ContainsFunc(words[1:], func(s string) bool { return s == "-c" || s == "-m" || s == "-e" || !strings.HasPrefix(s, "-") })
}

// screenOf is the last line of the terminal of a process, if it is one of Warren's:
// the leader of its session is the process or one above it.
func (w *facts) screenOf(p *vm.GuestProcess) string {
	for range 32 {
		if line := w.Screens[p.PID]; line != "" {
			return line
		}
		if p = w.byPID[p.PPID]; p == nil {
			return ""
		}
	}
	return ""
}

// manyZombies is the number of unreaped children from which on they are reported.
const manyZombies = 10

func zombies(w *facts) (out []vm.Finding) {
	n := map[int]int{}
	var parents []int
	for _, p := range w.After.State.Processes {
		if p.State == "Z" {
			if n[p.PPID]++; n[p.PPID] == manyZombies {
				parents = append(parents, p.PPID)
			}
		}
	}
	for _, pid := range parents {
		out = append(out, finding("zombies", vm.SeverityInfo, fmt.Sprintf("process %d", pid),
			fmt.Sprintf("%s has %d ended children that it did not reap", w.label(pid), n[pid]), "restart it before it runs out of process numbers"))
	}
	return out
}

// Blocked lists the processes that cannot continue by themselves.
func Blocked(ev vm.Evidence) []vm.Blocked {
	w := newFacts(&Report{After: ev})
	out := []vm.Blocked{}
	for _, p := range ev.State.Processes {
		why := p.Waits
		switch {
		case p.System:
			continue
		case p.State == "D", p.State == "T", p.State == "t":
		case strings.HasPrefix(why, "waits for a lock"), strings.Contains(why, "takes no more"), strings.HasPrefix(why, "connects to"):
		case why == "waits for a child":
			leaf := w.leaf(w.tree(p.PID))
			if leaf.PID == p.PID {
				continue
			}
			why += fmt.Sprintf(": %s %s", w.label(leaf.PID), leaf.Waits)
		default:
			continue
		}
		for _, l := range ev.Locks {
			if h, ok := w.holder(l); ok && l.Waits && l.PID == p.PID {
				why += ", held by " + w.label(h)
			}
		}
		out = append(out, vm.Blocked{PID: p.PID, State: p.State, Command: p.Command, Waits: Clip(why)})
	}
	return out
}
