// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package treesync

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/warren-vm/warren/vm"
)

// State is what the last run of a pair left.
type State struct {
	Version int       `json:"version"`
	Dir     string    `json:"dir"` // of this computer
	VM      string    `json:"vm"`  // its id
	Path    string    `json:"path"`
	At      time.Time `json:"at,omitzero"` // of the last run that completed
	// Mark is the mark of the VM's directory. Next is the one that a run was about to
	// set when it ended.
	Mark string `json:"mark,omitempty"`
	Next string `json:"next,omitempty"`
	// The ctimes from which files may have changed since they were listed.
	FromLocal int64 `json:"fromLocal"`
	FromVM    int64 `json:"fromVM"`
	// Base is what both sides had alike. Here and There are the files as they were
	// listed, with digests.
	Base  []*Entry `json:"base"`
	Here  []*Entry `json:"here"`
	There []*Entry `json:"there"`

	file string
	lock *os.File
}

const stateVersion = 1

// OpenState reads the state of a pair, which lies in a directory of its own, and
// locks it until Close. A pair that was never synced has an empty state. Kinds:
// Busy (another process syncs it), Corrupt.
func OpenState(dir string) (*State, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, vm.Errorf(vm.Invalid, dir, "%w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, vm.Errorf(vm.Invalid, dir, "%w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, vm.Errorf(vm.Busy, dir, "another `warren sync` works on these two directories")
	}
	s := &State{Version: stateVersion, file: filepath.Join(dir, "state.json"), lock: lock}
	b, err := os.ReadFile(s.file)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(b, s)
	}
	if err != nil || s.Version != stateVersion {
		_ = lock.Close()
		return nil, vm.Errorf(vm.Corrupt, s.file, "the state of the last sync cannot be read: %w", err).
			WithHint("compare both sides from the start: `warren sync --forget …`; remove the file first")
	}
	return s, nil
}

// Save writes the state, whole or not at all.
func (s *State) Save() error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(s.file), TempPrefix+"*")
	if err != nil {
		return vm.Errorf(vm.Invalid, s.file, "%w", err)
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), s.file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return vm.Errorf(vm.Invalid, s.file, "the state of the sync cannot be written: %w", err)
	}
	return nil
}

// Close unlocks the pair.
func (s *State) Close() { _ = s.lock.Close() }

// forget drops what the last run left.
func (s *State) forget() {
	s.Mark, s.Next, s.FromLocal, s.FromVM, s.Base, s.Here, s.There = "", "", 0, 0, nil, nil, nil
}

// indexed returns a list by path.
func indexed(list []*Entry, exclude []string) map[string]*Entry {
	m := make(map[string]*Entry, len(list))
	for _, e := range list {
		if e != nil && !excludedBelow(string(e.Path), exclude) {
			m[string(e.Path)] = e
		}
	}
	return m
}

// files returns the files of a listing in the order of their paths.
func files(m map[string]*Entry) []*Entry {
	var out []*Entry
	for _, e := range m {
		if e.Type == TypeFile {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *Entry) int { return strings.Compare(string(a.Path), string(b.Path)) })
	return out
}

// complete gives the files of a listing the digests that they had at the last
// one, if they have not changed since. It returns false if some have none.
func complete(now map[string]*Entry, last []*Entry) bool {
	known := indexed(last, nil)
	for p, e := range now {
		if e.Type != TypeFile || e.Digest != "" {
			continue
		}
		k := known[p]
		if k == nil || k.Digest == "" || k.stamp() != e.stamp() {
			return false
		}
		e.Digest = k.Digest
	}
	return true
}
