// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package diagnose

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// inUse matches messages that another program has a port.
var inUse = regexp.MustCompile(`(?i)address (already )?in use|EADDRINUSE|port \d+ is (already )?(in use|allocated|taken|being used)|port .{0,20}already in use`)

// named matches the forms in which a text names a port.
var named = regexp.MustCompile(`(?i)(?:[:\]]|\bport[ =:]*)(\d{2,5})\b`)

var number = regexp.MustCompile(`\b\d{2,5}\b`)

func (w *facts) portTaken(lines []string) bool {
	return slices.ContainsFunc(lines, inUse.MatchString)
}

// wanted finds the port that a program could not have: one that its log names
// beside the message, or its command line does, and that another process listens
// on.
func (w *facts) wanted(lines []string, command string) (vm.GuestPort, bool) {
	var near []string
	for i, l := range lines {
		if inUse.MatchString(l) {
			near = append(near, lines[max(i-2, 0):min(i+3, len(lines))]...)
		}
	}
	text := strings.Join(near, "\n")
	for _, words := range [][]string{second(named.FindAllStringSubmatch(text, -1)), second(named.FindAllStringSubmatch(command, -1)), number.FindAllString(command, -1), number.FindAllString(text, -1)} {
		for _, n := range words {
			for _, p := range w.After.State.Ports {
				if strconv.Itoa(p.Port) == n && strings.HasPrefix(p.Proto, "tcp") {
					return p, true
				}
			}
		}
	}
	return vm.GuestPort{}, false
}

func second(all [][]string) (out []string) {
	for _, m := range all {
		out = append(out, m[1])
	}
	return out
}

// takenPorts finds services and commands that could not get their port.
func takenPorts(w *facts) (out []vm.Finding) {
	for _, u := range w.Units {
		if w.portTaken(u.Lines) {
			again := fmt.Sprintf("then `warren service restart %s %s`", w.name, u.Name)
			out = append(out, w.taken("unit "+u.Name, u.Lines, u.Exec, again))
		}
	}
	for _, c := range w.Commands {
		if w.portTaken(c.Lines) {
			out = append(out, w.taken("command "+c.ID, c.Lines, strings.Join(c.Argv, " "), "then start it again"))
		}
	}
	return out
}

func (w *facts) taken(who string, lines []string, command, again string) vm.Finding {
	var e []string
	for _, l := range lines {
		if inUse.MatchString(l) {
			e = append(e, "log: "+strings.TrimSpace(l))
		}
	}
	e = e[max(len(e)-3, 0):]
	p, ok := w.wanted(lines, command)
	if !ok {
		return finding("port-taken", vm.SeverityError, who, who+" could not have its port: another program had it; nobody listens on it now, or the log does not name it",
			"start it again", append(e, "started as: "+short(command))...)
	}
	holder := w.label(p.PID)
	do := fmt.Sprintf("end the holder (`warren exec %s -- kill %d`) or give one of them another port, %s", w.name, p.PID, again)
	if h := w.byPID[p.PID]; h != nil {
		e = append(e, "holder: "+w.about(h))
		if h.Unit != "" && h.Exec == "" && strings.HasSuffix(h.Unit, ".service") {
			unit := strings.TrimSuffix(h.Unit, ".service")
			do = fmt.Sprintf("stop the holder (`warren service stop %s %s`) or give one of them another port, %s", w.name, unit, again)
		}
	}
	if p.PID == 0 {
		holder = "a socket of systemd or the kernel"
	}
	e = append(e, fmt.Sprintf("%s listens on %s", holder, netAddr(p)), "started as: "+short(command))
	return finding("port-taken", vm.SeverityError, "port "+strconv.Itoa(p.Port), fmt.Sprintf("%s wants port %d, which %s has", who, p.Port, holder), do, e...)
}

func netAddr(p vm.GuestPort) string {
	if strings.Contains(p.Address, ":") {
		return "[" + p.Address + "]:" + strconv.Itoa(p.Port)
	}
	return p.Address + ":" + strconv.Itoa(p.Port)
}

// silentPorts finds ports that accept connections and do not answer.
func silentPorts(w *facts) (out []vm.Finding) {
	for _, p := range w.After.State.Ports {
		owner := w.byPID[p.PID]
		if p.Probe.From == "" || p.Probe.Kind == "none" || owner == nil || owner.System || w.told[p.PID] {
			continue
		}
		subject, do := "port "+strconv.Itoa(p.Port), "look at its log and at what it waits for: `warren top "+w.name+"`"
		e := []string{w.about(owner)}
		switch {
		case !p.Probe.OK:
			out = append(out, finding("port-no-answer", vm.SeverityError, subject, fmt.Sprintf("port %d is listened on and does not answer: %s", p.Port, p.Probe.Why), do, e...))
		case p.Probe.Kind == "silent":
			out = append(out, finding("port-silent", vm.SeverityInfo, subject, fmt.Sprintf("port %d accepts a connection and does not answer; it may use another protocol than was tried", p.Port), do, e...))
		}
	}
	return out
}

// refusedSince is how old a refused connection may be for a finding.
const refusedSince = 30 * 60

// refusedConnections names the hosts that the network policy refused.
func refusedConnections(w *facts) (out []vm.Finding) {
	type host struct {
		n    int
		last vm.Connection
	}
	hosts := map[string]*host{}
	var order []string
	for _, c := range w.Connections {
		if c.Allowed || w.Now.Sub(c.Time).Seconds() > refusedSince {
			continue
		}
		name := c.Name
		if name == "" {
			name = c.Dest
		}
		h := hosts[name]
		if h == nil {
			h = &host{}
			hosts[name] = h
			order = append(order, name)
		}
		h.n++
		h.last = c
	}
	for _, name := range order {
		h := hosts[name]
		out = append(out, finding("connection-refused", vm.SeverityWarning, name,
			fmt.Sprintf("the guest wants to reach %s and its network policy refuses it", name), w.allow(),
			fmt.Sprintf("%d times, the last %s ago (%s %s): %s", h.n, span(w.Now.Sub(h.last.Time)), h.last.Proto, h.last.Dest, h.last.Reason)))
	}
	return out
}

// allow is the command that opens the network.
func (w *facts) allow() string {
	if w.VM.Network.Mode == vm.NetClosed {
		return fmt.Sprintf("`warren net set %s packages` opens the package registries, `warren net set %s open` the internet", w.name, w.name)
	}
	return fmt.Sprintf("if it may: `warren net set %s open`; `warren net connections %s` lists all", w.name, w.name)
}
