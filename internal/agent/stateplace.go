// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/warren-vm/warren/vm"
)

// terminals lists the terminals that a session controls.
func (s *scan) terminals() []vm.GuestTerminal {
	out := []vm.GuestTerminal{}
	at := make(map[uint64]int)
	for _, p := range s.procs {
		if p.tty == 0 {
			continue
		}
		i, ok := at[p.tty]
		if !ok {
			i = len(out)
			at[p.tty] = i
			out = append(out, vm.GuestTerminal{Name: p.Terminal})
		}
		if p.session == p.PID {
			out[i].Leader, out[i].Shell = p.PID, p.Command
		}
		// The leader of the foreground group represents it; after the leader has
		// ended, any member does.
		if p.group == p.foreground && (out[i].Foreground == 0 || p.PID == p.group) {
			out[i].Foreground, out[i].Command, out[i].User, out[i].Cwd, out[i].Waits = p.PID, p.Command, p.User, p.Cwd, s.chain(p)
		}
	}
	slices.SortFunc(out, func(a, b vm.GuestTerminal) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// chain follows a process that waits for a child, down to the process that all wait for.
func (s *scan) chain(p *seen) string {
	says := p.Waits
	for range 8 {
		if p.Waits != waitsForChild {
			break
		}
		child := s.childOf(p)
		if child == nil {
			break
		}
		says = waitsForChild + ": " + strconv.Itoa(child.PID) + " " + or(child.program, child.Command) + " " + child.Waits
		p = child
	}
	return says
}

// childOf returns the child that a process most likely waits for: the first on the same terminal.
func (s *scan) childOf(p *seen) *seen {
	for _, c := range s.procs {
		if c.PPID == p.PID && c.tty == p.tty {
			return c
		}
	}
	return nil
}

// pseudo are file systems that hold no data.
var pseudo = []string{
	"proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "securityfs", "debugfs", "tracefs", "pstore", "bpf", "configfs",
	"fusectl", "mqueue", "hugetlbfs", "autofs", "binfmt_misc", "ramfs", "efivarfs", "rpc_pipefs", "nsfs", "selinuxfs",
}

// mounts lists the file systems that can hold data.
func (s *scan) mounts() []vm.GuestMount {
	out := []vm.GuestMount{}
	for _, l := range procLines(s.proc + "/self/mounts") {
		f := strings.Fields(l)
		if len(f) < 4 || slices.Contains(pseudo, f[2]) {
			continue
		}
		where := unescape(f[1])
		if f[2] == "tmpfs" && (strings.HasPrefix(where, "/run") || strings.HasPrefix(where, "/proc/") || strings.HasPrefix(where, "/dev") || strings.HasPrefix(where, "/sys")) {
			continue
		}
		if len(out) == maxStateMounts {
			s.problem("mounts: only the first " + strconv.Itoa(maxStateMounts) + " are listed")
			break
		}
		m := vm.GuestMount{Path: where, Source: unescape(f[0]), Type: f[2]}
		m.ReadOnly = slices.Contains(strings.Split(f[3], ","), "ro")
		var st syscall.Statfs_t
		if local(f[2]) && syscall.Statfs(where, &st) == nil {
			m.Total, m.Free = int64(st.Blocks)*st.Bsize, int64(st.Bavail)*st.Bsize
			m.Files, m.FilesLeft = int64(st.Files), int64(st.Ffree)
		}
		out = append(out, m)
	}
	return out
}

// local reports whether the kernel alone serves a file system. One with a
// dead server would block the agent.
func local(kind string) bool {
	return slices.Contains([]string{"ext2", "ext3", "ext4", "xfs", "btrfs", "vfat", "tmpfs", "squashfs", "iso9660", "overlay", "f2fs", "erofs"}, kind)
}

// unescape decodes a path in /proc/self/mounts: \040 for a space.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// Limits of the requests that the agent makes to ports.
const (
	insideAtOnce = 8
	insideMost   = 32
	insideTime   = 1200 * time.Millisecond
)

// probeInside makes a request to each port that is bound to one address, because
// only programs in the guest can surely reach it. The host probes the others.
func probeInside(ports []vm.GuestPort) {
	var all sync.WaitGroup
	slots := make(chan struct{}, insideAtOnce)
	asked := 0
	for i := range ports {
		p := &ports[i]
		switch {
		case !strings.HasPrefix(p.Proto, "tcp"):
			p.Probe = vm.Probe{Kind: "none", Why: "udp: nothing says whether it is heard"}
			continue
		case p.Address == "0.0.0.0" || p.Address == "::":
			continue
		case asked == insideMost:
			p.Probe = vm.Probe{Kind: "none", Why: "too many ports to ask them all"}
			continue
		}
		asked++
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			p.Probe = probe(p.ListeningPort)
		})
	}
	all.Wait()
}

// probe makes one request, with the kernel's own time limits.
func probe(l vm.ListeningPort) vm.Probe {
	begin := time.Now()
	request := vm.ProbeRequest(l.Command, l.Port)
	answer, ended, err := converse(l, request)
	p := vm.Probe{Kind: "refused", Why: "it does not take a connection"}
	if err != nil {
		p.Why += ": " + err.Error()
	} else {
		p = vm.ReadProbe(request, answer, ended)
	}
	p.From, p.Millis = "guest", time.Since(begin).Milliseconds()
	return p
}

// converse connects, sends the request and reads until the answer can be
// judged, the peer closes (true), or the time is over.
func converse(l vm.ListeningPort, request string) (answer []byte, ended bool, err error) {
	addr, family := address(l.Address, l.Port)
	if addr == nil {
		return nil, false, syscall.EAFNOSUPPORT
	}
	fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, false, os.NewSyscallError("socket", err)
	}
	defer shut(fd)
	limit := syscall.NsecToTimeval(int64(insideTime))
	_ = syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_SNDTIMEO, &limit) // every TCP socket has both
	_ = syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &limit)
	if err := syscall.Connect(fd, addr); err != nil {
		return nil, false, err
	}
	if request != "" {
		if _, err := syscall.Write(fd, []byte(request)); err != nil {
			return nil, true, nil // accepted and closed: that is the answer
		}
	}
	deadline := time.Now().Add(insideTime)
	buf := make([]byte, vm.MaxProbe)
	for n := 0; ; {
		m, err := syscall.Read(fd, buf[n:])
		if err == syscall.EINTR && time.Now().Before(deadline) {
			continue
		}
		n += max(m, 0)
		if err != nil || m == 0 || vm.ProbeComplete(buf[:n]) || time.Now().After(deadline) {
			return buf[:n], m == 0 || err == syscall.ECONNRESET, nil
		}
	}
}

// address converts an address from the kernel's tables; nil for one that needs an interface.
func address(text string, port int) (syscall.Sockaddr, int) {
	ip, err := netip.ParseAddr(text)
	switch {
	case err != nil || ip.Is6() && ip.IsLinkLocalUnicast() && !ip.Is4In6():
		return nil, 0
	case ip.Is4():
		return &syscall.SockaddrInet4{Port: port, Addr: ip.As4()}, syscall.AF_INET
	}
	return &syscall.SockaddrInet6{Port: port, Addr: ip.As16()}, syscall.AF_INET6
}
