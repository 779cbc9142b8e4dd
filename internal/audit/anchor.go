// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/warren-vm/warren/internal/merkle"
	"github.com/warren-vm/warren/vm"
)

const anchorsFile = "anchors.jsonl"

// anchorGap is the least time between two signatures, unless very many lines are unsigned:
// a signature makes the disk busy, and covers all lines before it.
const anchorGap = 500 * time.Millisecond

// point is a state of the log that can be signed.
type point struct {
	Head
	tree merkle.Tree
}

// parseCheckpoint reads one line of signatures.
func parseCheckpoint(raw []byte) (vm.Checkpoint, error) {
	var c vm.Checkpoint
	if err := json.Unmarshal(raw, &c); err != nil {
		return c, fmt.Errorf("a signature cannot be read: %w", err)
	}
	return c, wellFormed(c)
}

// wellFormed refuses a checkpoint of a version that nobody signs, and one with parts that
// its signature does not cover.
func wellFormed(c vm.Checkpoint) error {
	switch {
	case c.Seq <= 0 || !isDigest(c.Hash):
	case c.Version == 0 && c.Log+c.Root+c.Key+c.Next == "":
		return nil
	case c.Version == 2 && isDigest(c.Log) && isDigest(c.Root) && isDigest(c.Key) && (c.Next == "" || isDigest(c.Next)):
		return nil
	}
	return fmt.Errorf("the signature of record %d has not the form of version %d", c.Seq, c.Version)
}

// isDigest reports whether s is 32 bytes in lower-case hex, as digests and keys are.
func isDigest(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(s) == hashLen
}

// lastCheckpoint reads the newest signature; the zero one when there is none. It cuts
// off a torn last line, so that the next one is intact.
func lastCheckpoint(dir string) (last vm.Checkpoint, err error) {
	name := filepath.Join(dir, anchorsFile)
	torn, err := backward(name, -1, func(raw []byte) error {
		if last, err = parseCheckpoint(raw); err != nil {
			return corrupt(name, "%w", err)
		}
		return errStop
	})
	if errors.Is(err, fs.ErrNotExist) {
		return vm.Checkpoint{}, nil
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

// chooseSigner takes the signer that the log continues with, and checks that the last
// signature allows it. The key in the directory hands over to another signer once. known is
// what the record store has of the log.
func (l *Log) chooseSigner(last vm.Checkpoint, other Signer, known Head) error {
	var own Signer
	key, err := ownKey(l.dir, last)
	switch {
	case err == nil:
		own = key
	case other == nil && vm.KindOf(err) == vm.NotFound:
		return foreignKey(last, nil)
	case vm.KindOf(err) != vm.NotFound:
		return err
	}
	l.signer = own
	if other != nil {
		l.signer = other
	}
	now := l.signer.Public()
	l.signedBy = hex.EncodeToString(now)
	switch {
	case last.Seq == 0:
	case last.Next != "":
		if last.Next != l.signedBy {
			return foreignKey(last, now)
		}
		if key, err := vm.ParseSigningKey(last.Key); err != nil || !last.Signed(key) {
			return corrupt(l.dir, "the signature of record %d is wrong", last.Seq)
		}
		l.signedBy, l.heir = last.Key, true
		return l.inherits(last, known)
	case last.Signed(now):
	case other != nil && own != nil && last.Signed(own.Public()):
		l.signer, l.successor = own, other // see Open
		if l.signedBy = hex.EncodeToString(own.Public()); known.Key != "" && known.Key != l.signedBy {
			return swapped(l.signedBy, known.Key)
		}
	case last.Key != "" && last.Key != hex.EncodeToString(now):
		return foreignKey(last, now)
	default:
		return corrupt(l.dir, "the signature of record %d is wrong", last.Seq)
	}
	return nil
}

// inherits checks that the key that handed over to the present one was the log's: anybody
// can make a key and let it hand over. The record store knows it; without one, it is the
// key that is published beside the log until the next one has signed.
func (l *Log) inherits(last vm.Checkpoint, known Head) error {
	want := known.Key
	if want == "" {
		var err error
		if want, err = keyBeside(l.dir); err != nil {
			return err
		}
	}
	if want == last.Key || known.Key != "" && want == last.Next {
		return nil
	}
	return swapped(last.Key, want)
}

func swapped(signed, want string) error {
	return vm.Errorf(vm.Corrupt, publicFile, "the audit log was handed over by the key %s, but it was signed by %s: its key was swapped", fingerprint(signed), fingerprint(want)).
		WithCode(CodeKey).WithHint("copy the audit directory as evidence, then restore it from a backup")
}

func foreignKey(last vm.Checkpoint, now ed25519.PublicKey) error {
	text, want := "the audit log is signed by another key", last.Key
	if last.Next != "" {
		want = last.Next
	}
	if key, err := vm.ParseSigningKey(want); err == nil {
		text += ", " + vm.Fingerprint(key)
	}
	if now != nil {
		text += "; this one is " + vm.Fingerprint(now)
	}
	return vm.Errorf(vm.Corrupt, publicFile, "%s", text).
		WithHint("start the server with the --audit-key or --audit-signer of that key; `warren audit rotate-key --to KEY` hands over to another one")
}

// notary is the one goroutine that signs. Records do not wait for it until many are
// unsigned. It ends after the writer, with a last signature.
func (l *Log) notary(lifetime context.Context) {
	defer close(l.signed)
	timer, soon := time.NewTimer(anchorDelay), time.NewTimer(0)
	defer timer.Stop()
	defer soon.Stop()
	var last time.Time
	for over := false; !over; {
		var asked signing
		select {
		case <-l.signSoon:
			if wait := anchorGap - time.Since(last); wait > 0 && !l.urge() {
				soon.Reset(wait)
				continue
			}
		case <-soon.C:
		case asked = <-l.signNow:
		case <-timer.C:
			timer.Reset(anchorDelay)
		case <-l.done:
			over = true
		}
		last = time.Now()
		err := l.anchor(lifetime, asked.next)
		if asked.answer != nil {
			asked.answer <- err
		}
	}
}

// urge reports whether so many lines are unsigned that the next signature cannot wait. A
// signer that fails is not urged.
func (l *Log) urge() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.point.Seq-l.anchored >= maxUnsigned/2 && l.anchorErr == nil
}

// signing asks the notary for a signature.
type signing struct {
	next   ed25519.PublicKey // hand over to this key; nil = do not
	answer chan error        // buffered
}

// signHead has everything on disk signed, and waits for that.
func (l *Log) signHead(next ed25519.PublicKey) error {
	s := signing{next, make(chan error, 1)}
	select {
	case l.signNow <- s:
		return <-s.answer
	case <-l.signed:
		return errClosed()
	}
}

// anchor signs the chain's end, unless it is signed.
func (l *Log) anchor(lifetime context.Context, next ed25519.PublicKey) (err error) {
	l.mu.Lock()
	p, anchored, signer, handed, heir := l.point, l.anchored, l.signer, l.handed, l.heir
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		l.anchorErr = err
		l.mu.Unlock()
	}()
	if p.Seq == 0 || p.Seq == anchored && next == nil && !heir {
		return nil
	}
	if handed != nil {
		return vm.Errorf(vm.Unavailable, "audit", "the audit log was handed over to the key %s, which this server does not have", vm.Fingerprint(handed)).
			WithHint("restart the server with the --audit-key or --audit-signer of that key")
	}
	c, err := checkpoint(lifetime, signer, p, next)
	if err != nil {
		return err
	}
	if err := l.appendCheckpoint(c); err != nil {
		return err
	}
	l.mu.Lock()
	l.anchored, l.anchoredAt, l.signedBy, l.heir = c.Seq, c.Time, c.Key, false
	l.mu.Unlock()
	l.tell(c)
	if heir {
		return publish(l.dir, signer.Public())
	}
	return nil
}

