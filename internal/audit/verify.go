// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

const (
	anchorsFile = "anchors.jsonl"
	keyFile     = "anchor.key" // 0600, hex Ed25519 seed
	publicFile  = "anchor.pub" // hex; keep a copy elsewhere to verify against
)

// anchor is one signature over the end of the chain.
type anchor struct {
	Seq       int64     `json:"seq"`
	Hash      string    `json:"hash"`
	Time      time.Time `json:"time"`
	Signature string    `json:"signature"` // hex, over "seq hash"
}

func (a anchor) message() []byte { return fmt.Appendf(nil, "warren %d %s", a.Seq, a.Hash) }

func loadKey(dir string) (ed25519.PrivateKey, error) {
	name := filepath.Join(dir, keyFile)
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		pub, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, fileError(name, err)
		}
		if err := os.WriteFile(name, []byte(hex.EncodeToString(key.Seed())), 0o600); err != nil {
			return nil, fileError(name, err)
		}
		return key, os.WriteFile(filepath.Join(dir, publicFile), []byte(hex.EncodeToString(pub)+"\n"), 0o644)
	}
	if err != nil {
		return nil, fileError(name, err)
	}
	seed, err := hex.DecodeString(strings.TrimSpace(string(data)))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil, vm.Errorf(vm.Corrupt, name, "not a key").WithHint("restore it from a backup, or move the audit directory aside to begin a new chain")
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// anchor signs the chain's end. Only the writer calls it.
func (l *Log) anchor(seq int64, hash string) error {
	a := anchor{Seq: seq, Hash: hash, Time: time.Now().UTC()}
	a.Signature = hex.EncodeToString(ed25519.Sign(l.key, a.message()))
	data, err := json.Marshal(a)
	if err != nil {
		return fileError(anchorsFile, err)
	}
	name := filepath.Join(l.dir, anchorsFile)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fileError(name, err)
	}
	defer f.Close()
	if _, err := f.Write(append(data, '\n')); err != nil {
		return fileError(name, err)
	}
	if err := f.Sync(); err != nil {
		return fileError(name, err)
	}
	l.anchored = seq
	return nil
}

// load reads the chain into memory, checks it, and cuts off a torn last line;
// it returns how many bytes that had.
func (l *Log) load() (torn int64, err error) {
	end, err := walk(l.dir, func(seg int, ln line, hash string) error {
		l.segment, l.seq, l.hash = seg, ln.Seq, hash
		l.take(ln)
		return nil
	})
	if err != nil {
		return 0, err
	}
	l.anchored = l.seq
	if end.torn > 0 {
		name := filepath.Join(l.dir, segmentName(end.segment))
		if err := os.Truncate(name, end.good); err != nil {
			return 0, fileError(name, err)
		}
	}
	l.segment = end.segment
	return end.torn, nil
}

// tail is where a walk ended.
type tail struct {
	segment    int
	good, torn int64 // bytes of the last segment that are whole lines; bytes after them
}

// walk calls f with each line of the chain in dir, in order, after checking it
// against the one before. A torn last line of the last segment is no error.
func walk(dir string, f func(segment int, ln line, hash string) error) (tail, error) {
	var end tail
	prev, seq := genesis, int64(0)
	for seg := 0; ; seg++ {
		name := filepath.Join(dir, segmentName(seg))
		file, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return end, nil
		}
		if err != nil {
			return end, fileError(name, err)
		}
		if end.torn > 0 {
			file.Close()
			return end, vm.Errorf(vm.Corrupt, segmentName(end.segment), "ends in the middle of record %d", seq+1)
		}
		end = tail{segment: seg}
		err = eachLine(file, func(raw []byte, whole bool) error {
			if !whole {
				end.torn = int64(len(raw))
				return nil
			}
			ln, hash, err := parse(raw, prev, seq)
			if err != nil {
				return vm.Errorf(vm.Corrupt, segmentName(seg), "record %d %s", seq+1, err)
			}
			prev, seq = hash, ln.Seq
			end.good += int64(len(raw)) + 1
			return f(seg, ln, hash)
		})
		file.Close()
		if err != nil {
			return end, err
		}
	}
}

