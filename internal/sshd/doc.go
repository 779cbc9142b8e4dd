// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package sshd is the SSH gateway: it lets OpenSSH's clients, and everything
// that is built on them, into VMs. No guest has an SSH server or a key for it;
// the gateway ends the protocol on the host and uses the agent's verbs: a
// command is an exec, a shell a terminal, sftp reads and writes open files, and
// what is forwarded are sockets that the agent connects or listens on in the
// guest. It reads no record and changes none: it calls the engine, as the HTTP
// door does.
package sshd
