// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

const (
	anchorsFile = "anchors.jsonl"
	keyFile     = "anchor.key" // 0600, hex Ed25519 seed
	publicFile  = "anchor.pub" // hex; keep a copy elsewhere to verify against
)

// anchor is one signature of the chain's end.
type anchor struct {
	Seq       int64     `json:"seq"`
	Hash      string    `json:"hash"`
	Time      time.Time `json:"time"`
	Signature string    `json:"signature"` // hex, over message
}

func (a anchor) message() []byte {
	return fmt.Appendf(nil, "warren audit %d %s %s", a.Seq, a.Hash, a.Time.Format(time.RFC3339Nano))
}

// parseAnchor reads one signature and checks it.
func parseAnchor(raw []byte, pub ed25519.PublicKey) (anchor, error) {
	var a anchor
	if err := json.Unmarshal(raw, &a); err != nil {
		return a, fmt.Errorf("a signature cannot be read: %w", err)
	}
	sig, err := hex.DecodeString(a.Signature)
	if err != nil || !ed25519.Verify(pub, a.message(), sig) {
		return a, fmt.Errorf("the signature of record %d is wrong", a.Seq)
	}
	return a, nil
}

// loadKey reads the signing key and makes it at the first start.
func loadKey(dir string) (ed25519.PrivateKey, error) {
	name, public := filepath.Join(dir, keyFile), filepath.Join(dir, publicFile)
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, fileError(name, err)
		}
		data = []byte(hex.EncodeToString(key.Seed()) + "\n")
		if err := layout.WriteFile(name, data, 0o600); err != nil {
			return nil, fileError(name, err)
		}
	} else if err != nil {
		return nil, fileError(name, err)
	}
	seed, err := hex.DecodeString(strings.TrimSpace(string(data)))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, vm.Errorf(vm.Corrupt, name, "not a signing key").
			WithHint("restore it from a backup, or move the audit directory aside to begin a new log")
	}
	key := ed25519.NewKeyFromSeed(seed)
	if _, err := os.Stat(public); errors.Is(err, fs.ErrNotExist) {
		text := hex.EncodeToString(key.Public().(ed25519.PublicKey)) + "\n"
		if err := layout.WriteFile(public, []byte(text), 0o644); err != nil {
			return nil, fileError(public, err)
		}
	}
	return key, nil
}

// lastAnchor reads the newest signature; the zero one when there is none. It cuts
// off a torn last line, so that the next one is intact.
func (l *Log) lastAnchor() (last anchor, err error) {
	name := filepath.Join(l.dir, anchorsFile)
	torn, err := backward(name, -1, func(raw []byte) error {
		if last, err = parseAnchor(raw, l.key.Public().(ed25519.PublicKey)); err != nil {
			return corrupt(name, "%w", err)
		}
		return errStop
	})
	if errors.Is(err, fs.ErrNotExist) {
		return anchor{}, nil
	}
	if err == nil && torn > 0 {
		err = cutEnd(name, torn)
	}
	return last, err
}

func cutEnd(name string, n int64) error {
	st, err := os.Stat(name)
	if err == nil {
		err = os.Truncate(name, st.Size()-n)
	}
	if err != nil {
		return fileError(name, err)
	}
	return nil
}

// anchor signs the chain's end, unless it is signed. Callers that want a signature
// get the error of a failed one; records do not wait for signatures.
func (l *Log) anchor() {
	if l.seq == l.anchored {
		l.anchorErr = nil
		return
	}
	a := anchor{Seq: l.seq, Hash: l.hash, Time: time.Now().UTC()}
	a.Signature = hex.EncodeToString(ed25519.Sign(l.key, a.message()))
	if l.anchorErr = l.appendAnchor(a); l.anchorErr == nil {
		l.anchored = a.Seq
	}
}

func (l *Log) appendAnchor(a anchor) (err error) {
	data, err := json.Marshal(a)
	if err != nil {
		return fileError(anchorsFile, err)
	}
	name := filepath.Join(l.dir, anchorsFile)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fileError(name, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	st, err := f.Stat()
	if err != nil {
		return fileError(name, err)
	}
	_, err = f.Write(append(data, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return fileError(name, errors.Join(err, f.Truncate(st.Size())))
	}
	if st.Size() == 0 {
		return syncDir(l.dir)
	}
	return nil
}
