// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package store keeps Warren's records in etcd v3: embedded in serve, on unix
// sockets only, or in an existing cluster. Every change compares the record's
// revision. Several changes can be made as one, followed by a watch, and bound to a
// lease. It keeps no copy in memory: the ledger does. Blobs and logs do not belong
// here.
package store
