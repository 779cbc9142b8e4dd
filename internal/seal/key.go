// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"filippo.io/age"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// HostKey wraps the keys of everything that this host seals. It is in the file that
// layout.Dir.HostKey names, in the format of age-keygen.
type HostKey struct {
	id *age.X25519Identity
}

// Key seals and opens files. Only Wrapped may be stored; deleting the last copy of
// it erases everything that was sealed with the key.
type Key struct {
	id      *age.X25519Identity
	Wrapped []byte
}

// String hides the secret from logs.
func (Key) String() string { return "seal.Key" }

// String hides the secret from logs.
func (*HostKey) String() string { return "seal.HostKey" }

// maxKeyFile bounds the size of a key file, wrapped or not.
const maxKeyFile = 64 << 10

// LoadHostKey reads the host's key. Kinds: NotFound, Denied when others may
// read or replace the file, Corrupt.
func LoadHostKey(path string) (*HostKey, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, hostKeyError(path, err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, layout.Error(path, err)
	}
	if err := mayTrust(path, st, os.Getuid()); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	if err != nil {
		return nil, layout.Error(path, err)
	}
	// The cause is not kept: it may contain parts of the file.
	id, err := age.ParseX25519Identity(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, vm.Errorf(vm.Corrupt, path, "not a host key: one line that begins with AGE-SECRET-KEY-1 is expected").
			WithHint("put back the file from a backup; without it nothing that is sealed can be opened")
	}
	return &HostKey{id}, nil
}

func hostKeyError(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return vm.Errorf(vm.NotFound, path, "no host key").
			WithHint("put back the file from a backup if anything was sealed before; without it that can't be opened")
	case errors.Is(err, syscall.ELOOP):
		return vm.Errorf(vm.Denied, path, "the host key is a symbolic link").WithHint("put the file itself there")
	}
	return layout.Error(path, err)
}

// mayTrust refuses a key file that somebody else can read or could have made.
func mayTrust(path string, st fs.FileInfo, uid int) error {
	sys, ok := st.Sys().(*syscall.Stat_t)
	switch {
	case !st.Mode().IsRegular():
		return vm.Errorf(vm.Denied, path, "the host key is not a regular file").WithHint("put the file itself there")
	case !ok || int(sys.Uid) != uid:
		return vm.Errorf(vm.Denied, path, "the host key belongs to another user").
			WithHint("run warren as the user that owns it, or: chown %d %s", uid, path)
	case st.Mode().Perm()&0o077 != 0:
		return vm.Errorf(vm.Denied, path, "others may use the host key: its mode is %04o", st.Mode().Perm()).
			WithHint("chmod 600 %s; if others could read it, seal again what must stay secret", path)
	}
	return nil
}

// EnsureHostKey reads the host's key and makes it if there is none. Call it only to
// seal: when something is to be opened, a lost key must not be replaced silently.
// Kinds: those of LoadHostKey, NoSpace.
func EnsureHostKey(path string) (*HostKey, error) {
	k, err := LoadHostKey(path)
	if vm.KindOf(err) != vm.NotFound {
		return k, err
	}
	if err := makeHostKey(path); err != nil {
		return nil, err
	}
	return LoadHostKey(path)
}

// makeHostKey makes the file appear whole. If two callers do it at once, one wins,
// and both read the winner's.
func makeHostKey(path string) error {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return vm.Errorf(vm.Internal, path, "no host key: %w", err)
	}
	dir, err := layout.Temp(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	tmp := filepath.Join(dir, "key")
	if err := layout.WriteFile(tmp, []byte(id.String()+"\n"), 0o600); err != nil {
		return err
	}
	if err := os.Link(tmp, path); err != nil && !errors.Is(err, fs.ErrExist) {
		return layout.Error(path, err)
	}
	return layout.SyncDir(filepath.Dir(path))
}

// Wrap encrypts a small secret, such as a key, so that only the host's key
// opens it.
func Wrap(host *HostKey, secret []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := age.Encrypt(&out, host.id.Recipient())
	if err == nil {
		_, err = w.Write(secret)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, vm.Errorf(vm.Internal, "", "the key can't be wrapped: %w", err)
	}
	return out.Bytes(), nil
}

// Unwrap is the reverse of Wrap. Corrupt when it was wrapped by another host's
// key or is damaged.
func Unwrap(host *HostKey, wrapped []byte) ([]byte, error) {
	r, err := age.Decrypt(bytes.NewReader(wrapped), host.id)
	var secret []byte
	if err == nil {
		secret, err = io.ReadAll(io.LimitReader(r, maxKeyFile))
	}
	if err != nil {
		return nil, vm.Errorf(vm.Corrupt, "", "the wrapped key doesn't open: %w", err).
			WithHint("put back the host.key that it was sealed under; without it the contents are lost")
	}
	return secret, nil
}

// NewKey makes a key. Wrapped must be stored durably before anything that the
// key seals replaces its plain form.
func (h *HostKey) NewKey() (Key, error) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		return Key{}, vm.Errorf(vm.Internal, "", "no key: %w", err)
	}
	wrapped, err := Wrap(h, []byte(id.String()))
	return Key{id, wrapped}, err
}

// Key unwraps the key of a stored Key.Wrapped. Kinds: those of Unwrap.
func (h *HostKey) Key(wrapped []byte) (Key, error) {
	secret, err := Unwrap(h, wrapped)
	if err != nil {
		return Key{}, err
	}
	id, err := age.ParseX25519Identity(string(secret))
	if err != nil { // the cause may contain the secret
		return Key{}, vm.Errorf(vm.Corrupt, "", "what was wrapped is not the key of a file")
	}
	return Key{id, wrapped}, nil
}
