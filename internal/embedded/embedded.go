// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package embedded carries the small programs that live outside the warren
// binary, the guest agent, the per-VM monitor and the reader of disks, and unpacks them into a data
// directory. They are programs of their own because a process linked with the
// whole of Warren costs some thirty times their memory. Only the wiring
// (internal/serve and cmd/warren) may import this package.
package embedded

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

//go:embed files
var files embed.FS

// Programs are the unpacked programs, by absolute path.
type Programs struct {
	Agent       string // static guest agent, also the init of the initramfs
	AgentDigest string // hex SHA-256 of it
	Monitor     string // warren-monitor
	Reader      string // warren-reader
}

// Unpack writes the programs into d, each under the digest of its content, and
// returns where they are. A program that is there already is left alone, so a
// running one is never overwritten. The error has kind Unsupported when this
// binary was built without them.
func Unpack(d layout.Dir) (Programs, error) {
	defer release()
	agent, digest, err := unpackOne(d, files, "warren-agent", 0o700)
	if err != nil {
		return Programs{}, err
	}
	monitor, _, err := unpackOne(d, files, "warren-monitor", 0o700)
	if err != nil {
		return Programs{}, err
	}
	// Its user is not root: the directory is closed to others, the file is not.
	reader, _, err := unpackOne(d, files, "warren-reader", 0o755)
	if err != nil {
		return Programs{}, err
	}
	return Programs{Agent: agent, AgentDigest: digest, Monitor: monitor, Reader: reader}, nil
}

// unpackOne reads the program as a stream, for it is as large as all else that an
// idle server holds.
func unpackOne(d layout.Dir, from fs.FS, name string, mode fs.FileMode) (path, digest string, err error) {
	f, err := from.Open("files/" + name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", vm.Errorf(vm.Unsupported, name, "this warren was built without its %s", name).
			WithHint("build it with `make build`")
	}
	if err != nil {
		return "", "", fmt.Errorf("embedded %s: %w", name, err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	h := sha256.New()
	size, err := io.Copy(h, f)
	if err != nil {
		return "", "", fmt.Errorf("embedded %s: %w", name, err)
	}
	digest = hex.EncodeToString(h.Sum(nil))
	path = filepath.Join(d.Bin(digest), name)
	if st, err := os.Stat(path); err == nil && st.Size() == size {
		return path, digest, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", "", fmt.Errorf("unpack %s: %w", name, err)
	}
	if _, err := f.(io.Seeker).Seek(0, io.SeekStart); err != nil { // embed says that its files do
		return "", "", fmt.Errorf("embedded %s: %w", name, err)
	}
	copied := func(w io.Writer) error {
		_, err := io.Copy(w, f)
		return err
	}
	if err := layout.WriteFunc(path, mode, copied); err != nil {
		return "", "", fmt.Errorf("unpack %s: %w", name, err)
	}
	return path, digest, nil
}
