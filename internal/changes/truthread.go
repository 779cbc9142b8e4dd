// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package changes

import (
	"fmt"
	"slices"
	"sync"

	"github.com/warren-vm/warren/internal/reader"
	"github.com/warren-vm/warren/internal/review"
)

// Bounds of the readings that are kept.
const (
	keptReadings = 16
	keptBytes    = 8 << 20 // of all kept readings together, about
)

// reading is what the reader told of frozen disks.
type reading struct {
	clones []review.TruthClone
	files  []truthFile
	counts []review.TruthCount
	end    review.TruthEnd
}

// size is about how many bytes of memory a reading takes.
func (r *reading) size() (n int) {
	for _, f := range r.files {
		n += 160 + len(f.path) + len(f.tree.path) + len(f.class) + len(f.id) + 8*len(f.alike)
	}
	for _, k := range r.clones {
		n += 200 + len(k.Root) + len(k.Dir)
		for _, x := range k.Refs {
			n += 80 + len(x.Name)
		}
		for _, x := range k.Remotes {
			n += 40 + len(x.Name) + len(x.URL)
		}
		for _, x := range k.Commits {
			n += 120 + len(x.Subject) + 56*len(x.Parents)
		}
	}
	return n + 100*len(r.counts)
}

// readings keeps the last readings. Frozen disks do not change, so a VM that was not
// written since it was read is not read again: `rm` after `truth` answers at once.
type readings struct {
	mu   sync.Mutex
	list []keptReading // the newest last
}

type keptReading struct {
	key   string
	bytes int
	reading
}

// readingKey names all that a reading depends on.
func readingKey(d reader.Disks, workdir string) string {
	return fmt.Sprintf("%q", []any{d.Now, d.Image, d.Bases, workdir})
}

func (r *readings) get(key string) (reading, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i := slices.IndexFunc(r.list, func(k keptReading) bool { return k.key == key })
	if i < 0 {
		return reading{}, false
	}
	return r.list[i].reading, true
}

// put keeps a reading, unless it is large, and drops the oldest ones beyond the bounds.
// Nobody may change it afterwards.
func (r *readings) put(key string, of reading) {
	bytes := of.size()
	if bytes > keptBytes {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(slices.DeleteFunc(r.list, func(k keptReading) bool { return k.key == key }), keptReading{key, bytes, of})
	all := 0
	for i, k := range slices.Backward(r.list) {
		if all += k.bytes; all > keptBytes || len(r.list)-i > keptReadings {
			r.list = slices.Delete(r.list, 0, i+1)
			return
		}
	}
}
