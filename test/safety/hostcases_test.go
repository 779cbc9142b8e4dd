//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

func hostCases() []testCase {
	return []testCase{
		{n: 8, class: corruption, name: "two machines write one volume", judge: twoWriters},
		{n: 22, class: leaks, name: "a secret in a command, its output and a shell's history", judge: secretInRecords},
		{n: 23, class: leaks, name: "a secret in the memory of a snapshot", judge: secretInMemory},
		{n: 24, class: leaks, name: "plaintext stays after a volume is locked", judge: lockedVolume},
		{n: 26, class: leaks, name: "a signed URL outlives its reason", judge: lateLink},
		{n: 27, class: leaks, name: "data leaves by the network", judge: exfiltration},
		{n: 32, class: hidden, name: "the machine changes between review and commit", judge: changedBeforeCommit},
		{n: 35, class: hidden, name: "an agent says that it restored files and did nothing", judge: falseReport},
		{n: 36, class: hidden, name: "a change that fools its reader", judge: fooledReader},
		{n: 38, class: hidden, name: "planted Git configuration runs on the host", judge: plantedGit},
		{n: 40, class: escapes, name: "links in what is copied out", judge: linkCopyOut},
		{n: 41, class: escapes, name: "a tree with devices, pipes, sparse files and names that collide", judge: evilTree},
		{n: 42, class: escapes, name: "paths that climb, are too long or hold a NUL", judge: oddPaths},
		{n: 43, class: escapes, name: "a read-only directory of the host is written", judge: readOnlyInput},
		{n: 44, class: escapes, name: "a sensitive directory of the host is mounted", judge: badHostPath},
		{n: 45, class: escapes, name: "tricks with keys of objects", judge: oddKeys},
		{n: 46, class: goingBack, name: "the server is killed in the middle of a rollback", judge: killedRollback},
		{n: 47, class: goingBack, name: "an undo destroys the evidence", judge: undoneUndo},
		{n: 48, class: goingBack, name: "a snapshot's files were changed", judge: tamperedSnapshot},
		{n: 49, class: goingBack, name: "forks share their identity", judge: sharedIdentity},
		{n: 50, class: goingBack, name: "not everything rolls back", judge: notUndone},
		{n: 51, class: resources, name: "an agent fills its disk", judge: filledDisk},
		{n: 52, class: resources, name: "the record is edited", judge: editedRecord},
	}
}

// verdict sets a result: good if every fact holds, else bad with those that do not.
func (r *Result) verdict(good, bad, why string, facts map[string]bool) {
	r.Verdict, r.Why = good, why
	var wrong []string
	for what, holds := range facts {
		if !holds {
			wrong = append(wrong, what)
		}
	}
	if slices.Sort(wrong); len(wrong) > 0 {
		r.Verdict, r.Why = bad, "it does not hold that "+strings.Join(wrong, "; or that ")
	}
}

// canary is text that is nowhere else.
func canary(name string) string { return "CANARY-" + name + "-7f3a9c51e2" }

// holding returns the files below the data directory that hold some text, without
// those of running machines, which are the guests' own disks and memories.
func (h *host) holding(text string, skip ...string) (out []string) {
	h.Helper()
	err := filepath.WalkDir(h.data, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // removed meanwhile
		}
		for _, s := range skip {
			if strings.Contains(name, s) {
				return nil
			}
		}
		f, err := os.Open(name)
		if err != nil {
			return nil //nolint:nilerr // removed meanwhile
		}
		defer f.Close()
		buf, kept := make([]byte, 1<<20), 0
		for {
			n, err := f.Read(buf[kept:])
			if bytes.Contains(buf[:kept+n], []byte(text)) {
				out = append(out, strings.TrimPrefix(name, h.data))
				return nil
			}
			if err != nil {
				return nil //nolint:nilerr // its end
			}
			kept = copy(buf, buf[max(0, kept+n-len(text)):kept+n])
		}
	})
	h.must("searching the data directory", err)
	return out
}

