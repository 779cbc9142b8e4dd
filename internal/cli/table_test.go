// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// printed is what a terminal of a width shows of a table.
func printed(width int, t *table) string {
	var b bytes.Buffer
	s := &streams{out: &b, width: width}
	s.print(t)
	return b.String()
}

// Tables fit terminals of 80 and 60 columns, and show all columns if there is room or on request.
func TestTablesFit(t *testing.T) {
	long := strings.Repeat("n", 24)
	v := box
	v.Name, v.CreatedAt = long, time.Now().Add(-50*time.Hour)
	f := newFake(t)
	f.on("GET /v1/vms", api.VMList{VMs: []api.VM{v}})
	f.on("GET /v1/usage", api.UsageList{VMs: []vm.Usage{{Name: long, VM: v.ID, RunningSeconds: 123456, CPUSeconds: 9999, MemorySeconds: 1e9, DiskBytes: 5e9, DiskPeakBytes: 6e9, BytesIn: 7e9, BytesOut: 8e9, Gone: time.Now()}}})
	f.on("GET /v1/audit", api.AuditList{Records: []api.AuditRecord{{Seq: 123456, Time: time.Now(), ID: "ar-abcdefghij0123456789", Op: vm.OpSnapshotRename, VM: v.ID, Actor: vm.Actor{Key: "key-abcdefghij"}, Outcome: "succeeded", Subject: long}}})
	for _, line := range []string{"ls", "usage", "audit ls"} {
		whole := run(t, f, Local{}, "", strings.Fields(line)...)
		if whole.code != 0 {
			t.Fatalf("%s failed: %+v", line, whole)
		}
		for _, width := range []int{60, 80} {
			out := onTerminal(t, f, width, strings.Fields(line)...)
			for _, l := range strings.Split(out, "\n") {
				if n := len([]rune(l)); n > width {
					t.Errorf("%s at %d columns: a line of %d: %q", line, width, n, l)
				}
			}
			if strings.Count(out, "\n") < 2 {
				t.Errorf("%s at %d columns prints %q", line, width, out)
			}
			if head := firstLine(onTerminal(t, f, width, append(strings.Fields(line), "-o", "wide")...)); len(strings.Fields(head)) != len(strings.Fields(firstLine(whole.out))) {
				t.Errorf("%s -o wide at %d columns leaves columns out: %q", line, width, head)
			}
		}
		run(t, f, Local{}, "", append(strings.Fields(line), "-o", "narrow")...).wants(t, 2, "no such form")
	}
}

// onTerminal is what a command prints on a terminal of a width, without colours.
func onTerminal(t *testing.T, f *fake, width int, args ...string) string {
	t.Helper()
	return onTerminalWith(t, f, map[string]string{"NO_COLOR": "1"}, width, args...)
}

// onTerminalWith is onTerminal with variables of the environment.
func onTerminalWith(t *testing.T, f *fake, env map[string]string, width int, args ...string) string {
	t.Helper()
	master, tty := openTerminal(t, width)
	env["WARREN_API_KEY"], env["WARREN_API_URL"] = "secret", f.server.URL
	read := make(chan string, 1)
	go func() {
		data, _ := io.ReadAll(master) // ends with an error when the terminal is closed
		read <- string(data)
	}()
	if code := Main(t.Context(), args, strings.NewReader(""), tty, io.Discard, func(k string) string { return env[k] }, Local{}); code != 0 {
		t.Errorf("%q ends with %d", args, code)
	}
	_ = tty.Close()
	out := <-read
	_ = master.Close()
	return strings.ReplaceAll(out, "\r\n", "\n")
}

// openTerminal returns both ends of a terminal of a width.
func openTerminal(t *testing.T, width int) (master, tty *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: uint16(width)}); err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), "ptmx"), tty
}

func TestTableFit(t *testing.T) {
	tb := &table{head: []string{"NAME", "ID", "KEPT"}, spare: []string{"KEPT", "ID"}}
	tb.add("box", strings.Repeat("i", 20), strings.Repeat("k", 60))
	if got := printed(0, tb); !strings.Contains(got, "KEPT") {
		t.Errorf("a pipe gets %q", got)
	}
	if got := firstLine(printed(80, tb)); strings.Contains(got, "KEPT") || !strings.Contains(got, "ID") {
		t.Errorf("80 columns get %q", got)
	}
	if got := strings.TrimSpace(firstLine(printed(20, tb))); got != "NAME" {
		t.Errorf("20 columns get %q", got)
	}
}
