// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package api holds the definitions that both ends of the wire share: the JSON
// types of requests and answers, header names, the version, and the table that
// maps each kind of failure to its HTTP status, contract code and exit status.
// It makes no requests and serves none. The HTTP contract uses camelCase; the
// reserved names are those of npm's `freestyle` package, version 0.1.63.
package api