func twoWriters(h *host, r *Result) {
	a, b := h.fork(), h.fork()
	defer h.run("rm", a, b)
	h.ok("volume", "create", "shared", "--size", "64M")
	defer h.run("volume", "rm", "shared")
	h.run("volume", "unlock", "shared")
	first := h.run("volume", "mount", a, "--volume", "shared", "--guest", "/v", "--rw")
	second := h.run("volume", "mount", b, "--volume", "shared", "--guest", "/v", "--rw")
	r.verdict(Prevented, NotCovered, "the second mount is refused: "+oneLine(second.errs), map[string]bool{
		"the first machine gets the volume: " + oneLine(first.errs): first.code == 0, "the second one is refused": second.code != 0,
	})
	h.run("volume", "unmount", a, "/v")
	h.run("volume", "lock", "shared")
}

func secretInRecords(h *host, r *Result) {
	name, typed, argument := h.fork(), canary("typed"), canary("argument")
	defer h.run("rm", name)
	h.runIn("export T="+typed+"; echo $T; echo $T >> /root/.bash_history\n", "exec", name, "-i", "--", "sh")
	h.runIn("export T="+typed+"; echo $T\n", "shell", name)
	h.run("exec", name, "--", "echo", argument)
	skip := []string{"/vms/", "/generations/", "/images/"}
	if where := h.holding(typed, skip...); len(where) > 0 {
		r.Verdict, r.Why = NotCovered, fmt.Sprintf("what was typed or printed in the VM is in %q on the host", where)
		return
	}
	if where := h.holding(argument, skip...); len(where) > 0 {
		r.Verdict, r.Why = NotCovered, "input, output and history are in no record of the host, but the audit record of a command has its arguments; give a secret on standard input"
		return
	}
	r.Verdict, r.Why = Prevented, "no record of the host holds it"
}

func secretInMemory(h *host, r *Result) {
	name, text := h.fork(), canary("memory")
	defer h.run("rm", name)
	h.sh(name, `cat > /dev/shm/x.py <<'P'
import time
x = '`+text[:10]+`' + '`+text[10:]+`'
print(len(x), flush=True); time.sleep(300)
P
setsid python3 /dev/shm/x.py > /dev/shm/ready 2>&1 < /dev/null & until [ -s /dev/shm/ready ]; do sleep 0.1; done`)
	h.ok("snapshot", "create", name, "--name", "memory-test")
	defer h.run("snapshot", "rm", "memory-test")
	where := h.holding(text, "/vms/")
	if len(where) == 0 {
		r.Verdict, r.Why = Prevented, "no file of the snapshot holds it in the clear"
		return
	}
	r.Verdict, r.Why = NotCovered, "the snapshot's memory file holds it in the clear until the snapshot becomes cold and is encrypted; only the server's user may read the file"
}

func lockedVolume(h *host, r *Result) {
	name, text := h.fork(), canary("volume")
	defer h.run("rm", name)
	h.ok("volume", "create", "locked", "--size", "64M")
	defer h.run("volume", "rm", "locked")
	h.run("volume", "unlock", "locked")
	mounted := h.run("volume", "mount", name, "--volume", "locked", "--guest", "/v", "--rw")
	// On standard input, so that the audit record of the command does not have it.
	wrote := h.runIn("echo "+text+" > /v/x; sync; grep -q "+text+" /v/x\n", "exec", name, "-i", "--", "sh")
	unmounted := h.run("volume", "unmount", name, "/v")
	locked := h.run("volume", "lock", "locked")
	where := h.holding(text, "/vms/", "/generations/")
	again := h.run("volume", "mount", name, "--volume", "locked", "--guest", "/v")
	r.verdict(Prevented, NotCovered, "nothing of it is in the volume's file or beside it, and a mount is refused: "+oneLine(again.errs), map[string]bool{
		"the volume can be used: " + oneLine(mounted.errs+wrote.errs+unmounted.errs+locked.errs): mounted.code+wrote.code+unmounted.code+locked.code == 0,
		fmt.Sprintf("no file holds the plaintext: %q", where):                                    len(where) == 0,
		"a locked volume is not mounted":                                                         again.code != 0,
	})
}

