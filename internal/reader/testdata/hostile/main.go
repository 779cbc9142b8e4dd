// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Command hostile stands for a reader that a disk has taken over. The request's workdir
// says what it does.
package main

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

func frame(kind byte, p []byte) {
	for ; len(p) > 64<<10; p = p[64<<10:] {
		frame(kind, p[:64<<10])
	}
	head := [5]byte{kind}
	binary.BigEndian.PutUint32(head[1:], uint32(len(p)))
	_, _ = os.Stdout.Write(append(head[:], p...))
}

// tell answers with a text, as a refusal.
func tell(text string) {
	data, _ := json.Marshal(map[string]string{"kind": "limit", "msg": text})
	frame('e', data)
}

func main() {
	var r struct {
		Workdir string `json:"workdir"`
	}
	if err := json.NewDecoder(os.Stdin).Decode(&r); err != nil {
		os.Exit(1)
	}
	switch verb, rest, _ := strings.Cut(r.Workdir, " "); verb {
	case "nothing":
	case "garbage":
		_, _ = os.Stdout.WriteString("\x1b[2J" + strings.Repeat("no frame at all", 1000))
	case "json":
		frame('d', []byte("{]"))
		frame('z', nil)
	case "answer":
		frame('d', []byte(rest))
		frame('z', nil)
	case "cut":
		frame('d', []byte(rest))
	case "late":
		frame('d', []byte(rest))
		tell("the disk is damaged after all")
	case "status":
		frame('d', []byte(rest))
		frame('z', nil)
		os.Exit(3)
	case "long":
		frame('d', []byte(rest))
		frame('z', nil)
		time.Sleep(time.Hour)
	case "much":
		frame('d', []byte(`{"manifest":"`))
		for p := []byte(strings.Repeat("x", 64<<10)); ; {
			frame('d', p)
		}
	case "hang":
		time.Sleep(time.Hour)
	case "spin":
		for {
		}
	case "memory":
		var keep [][]byte
		for {
			p := make([]byte, 16<<20)
			for i := range p {
				p[i] = 1
			}
			keep = append(keep, p)
		}
	case "reach":
		tell(reach(rest))
	case "say":
		fmt.Fprintln(os.Stderr, strings.Repeat("\x1b[31mred ", 10000))
	}
}

// reach tries what a confined program must not be able to do, and names what worked.
func reach(file string) string {
	var worked []string
	try := func(what string, err error) {
		if err == nil {
			worked = append(worked, what)
		}
	}
	_, err := os.ReadFile(file)
	try("read a file of the host", err)
	_, err = os.ReadFile("/etc/passwd")
	try("read /etc/passwd", err)
	_, err = os.ReadDir("/etc")
	try("list /etc", err)
	try("write a file", os.WriteFile("/here", nil, 0o600))
	_, err = syscall.Write(3, []byte("x"))
	try("write to a layer", err)
	f, err := os.OpenFile("/proc/self/fd/3", os.O_RDWR, 0)
	try("open a layer for writing", err)
	_ = f.Close()
	_, err = net.DialTimeout("tcp", "127.0.0.1:80", time.Second)
	if err != nil && strings.Contains(err.Error(), "refused") {
		err = nil // somebody answered that nobody listens
	}
	try("reach the network", err)
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	try("make a socket", err)
	_ = syscall.Close(fd)
	try("run a program", exec.Command("/bin/true").Run())
	try("mount", syscall.Mount("none", "/", "tmpfs", 0, ""))
	try("signal others", syscall.Kill(-1, 0))
	if _, err := syscall.Read(3, make([]byte, 4)); err != nil {
		return "it cannot read its layer: " + err.Error()
	}
	return "worked: " + strings.Join(worked, ", ")
}
