// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

//go:build system

package system

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

// shownWithin is how soon the docs promise that a change in a bucket is seen in a mount.
const shownWithin = 10 * time.Second

// showsSoon waits until a line in a VM prints what is wanted, and says how long that took.
func (h *host) showsSoon(what, name, line, want string) {
	h.t.Helper()
	begun, got := time.Now(), ""
	for time.Since(begun) < shownWithin {
		if _, got = h.guest(name, line); strings.TrimSpace(got) == want {
			return
		}
	}
	h.t.Errorf("%s: after %v the VM has %q, want %q", what, time.Since(begun).Round(time.Millisecond), got, want)
}

// TestObjectsMount: objects below a prefix are files in a VM whose network is closed, with
// their exact bytes, also in a fork, after a sleep and after the server was killed. Nothing
// changes them there.
//
// 001-18
func TestObjectsMount(t *testing.T) {
	h := newObjectHost(t)
	body := random(t, 24<<20+7)
	sum := sha256.Sum256(body)
	digest := hex.EncodeToString(sum[:])
	h.upload("s3://data/in/deep/big file", body)
	h.upload("s3://data/beside", []byte("beside"))
	h.ok("up", "--name", "box", "--net", "closed", "--mount", "s3://data/in:/data:ro")
	check := func(what, name string) {
		t.Helper()
		if got := h.sh(name, "cd /data && find . | sort && cat hello.txt && sha256sum <'deep/big file'"); got != ".\n./deep\n./deep/big file\n./hello.txt\nhello from data\n"+digest+"  -" {
			t.Errorf("%s the mount has %q", what, got)
		}
	}
	check("at first", "box")
	if got := h.sh("box", "tail -c 100 '/data/deep/big file' | sha256sum"); !strings.HasPrefix(got, shaOf(body[len(body)-100:])) {
		t.Error("the end of the file has other bytes")
	}
	for _, line := range []string{"echo x > /data/new", "echo x >> /data/hello.txt", "rm /data/hello.txt", "mkdir /data/d", "mv /data/hello.txt /data/x", "mv /data/deep /data/d", "ln /data/hello.txt /data/l", "ln -s x /data/l", "chmod 777 /data/hello.txt", "truncate -s 0 /data/hello.txt", "rm -r /data/deep", "mount -o remount,rw,bind /data && echo x > /data/new", "touch -d 2020-01-01 /data/hello.txt"} {
		if code, out := h.guest("box", line); code == 0 || !strings.Contains(strings.ToLower(out), "read-only") {
			t.Errorf("%q: status %d, %q, want that the file system is read-only", line, code, out)
		}
	}
	h.ok("fork", "box", "-n", "1", "--name", "try")
	check("in a fork", "try-1")
	h.ok("suspend", "box")
	check("after a sleep", "box")
	h.killServer()
	h.serve()
	check("after the server was killed", "box")
	if got := h.ok("volume", "ls", "box"); !strings.Contains(got, "s3://data/in/") {
		t.Errorf("the list of mounts is %q", got)
	}
	trees := decoded[vm.Truth](t, h.ok("truth", "box", "--json")).Trees
	if i := slices.IndexFunc(trees, func(tree vm.TruthTree) bool { return tree.Path == "/data" }); i < 0 {
		t.Errorf("the truth of the VM has no tree of the mount: %+v", trees)
	} else if got := trees[i]; got.Kind != vm.TreeObjects || got.Authority.String() != "objects below s3://data/in/" || !got.Stays {
		t.Errorf("the truth calls the mount %s of %s (it stays: %v), want objects below s3://data/in/ that stay", got.Kind, got.Authority, got.Stays)
	}
	h.ok("volume", "unmount", "box", "/data")
	if got := h.sh("box", "ls /data"); got != "" {
		t.Errorf("after the unmount there is %q", got)
	}
	h.ok("volume", "mount", "box", "--volume", "s3://theirs", "--guest", "/theirs")
	if got := h.sh("box", "cat /theirs/in/hello.txt"); got != "hello from theirs" {
		t.Errorf("a bucket that is mounted later has %q", got)
	}
	h.ok("bucket", "revoke", "theirs", "--vm", "box")
	if code, out := h.guest("box", "cat /theirs/in/hello.txt"); code == 0 {
		t.Errorf("after the right ended the VM reads %q", out)
	}
	for _, args := range [][]string{{"s3://nobodys", "/n"}, {"s3://data/../theirs", "/n"}, {"s3://data", "/etc"}} {
		if r := h.run("volume", "mount", "box", "--volume", args[0], "--guest", args[1]); r.code == 0 {
			t.Errorf("%v is mounted", args)
		}
	}
	if r := h.run("volume", "mount", "box", "--volume", "s3://data", "--guest", "/n", "--rw"); r.code == 0 || !strings.Contains(r.stderr, "never written") {
		t.Errorf("a mount to write: status %d, %s", r.code, r.stderr)
	}
}

func shaOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// TestObjectsMountDiffers: where a mount differs from POSIX, it differs as docs/folders.md
// says.
//
// 001-32, 001-38
func TestObjectsMountDiffers(t *testing.T) {
	h := newObjectHost(t)
	old, young := bytes.Repeat([]byte("old\n"), 1<<20), bytes.Repeat([]byte("young\n"), 1<<20)
	h.upload("s3://data/in/open", old)
	h.upload("s3://data/in/tree/a", []byte("a"))
	h.upload("s3://data/in/tree/b/c", []byte("c"))
	h.ok("up", "--name", "box", "--net", "closed", "--mount", "s3://data/in:/data:ro")
	h.ok("bucket", "grant", "s3://data/in/", "--vm", "box", "--write")
	watcher, err := os.ReadFile("testdata/objectsinside/watch.py")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("overwrite while open, and a watcher", func(t *testing.T) {
		var seen result
		var wg sync.WaitGroup
		wg.Go(func() { seen = h.runIn("", watcher, "exec", "-i", "box", "--", "python3", "-") })
		h.eventually("the watcher runs", func() bool { code, _ := h.guest("box", "test -e /tmp/watching"); return code == 0 })
		h.upload("s3://data/in/open", young)
		h.showsSoon("a new version", "box", "head -c 6 /data/open", "young")
		h.sh("box", "touch /tmp/overwritten")
		wg.Wait()
		if seen.code != 0 || strings.TrimSpace(seen.stdout) != "old whole, no event" {
			t.Errorf("a program with the file open says: status %d, %s%s", seen.code, seen.stdout, seen.stderr)
		}
		if got := h.sh("box", "sort -u /data/open"); got != "young" {
			t.Errorf("opened again the file has %.60q", got)
		}
	})
	t.Run("rename", func(t *testing.T) {
		h.sh("box", "cat /data/hello.txt >/dev/null")
		if got := h.sh("box", curlStatus+"data/in/moved.txt -X PUT -H 'X-Amz-Copy-Source: /data/in/hello.txt' && "+curlStatus+"data/in/hello.txt -X DELETE"); got != "200204" {
			t.Fatalf("the copy and the removal: %s", got)
		}
		h.showsSoon("a rename in the bucket", "box", "cd /data; ls *.txt", "moved.txt")
	})
	t.Run("two writers", func(t *testing.T) {
		line := func(who string) string {
			return "yes " + who + " | head -c 1000000 > /tmp/" + who + "; for i in $(seq 8); do " + curlStatus + "data/in/two -T /tmp/" + who + " >/dev/null; done"
		}
		h.upload("s3://data/in/two", bytes.Repeat([]byte("a\n"), 1000))
		h.showsSoon("a new key", "box", "cat </data/two | sort -u", "a")
		var wg sync.WaitGroup
		for _, who := range []string{"a", "b"} {
			wg.Go(func() { h.guest("box", line(who)) })
		}
		for range 10 {
			if got := h.sh("box", "sort -u </data/two"); got != "a" && got != "b" {
				t.Errorf("while two write, a reading has lines of both: %.60q", got)
			}
		}
		wg.Wait()
	})
	t.Run("delete of a tree", func(t *testing.T) {
		h.sh("box", "(exec 9</data/tree/a; touch /tmp/holds; while ! [ -e /tmp/deleted ]; do sleep 0.1; done; cat <&9 >/tmp/held) </dev/null >/dev/null 2>&1 & while ! [ -e /tmp/holds ]; do sleep 0.1; done")
		h.ok("artifact", "rm", "s3://data/in/tree/a")
		h.ok("artifact", "rm", "s3://data/in/tree/b/c")
		h.showsSoon("the tree that was removed", "box", "ls -d /data/tree 2>/dev/null | wc -l", "0")
		h.sh("box", "touch /tmp/deleted")
		h.showsSoon("what had a file of it open", "box", "cat /tmp/held", "a")
	})
	t.Run("names", func(t *testing.T) {
		for _, key := range []string{"both", "both/below", "x//y", strings.Repeat("n", 300), "marker/"} {
			if got := h.sh("box", curlStatus+"'data/in/names/"+key+"' -X PUT --data-binary @/etc/hostname"); got != "200" {
				t.Errorf("the key %.20q is not written: %s", key, got)
			}
		}
		got := strings.Fields(h.sh("box", "cd /data/names; for f in *; do [ -d $f ] && echo $f/ || echo $f; done"))
		if want := []string{"both/", "marker/", "x/"}; !slices.Equal(got, want) {
			t.Errorf("the names are %q, want %q", got, want)
		}
		if got := h.sh("box", "ls -A /data/names/x /data/names/marker | grep -v : | tr -d '\\n'"); got != "" {
			t.Errorf("the directories have %q, want nothing", got)
		}
	})
	t.Run("attributes", func(t *testing.T) {
		if got := h.sh("box", "stat -c '%U %a %h' /data/moved.txt /data; df --output=size /data | tail -1; cp /bin/true /tmp/t; cd /data; getfattr -d moved.txt 2>/dev/null; ./moved.txt 2>&1 | grep -c denied"); strings.Join(strings.Fields(got), " ") != "root 444 1 root 555 1 0 1" && strings.Join(strings.Fields(got), " ") != "root 444 1 root 555 1 - 1" {
			t.Errorf("owner, mode, links, size of the file system and whether it runs: %q", got)
		}
	})
}

