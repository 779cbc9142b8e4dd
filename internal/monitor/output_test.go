// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"bytes"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/layout"
)

// TestLogsAreBounded: a QEMU that prints without end, and a monitor that has
// much to say, take no more of the disk than their logs may; also when another
// monitor has taken over.
func TestLogsAreBounded(t *testing.T) {
	ctx := deadline(t)
	spec := fakeSpec(t, "well+prints")
	dir := layout.VMDir(spec.Dir)
	if err := os.MkdirAll(dir.Logs(), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir.MonitorLog(), make([]byte, logLimit), 0o600); err != nil { // of monitors before
		t.Fatal(err)
	}
	l, c := launch(ctx, t, spec)
	st := killMonitor(ctx, t, c)
	if err := unix.Kill(st.QEMUPID, unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	c2, _, err := l.Attach(ctx, spec.RunDir)
	if err != nil {
		t.Fatal(err)
	}
	defer c2.Close()
	said := func() []byte {
		var all []byte
		for _, path := range []string{dir.QEMULog() + ".1", dir.QEMULog()} {
			data, err := os.ReadFile(path)
			if err != nil && !os.IsNotExist(err) || len(data) > 1<<20 { // between its two names it has none
				t.Fatalf("%s has %d bytes, %v", path, len(data), err)
			}
			all = append(all, data...)
		}
		return all
	}
	for !bytes.Contains(said(), []byte("second")) {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the monitor that took over does not read on")
		}
	}
	if err := c2.Stop(ctx, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := l.Sweep(ctx, spec.RunDir); err != nil { // when it returns, the monitor has said its last
		t.Fatal(err)
	}
	if n := len(said()); n < 1<<20 {
		t.Errorf("only %d bytes were kept of what QEMU printed", n)
	}
	for path, least := range map[string]int64{dir.MonitorLog(): 1, dir.MonitorLog() + ".1": logLimit} {
		if st, err := os.Stat(path); err != nil || st.Size() < least || st.Size() > logLimit {
			t.Errorf("%s is %v (%v), want %d to %d bytes", path, st, err, least, logLimit)
		}
	}
}
