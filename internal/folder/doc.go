// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package folder gives a guest a directory of the host: it answers the FUSE
// messages of the guest's kernel, which the guest's agent forwards. It treats the
// guest as an attacker. It checks names and numbers in messages. The guest reaches
// only files beneath the directory on the same mount, never through a symbolic
// link. It creates no device nodes and no set-user-ID programs, and changes nothing
// in a read-only folder. The guest is notified of changes on the host. The monitor
// serves folders; the engine decides which folders a VM may have. In place of a directory
// it shows objects of a bucket, read-only, which it fetches as the VM itself.
package folder
