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

// A failed start reports its cause as soon as it is known. On a busy host, the time
// that QEMU waited for a CPU is added to the deadline.

const (
	// morePatience bounds the time added for CPU waits, in multiples of the
	// deadline.
	morePatience = 2
	// busyShare is the share of a start spent waiting for a CPU from which on the
	// host's load is reported as the cause.
	busyShare = 0.25
	// patienceLook is the interval at which QEMU's CPU wait is read.
	patienceLook = 500 * time.Millisecond
)

// patient returns a context that ends after d. If the spec allows it, the time that
// QEMU waits for a CPU is added.
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

// patience ends when d plus the time waited is over, or at most after most. Its
// cause is the error of a start that took too long.
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

// tooSlow ends a start whose time is over.
type tooSlow struct {
	why  error
	busy bool // the host was too busy
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

// explained returns the error of a start whose time may be over. It says so, unless
// the guest and not the host is to blame.
func explained(ctx context.Context, err error) error {
	var slow tooSlow
	if err != nil && errors.As(context.Cause(ctx), &slow) && (slow.busy || vm.KindOf(err) != vm.GuestFault) {
		return slow.why
	}
	return err
}

// waitedForCPU returns the longest time that a thread of a process waited for a
// CPU; 0 where the kernel does not tell.
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
	panicTail = 64 << 10 // bytes of the console that are searched for it
	panicMost = 200      // bytes of the message
)

// panicked returns the last message of a guest kernel that panicked, "" if it did
// not. The guest wrote it: it is made printable and cut.
func (m *machine) panicked() string {
	<-m.consoled
	f, err := os.Open(layout.VMDir(m.spec.Dir).ConsoleLog())
	if err != nil {
		return ""
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil {
		_, _ = f.Seek(max(0, st.Size()-panicTail), io.SeekStart) // otherwise it is read from its beginning
	}
	text, _ := io.ReadAll(io.LimitReader(f, panicTail)) // use the part that could be read
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