func exfiltration(h *host, r *Result) {
	name := h.fork()
	defer h.run("rm", name)
	facts := map[string]bool{}
	for what, script := range map[string]string{
		"TCP is blocked":  `timeout 5 python3 -c "import socket; socket.create_connection(('1.1.1.1', 443), 4)"`,
		"HTTP is blocked": `timeout 5 curl -sm4 http://example.com`,
		"DNS is blocked":  `timeout 5 python3 -c "import socket; socket.gethostbyname('` + strings.ToLower(canary("dns")) + `.example.com')"`,
		"IPv6 is blocked": `timeout 5 python3 -c "import socket; socket.create_connection(('2606:4700:4700::1111', 443), 4)"`,
		"UDP gets no answer": `timeout 6 python3 -c "
import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3); s.sendto(b'\0'*30, ('1.1.1.1', 53)); s.recv(10)"`,
		"the metadata address is blocked": `timeout 5 curl -sm4 http://169.254.169.254/`,
		"the host is blocked":             `timeout 5 curl -sm4 http://` + h.listen + `/healthz`,
	} {
		facts[what] = h.sh(name, script).code != 0
	}
	seen := h.run("net", "connections", name)
	facts["the refused connections are listed"] = strings.Contains(seen.out, "1.1.1.1")
	r.verdict(Prevented, NotCovered, "with the network closed, TCP, UDP, IPv6, DNS, the host and the metadata address are refused, and `warren net connections` lists them", facts)
}

func changedBeforeCommit(h *host, r *Result) {
	if !h.has("commit") {
		r.Verdict, r.Why = NotCovered, "there is no `warren commit` yet"
		return
	}
	name := h.fork()
	defer h.run("rm", name)
	if !h.repo("target") {
		r.Verdict, r.Why = NotCovered, "no repository can be made yet"
		return
	}
	h.sh(name, "echo shown > new.txt")
	var shown struct {
		Manifest string `json:"manifest"`
	}
	dry := h.run("commit", name, "/workspace/app", "--repo", "target", "-m", "x", "--dry-run", "--json")
	_ = json.Unmarshal([]byte(dry.out), &shown) // an empty manifest is a fact below
	h.sh(name, "echo changed > new.txt")
	a := h.run("commit", name, "/workspace/app", "--repo", "target", "-m", "x", "--yes", "--manifest", shown.Manifest)
	r.verdict(Prevented, NotCovered, "the commit is refused: "+oneLine(a.errs), map[string]bool{
		"a dry run tells the manifest: " + oneLine(dry.errs): shown.Manifest != "", "the commit is refused: " + oneLine(a.out+a.errs): a.code != 0,
	})
}

func falseReport(h *host, r *Result) {
	name := h.fork()
	defer h.run("rm", name)
	h.sh(name, "echo 'I have restored all files.'")
	d, err := h.c.Diff(h.Context(), name, vm.DiffRequest{From: "parent"})
	if err != nil {
		r.Verdict, r.Why = NotCovered, "the review failed: "+oneLine(err.Error())
		return
	}
	inProject := 0
	for _, g := range d.Groups {
		if g.Group == vm.GroupProject || g.Group == vm.GroupHome {
			inProject += g.Stat.Files()
		}
	}
	r.Screen = "yes"
	r.verdict(Revealed, NotCovered, "the review shows no change in the project and the home", map[string]bool{"the review shows no change": inProject == 0})
}

