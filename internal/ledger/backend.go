// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import "context"

// MaxRecord is the most bytes that one stored record may have. A backend refuses
// a larger one with kind Limit, unless it replaces one that was larger still.
const MaxRecord = 64 << 10

// Entry is one stored record.
type Entry struct {
	Kind, ID string
	Value    []byte // JSON
	Revision int64  // of the write that made it; above 0
}

// Op is one write of a transaction.
type Op struct {
	Kind, ID string
	// Revision is the one that the stored record must have; 0 = there must be none.
	Revision int64
	Value    []byte // JSON; not used by a delete
	Delete   bool
}

// Event is one change of a stored record. A deleted one has no Value.
type Event struct {
	Entry
	Deleted bool
}

// Backend stores records durably. Revisions grow with every write, of whatever
// kind.
type Backend interface {
	// ReadAll returns every record of some kinds, ordered by id in each kind, as they
	// are at one revision, and that revision.
	ReadAll(ctx context.Context, kinds ...string) (entries []Entry, revision int64, err error)
	// Read returns one record. Kind NotFound when there is none: the entry then has
	// the revision that the answer shows, and nothing else.
	Read(ctx context.Context, kind, id string) (Entry, error)
	// Write makes all the writes or none and returns their revision. Kinds Exists,
	// NotFound and Busy tell of a record that is not as an Op expects; Limit of a
	// record, or a transaction, that is too large; NoSpace of a full store. After
	// every other error the writes may have been made anyway.
	Write(ctx context.Context, ops ...Op) (revision int64, err error)
	// Follow returns the changes of every kind after a revision, in order.
	Follow(ctx context.Context, after int64) Follower
}

// Follower waits for changes. It serves one goroutine.
type Follower interface {
	// Next blocks until there is a change. Kind NotFound, code REVISION_GONE, says
	// that changes after the revision are not kept any more: read all again. An error
	// comes only between revisions, never in the midst of one.
	Next(ctx context.Context) (Event, error)
	// Close ends the follower.
	Close()
}
