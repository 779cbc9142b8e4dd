// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package api holds the definitions that both ends of the wire share: the JSON
// types of requests and answers, header names, the version, and the one table
// that says which kind of failure is which HTTP status, contract code and exit
// status of the command line. It makes no request and serves none. The forms
// of the HTTP contract are camelCase; the reserved names are those of npm's
// `freestyle` package, version 0.1.63.
package api
