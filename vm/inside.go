// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

// Names that a VM's own network answers, whatever the VM's policy is.
const (
	InsideDomain = "warren.internal"        // no name below it is ever looked up outside
	GitHost      = "git.warren.internal"    // the repositories of this server
	S3Host       = "s3.warren.internal"     // its objects, for S3 clients
	PolicyHost   = "policy.warren.internal" // what the VM may reach, and how its programs ask for more
)

// MonitorHost is the host name of the calls that a VM's monitor makes for itself. A guest
// cannot use it: no name of a guest's network leads there.
const MonitorHost = "monitor.invalid"

// InsideCA is the common name of the CA that signs the names below InsideDomain, and
// InsideCAHash is the name under which OpenSSL looks it up: `openssl x509 -subject_hash`.
// Every host has a CA of its own, all with this subject.
const (
	InsideCA     = "Warren inside VMs"
	InsideCAHash = "5f50c9b1"
)

// InsideCAFile is the CA's file in a guest. OpenSSL and GnuTLS find it by the links below
// InsideCertDir, which InsideCALinks names, each with its target.
const (
	InsideCAFile  = "/run/warren-ca.pem"
	InsideCertDir = "/etc/ssl/certs"
)

// InsideCALinks returns the names and targets of the links to a guest's file of the CA.
// `update-ca-certificates` makes the second one again from the first.
func InsideCALinks(file string) [2][2]string {
	return [2][2]string{{"warren.pem", file}, {InsideCAHash + ".0", "warren.pem"}}
}

// GuestCommand is the command by which users of a guest reach PolicyHost: a link on its disk
// to GuestProgram, the agent.
const (
	GuestCommand = "/usr/local/bin/warren-agent"
	GuestProgram = "/run/warren/agent"
)
