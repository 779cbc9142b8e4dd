// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package serve wires Warren together: it is the only package that knows all others. It
// connects the concrete parts (monitor, image, store, audit, events) to the interfaces
// that the engine declares, runs the server, and provides the functions of the command
// line that work on this host without a server. It makes no decision about a VM. Only
// cmd/warren may import it.
package serve
