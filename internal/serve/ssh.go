// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"

	"golang.org/x/crypto/ssh"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/house"
	"github.com/warren-vm/warren/internal/inside"
	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/sshd"
	"github.com/warren-vm/warren/vm"
)

// sshRooms holds the rooms that the SSH gateway uses.
type sshRooms struct {
	*engine.Engine
	*access.Access
	*journal.Journal
	*inside.Inside
}

// newSSH returns the SSH gateway with the host key of the data directory.
func newSSH(dir layout.Dir, h *house.House, log *slog.Logger) (*sshd.Server, error) {
	key, err := sshHostKey(dir.SSHHostKey())
	if err != nil {
		return nil, err
	}
	return sshd.New(sshd.Config{Engine: sshRooms{h.Engine, h.Access, h.Journal, h.Inside}, HostKey: key, Repositories: h.Repo, Log: log, Version: api.Version}), nil
}

// sshHostKey reads the host key, in OpenSSH's format, and creates it on first use. It
// never replaces an unreadable key, since clients know it.
func sshHostKey(path string) (ssh.Signer, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		_, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, vm.Errorf(vm.Internal, path, "%w", err)
		}
		block, err := ssh.MarshalPrivateKey(private, "warren")
		if err != nil {
			return nil, vm.Errorf(vm.Internal, path, "%w", err)
		}
		data = pem.EncodeToMemory(block)
		if err := layout.WriteFile(path, data, 0o600); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, vm.Errorf(vm.Internal, path, "cannot be read: %w", err)
	}
	key, err := ssh.ParsePrivateKey(data)
	if err != nil {
		return nil, vm.Errorf(vm.Corrupt, path, "not an SSH host key: %w", err).
			WithHint("restore the file from a backup; or remove it, and every client will have to forget the old key")
	}
	return key, nil
}

// address is the address on which a gateway listens; "" = it is off.
func address(l net.Listener) string {
	if l == nil {
		return ""
	}
	return l.Addr().String()
}

// serveSSH serves until ctx ends. The channel gets a failure, and is closed when all
// connections have ended.
func (s *stack) serveSSH(ctx context.Context) <-chan error {
	failed := make(chan error, 1)
	go func() {
		defer close(failed)
		if s.sshListener == nil {
			<-ctx.Done()
			return
		}
		if err := s.ssh.Serve(ctx, s.sshListener); err != nil {
			failed <- err
		}
	}()
	return failed
}
