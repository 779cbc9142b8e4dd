// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package screen looks at the screen of a VM and acts on it. It speaks RFB, the protocol of
// VNC, with the X server in the guest, through a connection to the guest's port. The guest
// needs no other program for that.
//
// The guest is hostile: sizes, lengths and the number of messages are bounded, and a call
// ends with its context.
package screen
