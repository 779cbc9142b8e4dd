//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// install writes programs into the guest.
func (h *host) install(name string, which ...string) {
	h.t.Helper()
	var script strings.Builder
	for _, p := range which {
		fmt.Fprintf(&script, "cat > /opt/%s <<'END-OF-PROGRAM'\n%s\nEND-OF-PROGRAM\n", p, strings.TrimSpace(programs[p]))
	}
	if r := h.runIn("", []byte(script.String()), "exec", "-i", name, "--", "sh"); r.code != 0 {
		h.t.Fatalf("the programs were not written: %s", r)
	}
}

// start runs an installed program in the background and waits until cond, a
// shell line, succeeds in the guest.
func (h *host) start(name, program, cond string) {
	h.t.Helper()
	argv := append([]string{"exec", name, "-d", "--", "python3"}, strings.Fields("/opt/"+program)...)
	h.ok(argv...)
	h.eventually(program+" runs", func() bool { return h.run("exec", name, "--", "sh", "-c", cond).code == 0 })
}

// number is sh for one whole number.
func (h *host) number(name, line string) int {
	h.t.Helper()
	out := h.sh(name, line)
	n, err := strconv.Atoi(out)
	if err != nil {
		h.t.Fatalf("%s: %q gives %q, not a number", name, line, out)
	}
	return n
}

// forked is the part of `fork --json` that tests look at.
type forked struct {
	Forks []struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	} `json:"forks"`
	GenerationID string   `json:"generationId"`
	PauseMs      float64  `json:"pauseMs"`
	Caveats      []string `json:"caveats"`
}

// fork makes n children and returns the answer.
func (h *host) fork(name string, n int, prefix string) forked {
	h.t.Helper()
	var out forked
	answer := h.ok("fork", name, "-n", strconv.Itoa(n), "--name", prefix, "--json")
	if err := json.Unmarshal([]byte(answer), &out); err != nil || len(out.Forks) != n {
		h.t.Fatalf("fork: %v\n%s", err, answer)
	}
	return out
}

// each runs f for each name, two at a time.
func each(names []string, f func(name string)) {
	var wg sync.WaitGroup
	two := make(chan struct{}, 2)
	for _, n := range names {
		wg.Add(1)
		go func() {
			defer wg.Done()
			two <- struct{}{}
			defer func() { <-two }()
			f(n)
		}()
	}
	wg.Wait()
}

// clockOffset is how far the guest's clock is from the host's, and how sure
// that is: a shell in the guest prints its clock when it is asked, by builtins
// only, and the quickest answer of several counts.
func (h *host) clockOffset(name string) (offset, unsure time.Duration) {
	h.t.Helper()
	cmd := exec.Command(h.binary, "exec", "-i", name, "--", "bash", "-c", "while read -r _; do echo $EPOCHREALTIME; done")
	cmd.Env = h.environ()
	in, err := cmd.StdinPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		h.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	best := time.Duration(math.MaxInt64)
	for range 20 {
		asked := time.Now()
		if _, err := fmt.Fprintln(in, "?"); err != nil || !lines.Scan() {
			h.t.Fatalf("%s: the clock does not answer: %v %v", name, err, lines.Err())
		}
		took := time.Since(asked)
		at, err := strconv.ParseFloat(strings.Replace(lines.Text(), ",", ".", 1), 64)
		if err != nil {
			h.t.Fatal(err)
		}
		if took < best {
			best = took
			offset = time.Duration(at*1e9) - time.Duration(asked.Add(took/2).UnixNano())
		}
	}
	if err := in.Close(); err != nil {
		h.t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		h.t.Error(err)
	}
	return offset, best / 2
}

// wantClock holds a guest's clock to the host's within 50 ms.
func (h *host) wantClock(name string) {
	h.t.Helper()
	offset, unsure := h.clockOffset(name)
	h.t.Logf("%s: its clock is off by %v (±%v)", name, offset, unsure)
	if offset.Abs() > 50*time.Millisecond {
		h.t.Errorf("%s: its clock is off by %v (±%v), more than 50 ms", name, offset, unsure)
	}
}

// distinct wants another value in each VM.
func distinct(t *testing.T, what string, values map[string]string) {
	t.Helper()
	seen := map[string]string{}
	for name, v := range values {
		if v == "" {
			t.Errorf("%s has no %s", name, what)
		} else if other, twice := seen[v]; twice {
			t.Errorf("%s and %s share the %s %s", name, other, what, v)
		}
		seen[v] = name
	}
}

// tail drops the prefix that all lists share and says how long it was.
func tail(lists map[string][]string) (parted int) {
	for {
		var at string
		for _, l := range lists {
			if parted >= len(l) || at != "" && l[parted] != at {
				return parted
			}
			at = l[parted]
		}
		parted++
	}
}
