//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

var (
	update = flag.Bool("update", false, "write the results and docs/safety.md")
	only   = flag.String("case", "", "run only these cases: 1,2,38")
	some   = flag.Bool("some", false, "of the cases in a guest, which differ in what the agent does, run each third")
)

// A testCase is one of the 52.
type testCase struct {
	n           int
	class, name string

	// A case in the guest: the script of the agent, and what the first screen of the
	// review must show.
	script string
	shows  []string
	wrecks bool // the guest may not answer afterwards
	turn   bool // the agent marks a turn before it begins; the review is from there

	// Any other case, which judges itself.
	judge func(h *host, r *Result)
	// A case that is not tried, and why.
	reason string
}

// 001-04
// TestSafety tries all cases on real VMs. A verdict that is worse than in the
// results of the last committed run fails it.
func TestSafety(t *testing.T) {
	h := newHost(t)
	h.ok("up", "--name", "base", "--idle", "never")
	if a := h.run("exec", "base", "--", "sh", "-c", setUp); a.code != 0 {
		t.Fatalf("the project cannot be made: %s%s", a.out, a.errs)
	}
	was := map[int]Result{}
	if _, err := os.Stat(resultsFile); err == nil {
		for _, r := range stored(t) {
			was[r.N] = r
		}
	}
	var list []Result
	scripts := 0
	for _, c := range cases() {
		if c.script != "" {
			scripts++
		}
		old, known := was[c.n]
		r := old
		if known && *some && c.script != "" && scripts%3 != 0 {
			list = append(list, r)
			continue
		}
		if *only == "" || slices.Contains(strings.Split(*only, ","), fmt.Sprint(c.n)) {
			r = h.try(c)
			h.told(&r)
			if known && !*update {
				compare(t, r, old)
			}
		} else if !known {
			continue
		}
		if list = append(list, r); *update {
			save(h, list, was)
		}
	}
	t.Logf("%d prevented, %d reversible, %d revealed, %d not covered", count(list, Prevented), count(list, Reversible), count(list, Revealed), count(list, NotCovered))
}

// try carries out one case.
func (h *host) try(c testCase) Result {
	r := Result{N: c.n, Class: c.class, Name: c.name, Verdict: NotCovered, Why: "the case could not be carried out"}
	top, began := h.T, time.Now()
	top.Run(fmt.Sprint(c.n), func(t *testing.T) {
		h.T = t
		switch {
		case c.judge != nil:
			c.judge(h, &r)
		case c.reason != "":
			r.Why = c.reason
		default:
			h.inGuest(c, &r)
		}
	})
	h.T = top
	h.Logf("%d %s: %s, screen %q, %.1f s: %s", r.N, r.Name, r.Verdict, r.Screen, time.Since(began).Seconds(), r.Why)
	return r
}

// standing is what each first screen says of cases that no disk shows.
var standing = map[int]string{
	18: "what programs read",
	22: "arguments of commands",
	23: "memory and older generations",
	25: "memory and older generations",
}

// told notes of a case that is not covered whether the first screen of a review says so.
func (h *host) told(r *Result) {
	h.Helper()
	says := standing[r.N]
	if says == "" || r.Verdict != NotCovered {
		return
	}
	if h.plain == "" {
		screen, err := h.screen("base", "image")
		h.must("the review of a VM", err)
		h.plain = strings.Join(strings.Fields(screen), " ")
	}
	r.Screen = "no"
	if strings.Contains(h.plain, says) {
		r.Screen, r.Why = "yes", r.Why+"; the first screen says that it does not show this"
	}
}

// compare fails if a case ended worse than in the committed results.
func compare(t *testing.T, now, was Result) {
	t.Helper()
	switch {
	case worse(now.Verdict, was.Verdict):
		t.Errorf("case %d, %s, is %s (%s); it was %s", now.N, now.Name, now.Verdict, now.Why, was.Verdict)
	case was.Screen == "yes" && now.Screen != "yes" && now.Verdict == was.Verdict:
		t.Errorf("case %d, %s, is not on the first screen any more: %s", now.N, now.Name, now.Why)
	}
}

