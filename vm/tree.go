// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

// TreeOptions say how a directory of a guest is listed with digests.
type TreeOptions struct {
	// HashFrom is the ctime, in nanoseconds since 1970, from which files get a digest.
	// Older ones have not changed since an earlier listing. 0 = all files.
	HashFrom int64
	Exclude  []string // patterns of names and paths that are left out, as in `warren sync`
	Pair     string   // whose mark the listing tells; "" = none
	// May judges entries; nil = all are listed. One that does not exist for it (fs.ErrNotExist)
	// is left out; any other error ends the listing.
	May func(path string) error `json:"-"`
}

// TreePlaced says what came of many changes of a directory.
type TreePlaced struct {
	Done   int          `json:"done"` // changes that were received
	Failed []TreeFailed `json:"failed"`
}

// TreeFailed is a change that was not made; all others were.
type TreeFailed struct {
	Op  int    `json:"op"` // its number, from 0
	Why string `json:"why"`
}

// TreePick asks for the contents of files below a directory, in this order.
type TreePick struct {
	Names []GuestPath `json:"names"` // at most 2,000
}
