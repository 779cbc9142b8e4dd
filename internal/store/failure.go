// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap/zapcore"
)

// failure is what etcd does instead of ending the process: it tells why it
// cannot continue, and the goroutine that found out ends.
type failure struct {
	dir      string
	happened chan struct{} // closed once err is set
	once     sync.Once
	err      error
}

func newFailure(dir string) *failure { return &failure{dir: dir, happened: make(chan struct{})} }

// get returns why the server has failed; nil while it has not.
func (f *failure) get() error {
	select {
	case <-f.happened:
		return f.err
	default:
		return nil
	}
}

// OnWrite is called behind a log entry of level Panic or Fatal.
func (f *failure) OnWrite(e *zapcore.CheckedEntry, fields []zapcore.Field) {
	cause := errors.New(e.Message)
	for _, field := range fields {
		if err, ok := field.Interface.(error); ok {
			cause = fmt.Errorf("%s: %w", e.Message, err)
		}
	}
	f.set(openError(f.dir, cause))
	runtime.Goexit()
}

func (f *failure) set(err error) {
	f.once.Do(func() {
		f.err = err
		close(f.happened)
	})
}

// core routes etcd's log into ours: what goes wrong as errors, warnings for
// those who debug.
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
	say := c.log.Debug
	if e.Level >= zapcore.ErrorLevel && !isHarmless(e.Message) {
		say = c.log.Error
	}
	say("etcd: "+e.Message, "fields", enc.Fields)
	return nil
}

// harmless are parts of what etcd reports as errors in good health: while it is
// closed, and before a young store has its first snapshot, which it tries again.
var harmless = []string{"closed", "stopped", "setting up serving from embedded etcd failed", "failed to update storage version"}

func isHarmless(msg string) bool {
	return slices.ContainsFunc(harmless, func(part string) bool { return strings.Contains(msg, part) })
}

// Sync has nothing to flush.
func (c *core) Sync() error { return nil }
