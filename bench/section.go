// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// sectionLimit ends a section that hangs, so that the others are measured.
const sectionLimit = 8 * time.Minute

// section is one group of measurements.
type section struct {
	name  string
	run   func(*bench, context.Context) error
	parts []string // that can be asked for alone, in place of its name
}

var sections = []section{
	{"memory", (*bench).memory, nil},
	{"create", (*bench).create, nil},
	{"pool", (*bench).pool, nil},
	{"run", (*bench).oneShot, nil},
	{"exec+files", (*bench).guest, []string{"exec", "files"}}, // they share the guest with its SSH server
	{"mcp", (*bench).mcp, nil},
	{"terminal", (*bench).terminal, []string{"terminal.echo", "terminal.flood"}},
	{"preview", (*bench).preview, nil},
	{"scp", (*bench).copies, nil},
	{"list", (*bench).list, nil},
	{"keeping", (*bench).keeping, nil},
	{"folder", (*bench).folder, nil},
	{"volumes", (*bench).volumes, nil},
	{"publish", (*bench).publish, nil},
	{"git", (*bench).git, nil},
	{"gitsearch", (*bench).gitSearch, nil},
	{"objects", (*bench).objects, nil},
	{"audit", (*bench).auditLog, nil},
	{"net.setup", (*bench).netSetup, nil},
	{"net.passed", (*bench).netPassed, nil},
	{"net.intercepted", (*bench).netIntercepted, nil},
	{"net.change", (*bench).netChange, nil},
	{"net.injected", (*bench).netInjected, nil},
	{"worlds.pause", (*bench).worldPause, nil},
	{"worlds.private", (*bench).worldPrivate, nil},
	{"worlds.fork", (*bench).worldFork, nil},
	{"worlds.suspend", (*bench).worldSuspend, nil},
	{"worlds.snapshot", (*bench).worldSnapshot, nil},
	{"worlds.back", (*bench).worldBack, nil},
	{"worlds.chain", (*bench).worldChain, nil},
	{"worlds.peers", (*bench).worldPeers, nil},
	{"docker", (*bench).docker, nil},
	{"oci", (*bench).oci, nil},
	{"diff", (*bench).diff, nil},
	{"truth", (*bench).truth, nil},
	{"e2b", (*bench).e2b, nil},
	{"herd", (*bench).herd, nil},
}

// sectionNames are the names that -only may match.
func sectionNames() (names []string) {
	for _, s := range sections {
		if s.parts == nil {
			names = append(names, s.name)
		}
		names = append(names, s.parts...)
	}
	return names
}

// choose returns the sections of which -only matches a name.
func choose(only string) (chosen []section, err error) {
	match, err := regexp.Compile(only)
	if err != nil {
		return nil, fmt.Errorf("-only: %w", err)
	}
	for _, s := range sections {
		if s.parts == nil && match.MatchString(s.name) || slices.ContainsFunc(s.parts, match.MatchString) {
			chosen = append(chosen, s)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("-only %s: no section has such a name; there are %s", only, strings.Join(sectionNames(), ", "))
	}
	return chosen, nil
}

// wants reports whether -only matches a part of a section.
func (b *bench) wants(part string) bool { return regexp.MustCompile(b.only).MatchString(part) }

// ran says how one section ran, and the load of the host meanwhile.
type ran struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
	// LoadBefore and LoadAfter are the host's load averages of one minute.
	LoadBefore float64 `json:"loadBefore"`
	LoadAfter  float64 `json:"loadAfter"`
	// Steal is the share of all CPU time, in percent, that the hypervisor below
	// this host gave to other machines.
	Steal float64 `json:"stealPercent"`
	Error string  `json:"error,omitempty"`
	// Log is the end of the server's log, if the section failed.
	Log string `json:"log,omitempty"`
}

