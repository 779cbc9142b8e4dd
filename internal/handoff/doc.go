// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package handoff packs a VM into a bundle for another server, and opens bundles of other
// servers: the repositories that the VM uses, its record and receipts, and, if asked, its
// machine: disk, memory and device state. An opened bundle is hostile input: it is stored
// and verified as a whole before anything is made of it, this server writes its disk itself,
// and everything goes through the rooms that check what users send.
package handoff