func fooledReader(h *host, r *Result) {
	c := testCase{n: 36, shows: []string{`not shown|mislead`, `not seen as they are|not seen`}, script: `python3 - <<'P'
import os
for n in [b'new\nline', b'esc\x1b[31mred', b'abc\xe2\x80\xaetxt.exe', b'bad\xff\xfe', b'zero\xe2\x80\x8bwidth']:
    open(n, 'wb').write(b'x')
open('src/util.py', 'ab').write('access = "user\u202e \u2066# admin\u2069 \u2066"\n'.encode())
open('long.txt', 'w').write('y' * 2000000)
P`}
	name := h.fork()
	defer h.run("rm", name)
	before := h.tree(name)
	if a := h.sh(name, c.script); a.code != 0 {
		r.Verdict, r.Why = NotCovered, "the case could not be carried out: "+oneLine(a.errs)
		return
	}
	screen, err := h.screen(name, "parent")
	switch {
	case err != nil:
		r.Screen, r.Why = "no", "the review failed: "+oneLine(err.Error())
	case strings.ContainsAny(screen, "\x1b\u202e\u200b"):
		r.Screen, r.Why = "no", "the review passes control characters on to the terminal"
	case misses(screen, c.shows) != "":
		r.Screen, r.Why = "no", "the first screen does not show `"+misses(screen, c.shows)+"`"
	default:
		r.Screen, r.Why = "yes", "names are quoted, and the first screen shows: "+matched(screen, c.shows)
	}
	h.undo(name, before, r)
}

func plantedGit(h *host, r *Result) {
	name, probe := h.fork(), filepath.Join(h.TempDir(), "ran-on-the-host")
	defer h.run("rm", name)
	evil := "touch " + probe
	h.sh(name, fmt.Sprintf(`git config core.fsmonitor '%[1]s'; git config diff.x.command '%[1]s'; git config diff.external '%[1]s'; git config filter.f.clean '%[1]s'; git config core.hooksPath h
echo '* filter=f diff=x' > .gitattributes; mkdir -p h; printf '#!/bin/sh\n%[1]s\n' > h/post-checkout; chmod +x h/post-checkout; cp h/post-checkout .git/hooks/; mkdir sub; cd sub; git init -q; git config core.fsmonitor '%[1]s'`, evil))
	screen, err := h.screen(name, "parent")
	h.run("cp", "-r", name+":/workspace/app", filepath.Join(h.TempDir(), "out"))
	h.repo("planted")
	h.run("commit", name, "/workspace/app", "--repo", "planted", "-m", "x", "--yes")
	_, ran := os.Lstat(probe)
	r.Screen = "no"
	if misses(screen, []string{`git obeys`}) == "" {
		r.Screen = "yes"
	}
	r.verdict(Prevented, NotCovered, "nothing of it ran on the host during the review, a copy and a commit; the first screen shows: "+matched(screen, []string{`git obeys`}), map[string]bool{
		"nothing ran on the host": os.IsNotExist(ran), fmt.Sprintf("the review works: %v", err): err == nil,
	})
}

func undoneUndo(h *host, r *Result) {
	name := h.fork()
	defer h.run("rm", name)
	h.sh(name, "echo evidence > evidence.txt")
	before := h.tree(name)
	a := h.run("rollback", name)
	gone := h.sh(name, "test -e evidence.txt").code != 0
	id := moment.FindString(a.errs + a.out)
	forward := h.run("rollback", name, id)
	r.verdict(Reversible, NotCovered, "the rollback captured the state before it, and a rollback to that brought the same files back", map[string]bool{
		"the rollback worked: " + oneLine(a.errs): a.code == 0 && gone, "its answer names the state before: " + oneLine(a.out+a.errs): id != "",
		"going forward again works: " + oneLine(forward.errs): forward.code == 0, "the files are the same again": h.tree(name) == before,
	})
}