// save writes the results so far, with the old ones of the cases that follow.
func save(h *host, list []Result, was map[int]Result) {
	h.Helper()
	list = slices.Clone(list)
	for n := list[len(list)-1].N + 1; n <= 52; n++ {
		if r, ok := was[n]; ok {
			list = append(list, r)
		}
	}
	for i := range list {
		list[i].Why = tidy(list[i].Why)
	}
	var data bytes.Buffer
	e := json.NewEncoder(&data)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	h.must("encoding the results", e.Encode(list))
	h.must("writing the results", os.WriteFile(resultsFile, data.Bytes(), 0o644))
	h.must("writing the page", os.WriteFile(pageFile, []byte(Page(list)), 0o644))
}

// has reports whether the binary has a command.
func (h *host) has(command string) bool {
	return strings.Contains(h.run("--help").out, "\n  "+command+" ")
}

// inGuest lets an agent do its worst in a fork, looks at the first screen of the
// review, and then rolls the fork back and compares every file.
func (h *host) inGuest(c testCase, r *Result) {
	h.Helper()
	name := h.fork()
	defer h.run("rm", name)
	before, from := h.tree(name), "parent"
	if c.turn { // which records the processes of its instant, too
		h.ok("turn", name, "what it tries")
		from = ""
	}
	a := h.sh(name, c.script)
	if a.code != 0 && !c.wrecks {
		r.Verdict, r.Why = NotCovered, fmt.Sprintf("the case could not be carried out: status %d: %s", a.code, oneLine(a.errs))
		return
	}
	screen, err := h.screen(name, from)
	switch missing := misses(screen, c.shows); {
	case err != nil:
		r.Screen, r.Why = "no", "the review failed: "+oneLine(err.Error())
	case missing != "":
		r.Screen, r.Why = "no", "the first screen does not show `"+missing+"`"
	default:
		r.Screen, r.Why = "yes", "the first screen shows: "+matched(screen, c.shows)
	}
	if os.Getenv("WARREN_SAFETY_SCREENS") != "" {
		h.Logf("the first screen of case %d:\n%s", c.n, screen)
	}
	h.undo(name, before, r)
}

// undo rolls a fork back to its beginning and compares every file.
func (h *host) undo(name, before string, r *Result) {
	h.Helper()
	if a := h.run("rollback", name); a.code != 0 {
		r.Verdict, r.Why = Revealed, r.Why+"; the rollback failed: "+oneLine(a.errs)
		if r.Screen != "yes" {
			r.Verdict = NotCovered
		}
		return
	}
	if after := h.tree(name); after != before {
		r.Verdict, r.Why = NotCovered, r.Why+"; after the rollback the files are not as before: "+firstDifference(before, after)
		return
	}
	r.Verdict, r.Why = Reversible, r.Why+"; the rollback brought every file back"
}

// fork makes a copy of the base.
func (h *host) fork() string {
	h.Helper()
	h.forks++
	prefix := fmt.Sprintf("case%d", h.forks)
	h.ok("fork", "base", "--name", prefix)
	return prefix + "-1"
}

// tree describes every file of a VM that an agent may have changed.
func (h *host) tree(name string) string {
	h.Helper()
	a := h.runIn(treeScript, "exec", name, "--timeout", "60", "--cwd", "/", "--", "python3", "-")
	if a.code != 0 {
		return "the files cannot be listed: " + oneLine(a.errs)
	}
	return a.out
}

const screenLines = 40 // a terminal's

