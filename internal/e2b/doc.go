// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package e2b is the door for unmodified SDKs of E2B. It translates their two protocols: the
// control API, which makes and ends sandboxes, and envd, which runs commands and moves files
// inside of one. A sandbox is a VM whose record says so (vm.Sandbox); the door keeps nothing
// else that a restart of the server could lose, except attachments to commands and builds of
// templates. A template is a snapshot whose record says so (vm.Template).
package e2b
