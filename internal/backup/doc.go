// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package backup copies the state of a server while it runs, into an archive of package
// bundle, and restores and verifies such copies while no server runs on them. A copy has
// the records as they are at one revision of the record store, and every file that these
// records name. The engine keeps these files until the copy is complete. Disks of VMs
// are those of the capture that the copy begins with; the memory of running VMs is not
// in it.
package backup
