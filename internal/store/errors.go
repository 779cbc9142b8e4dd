// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"strings"
	"syscall"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/warren-vm/warren/vm"
)

// damaged are parts of what etcd and bbolt say of data they cannot use.
var damaged = []string{
	"crc mismatch", "corrupt", "invalid database", "unexpected EOF", "checksum error", "version mismatch", "file size too small",
	"cannot be repaired", "failed to repair", "failed to open WAL", "failed to recover", "failed to open database",
	"out of range", "failed to find database snapshot", "snapshot file doesn't exist", "no such file",
	"failed to read WAL", "failed to unmarshal", "file not found", "slice bounds",
}

// openError says what is wrong with a data directory of etcd.
func openError(dir string, err error) error {
	text := err.Error()
	switch {
	case noSpace(err):
		return vm.Errorf(vm.NoSpace, dir, "no space for the record store: %w", err).WithHint("free disk space and start again; nothing was lost")
	case strings.Contains(text, "locked") || errors.Is(err, syscall.EADDRINUSE):
		return vm.Errorf(vm.Busy, dir, "another process has the record store open: %w", err).WithHint("stop the other `warren serve` first")
	case errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EROFS):
		return vm.Errorf(vm.Denied, dir, "the record store cannot be written: %w", err).WithHint("start the server as the owner of the data directory")
	}
	for _, part := range damaged {
		if strings.Contains(text, part) {
			return vm.Errorf(vm.Corrupt, dir, "the record store is damaged: %w", err).
				WithHint("move the directory aside and restore it from a backup; VMs on disk are not touched")
		}
	}
	return vm.Errorf(vm.Unavailable, dir, "the record store does not work: %w", err)
}

func noSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// requestError gives a failed request a kind. After Unavailable and the
// context's errors a change may have been made anyway: the caller reads
// the record again.
func requestError(subject string, err error) error {
	var known *vm.Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, rpctypes.ErrNoSpace) || noSpace(err):
		return vm.Errorf(vm.NoSpace, subject, "the record store is full: %w", err).
			WithHint("free disk space; an etcd cluster of your own has to be compacted and defragmented, and its alarm disarmed; nothing was lost")
	case errors.Is(err, rpctypes.ErrTooManyOps) || strings.Contains(err.Error(), "too many operations"): // the latter by an embedded server
		return vm.Errorf(vm.Limit, subject, "too many records for one change: %w", err).
			WithHint("ask for fewer at a time, or start the etcd cluster with a larger --max-txn-ops")
	case errors.Is(err, rpctypes.ErrRequestTooLarge) || strings.Contains(err.Error(), "larger than max"): // the latter by the client itself
		return vm.Errorf(vm.Limit, subject, "the record is too large: %w", err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return vm.Errorf(vm.Unavailable, subject, "record store: %w", err)
}
