// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package ledger keeps the server's records: each kind in a Table that is whole
// in memory and durable in a Backend. A change is made durable first and shown in
// memory then. Every stored record carries the id of the write that made it, so
// that a write whose answer was lost is recognised later. A record that another
// server wrote is never overwritten unseen: the table follows the backend and
// takes over what others write. Package store is the backend of production; the
// rooms of the server (engine, access, vault, names, meter, job) own the tables.
package ledger
