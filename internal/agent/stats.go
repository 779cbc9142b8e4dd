// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/hex"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/warren-vm/warren/vm"
)

// clockTicks is the unit of /proc's times, the same on every Linux.
const clockTicks = 100

func (a *Agent) stats(w *answer, r *request) error {
	s := vm.Stats{Time: time.Now().UTC(), VCPU: runtime.NumCPU(), Processes: []vm.SystemProcess{}, Ports: []vm.ListeningPort{}}
	if f := procFields("/proc/uptime"); len(f) > 0 {
		s.UptimeSeconds, _ = strconv.ParseFloat(f[0], 64)
	}
	if f := procFields("/proc/loadavg"); len(f) > 0 {
		s.Load1, _ = strconv.ParseFloat(f[0], 64)
	}
	s.CPUSeconds, s.VCPU = cpuTime()
	s.MemTotal, s.MemAvailable = memory()
	var st syscall.Statfs_t
	if syscall.Statfs("/", &st) == nil {
		s.DiskTotal, s.DiskFree = int64(st.Blocks)*st.Bsize, int64(st.Bavail)*st.Bsize
	}
	sockets := listening("/proc")
	wanted := make(map[string]*vm.ListeningPort, len(sockets))
	for i := range sockets {
		wanted[sockets[i].inode] = &sockets[i].ListeningPort
	}
	names := make(map[uint32]string)
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return err
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if p, ok := a.systemProcess(pid, names); ok {
				s.Processes = append(s.Processes, p)
				findSockets(p, wanted)
			}
		}
	}
	slices.SortFunc(s.Processes, func(a, b vm.SystemProcess) int { return a.PID - b.PID })
	for _, so := range sockets {
		s.Ports = append(s.Ports, so.ListeningPort)
	}
	return w.json(s, nil)
}

func procFields(path string) []string {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Fields(string(b))
}

func procLines(path string) []string {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Split(string(b), "\n")
}

// cpuTime returns the busy time of all CPUs since the boot, and their number.
func cpuTime() (seconds float64, cpus int) {
	for _, l := range procLines("/proc/stat") {
		f := strings.Fields(l)
		switch {
		case len(f) > 8 && f[0] == "cpu":
			for _, i := range []int{1, 2, 3, 6, 7, 8} { // not idle, not iowait
				n, _ := strconv.ParseInt(f[i], 10, 64)
				seconds += float64(n) / clockTicks
			}
		case len(f) > 0 && strings.HasPrefix(f[0], "cpu"):
			cpus++
		}
	}
	return seconds, cpus
}

func memory() (total, available int64) {
	for _, l := range procLines("/proc/meminfo") {
		f := strings.Fields(l)
		if len(f) < 2 {
			continue
		}
		n, _ := strconv.ParseInt(f[1], 10, 64)
		switch f[0] {
		case "MemTotal:":
			total = n << 10
		case "MemAvailable:":
			available = n << 10
		}
	}
	return total, available
}

// systemProcess reads one process; false if it has ended.
func (a *Agent) systemProcess(pid int, names map[uint32]string) (vm.SystemProcess, bool) {
	dir := "/proc/" + strconv.Itoa(pid)
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return vm.SystemProcess{}, false
	}
	f := statFields(stat)
	var st syscall.Stat_t
	if len(f) < 22 || syscall.Stat(dir, &st) != nil {
		return vm.SystemProcess{}, false
	}
	if _, ok := names[st.Uid]; !ok {
		names[st.Uid] = a.users.name(st.Uid)
	}
	p := vm.SystemProcess{PID: pid, User: names[st.Uid], State: f[0]}
	p.PPID, _ = strconv.Atoi(f[1])
	user, _ := strconv.ParseFloat(f[11], 64)
	sys, _ := strconv.ParseFloat(f[12], 64)
	p.CPUSeconds = (user + sys) / clockTicks
	pages, _ := strconv.ParseInt(f[21], 10, 64)
	p.RSS = pages * int64(os.Getpagesize())
	if b, err := os.ReadFile(dir + "/cmdline"); err == nil {
		p.Command = strings.TrimSpace(strings.ReplaceAll(string(b[:min(len(b), 4096)]), "\x00", " "))
	}
	if p.Command == "" { // a kernel thread or a zombie
		s := string(stat)
		if i, j := strings.IndexByte(s, '('), strings.LastIndexByte(s, ')'); i >= 0 && j > i {
			p.Command = "[" + s[i+1:j] + "]"
		}
	}
	return p, true
}

// socket is a listening socket and its inode.
type socket struct {
	vm.ListeningPort
	inode string
}

// listening reads the kernel's tables of sockets below proc.
func listening(proc string) []socket {
	var out []socket
	for _, proto := range []string{"tcp", "tcp6", "udp", "udp6"} {
		state := "0A" // TCP_LISTEN
		if strings.HasPrefix(proto, "udp") {
			state = "07" // not connected
		}
		for _, l := range procLines(proc + "/net/" + proto) {
			f := strings.Fields(l)
			if len(f) < 10 || f[3] != state {
				continue
			}
			addr, ok := parseAddr(f[1])
			if !ok || addr.Port() == 0 {
				continue
			}
			s := socket{inode: f[9]}
			s.Proto, s.Address, s.Port = proto, addr.Addr().String(), int(addr.Port())
			out = append(out, s)
		}
	}
	return out
}

// parseAddr reads an address as /proc/net writes it: 32-bit words in the
// machine's byte order.
func parseAddr(s string) (netip.AddrPort, bool) {
	ip, port, ok := strings.Cut(s, ":")
	b, err := hex.DecodeString(ip)
	n, perr := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || perr != nil || len(b)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for w := b; len(w) > 0; w = w[4:] {
		w[0], w[1], w[2], w[3] = w[3], w[2], w[1], w[0]
	}
	addr, ok := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(addr, uint16(n)), ok
}

// findSockets adds the process to the listening sockets that it holds.
func findSockets(p vm.SystemProcess, wanted map[string]*vm.ListeningPort) {
	if len(wanted) == 0 || strings.HasPrefix(p.Command, "[") {
		return
	}
	dir := "/proc/" + strconv.Itoa(p.PID) + "/fd"
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	fds, err := d.Readdirnames(-1)
	if err != nil {
		return
	}
	for _, fd := range fds {
		target, err := os.Readlink(dir + "/" + fd)
		if err != nil {
			continue
		}
		inode, ok := strings.CutPrefix(target, "socket:[")
		if w := wanted[strings.TrimSuffix(inode, "]")]; ok && w != nil && (w.PID == 0 || w.PID > p.PID) {
			w.PID, w.Command = p.PID, p.Command
		}
	}
}
