// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package sshd is the SSH gateway: OpenSSH's clients, and everything built on them, connect to
// VMs through it. Guests have no SSH server and no SSH keys. The gateway terminates the
// protocol on the host and uses the agent's verbs: a command is an exec, a shell a terminal,
// sftp reads and writes open files, and forwards are sockets that the agent connects or listens
// on in the guest. It accesses no records itself: it calls the engine, as package httpd does.
package sshd
