// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// A start that fails says what happened, as soon as it is known, and one on a busy
// host gets the time that its QEMU had to wait for a CPU on top of its deadline.

const (
	// morePatience bounds what waiting for a CPU adds, in deadlines.
	morePatience = 2
	// busyShare is from which share of a start on, spent waiting for a CPU, the
	// host's load is the reason that it was too slow.
	busyShare = 0.25
	// patienceLook is between two looks at how long QEMU has waited.
	patienceLook = 500 * time.Millisecond
)

// patient ends after d, to which the time is added that QEMU waits for a CPU where
// the spec says so.
func (m *machine) patient(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	waited := func() time.Duration {
		if p := m.qemu(); p != nil {
			return waitedForCPU(p.Ident.PID)
		}
		return 0
	}
	most := d
	if m.spec.Patient {
		most = d * (1 + morePatience)
	}
	return patience(ctx, string(m.spec.ID), d, most, patienceLook, waited)
}

// patience ends when d and the time waited are over, at most after most. Its cause
// is the error of a start that took too long.
func patience(ctx context.Context, subject string, d, most, look time.Duration, waited func() time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	begin := time.Now()
	done := make(chan struct{})
	go func() { // ends with ctx
		defer close(done)
		for {
			t := time.NewTimer(look)
			select {
			case <-t.C:
			case <-ctx.Done():
				t.Stop()
				return
			}
			took, wait := time.Since(begin), waited()
			if took < min(d+wait, most) {
				continue
			}
			cancel(tooSlow{slowly(subject, took, wait), busy(took, wait)})
			return
		}
	}()
	return ctx, func() { cancel(nil); <-done }
}

// tooSlow ends a start that has had all its time.
type tooSlow struct {
	why  error
	busy bool // the host was
}

func (s tooSlow) Error() string { return s.why.Error() }
func (s tooSlow) Unwrap() error { return s.why }

func busy(took, wait time.Duration) bool { return float64(wait) >= busyShare*float64(took) }

func slowly(subject string, took, wait time.Duration) error {
	took = took.Round(100 * time.Millisecond)
	err := vm.Errorf(vm.Timeout, subject, "not ready within %v", took).
		WithHint("look at its console: `warren logs NAME`, or give it longer")
	if busy(took, wait) {
		err = vm.Errorf(vm.Timeout, subject, "not ready within %v: the host is too busy, QEMU waited %v of that for a CPU", took, wait.Round(100*time.Millisecond)).
			WithHint("stop what else runs, or other VMs, and try again; `warren top` shows who uses the CPUs")
	}
	return err.WithCode("VM_START_TIMEOUT", "vmId", subject)
}

// explained is the error of a start whose time may have been over: it says so, but
// where the guest is to blame and not the host.
func explained(ctx context.Context, err error) error {
	var slow tooSlow
	if err != nil && errors.As(context.Cause(ctx), &slow) && (slow.busy || vm.KindOf(err) != vm.GuestFault) {
		return slow.why
	}
	return err
}

// waitedForCPU is how long the thread of a process that waited longest for a CPU
// has done so; 0 where the kernel does not say.
func waitedForCPU(pid int) (longest time.Duration) {
	stats, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "schedstat"))
	if err != nil {
		return 0
	}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		var ran, waited int64
		if _, err := fmt.Sscan(string(text), &ran, &waited); err == nil {
			longest = max(longest, time.Duration(waited))
		}
	}
	return longest
}

const (
	panicMark = "Kernel panic - "
	panicTail = 64 << 10 // of the console that is searched for it
	panicMost = 200      // bytes of what it says
)

// panicked returns what the kernel of a guest that has ended said last, "" where it
// did not panic. What it says is the guest's: printable, and of a bounded length.
func (m *machine) panicked() string {
	<-m.consoled
	f, err := os.Open(layout.VMDir(m.spec.Dir).ConsoleLog())
	if err != nil {
		return ""
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil {
		_, _ = f.Seek(max(0, st.Size()-panicTail), io.SeekStart) // else from its beginning
	}
	text, _ := io.ReadAll(io.LimitReader(f, panicTail)) // what could be read
	i := bytes.LastIndex(text, []byte(panicMark))
	if i < 0 {
		return ""
	}
	line, _, _ := bytes.Cut(text[i:], []byte("\n"))
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, string(line[:min(len(line), panicMost)]))
}
