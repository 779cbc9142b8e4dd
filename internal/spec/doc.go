// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package spec says what is to be done to a VM before it is handed over:
// layers of users, files, packages, repositories and systemd units, how they
// are checked, ordered, keyed by their content and written as unit files. It
// is pure: the engine carries out what it plans.
package spec