// TestObjectsMountPrograms: what programs find in a mount is as docs/folders.md says. Changes
// of several keys are seen one by one: two files that one agent writes, the files of a
// directory that is renamed. Locks end at the VM. What was fetched stays readable when a
// version or a right ends, and the rest fails. While the server restarts, readers wait.
//
// 001-32, 001-38
func TestObjectsMountPrograms(t *testing.T) {
	t.Parallel() // it mostly waits
	h := newObjectHost(t)
	for key, body := range map[string][]byte{
		"one": []byte("old one\n"), "two": []byte("old two\n"), "old/a": []byte("a"), "old/b": []byte("b"), "deep/er/file": random(t, 100_000), "version": random(t, 8<<20), "right": random(t, 8<<20),
	} {
		h.upload("s3://data/in/"+key, body)
	}
	h.ok("up", "--name", "box", "--net", "closed", "--mount", "s3://data/in:/data:ro")
	h.ok("bucket", "grant", "s3://data/in/", "--vm", "box", "--write")
	t.Run("one agent edits two files", func(t *testing.T) { h.mountTwoFiles(t) })
	t.Run("a directory is renamed", func(t *testing.T) { h.mountRenames(t) })
	t.Run("inode numbers, and times of directories", func(t *testing.T) {
		const numbers = "stat -c '%i %Y' /data/one; stat -c %Y /data"
		before := strings.Fields(h.sh("box", numbers))
		h.upload("s3://data/in/one", []byte("newer"))
		h.showsSoon("a new version", "box", "cat /data/one", "newer")
		after := strings.Fields(h.sh("box", numbers))
		if before[0] == after[0] || after[1] <= before[1] || before[2] != after[2] {
			t.Errorf("number and time of a file, and time of its directory, were %q and are %q after a new version", before, after)
		}
	})
	t.Run("files", func(t *testing.T) { h.mountFiles(t) })
	t.Run("locks", func(t *testing.T) { h.mountLocks(t) })
	t.Run("a prefix without keys, and a bucket that is removed", func(t *testing.T) {
		h.ok("bucket", "create", "empty")
		h.ok("volume", "mount", "box", "--volume", "s3://empty/nothing/here", "--guest", "/empty")
		if got := h.sh("box", "ls -A /empty && mountpoint /empty"); got != "/empty is a mountpoint" {
			t.Errorf("a prefix without keys shows %q", got)
		}
		h.ok("bucket", "rm", "empty", "--force")
		h.showsSoon("a bucket that was removed", "box", "ls /empty 2>&1 >/dev/null | grep -c cannot", "1")
	})
	t.Run("a version ends", func(t *testing.T) {
		h.mountEnds(t, "version", "Stale file handle", func() {
			_, rest, _ := strings.Cut(h.ok("artifact", "versions", "s3://data/in/version", "--json"), `"version": "`)
			id, _, _ := strings.Cut(rest, `"`)
			h.ok("artifact", "rm", "s3://data/in/version", "--version-id", id)
		})
	})
	t.Run("the server restarts", func(t *testing.T) { h.mountWaits(t) })
	t.Run("the right ends", func(t *testing.T) {
		h.mountEnds(t, "right", "Permission denied", func() {
			h.ok("bucket", "revoke", "s3://data/in/", "--vm", "box")
			if code, out := h.guest("box", "cat /data/hello.txt"); code == 0 || !strings.Contains(out, "Permission denied") {
				t.Errorf("after the right ended, opening gives status %d, %s", code, out)
			}
			h.showsSoon("a list after the right ended", "box", "ls /data 2>&1 >/dev/null | grep -c denied", "1")
		})
	})
}

