// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package client is the Go client of Warren's HTTP API: one method per route,
// typed, with the server's errors rebuilt as *vm.Error so that
// errors.Is(err, vm.Busy) holds on both sides of the wire. It knows nothing
// of engines and hosts; the command line, tests and other programs use it.
package client
