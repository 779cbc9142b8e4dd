// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package start makes the program start quickly. The packages of the server take most of the time of a short command
// to initialise. This one imports no other, so that it is initialised before them: it answers `warren version`, and
// keeps the garbage collector from running before there is garbage. Only cmd/warren and internal/serve import it.
package start

import (
	"os"
	"path/filepath"
	"runtime/debug"
)

// Version is api.Version, set by the linker, too; "" = that command answers itself.
var Version string

// patient is the setting of the collector for short commands: it first runs with 16 MiB.
const patient = 400

func init() {
	if Version != "" && len(os.Args) == 2 && os.Args[1] == "version" && filepath.Base(os.Args[0]) == "warren" {
		if _, err := os.Stdout.WriteString("warren " + Version + "\n"); err != nil {
			os.Exit(1) //nolint:forbidigo // the command is over before main begins
		}
		os.Exit(0) //nolint:forbidigo // the command is over before main begins
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(patient)
	}
}

// Serve sets the collector for a process that lives long.
func Serve() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(100)
	}
}
