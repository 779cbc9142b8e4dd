// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package link

// What the host has the agent do in a folder of the host, so that programs of
// the guest hear of what others did there: the kind is in the place of a FUSE
// message's error. The agent does it as a group of its own.
const (
	NudgeGID     = 0x5741524e
	NudgeCreate  = 101
	NudgeDelete  = 102
	NudgeWritten = 103
	NudgeAttrib  = 104
)

// FolderAhead is the kind of a message with the attributes of a directory that
// the guest has just changed. It comes before the answer to that change: the
// directory's number [8] · the request's number [8] · what answers a getattr.
const FolderAhead = 105
