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

// InterceptCA is the common name of the CA of one VM, which signs for the hosts whose requests
// its network reads, and InterceptCAHash the name under which OpenSSL looks it up.
const (
	InterceptCA     = "Warren network of this VM"
	InterceptCAHash = "50cbefb9"
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

// The files of a guest whose network reads requests. None of them is on a disk.
const (
	// InterceptCAFile is the certificate of the VM's own CA. OpenSSL and GnuTLS find it by
	// links, as they find InsideCAFile.
	InterceptCAFile = "/run/warren-vm-ca.pem"
	// EnvFile has the environment variables of the VM's programs: the placeholders of
	// secrets, and where programs with a list of CAs of their own find the VM's.
	EnvFile = "/run/warren/env"
	// SecretsDir has a file with the placeholder of each secret.
	SecretsDir = "/run/warren/secrets"
	// ChromiumPolicyFile is a policy of Chromium with the VM's own CA.
	ChromiumPolicyFile = "/run/warren/chromium.json"
)

// ChromiumPolicies lists the directories in which Chromium and its relatives look for
// policies; warren.json in each leads to ChromiumPolicyFile.
func ChromiumPolicies() [3]string {
	return [3]string{"/etc/chromium/policies/managed", "/etc/opt/chrome/policies/managed", "/etc/opt/chrome_for_testing/policies/managed"}
}

// InterceptCALinks returns the names and targets of the links to a guest's file of the VM's
// own CA, as InsideCALinks does.
func InterceptCALinks(file string) [2][2]string {
	return [2][2]string{{"warren-vm.pem", file}, {InterceptCAHash + ".0", "warren-vm.pem"}}
}
