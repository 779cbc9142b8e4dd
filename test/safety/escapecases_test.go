//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

func linkCopyOut(h *host, r *Result) {
	name, dir := h.fork(), h.TempDir()
	defer h.run("rm", name)
	secret := filepath.Join(dir, "host-secret")
	h.must("writing", os.WriteFile(secret, []byte(canary("host")), 0o600))
	h.sh(name, "mkdir -p o; ln -s "+secret+" o/out.json; ln -s "+dir+" o/dir; ln -s o/loop o/loop; echo fine > o/file; ln -s "+secret+" top")
	one := h.run("cp", name+":/workspace/app/top", filepath.Join(dir, "one"))
	tree := h.run("cp", "-r", name+":/workspace/app/o", filepath.Join(dir, "tree"))
	b, _ := os.ReadFile(filepath.Join(dir, "one"))
	_, link := os.Lstat(filepath.Join(dir, "tree", "out.json"))
	r.verdict(Prevented, NotCovered, "a link leads within the VM only, and links that lead outside are left out of a tree: "+oneLine(tree.errs), map[string]bool{
		"the host's file is not read: " + oneLine(one.errs):     !bytes.Contains(b, []byte(canary("host"))),
		"the rest of the tree is copied: " + oneLine(tree.errs): tree.code == 0, "no link to the host's file is made": os.IsNotExist(link),
	})
}

func evilTree(h *host, r *Result) {
	name, dir := h.fork(), h.TempDir()
	defer h.run("rm", name)
	h.sh(name, `mkdir -p e/d; cd e; mkfifo pipe; mknod dev c 1 3; mknod blk b 8 0; ln /etc/passwd hard; touch README readme; ln -s .. up; ln -s up/../../../x climb; python3 -c "
import socket; socket.socket(socket.AF_UNIX).bind('sock')"`)
	h.sh(name, "truncate -s 10G sparse")
	sparse := h.run("cp", name+":/workspace/app/sparse", filepath.Join(dir, "sparse"))
	h.sh(name, "rm sparse")
	tree := h.run("cp", "-r", name+":/workspace/app/e", filepath.Join(dir, "e"))
	_, partial := os.Lstat(filepath.Join(dir, "sparse"))
	odd := ""
	_ = filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Type()&(os.ModeDevice|os.ModeNamedPipe|os.ModeSocket|os.ModeCharDevice) != 0 {
			odd = p
		}
		return nil
	})
	outside, _ := filepath.Glob(filepath.Join(filepath.Dir(dir), "x"))
	r.verdict(Prevented, NotCovered, "devices, pipes and sockets are left out, and a sparse file of 10 GiB is refused: "+oneLine(sparse.errs), map[string]bool{
		"the sparse file is refused": sparse.code != 0, "no partial file is left": os.IsNotExist(partial), "the tree is copied or refused whole: " + oneLine(tree.errs): tree.code == 0 || tree.code == 13 || tree.code == 12 || tree.code == 8,
		"no device, pipe or socket is made on the host: " + odd: odd == "", "nothing is written outside": len(outside) == 0,
	})
}

// ask sends a request to the server and returns the status.
func (h *host) ask(method, path, body string) int {
	h.Helper()
	req, err := http.NewRequestWithContext(h.Context(), method, "http://"+h.listen+path, strings.NewReader(body))
	h.must("making a request", err)
	key, err := os.ReadFile(filepath.Join(h.data, "admin.key"))
	h.must("reading the key", err)
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(key)))
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	h.must("asking", err)
	defer resp.Body.Close()
	return resp.StatusCode
}

// repo makes a repository of the server.
func (h *host) repo(name string) bool {
	h.Helper()
	return h.ask("POST", "/git/v1/repo", `{"name":"`+name+`"}`) == http.StatusOK
}

func oddPaths(h *host, r *Result) {
	name := h.fork()
	defer h.run("rm", name)
	get := func(path string) int { return h.ask("GET", "/v1/vms/"+name+"/raw/"+path, "") }
	h.sh(name, "echo guest > /workspace/mark")
	facts := map[string]bool{
		"a path that climbs stays in the VM":     get("%2Fworkspace%2F..%2F..%2F..%2F..%2Fworkspace%2Fmark") == 200,
		"a NUL is refused":                       get("%2Fworkspace%2Fmark%00x") == 400,
		"a path of 5,000 bytes is refused":       get("%2F"+strings.Repeat("x", 5000)) >= 400,
		"the host's data directory is not there": get(strings.ReplaceAll(filepath.Join(h.data, "admin.key"), "/", "%2F")) == 404,
		"a sibling with a like name is its own":  get("%2Fworkspace-evil%2Fmark") == 404,
	}
	r.verdict(Prevented, NotCovered, "paths are resolved in the VM only, NUL and over-long paths are refused, and no path reaches a file of the host", facts)
}

func readOnlyInput(h *host, r *Result) {
	dir := h.TempDir()
	file := filepath.Join(dir, "input")
	h.must("writing", os.WriteFile(file, []byte("original"), 0o644))
	up := h.run("up", "--name", "reader", "--add-dir", dir+":/input:ro")
	defer h.run("rm", "reader")
	h.run("exec", "reader", "--", "sh", "-c", `mount -o remount,rw /input; echo evil > /input/input; echo evil > /input/new; rm -f /input/input; ln /input/input /input/hard; mknod /input/dev c 1 3; echo evil > /proc/1/root/input/input; chmod 777 /input/input; truncate -s 0 /input/input`)
	b, err := os.ReadFile(file)
	list, _ := os.ReadDir(dir)
	r.verdict(Prevented, NotCovered, "after a remount, writes, links, devices and /proc/1/root as root in the VM, the host's directory is unchanged", map[string]bool{
		"the directory is given to the VM: " + oneLine(up.errs): up.code == 0, "the host's file is unchanged": err == nil && string(b) == "original", "nothing was added": len(list) == 1,
	})
}