// runSections runs the sections one after the other. A failed section does not
// affect the results of the others. tidy is called after each. The error names each
// that failed.
func (b *bench) runSections(ctx context.Context, chosen []section, tidy func(context.Context) error) error {
	var failed []string
	for _, s := range chosen {
		fmt.Fprintf(b.log, "%s ...", s.name)
		r, err := b.runSection(ctx, s)
		if err != nil {
			failed = append(failed, s.name)
			r.Error = err.Error()
			fmt.Fprintf(b.log, " failed: %v;\n%s", err, r.Log)
		}
		b.rep.Sections = append(b.rep.Sections, r)
		fmt.Fprintf(b.log, " %.0f s, load %.1f to %.1f, steal %.1f %%\n", r.Seconds, r.LoadBefore, r.LoadAfter, r.Steal)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := writeJSON(b.out, b.rep); err != nil { // saved in case the rest is lost
			return err
		}
		if err := tidy(ctx); err != nil {
			return fmt.Errorf("after %s: %w", s.name, err)
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d sections failed: %s", len(failed), len(chosen), strings.Join(failed, ", "))
	}
	return nil
}

func (b *bench) runSection(ctx context.Context, s section) (r ran, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, sectionLimit, fmt.Errorf("it took more than %v", sectionLimit))
	defer cancel()
	before, err := readHost()
	if err != nil {
		return ran{Name: s.name}, err
	}
	server, logged := b.server.log, sizeOf(b.server.log)
	began := time.Now()
	err = s.run(b, ctx)
	if err != nil && ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	took := time.Since(began)
	after, herr := readHost()
	r = ran{Name: s.name, Seconds: took.Seconds(), LoadBefore: before.load, LoadAfter: after.load, Steal: after.stealSince(before)}
	if err = errors.Join(err, herr); err != nil {
		r.Log = tail(server, logged)
	}
	return r, err
}

func sizeOf(path string) int64 {
	st, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return st.Size()
}

// tail returns a file from an offset on, at most its last 4,000 bytes.
func tail(path string, from int64) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(data[min(len(data), max(int(from), len(data)-4000)):])
}

// tidy removes the VMs and snapshots that a section left, which would affect the
// next one. It replaces a server that has ended.
func (b *bench) tidy(ctx context.Context) error {
	select {
	case <-b.server.ended:
		b.tooled = "" // it was that server's
		return b.freshServer(ctx)
	default:
		return b.server.removeAll(ctx, b.tooled)
	}
}

// hostState is the load of the host at one moment.
type hostState struct {
	load               float64 // average of one minute
	idle, steal, total float64 // ticks of all CPUs since the host's start
}

func readHost() (h hostState, err error) {
	load, err1 := os.ReadFile("/proc/loadavg")
	stat, err2 := os.ReadFile("/proc/stat")
	if err := errors.Join(err1, err2); err != nil {
		return h, err
	}
	return parseHost(string(load), string(stat))
}

func parseHost(load, stat string) (h hostState, err error) {
	first, _, _ := strings.Cut(load, " ")
	if h.load, err = strconv.ParseFloat(first, 64); err != nil {
		return h, fmt.Errorf("/proc/loadavg: %w", err)
	}
	line, _, _ := strings.Cut(stat, "\n")
	f := strings.Fields(line)
	const idle, iowait, steal, guest = 4, 5, 8, 9 // user, nice, system, idle, iowait, irq, softirq, steal; then guests, which user holds already
	if len(f) <= steal || f[0] != "cpu" {
		return h, fmt.Errorf("/proc/stat begins with %q", line)
	}
	for i, s := range f[1:min(guest, len(f))] {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return h, fmt.Errorf("/proc/stat: %w", err)
		}
		h.total += v
		switch i + 1 {
		case idle, iowait:
			h.idle += v
		case steal:
			h.steal = v
		}
	}
	return h, nil
}

// stealSince is the share of steal in the time since, in percent.
func (h hostState) stealSince(before hostState) float64 {
	return 100 * (h.steal - before.steal) / max(1, h.total-before.total)
}

// idleSince is the share of the time since in which CPUs were idle, in percent.
func (h hostState) idleSince(before hostState) float64 {
	return 100 * (h.idle - before.idle) / max(1, h.total-before.total)
}
