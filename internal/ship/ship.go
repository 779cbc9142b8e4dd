// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package ship is the room of the named steps between VMs and object storage: publish
// makes an object of files of a VM, from a frozen state of the disk; fetch brings an
// object into a VM; store keeps what is left of a finished VM. Each step leaves an audit
// record, and nothing of a step that fails.
package ship

import (
	"cmp"
	"context"
	"errors"
	"io"
	"log/slog"
	"path"
	"strconv"
	"strings"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/inside"
	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/internal/reader"
	"github.com/warren-vm/warren/vm"
)

// DiskReader reads frozen disks; reader.Reader implements it.
type DiskReader interface {
	Tar(ctx context.Context, layers []string, paths []vm.GuestPath, o reader.TarOptions, w io.Writer) error
}

// Config is what the room works with. Every field but Reader is required.
type Config struct {
	Engine  *engine.Engine
	Access  *access.Access
	Journal *journal.Journal
	Objects *objects.Objects
	Reader  DiskReader // nil = this server cannot publish: kind Unsupported
	Log     *slog.Logger
}

// Ship is the room. All methods may be called at once from many goroutines.
type Ship struct {
	cfg    Config
	guests *inside.Inside
}

// New returns the room. Call Open before its first use.
func New(cfg Config) *Ship { return &Ship{cfg: cfg} }

// Open gives the room the calls into guests, which open after it.
func (s *Ship) Open(in *inside.Inside) { s.guests = in }

// Limits of a tree in both directions.
const (
	mostEntries = 300_000
	mostDeep    = 200
	mostName    = 4 << 10  // bytes of a name or a link's target
	mostNames   = 64 << 20 // bytes of all names of an archive that is unpacked
	mostListed  = 100      // entries that an answer names
	window      = 8 << 20  // of zstd; larger ones are refused
)

// limit is the limit of bytes that a request sets.
func limit(n int64) (int64, error) {
	if n < 0 || n > vm.MostMoved {
		return 0, vm.Errorf(vm.Invalid, "maxBytes", "it is not a limit of bytes").WithCode("INVALID_REQUEST").WithHint("use 1 to %d bytes", int64(vm.MostMoved))
	}
	return cmp.Or(n, vm.DefaultMoved), nil
}

// again returns the call for one more action, which gets a receipt of its own.
func again(c *vm.Call) *vm.Call { return &vm.Call{Actor: c.Actor, Request: c.Request} }

// resolve makes the path of a request absolute.
func resolve(rec vm.VM, p vm.GuestPath) (string, error) {
	if p == "" || len(p) > mostName || strings.ContainsRune(string(p), 0) {
		return "", vm.Errorf(vm.Invalid, "path", "it is not a path of a VM").WithCode("INVALID_REQUEST").WithHint("write NAME:/path")
	}
	if path.IsAbs(string(p)) {
		return path.Clean(string(p)), nil
	}
	return path.Join(cmp.Or(rec.Workdir, "/root"), string(p)), nil
}

// wholly turns errors that readers take for an ordinary end into errors.
func wholly(err error, what string) error {
	var known *vm.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return vm.Errorf(vm.Corrupt, what, "it ends in the middle")
	}
	return err
}

// ascii is a text as a header of HTTP can carry it, of at most n bytes or a few more.
func ascii(s string, n int) string {
	s = vm.Clip(s, n)
	for _, r := range s {
		if r < 0x20 || r > 0x7e {
			quoted := strconv.QuoteToASCII(s)
			return quoted[:min(len(quoted), n)]
		}
	}
	return s
}

// leads reports whether a link's target leads out of the tree that has the link at name.
func leads(name, target string) bool {
	at := path.Join(path.Dir(name), target)
	return strings.HasPrefix(target, "/") || at == ".." || strings.HasPrefix(at, "../")
}