// screen is the first screen of the review of a VM against a state: "parent" = in
// which a fork left its parent, "" = its last turn.
func (h *host) screen(name, from string) (string, error) {
	h.Helper()
	if h.has("diff") {
		list := []string{"diff", name}
		if from != "" {
			list = append(list, "--from", from)
		}
		a := h.run(list...)
		if a.code != 0 {
			return "", fmt.Errorf("%s", a.errs)
		}
		lines := strings.Split(a.out, "\n")
		return unfolded(lines[:min(len(lines), screenLines)]), nil
	}
	d, err := h.c.Diff(h.Context(), name, vm.DiffRequest{From: from})
	if err != nil {
		return "", err
	}
	var lines []string
	for _, x := range d.Alerts {
		lines = append(lines, "! "+x.Text)
	}
	for _, x := range d.NotCompared {
		lines = append(lines, "not compared: "+x)
	}
	for _, x := range d.Groups {
		lines = append(lines, fmt.Sprintf("%s: %d added, %d modified, %d deleted, %d renamed", x.Group, x.Stat.Added, x.Stat.Modified, x.Stat.Deleted, x.Stat.Renamed))
	}
	for _, x := range d.System {
		lines = append(lines, fmt.Sprintf("%s %s %s", x.Verb, x.Kind, x.Name))
	}
	for _, x := range d.Hidden {
		lines = append(lines, fmt.Sprintf("%s: %d %s", x.Path, x.Stat.Files(), x.Reason))
	}
	for _, x := range d.Changes {
		lines = append(lines, fmt.Sprintf("%s %s", x.Verb, x.Path))
	}
	return strings.Join(lines[:min(len(lines), screenLines)], "\n"), nil
}

// unfolded joins the lines of an alert that is folded at 80 columns.
func unfolded(lines []string) string {
	var out []string
	for _, l := range lines {
		if n := len(out); n > 0 && strings.HasPrefix(out[n-1], "! ") && strings.HasPrefix(l, "  ") && strings.TrimSpace(l) != "" {
			out[n-1] += " " + strings.TrimSpace(l)
			continue
		}
		out = append(out, l)
	}
	return strings.Join(out, "\n")
}

// misses returns the first pattern that the screen does not show.
func misses(screen string, patterns []string) string {
	for _, p := range patterns {
		if !regexp.MustCompile(p).MatchString(screen) {
			return p
		}
	}
	return ""
}

// matched returns the lines that the first two patterns found.
func matched(screen string, patterns []string) string {
	var out []string
	for _, p := range patterns[:min(len(patterns), 2)] {
		for line := range strings.SplitSeq(screen, "\n") {
			if line = strings.TrimSpace(line); regexp.MustCompile(p).MatchString(line) && !slices.Contains(out, line) {
				out = append(out, line)
				break
			}
		}
	}
	text := []rune(strings.Join(out, " … "))
	return "`" + strings.ReplaceAll(string(text[:min(len(text), 160)]), "`", "'") + "`"
}

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	return s[:min(len(s), 200)]
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return oneLine(x[i]) + " became " + oneLine(y[i])
		}
	}
	return fmt.Sprintf("%d files became %d", len(x), len(y))
}

// treeScript lists what an agent may have changed. Identity of the VM, and what
// the system itself writes at each start, are left out.
const treeScript = `
import os, hashlib, stat
skip = {'/etc/machine-id', '/etc/hostname', '/etc/hosts', '/etc/resolv.conf', '/etc/mtab', '/etc/adjtime'}
out = []
def one(p):
    st = os.lstat(p)
    if p in skip or p.startswith('/etc/ssh/ssh_host'):
        return
    h = ''
    if stat.S_ISREG(st.st_mode):
        with open(p, 'rb') as f: h = hashlib.sha256(f.read()).hexdigest()[:16]
    elif stat.S_ISLNK(st.st_mode):
        h = os.readlink(p)
    x = sorted((k, os.getxattr(p, k, follow_symlinks=False)) for k in os.listxattr(p, follow_symlinks=False))
    size = st.st_size if not stat.S_ISDIR(st.st_mode) else 0
    out.append(repr((p, oct(st.st_mode), st.st_uid, st.st_gid, size, h, x)))
for top in ['/workspace', '/data', '/root', '/home', '/etc', '/usr/local', '/var/spool', '/opt']:
    if not os.path.lexists(top): continue
    one(top)
    for d, dirs, files in os.walk(top):
        dirs.sort()
        for n in sorted(dirs + files):
            one(os.path.join(d, n))
print('\n'.join(sorted(set(out))))
`
