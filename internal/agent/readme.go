// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// readmeFile tells whoever works in the guest where they are. It says only what stays true
// until the next start or fork, when it is written again; commands print the rest.
const readmeFile = "README.md"

// readmeText is readmeFile; NAME stands for the VM. It has less than maxSmall bytes, so that
// it is written in one piece.
const readmeText = `# You are in the VM NAME

It is a virtual machine of Warren. NAME was its name when it was started or forked last.
"warren-agent status" prints what it is called now, its size, what is mounted where, and what its programs may do.

## What lasts

| place | suspend and wake | stop and start | fork | removal of the VM |
|---|---|---|---|---|
| the disk: /, /root, /home | stays | stays | copied | lost |
| /tmp | stays | lost | copied | lost |
| memory: processes, /run, /dev/shm | stays | lost | copied | lost |
| volumes, directories of the host, objects | stays | stays | not copied | stays |

An undo or a rollback puts disk and memory back to an earlier moment, but not the last row.
"warren-agent filesystem > FILESYSTEM.md" writes this for the working directory, with the mounts of now.

## What nothing captures

- Connections to the outside. They are closed in a fork, and after a wake or an undo.
- What happened outside: requests, pushed commits, written objects. No undo takes them back.

## What the network allows

It is decided outside this VM and can change at any time. Proxy variables change nothing.

    curl http://policy.warren.internal/       # what is allowed now, and what was refused lately
    warren-agent why api.example.com:443      # what the policy says of one host
    warren-agent ask api.example.com --why "REASON" --wait 5m

An ask waits for a person or a program on the host. Say what you need it for.
Git repositories of this server are at https://git.warren.internal, objects at https://s3.warren.internal.

## Mark a state, try something twice

    warren-agent turn "before the migration"  # a state to which the host can undo
    warren-agent fork                         # a running copy of this VM

The profile of the VM decides which of these its programs may use: "warren-agent status" lists them.
"warren-agent help" lists all. Programs can use HTTP: http://policy.warren.internal, or the socket
/run/warren/agent.sock (curl --unix-socket /run/warren/agent.sock http://policy.warren.internal/status).
`

// readme writes readmeFile for the VM. A guest whose /run is full goes without.
func (a *Agent) readme(name string) {
	file := filepath.Join(a.cfg.RunDir, readmeFile)
	if err := overwrite(file, strings.ReplaceAll(readmeText, "NAME", name), 0o644); err != nil {
		a.log.Warn("the guest's README was not written", "err", err)
	}
}

// offer makes the link to the command for guest users; a disk gets it at the first boot of
// its image. What the guest's root put there stays.
func (a *Agent) offer() {
	path := filepath.Join(filepath.Dir(a.cfg.EtcDir), vm.GuestCommand)
	if _, err := os.Readlink(path); err == nil {
		return
	}
	if err := os.Symlink(vm.GuestProgram, path); err != nil && !os.IsNotExist(err) && !os.IsExist(err) {
		a.log.Warn("the command for the guest's users was not linked", "path", path, "err", err)
	}
}

// announce does what a reset does for guest users: an agent that was just installed in a
// running guest gets no reset.
func (a *Agent) announce() {
	if name, err := os.Hostname(); err == nil {
		a.readme(name)
	}
	a.offer()
}