func badHostPath(h *host, r *Result) {
	home, err := os.UserHomeDir()
	h.must("finding the home", err)
	home, err = filepath.EvalSymlinks(home)
	h.must("finding the home", err)
	dir := h.TempDir()
	link, below := filepath.Join(dir, "link"), filepath.Join(dir, "below")
	h.must("linking", os.Symlink("/etc", link))
	h.must("making a directory", os.Mkdir(below, 0o755))
	facts := map[string]bool{}
	try := func(what, path string) {
		a := h.run("up", "--name", "bad", "--add-dir", path+":/in:ro")
		facts[what+" is refused, with what to do instead"] = a.code != 0 && strings.Contains(a.errs, "hint:") && !strings.Contains(a.errs, "internal")
		facts["no VM is left after "+what] = h.run("inspect", "bad").code != 0
		h.run("rm", "bad")
	}
	for what, path := range map[string]string{"the root directory": "/", "the home": home, "the directory above the home": filepath.Dir(home), "Warren's data": h.data, "a link to /etc": link} {
		try(what, path)
	}
	for _, path := range []string{"/etc", "/var", "/run", "/boot", "/proc", "/sys", "/dev", filepath.Join(home, ".ssh"), filepath.Join(home, ".config"), "/etc/ssh"} {
		if _, err := os.Stat(path); err == nil {
			try(strings.Replace(path, home, "the home's", 1), path)
		}
	}
	ok := h.run("up", "--name", "good", "--add-dir", below+":/in:ro")
	facts["a directory below another is shown: "+oneLine(ok.errs)] = ok.code == 0
	h.run("rm", "good")
	r.verdict(Prevented, NotCovered, "the root directory, the home, /etc, /var, /run, /proc, Warren's data, directories with keys, what contains one of them and a link to one are refused; a directory below them is shown, read-only", facts)
}

func filledDisk(h *host, r *Result) {
	name := h.fork()
	defer h.run("rm", name)
	other := h.fork()
	defer h.run("rm", other)
	full := h.sh(name, "fallocate -l 200G f 2>&1; fallocate -l $(($(df --output=avail -B1 . | tail -1) - 1000000)) g 2>&1; dd if=/dev/zero of=more bs=1M count=64 2>&1")
	sparse := h.sh(name, "rm -f g; truncate -s 50G s && stat -c %b s")
	works := h.sh(other, "echo fine > fine && cat fine")
	out := h.run("cp", name+":/workspace/app/s", filepath.Join(h.TempDir(), "s"))
	r.verdict(Prevented, NotCovered, "the VM gets \"no space left\", another VM and the host do not, and copying a sparse file of 50 GiB out is refused", map[string]bool{
		"the VM meets its own limit: " + oneLine(full.out): strings.Contains(full.out, "No space left"), "another VM can write": works.code == 0,
		"the sparse file is made: " + oneLine(sparse.out+sparse.errs): sparse.code == 0, "it is not copied out: " + oneLine(out.errs): out.code != 0,
	})
}

func editedRecord(h *host, r *Result) {
	name := h.fork()
	h.sh(name, "rm -rf /var/log/* /root/.bash_history")
	h.run("rm", name)
	listed := h.run("audit", "ls")
	good := h.run("audit", "verify")
	var file string
	_ = filepath.WalkDir(filepath.Join(h.data, "audit"), func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if b, rerr := os.ReadFile(p); rerr == nil && bytes.Count(b, []byte("\n")) > 5 && file == "" {
				file = p
			}
		}
		return nil
	})
	facts := map[string]bool{"the chain is whole before: " + oneLine(good.errs): good.code == 0, "the log is found": file != "", "the VM's deletion is recorded": strings.Contains(listed.out, "delete") || strings.Contains(listed.out, "rm")}
	if file != "" {
		// The server may append records meanwhile, if only of its own chores. It appends to the file that it has
		// open, so that file keeps a second name and is put back whole.
		whole, edited := filepath.Join(h.data, "whole.jsonl"), filepath.Join(h.data, "edited.jsonl")
		h.must("keeping the audit log", os.Link(file, whole))
		b, err := os.ReadFile(file)
		h.must("reading the audit log", err)
		lines := bytes.SplitAfter(b, []byte("\n"))
		for what, edit := range map[string][]byte{
			"a changed record": bytes.Replace(b, []byte(`"op":"`), []byte(`"op":"x`), 1),
			"a dropped record": bytes.Join(append(append([][]byte{}, lines[:2]...), lines[3:]...), nil),
			"swapped records":  bytes.Join(append([][]byte{lines[0], lines[2], lines[1]}, lines[3:]...), nil),
		} {
			h.must("editing the audit log", errors.Join(os.WriteFile(edited, edit, 0o600), os.Rename(edited, file)))
			facts[what+" is found"] = h.run("audit", "verify").code == 13
		}
		h.ok("exec", "base", "--", "true") // the server appends a record of this
		h.must("restoring the audit log", os.Rename(whole, file))
		again := h.run("audit", "verify")
		facts["the chain is whole again: "+oneLine(again.out+again.errs)] = again.code == 0
	}
	r.verdict(Prevented, NotCovered, "changed, dropped and swapped records are found by `warren audit verify`; an agent that deletes its VM's logs does not reach them", facts)
}
