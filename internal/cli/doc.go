// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line: a file per command. A command turns flags
// into an options struct, calls the server through package client, and prints:
// results to stdout, everything else to stderr. Functions that need the host
// itself (serve, doctor, images) are injected by cmd/warren as Local. Main
// returns the exit status and does not call os.Exit.
package cli
