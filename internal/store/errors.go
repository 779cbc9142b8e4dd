// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"syscall"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/warren-vm/warren/vm"
)

// openError says what is wrong with a data directory of etcd.
func openError(dir string, err error) error {
	text := err.Error()
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return vm.Errorf(vm.NoSpace, dir, "no space for the record store: %w", err).WithHint("free space and start again; nothing was lost")
	case strings.Contains(text, "locked") || strings.Contains(text, "address already in use") || errors.Is(err, syscall.EADDRINUSE):
		return vm.Errorf(vm.Busy, dir, "another process has the record store open: %w", err).WithHint("stop the other `warren serve` first")
	case strings.Contains(text, "crc mismatch") || strings.Contains(text, "corrupt") || strings.Contains(text, "invalid database") || strings.Contains(text, "unexpected EOF"):
		return vm.Errorf(vm.Corrupt, dir, "the record store is damaged: %w", err).
			WithHint("move the directory aside and restore it from a backup; VMs on disk are not touched")
	}
	return vm.Errorf(vm.Unavailable, dir, "the record store does not open: %w", err)
}

// writeError gives a failed request a kind.
func writeError(subject string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, rpctypes.ErrNoSpace) || errors.Is(err, syscall.ENOSPC):
		return vm.Errorf(vm.NoSpace, subject, "the record store is full: %w", err).WithHint("free disk space; nothing was lost")
	case errors.Is(err, rpctypes.ErrRequestTooLarge):
		return vm.Errorf(vm.Limit, subject, "the record is too large: %w", err)
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return vm.Errorf(vm.Unavailable, subject, "record store: %w", err)
}

// zapInto routes etcd's log into ours, warnings and worse only. What etcd
// reports while it is being closed is no error to anybody.
func zapInto(log *slog.Logger) *zap.Logger {
	return zap.New(&core{log: log})
}

type core struct{ log *slog.Logger }

// Enabled keeps what an operator may want to act on.
func (c *core) Enabled(l zapcore.Level) bool { return l >= zapcore.WarnLevel }

// With drops etcd's own fields: they repeat its configuration.
func (c *core) With([]zapcore.Field) zapcore.Core { return c }

// Check adds this core to entries that it takes.
func (c *core) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write hands an entry on at debug level unless it is an error.
func (c *core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(enc)
	}
	level := slog.LevelDebug
	if e.Level >= zapcore.ErrorLevel && !closing(e.Message) {
		level = slog.LevelError
	}
	c.log.Log(context.TODO(), level, "etcd: "+e.Message, "fields", enc.Fields) //nolint:forbidigo // zap's interface has no context
	return nil
}

func closing(msg string) bool {
	return strings.Contains(msg, "closed") || strings.Contains(msg, "stopped") || strings.Contains(msg, "setting up serving from embedded etcd failed")
}

// Sync has nothing to flush.
func (c *core) Sync() error { return nil }
