// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

const (
	keyFile    = "anchor.key" // 0600, hex Ed25519 seed
	publicFile = "anchor.pub" // hex; keep a copy elsewhere to verify against
	nextKey    = ".next"      // what follows the name of a key's file while the key is handed over
)

// signDeadline bounds one call of a signer.
const signDeadline = 10 * time.Second

// Signer signs checkpoints.
type Signer interface {
	// Public returns the key that verifies the signatures.
	Public() ed25519.PublicKey
	// Sign signs a message. It blocks until ctx ends at most.
	Sign(ctx context.Context, message []byte) ([]byte, error)
}

// KeyFile is a signer with a key in a file.
type KeyFile struct {
	name string
	key  ed25519.PrivateKey
}

// Public returns the public key.
func (k KeyFile) Public() ed25519.PublicKey { return k.key.Public().(ed25519.PublicKey) }

// Sign signs a message.
func (k KeyFile) Sign(_ context.Context, message []byte) ([]byte, error) {
	return ed25519.Sign(k.key, message), nil
}

// ReadKey reads the key in a file: the hex digits of an Ed25519 seed. Kinds NotFound,
// Invalid, Internal.
func ReadKey(name string) (KeyFile, error) {
	data, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return KeyFile{}, vm.Errorf(vm.NotFound, name, "there is no signing key").WithHint("make one: `openssl rand -hex 32 > %s; chmod 600 %s`", name, name)
	case err != nil:
		return KeyFile{}, fileError(name, err)
	}
	seed, err := hex.DecodeString(strings.TrimSpace(string(data)))
	if err != nil || len(seed) != ed25519.SeedSize {
		return KeyFile{}, vm.Errorf(vm.Corrupt, name, "not a signing key: %d hex digits are wanted", 2*ed25519.SeedSize).
			WithHint("restore it from a backup, or move the audit directory aside to begin a new log")
	}
	return KeyFile{name, ed25519.NewKeyFromSeed(seed)}, nil
}

// makeKey writes a new key to a file, which must not exist.
func makeKey(name string) (KeyFile, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return KeyFile{}, fileError(name, err)
	}
	if err := layout.WriteFile(name, []byte(hex.EncodeToString(key.Seed())+"\n"), 0o600); err != nil {
		return KeyFile{}, fileError(name, err)
	}
	return KeyFile{name, key}, nil
}

// Command is a signer that is another program: with the argument "public" it prints its
// public key in hex, with "sign" the hex signature of its standard input.
type Command struct {
	path   string
	public ed25519.PublicKey
}

// NewCommand asks the program for its public key.
func NewCommand(ctx context.Context, path string) (*Command, error) {
	c := &Command{path: path}
	out, err := c.run(ctx, "public", nil)
	if err != nil {
		return nil, err
	}
	if c.public, err = vm.ParseSigningKey(string(out)); err != nil {
		return nil, vm.Errorf(vm.Invalid, path, "the signer printed no public key").WithHint("`%s public` must print %d hex digits", path, 2*ed25519.PublicKeySize)
	}
	return c, nil
}

// Public returns the public key.
func (c *Command) Public() ed25519.PublicKey { return c.public }

// Sign runs the program.
func (c *Command) Sign(ctx context.Context, message []byte) ([]byte, error) {
	out, err := c.run(ctx, "sign", message)
	if err != nil {
		return nil, err
	}
	sig, err := hex.DecodeString(strings.TrimSpace(string(out)))
	if err != nil || len(sig) != ed25519.SignatureSize {
		return nil, vm.Errorf(vm.Unavailable, c.path, "the signer printed no signature").WithHint("`%s sign` must print %d hex digits", c.path, 2*ed25519.SignatureSize)
	}
	return sig, nil
}

func (c *Command) run(ctx context.Context, verb string, in []byte) ([]byte, error) {
	ctx, stop := context.WithTimeout(ctx, signDeadline)
	defer stop()
	cmd := exec.CommandContext(ctx, c.path, verb)
	var out, said tail
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = bytes.NewReader(in), &out, &said, time.Second
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = vm.Errorf(vm.Timeout, c.path, "no answer within %s", signDeadline)
		}
		return nil, vm.Errorf(vm.Unavailable, c.path, "the signer failed: %w: %s", err, strings.TrimSpace(string(said))).
			WithHint("run `%s sign < /dev/null` to see why", c.path)
	}
	return out, nil
}

// tail keeps the first 4 KiB that are written to it.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	*t = append(*t, p[:min(len(p), 4<<10-len(*t))]...)
	return len(p), nil
}

// ownKey returns the key in the directory of a log, and makes it for a new log. After a
// handover that a crash interrupted, it completes it.
func ownKey(dir string, signs vm.Checkpoint) (KeyFile, error) {
	name := filepath.Join(dir, keyFile)
	if next, err := ReadKey(name + nextKey); err == nil {
		if key := hex.EncodeToString(next.Public()); key == signs.Next || key == signs.Key {
			if err := promote(name); err != nil {
				return KeyFile{}, err
			}
		}
	}
	key, err := ReadKey(name)
	if vm.KindOf(err) == vm.NotFound && signs.Seq == 0 {
		return makeKey(name)
	}
	return key, err
}

// promote gives the next key its name.
func promote(name string) error {
	err := os.Rename(name+nextKey, name)
	if err == nil {
		err = layout.SyncDir(filepath.Dir(name))
	}
	if err != nil {
		return fileError(name, err)
	}
	return nil
}

// publish writes the public key beside the log.
func publish(dir string, key ed25519.PublicKey) error {
	name, text := filepath.Join(dir, publicFile), hex.EncodeToString(key)+"\n"
	if old, err := os.ReadFile(name); err == nil && string(old) == text {
		return nil
	}
	if err := layout.WriteFile(name, []byte(text), 0o644); err != nil {
		return fileError(name, err)
	}
	return nil
}