func (h *host) mountTwoFiles(t *testing.T) {
	write := func(key string) {
		t.Helper()
		if got := h.sh("box", "echo new "+key+" >/tmp/f && "+curlStatus+"data/in/"+key+" -T /tmp/f"); got != "200" {
			t.Fatalf("%s is not written: %s", key, got)
		}
	}
	h.sh("box", "cat /data/one /data/two")
	write("one")
	h.showsSoon("between the two writes", "box", "cat /data/one /data/two", "new one\nold two")
	write("two")
	h.showsSoon("after both writes", "box", "cat /data/one /data/two", "new one\nnew two")
}

func (h *host) mountRenames(t *testing.T) {
	move := func(name string) {
		t.Helper()
		if got := h.sh("box", curlStatus+"data/in/new/"+name+" -X PUT -H 'X-Amz-Copy-Source: /data/in/old/"+name+"'"); got != "200" {
			t.Fatalf("the copy of %s: %s", name, got)
		}
	}
	remove := func(name string) {
		t.Helper()
		if got := h.sh("box", curlStatus+"data/in/old/"+name+" -X DELETE"); got != "204" {
			t.Fatalf("the removal of %s: %s", name, got)
		}
	}
	const tree = "cd /data && find new old -type f 2>/dev/null | sort | tr '\n' ' '"
	if code, out := h.guest("box", "mv /data/old /data/new"); code == 0 || !strings.Contains(out, "Read-only") {
		t.Errorf("in the VM a rename gives status %d, %s", code, out)
	}
	h.sh("box", tree)
	move("a")
	h.showsSoon("after the first copy", "box", tree, "new/a old/a old/b")
	remove("a")
	h.showsSoon("after the first removal", "box", tree, "new/a old/b")
	move("b")
	remove("b")
	h.showsSoon("after the last removal", "box", tree, "new/a new/b")
	if got := h.sh("box", "cat /data/new/a /data/new/b"); got != "ab" {
		t.Errorf("after the rename the files have %q", got)
	}
	h.showsSoon("the old directory, which no key needs", "box", "ls -d /data/old 2>&1 >/dev/null | grep -c 'No such file'", "1")
}

