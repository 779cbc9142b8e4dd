// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

// Names that a VM's own network answers, whatever the VM's policy is.
const (
	InsideDomain = "warren.internal"     // no name below it is ever looked up outside
	GitHost      = "git.warren.internal" // the repositories of this server
)

// InsideCA is the common name of the CA that signs the names below InsideDomain, and
// InsideCAHash is the name under which OpenSSL looks it up: `openssl x509 -subject_hash`.
// Every host has a CA of its own, all with this subject.
const (
	InsideCA     = "Warren inside VMs"
	InsideCAHash = "5f50c9b1"
)
