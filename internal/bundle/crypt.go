// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"errors"
	"io"
	"strings"

	"filippo.io/age"

	"github.com/warren-vm/warren/vm"
)

// Keys open encrypted archives. The zero value opens only plain ones.
type Keys struct {
	Passphrase string
	Identities string // in the format of age-keygen
}

// Encrypt returns a writer that encrypts an archive for recipients (age1…), or by a
// passphrase when there are none. Closing it completes the encrypted file and leaves w
// open. Without either it passes on what is written. Kind Invalid.
func Encrypt(w io.Writer, recipients []string, passphrase string) (io.WriteCloser, error) {
	var to []age.Recipient
	for _, r := range recipients {
		x, err := age.ParseX25519Recipient(r)
		if err != nil {
			return nil, vm.Errorf(vm.Invalid, r, "not an age recipient: %w", err).WithHint("use a public key that `age-keygen` printed: age1…")
		}
		to = append(to, x)
	}
	if len(to) > 0 && passphrase != "" {
		return nil, vm.Errorf(vm.Invalid, "passphrase", "a passphrase cannot be used together with recipients")
	}
	if len(to) == 0 && passphrase == "" {
		return plain{w}, nil
	}
	if passphrase != "" {
		x, err := age.NewScryptRecipient(passphrase)
		if err != nil {
			return nil, vm.Errorf(vm.Invalid, "passphrase", "%w", err)
		}
		to = append(to, x)
	}
	out, err := age.Encrypt(w, to...)
	if err != nil {
		return nil, vm.Errorf(vm.Internal, "archive", "cannot be encrypted: %w", err)
	}
	return out, nil
}

type plain struct{ io.Writer }

// Close does nothing.
func (plain) Close() error { return nil }

const agePrefix = "age-encryption.org/"

// Decrypt returns the plain archive in a file of size bytes, and its size. A plain
// archive is returned as it is. Kinds: Locked when the keys do not open it, Corrupt.
func Decrypt(r io.ReaderAt, size int64, k Keys) (io.ReaderAt, int64, error) {
	head := make([]byte, len(agePrefix))
	if n, err := r.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, readError(err)
	} else if string(head[:n]) != agePrefix {
		return r, size, nil
	}
	ids, err := k.identities()
	if err != nil {
		return nil, 0, err
	}
	if len(ids) == 0 {
		return nil, 0, vm.Errorf(vm.Denied, "archive", "it is encrypted").WithHint("give --passphrase-file or --identity")
	}
	out, n, err := age.DecryptReaderAt(r, size, ids...)
	var wrong *age.NoIdentityMatchError
	switch {
	case errors.As(err, &wrong):
		return nil, 0, vm.Errorf(vm.Denied, "archive", "the passphrase or identity does not open it").WithHint("give the one that it was encrypted for")
	case err != nil:
		return nil, 0, readError(err)
	}
	return out, n, nil
}

func (k Keys) identities() (ids []age.Identity, err error) {
	if k.Passphrase != "" {
		x, err := age.NewScryptIdentity(k.Passphrase)
		if err != nil {
			return nil, vm.Errorf(vm.Invalid, "passphrase", "%w", err)
		}
		ids = append(ids, x)
	}
	if k.Identities != "" {
		list, err := age.ParseIdentities(strings.NewReader(k.Identities))
		if err != nil { // the cause may contain the secret
			return nil, vm.Errorf(vm.Invalid, "identity", "not a file of age identities").WithHint("use a file that `age-keygen` wrote")
		}
		ids = append(ids, list...)
	}
	return ids, nil
}