// eachLine calls f with each line, without its end; whole is false for bytes
// after the last line end.
func eachLine(r io.Reader, f func(raw []byte, whole bool) error) error {
	br := bufio.NewReaderSize(r, maxLine+256)
	for {
		raw, err := br.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			if len(raw) > 0 {
				return f(raw, false)
			}
			return nil
		case err != nil:
			return err
		}
		if err := f(raw[:len(raw)-1], true); err != nil {
			return err
		}
	}
}

// parse checks one line against the chain so far.
func parse(raw []byte, prev string, seq int64) (line, string, error) {
	var ln line
	hash, record, ok := bytes.Cut(raw, []byte{' '})
	if !ok {
		return ln, "", errors.New("is not a record")
	}
	if chain(prev, record) != string(hash) {
		return ln, "", errors.New("does not fit the chain: it or the record before it was changed, removed or put in")
	}
	if err := json.Unmarshal(record, &ln); err != nil {
		return ln, "", fmt.Errorf("cannot be read: %w", err)
	}
	if ln.Seq != seq+1 {
		return ln, "", fmt.Errorf("has number %d", ln.Seq)
	}
	return ln, string(hash), nil
}

// Report is the outcome of a verification.
type Report struct {
	Records  int64  // lines that fit the chain
	Anchored int64  // number of the last line that a signature covers
	Problem  string // the first thing that is wrong; "" = nothing
}

// Verify checks the chain and its signatures in dir, which no server needs to
// have open. public is the hex public key to check against; "" = the one in
// dir. A broken chain is reported, not returned as an error.
func Verify(dir, public string) (Report, error) {
	pub, err := publicKey(dir, public)
	if err != nil {
		return Report{}, err
	}
	anchors, err := readAnchors(dir, pub)
	if err != nil {
		return Report{Problem: err.Error()}, nil
	}
	var r Report
	var last int64
	for seq := range anchors {
		last = max(last, seq)
	}
	_, err = walk(dir, func(_ int, ln line, hash string) error {
		r.Records = ln.Seq
		if want, ok := anchors[ln.Seq]; ok {
			if want != hash {
				return vm.Errorf(vm.Corrupt, "", "record %d is not the one that was signed", ln.Seq)
			}
			r.Anchored = ln.Seq
		}
		return nil
	})
	switch {
	case vm.KindOf(err) == vm.Corrupt:
		r.Problem = err.Error()
	case err != nil:
		return r, err
	case last > r.Records:
		r.Problem = fmt.Sprintf("the tail is cut: record %d was signed, but the last one is %d", last, r.Records)
	}
	return r, nil
}

func publicKey(dir, public string) (ed25519.PublicKey, error) {
	if public == "" {
		data, err := os.ReadFile(filepath.Join(dir, publicFile))
		if err != nil {
			return nil, fileError(publicFile, err)
		}
		public = string(data)
	}
	key, err := hex.DecodeString(strings.TrimSpace(public))
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, vm.Errorf(vm.Invalid, publicFile, "not a public key")
	}
	return key, nil
}

// readAnchors returns the signed hashes by number. A torn last line is passed
// over; a wrong signature is an error.
func readAnchors(dir string, pub ed25519.PublicKey) (map[int64]string, error) {
	out := map[int64]string{}
	f, err := os.Open(filepath.Join(dir, anchorsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return out, eachLine(f, func(raw []byte, whole bool) error {
		if !whole {
			return nil
		}
		var a anchor
		if err := json.Unmarshal(raw, &a); err != nil {
			return fmt.Errorf("a signature cannot be read: %w", err)
		}
		sig, err := hex.DecodeString(a.Signature)
		if err != nil || !ed25519.Verify(pub, a.message(), sig) {
			return fmt.Errorf("the signature of record %d is wrong", a.Seq)
		}
		out[a.Seq] = a.Hash
		return nil
	})
}
