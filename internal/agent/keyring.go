// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"strings"
	"sync"
)

// keyring holds the link keys that the host may use: the current one and,
// from a reset until the first session with it, the next one.
type keyring struct {
	mu      sync.Mutex
	file    string
	current []byte
	next    []byte
}

// load uses key, else the saved key, else the one on the kernel command line.
func (k *keyring) load(key []byte, file string) error {
	k.file = file
	if key == nil {
		key = readKey(file)
	}
	if key == nil {
		key, _ = hex.DecodeString(CommandLine("warren.key"))
	}
	if len(key) == 0 {
		return errors.New("agent: no link key: neither saved nor on the kernel command line (warren.key=)")
	}
	k.current = key
	return nil
}

func readKey(file string) []byte {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(b)))
	if err != nil || len(key) == 0 {
		return nil
	}
	return key
}

func (k *keyring) acceptable() [][]byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.next == nil {
		return [][]byte{k.current}
	}
	return [][]byte{k.next, k.current}
}

// replace accepts key from now on and saves it. The old key stays valid until
// a session was opened with the new one.
func (k *keyring) replace(key []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if bytes.Equal(key, k.current) {
		k.next = nil
	} else {
		k.next = bytes.Clone(key)
	}
	return overwrite(k.file, hex.EncodeToString(key)+"\n", 0o600)
}

// used notes that a session was opened with key.
func (k *keyring) used(key []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.next != nil && bytes.Equal(key, k.next) {
		k.current, k.next = k.next, nil
	}
}
