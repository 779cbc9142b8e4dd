// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package link

// Changes in a folder of the host that the agent repeats, so that programs of
// the guest are notified of them. The kind is in the place of a FUSE
// message's error. The agent acts with a group id of its own.
const (
	NudgeGID     = 0x5741524e
	NudgeCreate  = 101
	NudgeDelete  = 102
	NudgeWritten = 103
	NudgeAttrib  = 104
)

// FolderAhead is the kind of a message with the attributes of a directory that
// the guest has just changed. It precedes the answer to that change: the
// directory's number [8] · the request's number [8] · the answer to a getattr.
const FolderAhead = 105