// checkpoint signs a point.
func checkpoint(lifetime context.Context, by Signer, p point, next ed25519.PublicKey) (vm.Checkpoint, error) {
	root := p.tree.Root()
	c := vm.Checkpoint{
		Version: 2, Log: p.Log, Seq: p.Seq, Root: hex.EncodeToString(root[:]), Hash: p.Hash,
		Time: time.Now().UTC(), Key: hex.EncodeToString(by.Public()), Next: hex.EncodeToString(next),
	}
	ctx, stop := context.WithTimeout(lifetime, signDeadline)
	defer stop()
	sig, err := by.Sign(ctx, c.Message())
	if err != nil {
		return c, vm.Errorf(vm.KindOf(err), "audit", "the audit log cannot be signed: %w", err).
			WithHint("%s", vm.AsError(err).Hint)
	}
	if c.Signature = hex.EncodeToString(sig); !c.Signed(by.Public()) {
		return c, vm.Errorf(vm.Unavailable, "audit", "the signer's signature does not belong to its public key, %s", vm.Fingerprint(by.Public())).
			WithHint("check the program of --audit-signer")
	}
	return c, nil
}

func (l *Log) appendCheckpoint(c vm.Checkpoint) (err error) {
	data, err := json.Marshal(c)
	if err != nil {
		return fileError(anchorsFile, err)
	}
	return appendTo(filepath.Join(l.dir, anchorsFile), append(data, '\n'))
}

// appendTo adds a line to a file durably.
func appendTo(name string, line []byte) (err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fileError(name, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	st, err := f.Stat()
	if err != nil {
		return fileError(name, err)
	}
	_, err = f.Write(line)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return fileError(name, errors.Join(err, f.Truncate(st.Size())))
	}
	if st.Size() == 0 {
		return syncDir(filepath.Dir(name))
	}
	return nil
}

// Sign signs a message that is no checkpoint with the signer of the log, and returns its
// hex public key.
func (l *Log) Sign(ctx context.Context, message []byte) (sig []byte, key string, err error) {
	l.mu.Lock()
	by := l.signer
	l.mu.Unlock()
	ctx, stop := context.WithTimeout(ctx, signDeadline)
	defer stop()
	sig, err = by.Sign(ctx, message)
	return sig, hex.EncodeToString(by.Public()), err
}
