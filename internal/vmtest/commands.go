// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/interp"

	"github.com/warren-vm/warren/vm"
)

// command runs one program that is not a builtin of the shell.
func (sh *shell) command(argv []string) int {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(sh.stdout, format, args...) }
	args := argv[1:]
	switch name := path.Base(argv[0]); name {
	case "mkfs.ext4", "resize2fs", "sync", "chown", "chmod":
		return 0
	case "dirname":
		say("%s\n", path.Dir(strings.Join(args, " ")))
		return 0
	case "cp", "mv":
		return sh.move(name, args)
	case "sh", "bash":
		return sh.sub(args)
	case "cat":
		return sh.cat(args)
	case "sleep":
		return sh.sleep(args)
	case "env":
		for _, k := range slices.Sorted(maps.Keys(sh.env)) {
			say("%s=%s\n", k, sh.env[k])
		}
		return 0
	case "uname":
		say("Linux\n")
		return 0
	case "hostname":
		say("%s\n", sh.env["HOSTNAME"])
		return 0
	case "whoami":
		say("%s\n", cmp.Or(sh.user, "root"))
		return 0
	case "yes":
		for sh.ctx.Err() == nil {
			say("y\n")
		}
		return 0
	case "sha256sum":
		return sh.sums(args)
	case "groupadd", "useradd":
		return sh.addUser(name, args)
	case "systemctl":
		return sh.systemctl(args)
	case "journalctl":
		return sh.journalctl(args)
	case "apt-get", "git":
		return sh.fetch(name, args)
	case "mkdir", "rm", "stat", "ls", "touch":
		return sh.fileCommand(name, args)
	default:
		if interp.IsBuiltin(name) && name != argv[0] { // /bin/echo
			return sh.program(append([]string{name}, args...))
		}
	}
	_, _ = fmt.Fprintf(sh.stderr, "bash: line 1: %s: command not found\n", argv[0])
	return 127
}

// sub is sh -c SCRIPT, or a script on standard input.
func (sh *shell) sub(args []string) int {
	if i := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") && strings.HasSuffix(a, "c") }); i >= 0 && i+1 < len(args) {
		return sh.script(args[i+1])
	}
	text, err := io.ReadAll(sh.stdin)
	if err != nil {
		return 1
	}
	return sh.script(string(text))
}

func (sh *shell) cat(args []string) int {
	if len(args) == 0 {
		if _, err := io.Copy(sh.stdout, sh.stdin); err != nil {
			return 1
		}
		return 0
	}
	code := 0
	for _, a := range args {
		data, err := sh.read(a)
		if err != nil {
			_, _ = fmt.Fprintf(sh.stderr, "cat: %s: No such file or directory\n", a)
			code = 1
			continue
		}
		if _, err := sh.stdout.Write(data); err != nil {
			return 1
		}
	}
	return code
}

func (sh *shell) sleep(args []string) int {
	if len(args) == 0 {
		return 1
	}
	s, err := strconv.ParseFloat(strings.TrimSuffix(args[0], "s"), 64)
	if err != nil {
		return 1
	}
	t := time.NewTimer(time.Duration(s * float64(time.Second)))
	defer t.Stop()
	select {
	case <-t.C:
		return 0
	case <-sh.ctx.Done():
		return 137
	}
}

func (sh *shell) sums(args []string) int {
	if len(args) == 0 {
		data, err := io.ReadAll(sh.stdin)
		if err != nil {
			return 1
		}
		_, _ = fmt.Fprintf(sh.stdout, "%x  -\n", sha256.Sum256(data))
		return 0
	}
	for _, a := range args {
		data, err := sh.read(a)
		if err != nil {
			_, _ = fmt.Fprintf(sh.stderr, "sha256sum: %s: No such file or directory\n", a)
			return 1
		}
		_, _ = fmt.Fprintf(sh.stdout, "%x  %s\n", sha256.Sum256(data), a)
	}
	return 0
}

func (sh *shell) addUser(name string, args []string) int {
	if len(args) == 0 {
		return 2
	}
	if name == "useradd" && !sh.disk.addUser(args[len(args)-1], slices.Contains(args, "--create-home")) {
		_, _ = fmt.Fprintf(sh.stderr, "useradd: user '%s' already exists\n", args[len(args)-1])
		return 9
	}
	return 0
}

// move is cp -a or mv -f of one file or directory.
func (sh *shell) move(name string, args []string) int {
	if len(args) != 3 {
		return 2
	}
	sh.disk.mu.Lock()
	defer sh.disk.mu.Unlock()
	from, to := sh.disk.resolve(sh.user, sh.abs(args[1])), sh.disk.follow(sh.user, sh.abs(args[2]))
	if sh.disk.nodes[from] == nil {
		_, _ = fmt.Fprintf(sh.stderr, "%s: %v\n", name, noFile(from)) // a failed write is lost, as in a real shell
		return 1
	}
	if n := sh.disk.nodes[to]; n != nil && n.kind == vm.FileDirectory {
		to = path.Join(to, path.Base(from))
	}
	for p, n := range maps.Clone(sh.disk.nodes) {
		if p == from || strings.HasPrefix(p, from+"/") {
			sh.disk.nodes[to+strings.TrimPrefix(p, from)] = n
			if name == "mv" {
				delete(sh.disk.nodes, p)
			}
		}
	}
	return 0
}

// fileCommand runs the programs with which the contract's client creates, lists and
// removes files.
func (sh *shell) fileCommand(name string, args []string) int {
	var flags string
	var paths []string
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case name == "stat" && a == "-c":
			i++
		case strings.HasPrefix(a, "-") && len(a) > 1:
			flags += a[1:]
		default:
			paths = append(paths, a)
		}
	}
	code := 0
	for _, p := range paths {
		if err := sh.oneFile(name, flags, p); err != nil {
			_, _ = fmt.Fprintf(sh.stderr, "%s: %v\n", name, err)
			code = 1
		}
	}
	return code
}

func (sh *shell) oneFile(name, flags, p string) error {
	p = sh.abs(p)
	switch name {
	case "mkdir":
		return sh.disk.mkdir(sh.user, p, 0, strings.Contains(flags, "p"))
	case "rm":
		err := sh.disk.remove(sh.user, p, strings.Contains(flags, "r"))
		if strings.Contains(flags, "f") && vm.KindOf(err) == vm.NotFound {
			return nil
		}
		return err
	case "touch":
		_, err := sh.disk.put(sh.user, p, nil, 0, false)
		return err
	}
	sh.disk.mu.Lock()
	defer sh.disk.mu.Unlock()
	n := sh.disk.nodes[sh.disk.follow(sh.user, p)]
	if n == nil {
		return noFile(p)
	}
	switch {
	case name == "ls" && n.kind == vm.FileDirectory:
		for _, c := range sh.disk.children(p) {
			_, _ = fmt.Fprintln(sh.stdout, c.Name)
		}
	case name == "ls":
		_, _ = fmt.Fprintln(sh.stdout, p)
	case name == "stat":
		kind := map[vm.FileKind]string{vm.FileRegular: "regular file", vm.FileDirectory: "directory"}[n.kind]
		_, _ = fmt.Fprintf(sh.stdout, "%d|%s|%o|root|root|%s\n", len(n.data), kind, n.mode, n.mtime.Format("2006-01-02 15:04:05.000000000 -0700"))
	}
	return nil
}
