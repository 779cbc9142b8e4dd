// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package folder gives a guest a directory of the host: it answers the FUSE
// messages of the guest's kernel, which the guest's agent passes on. The guest
// is taken for an attacker: names and numbers in its messages are checked, it
// reaches nothing but what lies beneath the directory on the same mount, never
// through a symbolic link, it makes no device nodes and no programs that change
// their user, and of a folder that is read-only it changes nothing whatever it
// sends. Changes on the host are told to the guest. The monitor serves folders;
// whether one may be given is the engine's decision.
package folder
