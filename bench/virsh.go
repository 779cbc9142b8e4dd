// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// libvirt is a libvirtd of this program: its files are in dir, which it sees at the
// host's usual places, in a mount namespace of its own.
type libvirt struct {
	dir   string
	files string // of its domain
	cmd   *exec.Cmd
}

// libvirtUp mounts the daemon's directories over the host's.
const libvirtUp = `set -e; cd "$1"
for d in /etc/libvirt /var/lib/libvirt /var/cache/libvirt /var/log/libvirt; do mkdir -p "$d" ".$d"; mount --bind ".$d" "$d"; done
exec libvirtd --config libvirtd.conf --pid-file pid`

func startLibvirt(ctx context.Context, dir string) (_ *libvirt, err error) {
	for _, p := range []string{"libvirtd", "virsh"} {
		if _, err := exec.LookPath(p); err != nil {
			return nil, err
		}
	}
	l := &libvirt{dir: dir}
	const limits = "security_driver = \"none\"\nuser = \"root\"\ngroup = \"root\"\ndynamic_ownership = 0\nremember_owner = 0\n" +
		"cgroup_controllers = [ ]\nnamespaces = [ ]\nstdio_handler = \"file\"\n"
	if err := errors.Join(
		os.MkdirAll(filepath.Join(dir, "etc", "libvirt"), 0o755),
		os.WriteFile(filepath.Join(dir, "libvirtd.conf"), fmt.Appendf(nil, "unix_sock_dir = %q\nauth_unix_rw = \"none\"\nauth_unix_ro = \"none\"\n", dir), 0o644),
		os.WriteFile(filepath.Join(dir, "etc", "libvirt", "qemu.conf"), []byte(limits), 0o644),
	); err != nil {
		return nil, err
	}
	logFile, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer logFile.Close()
	l.cmd = exec.Command("unshare", "-m", "sh", "-c", libvirtUp, "sh", dir)
	l.cmd.Stdout, l.cmd.Stderr = logFile, logFile
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // ^C is ours: we stop it in order
	if err := l.cmd.Start(); err != nil {
		return nil, err
	}
	for range 50 {
		if err = finish(l.virsh(ctx, "version")); err == nil {
			return l, nil
		}
		if perr := pause(ctx, 200*time.Millisecond); perr != nil {
			break
		}
	}
	said, _ := os.ReadFile(logFile.Name())
	return nil, errors.Join(fmt.Errorf("libvirtd: %w\n%s", err, said), l.stop())
}

func (l *libvirt) virsh(ctx context.Context, args ...string) *exec.Cmd {
	uri := "qemu:///system?socket=" + filepath.Join(l.dir, "libvirt-sock")
	return exec.CommandContext(ctx, "virsh", append([]string{"-q", "-c", uri}, args...)...)
}

func (l *libvirt) stop() error {
	_ = l.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	err := l.cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

// startDomain starts this libvirt and in it a guest of the same image and size,
// with as much memory in use.
func (b *bench) startDomain(ctx context.Context, gen vm.Manifest, boot vm.BootSource) (_ *libvirt, end func() error, err error) {
	dir, err := os.MkdirTemp("", "wb-lv-") // a short name, for sockets
	if err != nil {
		return nil, nil, err
	}
	var l *libvirt // nil again where it did not start
	end = func() error {
		var err error
		if l != nil {
			_ = finish(l.virsh(context.WithoutCancel(ctx), "destroy", domainName)) // it may be saved
			err = l.stop()
		}
		return errors.Join(err, os.RemoveAll(dir))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, end())
		}
	}()
	if l, err = startLibvirt(ctx, dir); err != nil {
		return nil, nil, err
	}
	if l.files, err = os.MkdirTemp(b.dir, "virsh-"); err != nil { // on the file system of the rest
		return nil, nil, err
	}
	disk, agent := filepath.Join(l.files, "disk.qcow2"), filepath.Join(dir, "agent")
	if err := finish(exec.CommandContext(ctx, "cp", b.server.dir.ImageDisk(gen.Image), disk)); err != nil {
		return nil, nil, err
	}
	key := make([]byte, len(gen.GuestKey))
	_, _ = rand.Read(key) // never fails
	domain := filepath.Join(dir, "domain.xml")
	if err := os.WriteFile(domain, []byte(domainXML(gen, boot, key, disk, agent)), 0o600); err != nil {
		return nil, nil, err
	}
	if err := finish(l.virsh(ctx, "create", domain)); err != nil {
		return nil, nil, err
	}
	if err := fillGuest(ctx, agent, key); err != nil {
		return nil, nil, fmt.Errorf("the guest in libvirt: %w", err)
	}
	return l, end, nil
}

