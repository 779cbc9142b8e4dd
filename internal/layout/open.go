// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/warren-vm/warren/vm"
)

// Open checks that path is a data directory of a format that this program knows,
// and creates it (0700) when it is absent or empty. The path may be relative; the
// Dir is absolute. Kinds: Invalid for a directory with other contents, Unsupported
// for a newer format, NoSpace, Denied.
func Open(path string) (Dir, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", vm.Errorf(vm.Invalid, path, "no such path: %w", err)
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return "", ioError(abs, err)
	}
	d := Dir(abs)
	switch err := d.checkFormat(); {
	case err == nil:
		if err := os.RemoveAll(d.Restoring()); err != nil { // a crash left it after the restore
			return "", ioError(d.Restoring(), err)
		}
	case errors.Is(err, fs.ErrNotExist):
		if err := d.create(); err != nil {
			return "", err
		}
	default:
		return "", err
	}
	for _, p := range []string{d.Images(), d.Generations(), d.VMs(), d.BinRoot(), d.Cache(), d.Audit(), d.Events()} {
		if err := os.MkdirAll(p, 0o700); err != nil {
			return "", ioError(p, err)
		}
	}
	return d, SyncDir(abs)
}

// checkFormat returns an error that is fs.ErrNotExist when there is no format
// file.
func (d Dir) checkFormat() error {
	data, err := os.ReadFile(d.Format())
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return ioError(d.Format(), err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(data)))
	switch {
	case err != nil || n < 1:
		return vm.Errorf(vm.Corrupt, d.Format(), "not a format number").
			WithHint("write %d into it if the directory is one of this version", FormatVersion)
	case n > FormatVersion:
		return vm.Errorf(vm.Unsupported, string(d), "data directory has format %d, this warren knows %d", n, FormatVersion).
			WithHint("use the warren that wrote it, or a newer one")
	}
	return nil
}

// create turns an empty directory into a data directory.
func (d Dir) create() error {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return ioError(string(d), err)
	}
	if _, err := os.Lstat(d.Restoring()); err == nil {
		return vm.Errorf(vm.Invalid, string(d), "the restore of a backup into this directory did not end").
			WithHint("run it again: `warren backup restore FILE`")
	}
	for _, e := range entries {
		if e.Name() != "lost+found" && e.Name() != filepath.Base(d.Lock()) && !strings.HasPrefix(e.Name(), tempPrefix) {
			return vm.Errorf(vm.Invalid, string(d), "not a data directory: it holds %s and no file named format", strconv.Quote(e.Name())).
				WithHint("name an empty or absent directory with --data or WARREN_DATA")
		}
	}
	if err := os.Chmod(string(d), 0o700); err != nil {
		return ioError(string(d), err)
	}
	if err := SyncDir(filepath.Dir(string(d))); err != nil && vm.KindOf(err) != vm.Denied { // a directory of others: without read permission it cannot be synced
		return err
	}
	return WriteFile(d.Format(), []byte(strconv.Itoa(FormatVersion)+"\n"), 0o644)
}

// RunDir is the directory of the sockets of one data directory's VMs.
type RunDir string

// Run names the run directory of d: $XDG_RUNTIME_DIR/warren/<8 hex digits>,
// for root /run/warren/<8 hex digits>, and without XDG_RUNTIME_DIR
// /tmp/warren-<uid>/<8 hex digits>. It is created 0700, and refused (Denied)
// when its parent belongs to another user.
func (d Dir) Run() (RunDir, error) {
	return d.runIn(runBase(os.Getenv, os.Getuid()), os.Getuid())
}

func runBase(getenv func(string) string, uid int) string {
	if uid == 0 {
		return "/run/warren"
	}
	if p := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(p) {
		return filepath.Join(p, "warren")
	}
	return fmt.Sprintf("/tmp/warren-%d", uid)
}

func (d Dir) runIn(base string, uid int) (RunDir, error) {
	sum := sha256.Sum256([]byte(d))
	dir := filepath.Join(base, hex.EncodeToString(sum[:4]))
	if len(RunVM(RunDir(dir).VM(vm.ID(strings.Repeat("x", 20)))).Monitor()) > maxSocketPath {
		return "", vm.Errorf(vm.Invalid, base, "path too long for sockets").
			WithHint("set XDG_RUNTIME_DIR to a directory with a shorter name")
	}
	for _, p := range []string{base, dir} {
		if err := os.Mkdir(p, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", ioError(p, err)
		}
		st, err := os.Lstat(p)
		if err != nil {
			return "", ioError(p, err)
		}
		sys, ok := st.Sys().(*syscall.Stat_t)
		if !ok || !st.IsDir() || int(sys.Uid) != uid {
			return "", vm.Errorf(vm.Denied, p, "is not a directory of yours").
				WithHint("remove it or set XDG_RUNTIME_DIR to a directory of yours")
		}
		if st.Mode().Perm() != 0o700 {
			if err := os.Chmod(p, 0o700); err != nil {
				return "", ioError(p, err)
			}
		}
	}
	return RunDir(dir), nil
}

// maxSocketPath is somewhat below the 108 bytes of sockaddr_un.
const maxSocketPath = 100

// VM is the directory of one VM's sockets, mode 0700.
func (r RunDir) VM(id vm.ID) string { return filepath.Join(string(r), string(id)) }

// Etcd is the directory of the embedded etcd's sockets.
func (r RunDir) Etcd() string { return filepath.Join(string(r), "etcd") }

// Inside is the socket of the server to which monitors forward what programs inside
// their VMs ask for, mode 0600.
func (r RunDir) Inside() string { return filepath.Join(string(r), "inside.sock") }

// S3 is the socket of object storage to which the server forwards what programs inside VMs
// ask for, mode 0600.
func (r RunDir) S3() string { return filepath.Join(string(r), "s3.sock") }

// InsideCert is the certificate that monitors show to these programs, the CA's, and the
// key of the first, mode 0600. Each start of the server replaces it.
func (r RunDir) InsideCert() string { return filepath.Join(string(r), "inside.pem") }

// RunVM is one VM's run directory, as in vm.MachineSpec.RunDir.
type RunVM string

// Monitor is the monitor's own socket, mode 0600.
func (r RunVM) Monitor() string { return filepath.Join(string(r), "monitor.sock") }

// QMP is QEMU's control socket.
func (r RunVM) QMP() string { return filepath.Join(string(r), "qmp.sock") }

// Agent is QEMU's socket of the agent's virtio-serial port.
func (r RunVM) Agent() string { return filepath.Join(string(r), "agent.sock") }

// Net is QEMU's socket of the guest's network card.
func (r RunVM) Net() string { return filepath.Join(string(r), "net.sock") }

// Console is QEMU's socket of the serial console.
func (r RunVM) Console() string { return filepath.Join(string(r), "console.sock") }

// MonitorPID identifies the monitor: pid, start time and boot id, as JSON.
func (r RunVM) MonitorPID() string { return filepath.Join(string(r), "monitor.pid") }

// QEMUOutput is the pipe through which QEMU's standard output and error come.
func (r RunVM) QEMUOutput() string { return filepath.Join(string(r), "qemu.out") }

// QEMUPID identifies QEMU: pid, start time and boot id, as JSON.
func (r RunVM) QEMUPID() string { return filepath.Join(string(r), "qemu.pid") }

// Exit is how the machine ended: vm.MachineExit, as JSON.
func (r RunVM) Exit() string { return filepath.Join(string(r), "exit.json") }
