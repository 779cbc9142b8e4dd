//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

// TestKeepSlope creates, uses and deletes 1,000 VMs, and wants serve, its
// directories and its record store to be no larger for it: the line through the
// samples must not rise. The audit log, the event log and the usage of the last
// 200 VMs grow by design, and are left out. It runs with WARREN_SOAK;
// internal/engine has a short one on the simulators for every run.
func TestKeepSlope(t *testing.T) {
	if os.Getenv("WARREN_SOAK") == "" {
		t.Skip("WARREN_SOAK is not set: 1,000 VMs take ten minutes and more; `make soak` runs it, TestSlope is its short form")
	}
	cycles, err := strconv.Atoi(env("WARREN_CYCLES", "1000"))
	if err != nil || cycles < 40 {
		t.Fatalf("WARREN_CYCLES: at least 40: %v", err)
	}
	h := newHost(t)
	key, err := os.ReadFile(filepath.Join(h.data, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	c := client.New("http://"+h.listen, strings.TrimSpace(string(key)))
	lines := map[string][]point{}
	for i := range cycles {
		h.comeAndGo(c)
		if i >= cycles/5 && i%(cycles/20) == 0 { // caches have filled by then
			for name, v := range h.weight() {
				lines[name] = append(lines[name], point{float64(i), v})
			}
		}
	}
	// Over the whole run, by the line and not by single samples: the runtime of Go
	// and etcd's pages breathe by some MiB.
	most := map[string]float64{"descriptors": 2, "threads": 4, "files": 1, "memory KiB": 6 << 10, "db KiB": 4 << 10}
	for name, points := range lines {
		first, last := points[0], points[len(points)-1]
		rise := slope(points) * (last.x - first.x)
		t.Logf("%s: %+.1f in %.0f cycles; from %.0f to %.0f", name, rise, last.x-first.x, first.y, last.y)
		if rise > most[name] {
			t.Errorf("%s grow by %.1f, at most %v is allowed: %v", name, rise, most[name], points)
		}
	}
}

// comeAndGo makes a VM, runs a command in it and deletes it.
func (h *host) comeAndGo(c *client.Client) {
	h.t.Helper()
	ctx, cancel := within()
	defer cancel()
	v, err := c.Create(ctx, api.CreateVM{Name: "box"})
	if err != nil {
		h.t.Fatal(err)
	}
	e, err := c.Exec(ctx, string(v.ID), vm.ExecSpec{Argv: []string{"true"}})
	if err == nil {
		_, err = e.Run(byLine(nil), byLine(nil))
	}
	if err != nil {
		h.t.Fatal(err)
	}
	if err := c.Delete(ctx, string(v.ID)); err != nil {
		h.t.Fatal(err)
	}
}

// weight is what serve takes of the host.
func (h *host) weight() map[string]float64 {
	h.t.Helper()
	proc := fmt.Sprintf("/proc/%d", h.server.Process.Pid)
	fds, err := os.ReadDir(proc + "/fd")
	if err != nil {
		h.t.Fatal(err)
	}
	status, err := os.ReadFile(proc + "/status")
	if err != nil {
		h.t.Fatal(err)
	}
	out := map[string]float64{"descriptors": float64(len(fds))}
	for _, line := range strings.Split(string(status), "\n") {
		name, rest, _ := strings.Cut(line, ":")
		if as := map[string]string{"Threads": "threads", "RssAnon": "memory KiB"}[name]; as != "" {
			n, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				h.t.Fatal(err)
			}
			out[as] = float64(n)
		}
	}
	err = filepath.WalkDir(h.data, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() != "etcd" { // its own log has files that come and go
			out["files"]++
		} else if err == nil {
			return fs.SkipDir
		}
		return nil // what goes meanwhile is none
	})
	if err != nil {
		h.t.Fatal(err)
	}
	out["db KiB"] = float64(blocks(filepath.Join(h.data, "etcd", "member", "snap", "db")) >> 10)
	return out
}

// point is one sample of a line.
type point struct{ x, y float64 }

// slope is the rise of the line that fits the points best.
func slope(points []point) float64 {
	var n, x, y, xx, xy float64
	for _, p := range points {
		n, x, y, xx, xy = n+1, x+p.x, y+p.y, xx+p.x*p.x, xy+p.x*p.y
	}
	return (n*xy - x*y) / (n*xx - x*x)
}

// TestKeepSlopeMeasures: the line itself can rise.
func TestKeepSlopeMeasures(t *testing.T) {
	t.Parallel()
	if got := slope([]point{{0, 5}, {10, 5}, {20, 5}}); got != 0 {
		t.Errorf("a level line rises by %v", got)
	}
	if got := slope([]point{{0, 5}, {100, 6}, {200, 7}}); got < 0.0099 || got > 0.0101 {
		t.Errorf("one in a hundred rises by %v", got)
	}
}
