// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package interpreter holds the program that E2B's code interpreter talks to in a sandbox. An image may have it as a
// service; the door for E2B's SDKs starts it in a sandbox of any other image.
package interpreter

import _ "embed"

const (
	// Path is the program's file in a guest.
	Path = "/usr/local/lib/warren-code-interpreter.py"
	// Port is the one on the guest's loopback where it listens. The SDKs ask for that number.
	Port = 49999
	// Unit is the file of the service that runs it, in an image that has one.
	Unit = "/etc/systemd/system/code-interpreter.service"
)

// Server is the program, in Python. It needs Python's own library only.
//
//go:embed server.py
var Server string