func killedRollback(h *host, r *Result) {
	facts := map[string]bool{}
	for i, after := range []time.Duration{200 * time.Millisecond, 1500 * time.Millisecond} {
		name := h.fork()
		old := h.tree(name)
		h.sh(name, "rm -rf docs; echo new > new.txt")
		fresh := h.tree(name)
		go func() { <-time.After(after); _ = h.server.Process.Kill() }()
		h.run("rollback", name)
		_ = h.server.Wait()
		h.serve()
		h.run("start", name)
		now := h.tree(name)
		facts[fmt.Sprintf("kill %d left the old or the new state: %s", i+1, firstDifference(old, now))] = now == old || now == fresh
		again := h.run("rollback", name)
		facts[fmt.Sprintf("a rollback after kill %d works: %s", i+1, oneLine(again.errs))] = again.code == 0 || now == old
		h.run("rm", name)
	}
	r.verdict(Prevented, NotCovered, "after two kills of the server during a rollback, the files were those of one state, and another rollback worked", facts)
}

func tamperedSnapshot(h *host, r *Result) {
	name := h.fork()
	defer h.run("rm", name)
	h.ok("snapshot", "create", name, "--name", "tampered")
	defer h.run("snapshot", "rm", "tampered")
	var newest, kind string
	var at time.Time
	_ = filepath.WalkDir(h.data, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && filepath.Base(p) == "ram" {
			if st, err := d.Info(); err == nil && st.ModTime().After(at) && st.Size() > 1<<20 {
				newest, at, kind = p, st.ModTime(), filepath.Base(p)
			}
		}
		return nil
	})
	if newest == "" {
		r.Verdict, r.Why = NotCovered, "the snapshot's memory file was not found"
		return
	}
	f, err := os.OpenFile(newest, os.O_RDWR, 0)
	h.must("opening the memory file", err)
	b := make([]byte, 1)
	_, err = f.ReadAt(b, 300<<20)
	if err == nil {
		b[0] ^= 1
		_, err = f.WriteAt(b, 300<<20)
	}
	h.must("flipping a bit", err)
	h.must("closing the memory file", f.Close())
	a := h.run("rollback", name, "tampered")
	if a.code != 0 {
		r.Verdict, r.Why = Prevented, "the start is refused: "+oneLine(a.errs)
		return
	}
	r.Verdict, r.Why = NotCovered, "a start does not check the sums of a snapshot's files ("+kind+"), because that would take seconds; whoever can write them is the server's own user. Cold snapshots are sealed, and a changed one is refused"
}

func sharedIdentity(h *host, r *Result) {
	facts, seen := map[string]bool{}, map[string]map[string]bool{}
	for range 3 {
		name := h.fork()
		defer h.run("rm", name)
		for what, script := range map[string]string{
			"random numbers": "head -c 16 /dev/urandom | od -An -tx1", "machine ids": "cat /etc/machine-id", "host names": "hostname", "boot ids": "cat /proc/sys/kernel/random/boot_id",
		} {
			if seen[what] == nil {
				seen[what] = map[string]bool{}
			}
			seen[what][h.sh(name, script).out] = true
		}
		skew := h.sh(name, "date +%s").out
		var at int64
		_, _ = fmt.Sscan(skew, &at)
		d := time.Now().Unix() - at
		facts[fmt.Sprintf("the clock of %s is right: %d s", name, d)] = d >= -3 && d <= 10
	}
	for what, values := range seen {
		facts["three forks have three "+what] = len(values) == 3
	}
	r.verdict(Prevented, NotCovered, "random numbers, machine ids, boot ids and host names of three forks differ, and their clocks are right", facts)
}

func notUndone(h *host, r *Result) {
	name := h.fork()
	defer h.run("rm", name)
	a := h.run("rollback", name)
	text := strings.ToLower(a.out + a.errs)
	r.Screen = "yes"
	r.verdict(Revealed, NotCovered, "the answer of a rollback names what it does not undo: "+oneLine(a.errs+a.out), map[string]bool{
		"the answer says what is not undone: " + oneLine(a.out+a.errs): a.code == 0 && (strings.Contains(text, "not undone") || strings.Contains(text, "push") || strings.Contains(text, "outside")),
	})
}