// mountFiles lets a program look at a file of the mount and use it.
func (h *host) mountFiles(t *testing.T) {
	script, err := os.ReadFile("testdata/objectsinside/files.py")
	if err != nil {
		t.Fatal(err)
	}
	written := h.sh("box", "date -d \"$(curl -sSI https://s3.warren.internal/data/in/deep/er/file | tr -d '\\r' | sed -n 's/^[Ll]ast-[Mm]odified: //p')\" +%s")
	r := h.runIn("", script, "exec", "-i", "box", "--", "python3", "-", "/data/deep/er/file", written)
	if r.code != 0 || strings.TrimSpace(r.stdout) != "done" {
		t.Errorf("a program that looks at the files says: status %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// mountLocks: a lock holds in its VM, and not for a fork of it or a writer of the bucket.
func (h *host) mountLocks(t *testing.T) {
	h.ok("fork", "box", "-n", "1", "--name", "try")
	h.sh("box", "(exec 9</data/two; flock 9; touch /tmp/locked; while ! [ -e /tmp/unlock ]; do sleep 0.1; done) </dev/null >/dev/null 2>&1 & while ! [ -e /tmp/locked ]; do sleep 0.1; done")
	if code, _ := h.guest("box", "flock -n /data/two true"); code == 0 {
		t.Error("a lock does not hold within the VM")
	}
	if code, out := h.guest("try-1", "flock -n /data/two true"); code != 0 {
		t.Errorf("another VM meets the lock: status %d, %s", code, out)
	}
	h.upload("s3://data/in/two", []byte("written although it is locked"))
	h.showsSoon("a new version of a locked file", "box", "cat /data/two", "written although it is locked")
	h.sh("box", "touch /tmp/unlock")
	h.ok("rm", "try-1")
}

// mountEnds has a program hold a file open while something ends. It then reads the file's
// beginning, which it had read before, and gets an error for the end, which it had not.
func (h *host) mountEnds(t *testing.T, name, end string, ends func()) {
	script, err := os.ReadFile("testdata/objectsinside/hold.py")
	if err != nil {
		t.Fatal(err)
	}
	var seen result
	var wg sync.WaitGroup
	wg.Go(func() {
		seen = h.runIn("", script, "exec", "-i", "box", "--", "python3", "-", "/data/"+name, "/tmp/"+name)
	})
	h.eventually("a program has "+name+" open", func() bool { code, _ := h.guest("box", "test -e /tmp/"+name+".holds"); return code == 0 })
	ends()
	h.sh("box", "touch /tmp/"+name+".go")
	wg.Wait()
	if want := "the beginning: as it was\nthe end: " + end; strings.TrimSpace(seen.stdout) != want {
		t.Errorf("who has %s open says: status %d, %q, %s, want %q", name, seen.code, seen.stdout, seen.stderr, want)
	}
}

// mountWaits has a program open a file again and again while the server is killed and started.
func (h *host) mountWaits(t *testing.T) {
	h.sh("box", "(while ! [ -e /tmp/stop ]; do cat /data/hello.txt >/tmp/last 2>>/tmp/bad || echo failed >>/tmp/bad; echo >>/tmp/n; done) </dev/null >/dev/null 2>&1 &")
	reads := func() string { return h.sh("box", "cat /tmp/n 2>/dev/null | wc -l") }
	h.eventually("a program reads", func() bool { return reads() != "0" })
	h.killServer()
	h.serve()
	before := reads()
	h.eventually("the program keeps reading", func() bool { return reads() != before })
	if got := h.sh("box", "touch /tmp/stop; cat /tmp/bad 2>/dev/null; cat /data/hello.txt"); got != "hello from data" {
		t.Errorf("who read while the server was killed and started again says %q", got)
	}
}
