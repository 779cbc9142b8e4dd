// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"crypto/sha256"
	"fmt"
	"io"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

// command runs one program.
func (sh *shell) command(argv []string, stdin io.Reader, stdout, stderr io.Writer) int {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(stdout, format, args...) }
	args := argv[1:]
	switch name := path.Base(argv[0]); name {
	case "true", ":", "mkfs.ext4", "resize2fs", "sync":
		return 0
	case "false":
		return 1
	case "exit":
		sh.exited = true
		if len(args) == 0 {
			return sh.last
		}
		n, _ := strconv.Atoi(args[0]) // not a number: 0
		return n & 255
	case "echo":
		end := "\n"
		if len(args) > 0 && args[0] == "-n" {
			args, end = args[1:], ""
		}
		say("%s%s", strings.Join(args, " "), end)
		return 0
	case "printf":
		if len(args) > 0 {
			say("%s", strings.NewReplacer(`\n`, "\n", `\t`, "\t", `%s`, strings.Join(args[1:], " ")).Replace(args[0]))
		}
		return 0
	case "sh", "bash":
		return sh.sub(args, stdin)
	case "cat":
		return sh.cat(args, stdin, stdout, stderr)
	case "sleep":
		return sh.sleep(args)
	case "pwd":
		say("%s\n", sh.cwd)
		return 0
	case "cd":
		if len(args) > 0 {
			sh.cwd = sh.abs(args[0])
		}
		return 0
	case "env":
		keys := make([]string, 0, len(sh.env))
		for k := range sh.env {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		for _, k := range keys {
			say("%s=%s\n", k, sh.env[k])
		}
		return 0
	case "export":
		for _, a := range args {
			if k, v, ok := strings.Cut(a, "="); ok {
				sh.env[k] = v
			}
		}
		return 0
	case "uname":
		say("Linux\n")
		return 0
	case "hostname":
		say("%s\n", sh.env["HOSTNAME"])
		return 0
	case "whoami":
		say("%s\n", or(sh.user, "root"))
		return 0
	case "yes":
		for sh.ctx.Err() == nil {
			say("y\n")
		}
		return 0
	case "sha256sum":
		return sh.sums(args, stdin, stdout, stderr)
	case "groupadd", "useradd":
		return sh.addUser(name, args, stderr)
	case "systemctl":
		return sh.systemctl(args, stdout, stderr)
	case "journalctl":
		return sh.journalctl(args, stdout)
	case "apt-get", "git":
		return sh.fetch(name, args, stderr)
	case "mkdir", "rm", "test", "[", "stat", "ls", "touch":
		return sh.fileCommand(name, args, stdout, stderr)
	}
	_, _ = fmt.Fprintf(stderr, "bash: line 1: %s: command not found\n", argv[0])
	return 127
}

func or(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

// sub is sh -c SCRIPT, or a script on standard input.
func (sh *shell) sub(args []string, stdin io.Reader) int {
	inner := *sh
	inner.last, inner.exited = 0, false
	if i := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, "-") && strings.HasSuffix(a, "c") }); i >= 0 && i+1 < len(args) {
		return inner.script(args[i+1], stdin)
	}
	text, err := io.ReadAll(stdin)
	if err != nil {
		return 1
	}
	return inner.script(string(text), strings.NewReader(""))
}

func (sh *shell) cat(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		if _, err := io.Copy(stdout, stdin); err != nil {
			return 1
		}
		return 0
	}
	code := 0
	for _, a := range args {
		data, err := sh.read(a)
		if err != nil {
			_, _ = fmt.Fprintf(stderr, "cat: %s: No such file or directory\n", a)
			code = 1
			continue
		}
		if _, err := stdout.Write(data); err != nil {
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

func (sh *shell) sums(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		data, err := io.ReadAll(stdin)
		if err != nil {
			return 1
		}
		_, _ = fmt.Fprintf(stdout, "%x  -\n", sha256.Sum256(data))
		return 0
	}
	for _, a := range args {
		data, err := sh.read(a)
		if err != nil {
			_, _ = fmt.Fprintf(stderr, "sha256sum: %s: No such file or directory\n", a)
			return 1
		}
		_, _ = fmt.Fprintf(stdout, "%x  %s\n", sha256.Sum256(data), a)
	}
	return 0
}

func (sh *shell) addUser(name string, args []string, stderr io.Writer) int {
	if len(args) == 0 {
		return 2
	}
	if name == "useradd" && !sh.disk.addUser(args[len(args)-1], slices.Contains(args, "--create-home")) {
		_, _ = fmt.Fprintf(stderr, "useradd: user '%s' already exists\n", args[len(args)-1])
		return 9
	}
	return 0
}

// fileCommand runs the programs with which the contract's client makes, tests
// and removes files.
func (sh *shell) fileCommand(name string, args []string, stdout, stderr io.Writer) int {
	var flags string
	var paths []string
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case name == "stat" && a == "-c":
			i++
		case strings.HasPrefix(a, "-") && len(a) > 1:
			flags += a[1:]
		case a != "]":
			paths = append(paths, a)
		}
	}
	code := 0
	for _, p := range paths {
		if err := sh.oneFile(name, flags, p, stdout); err != nil {
			if name != "test" && name != "[" {
				_, _ = fmt.Fprintf(stderr, "%s: %v\n", name, err)
			}
			code = 1
		}
	}
	return code
}

func (sh *shell) oneFile(name, flags, p string, stdout io.Writer) error {
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
			_, _ = fmt.Fprintln(stdout, c.Name)
		}
	case name == "ls":
		_, _ = fmt.Fprintln(stdout, p)
	case name == "stat":
		kind := map[vm.FileKind]string{vm.FileRegular: "regular file", vm.FileDirectory: "directory"}[n.kind]
		_, _ = fmt.Fprintf(stdout, "%d|%s|%o|root|root|%s\n", len(n.data), kind, n.mode, n.mtime.Format("2006-01-02 15:04:05.000000000 -0700"))
	case strings.Contains(flags, "d") && n.kind != vm.FileDirectory, strings.Contains(flags, "f") && n.kind != vm.FileRegular:
		return noFile(p)
	}
	return nil
}
