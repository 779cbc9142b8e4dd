// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package api

// Version is the version of this build, set by the linker.
var Version = "dev"

// Headers that Warren reads or sends.
const (
	HeaderReceipt       = "Warren-Receipt"                    // id of the audit record of this action
	HeaderRequest       = "Warren-Request-Id"                 // id of this request
	HeaderTrace         = "X-Freestyle-Trace-Id"              // the same, for the SDK
	HeaderVersion       = "Warren-Version"                    //
	HeaderLength        = "Warren-Length"                     // bytes of the stream
	HeaderDigest        = "Warren-Digest"                     // trailer: hex SHA-256 of the stream, computed on the host
	HeaderOffset        = "Warren-Offset"                     // absolute offset of a log's first byte
	HeaderNextOffset    = "Warren-Next-Offset"                // absolute offset after the answered data
	HeaderEnd           = "Warren-End"                        // trailer: "ok" if a stream is complete
	HeaderDestination   = "Warren-Destination"                // download: its destination on the caller's computer, HOST:PATH, percent-encoded
	HeaderLinuxUser     = "X-Freestyle-Vm-Linux-User-Id"      // a Linux user's name
	HeaderIdentityToken = "X-Freestyle-Identity-Access-Token" //
	HeaderBackgroundIn  = "X-Freestyle-Background-After-Secs" // answer 202 after this many seconds
	HeaderBackgroundID  = "X-Freestyle-Background-Request-Id" // URL of the later answer
)