// virsh measures `virsh save` and `virsh restore`. A restore is timed to the
// command's end.
func (b *bench) virsh(ctx context.Context, l *libvirt) error {
	save := b.rep.series("peer: virsh save", "ms", bound{})
	restore := b.rep.series("peer: virsh restore", "ms", bound{})
	both := b.rep.series("peer: virsh save + restore", "ms", bound{})
	saved := filepath.Join(l.files, "saved")
	began := time.Now()
	if err := finish(l.virsh(ctx, "save", domainName, saved)); err != nil {
		return err
	}
	down := time.Since(began)
	began = time.Now()
	if err := finish(l.virsh(ctx, "restore", saved)); err != nil {
		return err
	}
	up := time.Since(began)
	save.took(down)
	restore.took(up)
	both.took(down + up)
	return errors.Join(pause(ctx, time.Second), removeFile(saved))
}

// fillGuest brings a fresh guest to the memory in use of the others.
func fillGuest(ctx context.Context, socket string, key []byte) error {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	g, hangUp, err := agentAt(ctx, socket, key)
	if err != nil {
		return err
	}
	defer hangUp()
	var said strings.Builder
	e, err := g.Exec(ctx, vm.ExecSpec{Argv: []string{"sh", "-c", fillScript()}})
	if err != nil {
		return err
	}
	st, err := e.Run(io.Discard, &said)
	if err == nil && st.Code != 0 {
		return fmt.Errorf("fill: status %d: %s", st.Code, said.String())
	}
	return errors.Join(err, pause(ctx, 3*time.Second))
}

const domainName = "warren-bench-peer"

// domainXML is a plain domain: the image's disk and kernel, the agent's port.
func domainXML(gen vm.Manifest, boot vm.BootSource, key []byte, disk, agent string) string {
	cmdline := fmt.Sprintf("%s warren.agent=%s warren.key=%s", boot.Cmdline, filepath.Base(filepath.Dir(boot.Initramfs)), hex.EncodeToString(key))
	return fmt.Sprintf(`<domain type='qemu'>
<name>%s</name><memory unit='MiB'>%d</memory><vcpu>%d</vcpu>
<os><type arch='x86_64' machine='%s'>hvm</type><kernel>%s</kernel><initrd>%s</initrd><cmdline>%s</cmdline></os>
<features><acpi/></features>
<cpu mode='custom' match='exact' check='none'><model fallback='allow'>%s</model></cpu>
<devices>
<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='%s'/><target dev='vda' bus='virtio'/>
<address type='pci' bus='0x00' slot='0x04'/></disk>
<controller type='virtio-serial' index='0'><address type='pci' bus='0x00' slot='0x02'/></controller>
<channel type='unix'><source mode='bind' path='%s'/><target type='virtio' name='%s'/></channel>
<serial type='null'/><memballoon model='none'/>
</devices></domain>
`, domainName, gen.Size.MemoryMiB, gen.Size.VCPU, gen.Machine, escape(boot.Kernel), escape(boot.Initramfs), escape(cmdline),
		strings.SplitN(gen.CPU, ",", 2)[0], escape(disk), escape(agent), link.PortName)
}

func escape(s string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(s)) // a Builder takes everything
	return out.String()
}
