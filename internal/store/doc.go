// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package store keeps Warren's records in etcd v3: embedded in serve, on unix
// sockets only, or in an existing cluster. Each kind of record is a typed
// Collection whose every change compares the record's revision; several changes
// can be made as one, followed by a watch, and bound to a lease. It keeps no
// copy in memory: whoever lists often follows a watch. Blobs and logs do not
// belong here. Only the engine uses it, through interfaces it declares.
package store
