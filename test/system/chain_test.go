//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestChain captures VMs so often that their disks would lie hundreds of layers
// deep: 200 forks of one, 200 captures by its schedule, 50 generations of forks of
// forks. The last one pauses, takes and starts like the first. Without WARREN_SOAK
// it is skipped: `make soak` sets it.
func TestChain(t *testing.T) {
	if os.Getenv("WARREN_SOAK") == "" {
		t.Skip("WARREN_SOAK is not set: `make soak` sets it")
	}
	t.Run("forks", func(t *testing.T) {
		h, c := newChain(t)
		h.ok("up", "--name", "app")
		for i := range 200 {
			h.scribble("app", i)
			c.fork("app", fmt.Sprintf("t%d", i))
			h.ok("rm", fmt.Sprintf("t%d-1", i))
		}
		h.scribbled("app", 200)
		c.compare(20)
	})
	t.Run("generations", func(t *testing.T) {
		h, c := newChain(t)
		h.ok("up", "--name", "t0-1")
		for i := range 50 {
			parent, child := fmt.Sprintf("t%d-1", i), fmt.Sprintf("t%d", i+1)
			h.scribble(parent, i)
			c.fork(parent, child)
			h.ok("rm", parent)
		}
		h.scribbled("t50-1", 50)
		c.compare(10)
	})
	t.Run("schedule", func(t *testing.T) {
		h, c := newChain(t)
		h.ok("up", "--name", "app", "--capture-every", "10s")
		begin := time.Now()
		events := h.captures()
		for i := range 200 {
			h.scribble("app", i)
			pause, ok := <-events
			if !ok {
				t.Fatalf("no more captures after %d, in %v", i, time.Since(begin))
			}
			c.add(pause, 0)
		}
		h.scribbled("app", 200)
		c.compare(20)
	})
}

// chain is what each of many captures took.
type chain struct {
	h      *host
	pauses []float64 // ms
	starts []float64 // ms
	disks  []float64 // MiB of the data directory but the images
}

func newChain(t *testing.T) (*host, *chain) {
	t.Helper()
	h := newHost(t)
	return h, &chain{h: h}
}

// fork makes one child and notes what that took.
func (c *chain) fork(parent, child string) {
	c.h.t.Helper()
	begin := time.Now()
	out := c.h.fork(parent, 1, child)
	c.add(out.PauseMs, time.Since(begin))
}

func (c *chain) add(pauseMs float64, took time.Duration) {
	c.h.t.Helper()
	c.pauses, c.starts = append(c.pauses, pauseMs), append(c.starts, float64(took.Milliseconds()))
	c.disks = append(c.disks, c.h.used())
	if n := len(c.pauses); n%20 == 0 {
		c.h.t.Logf("%d: pause %.1f ms, start %.0f ms, disk %.0f MiB", n, pauseMs, c.starts[n-1], c.disks[n-1])
	}
}

// compare wants the last n to be like the first n, with room for a busy host.
func (c *chain) compare(n int) {
	c.h.t.Helper()
	for _, x := range []struct {
		what  string
		list  []float64
		floor float64 // below it nothing is compared
	}{{"pause in ms", c.pauses, 50}, {"time to start in ms", c.starts, 1500}, {"disk in MiB", c.disks, 200}} {
		first, last := median(x.list[:n]), median(x.list[len(x.list)-n:])
		c.h.t.Logf("%s: the first %d %.1f, the last %.1f, most %.1f", x.what, n, first, last, slices.Max(x.list))
		if last > 3*max(first, x.floor) {
			c.h.t.Errorf("%s: the last %.1f, the first %.1f", x.what, last, first)
		}
	}
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// used is how much of the disk VMs and generations take, in MiB.
func (h *host) used() float64 {
	h.t.Helper()
	seen, sum := map[uint64]bool{}, int64(0)
	for _, dir := range []string{"vms", "generations"} {
		err := filepath.WalkDir(filepath.Join(h.data, dir), func(_ string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil // gone meanwhile
			}
			info, err := d.Info()
			if err != nil {
				return nil
			}
			if st, ok := info.Sys().(*syscall.Stat_t); ok && !seen[st.Ino] {
				seen[st.Ino], sum = true, sum+st.Blocks*512
			}
			return nil
		})
		if err != nil {
			h.t.Fatal(err)
		}
	}
	return float64(sum) / (1 << 20)
}

// scribble writes a file of 64 KiB that says its number, and one that is written
// over each time.
func (h *host) scribble(name string, i int) {
	h.t.Helper()
	h.sh(name, fmt.Sprintf("cd /root; head -c 60000 /dev/urandom > f%d; md5sum f%d >> sums; head -c 500000 /dev/urandom > same; sync", i, i))
}

// scribbled wants all n files on the disk, as they were written.
func (h *host) scribbled(name string, n int) {
	h.t.Helper()
	if got := h.sh(name, "cd /root; echo 3 > /proc/sys/vm/drop_caches; md5sum -c sums | grep -c OK"); got != fmt.Sprint(n) {
		h.t.Errorf("%s of %d files are whole", got, n)
	}
}

// captures tells of each capture by a schedule how long the VM was paused, in ms.
func (h *host) captures() <-chan float64 {
	h.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, h.binary, "events", "--json")
	cmd.Env = h.environ()
	out, err := cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // killed, as wanted
	})
	pauses := make(chan float64, 1000)
	go func() {
		defer close(pauses)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if !strings.Contains(lines.Text(), `"vm.captured"`) {
				continue
			}
			var e struct {
				Data struct{ PauseMs float64 } `json:"data"`
			}
			if json.Unmarshal(lines.Bytes(), &e) == nil {
				pauses <- e.Data.PauseMs
			}
		}
	}()
	return pauses
}
