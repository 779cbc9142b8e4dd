// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package spec plans the setup of a VM: layers of users, files, packages,
// repositories and systemd units. It checks and orders them, computes keys from
// their content, and writes unit files. It is pure: the engine carries out the
// plan.
package spec
