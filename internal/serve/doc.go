// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package serve wires Warren together: it is the one place that knows every
// package. It fits the concrete parts (monitor, image, store, audit, events)
// to the interfaces that the engine declares, runs the server, and gives the
// command line those functions that work on this host without a server. It
// makes no decision about a VM. Only cmd/warren may import it.
package serve
