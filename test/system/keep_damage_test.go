//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"encoding/binary"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// lastWrite is where the last record in etcd's newest log ends.
func (h *host) lastWrite() (path string, end int64) {
	h.t.Helper()
	logs, err := filepath.Glob(filepath.Join(h.data, "etcd", "member", "wal", "*.wal"))
	if err != nil || len(logs) == 0 {
		h.t.Fatalf("no log of etcd: %v", err)
	}
	path = logs[len(logs)-1]
	data, err := os.ReadFile(path)
	if err != nil {
		h.t.Fatal(err)
	}
	for end = int64(len(data)); end > 0 && data[end-1] == 0; end-- { // the rest is set aside
	}
	return path, end
}

// change writes into a file.
func change(t *testing.T, path string, at int64, data []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(data, at)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestKeepTornLog: the log of the record store was torn in its last write, as a
// power cut tears it, or damaged before that. Serve starts with every earlier
// record, or refuses, says how to restore, and leaves all as it is.
func TestKeepTornLog(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.ok("up", "--name", "app")
	h.sh("app", "echo kept > /root/f; sync")
	h.ok("suspend", "app")
	h.ok("net", "set", "app", "packages")
	h.stopServer()
	log, end := h.lastWrite()
	begin := end + -end&7                                                             // where the next record would begin
	torn := append(binary.LittleEndian.AppendUint64(nil, 4096), make([]byte, 512)...) // its length was written, and the next sector was not
	change(t, log, begin, torn)
	h.serve()
	if v := h.find("app"); v.State != "suspended" {
		t.Errorf("after a torn write it is %s", v.State)
	}
	if got := h.ok("net", "show", "app"); !strings.Contains(got, "packages") {
		t.Errorf("after a torn write its network is %s", got)
	}
	if got := h.sh("app", "cat /root/f"); got != "kept" {
		t.Errorf("after a torn write its file says %q", got)
	}
	h.ok("suspend", "app")
	h.stopServer()

	log, end = h.lastWrite()
	good, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	change(t, log, end/2, []byte("garbage garbage garbage"))
	cmd := exec.Command(h.binary, h.serveArgs()...)
	cmd.Env = h.environ()
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 13 || !strings.Contains(string(out), "backup") {
		t.Errorf("with a damaged log: %v, status %d: %s", err, cmd.ProcessState.ExitCode(), out)
	}
	if err := os.WriteFile(log, good, 0o600); err != nil { // what the backup is for
		t.Fatal(err)
	}
	h.serve()
	if got := h.sh("app", "cat /root/f"); got != "kept" {
		t.Errorf("restored, its file says %q", got)
	}
}

// TestKeepSocketDeleted: somebody removes the sockets and notes of a running
// machine. Its monitor puts them back, the VM is the same, also for the next
// serve.
func TestKeepSocketDeleted(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.ok("up", "--name", "app")
	h.count("app")
	id := vm.ID(h.find("app").ID)
	run, err := layout.Dir(h.data).Run()
	if err != nil {
		t.Fatal(err)
	}
	qemu := h.pidOf(string(id), "qemu")
	files := layout.RunVM(run.VM(id))
	for _, path := range []string{files.Monitor(), files.MonitorPID(), files.QEMUPID()} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	h.goesOn("its socket was deleted", "app")
	h.eventually("all is back", func() bool {
		_, err1 := os.Stat(files.MonitorPID())
		_, err2 := os.Stat(files.QEMUPID())
		return err1 == nil && err2 == nil
	})
	h.killServer()
	if err := os.Remove(files.Monitor()); err != nil {
		t.Fatal(err)
	}
	<-time.After(100 * time.Millisecond)
	h.serve()
	h.goesOn("deleted while no serve ran", "app")
	if now := h.pidOf(string(id), "qemu"); now != qemu {
		t.Errorf("its QEMU is %d, it was %d", now, qemu)
	}
}
