//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// draw is one turn of drawer.py.
type draw struct {
	random, uuid string
	second       int // of the day, by the clock chip
}

// drawn ends the guest's drawers and returns what they drew.
func (h *host) drawn(name string) []draw {
	h.t.Helper()
	h.sh(name, "pkill -TERM -f /opt/[d]rawer.py")
	h.eventually("the draws are written", func() bool { return h.run("exec", name, "--", "test", "-e", "/run/drawn").code == 0 })
	var out []draw
	for _, line := range strings.Split(h.sh(name, "cat /run/drawn"), "\n") {
		f := strings.Fields(line)
		if len(f) != 4 {
			h.t.Fatalf("%s: a draw that is none: %q", name, line)
		}
		second, err := strconv.Atoi(f[2])
		if err != nil {
			h.t.Fatal(err)
		}
		out = append(out, draw{random: f[0], uuid: f[1], second: second})
	}
	return out
}

// wantDifferent wants no draw of one list in another behind the common prefix,
// and a prefix that is as long for each pair: nobody drew the same a while longer.
func wantDifferent(t *testing.T, drawn map[string][]draw) {
	t.Helper()
	lists := map[string][]string{}
	for name, l := range drawn {
		for _, d := range l {
			lists[name] = append(lists[name], d.random)
		}
	}
	parted := tail(lists)
	seen := map[string]string{}
	for name, l := range drawn {
		if parted == 0 || parted == len(l) {
			t.Errorf("%s: parted after %d of %d draws: it did not draw through the fork", name, parted, len(l))
		}
		for _, d := range l[parted:] {
			for _, v := range []string{d.random, d.uuid} {
				if other, twice := seen[v]; twice && other != name {
					t.Errorf("%s and %s both drew %s", name, other, v)
				}
				seen[v] = name
			}
		}
	}
	t.Logf("%d draws before they parted, %d values after", parted, len(seen))
}

// TestWorldsIdentity forks a VM while a program draws random bytes and UUIDs in
// a tight loop, and wants three machines that are not taken for one another.
func TestWorldsIdentity(t *testing.T) {
	h := newHost(t)
	h.ok("up", "--name", "app")
	h.install("app", "drawer.py", "ticker.py")
	h.start("app", "ticker.py", "test -s /run/ticker")
	h.start("app", "drawer.py", "test -e /run/drawing")
	begin := time.Now()
	out := h.fork("app", 2, "try")
	took := time.Since(begin)
	if !slices.ContainsFunc(out.Caveats, func(c string) bool { return strings.Contains(c, "random state inside programs") }) {
		t.Errorf("the answer does not say what cannot be reset: %q", out.Caveats)
	}
	names := []string{"app", "try-1", "try-2"}
	drawn := map[string][]draw{}
	for _, n := range names {
		drawn[n] = h.drawn(n)
	}
	wantDifferent(t, drawn)

	values := map[string]map[string]string{}
	for _, n := range names {
		for what, v := range h.identity(n) {
			if values[what] == nil {
				values[what] = map[string]string{}
			}
			values[what][n] = v
		}
		if got := values["host name"][n]; got != n {
			t.Errorf("%s calls itself %s", n, got)
		}
	}
	for what, v := range values {
		distinct(t, what, v)
	}
	for _, n := range names {
		h.wantClock(n)
		h.wantSteady(n, took)
	}
}

// identities are the values that no two machines may share, and how a program in
// the guest gets them.
var identities = map[string]string{
	"kernel random bytes": "head -c16 /dev/urandom | od -An -tx1",
	"kernel UUID":         "cat /proc/sys/kernel/random/uuid",
	"boot identity":       "cat /proc/sys/kernel/random/boot_id",
	"machine-id":          "cat /etc/machine-id",
	"host name":           "hostname",
	"/etc/hostname":       "cat /etc/hostname",
	"link key":            "cat /run/warren/agent.key",
	"OpenSSL random":      "openssl rand -hex 16",
	"TLS random":          "python3 -c \"" + clientHello + "\"",
}

// identity gets them all by one command.
func (h *host) identity(name string) map[string]string {
	h.t.Helper()
	var script strings.Builder
	for what, line := range identities {
		fmt.Fprintf(&script, "printf '%%s\t' '%s'; %s\n", what, line)
	}
	out := map[string]string{}
	for _, line := range strings.Split(h.sh(name, script.String()), "\n") {
		what, value, _ := strings.Cut(line, "\t")
		out[what] = strings.TrimSpace(value)
	}
	if len(out) != len(identities) {
		h.t.Fatalf("%s: %d of %d identities: %q", name, len(out), len(identities), out)
	}
	return out
}

// clientHello prints the random of a TLS client's first message.
const clientHello = "import ssl; i, o = ssl.MemoryBIO(), ssl.MemoryBIO(); " +
	"c = ssl.create_default_context().wrap_bio(i, o, server_hostname='x')\n" +
	"try: c.do_handshake()\nexcept ssl.SSLWantReadError: print(o.read()[11:43].hex())"

// wantSteady wants a monotonic clock that continues without a jump: the time
// that a machine lay as a file is no time to its programs. They may be paused
// for as long as the verb took that they went through.
func (h *host) wantSteady(name string, verb time.Duration) {
	h.t.Helper()
	var most float64
	var back, n int
	line := h.sh(name, "cat /run/ticker")
	if _, err := fmt.Sscan(line, &most, &back, &n); err != nil {
		h.t.Fatalf("%s: ticker: %q: %v", name, line, err)
	}
	h.t.Logf("%s: the largest step of the monotonic clock is %.3f s, the verb took %v", name, most, verb)
	if back != 0 || most > verb.Seconds()+0.5 {
		h.t.Errorf("%s: the monotonic clock went back %d times, its largest step is %.3f s, the verb took %v", name, back, most, verb)
	}
}

// TestWorldsWindow looks for draws between the load of the memory and the
// resets. The VM is suspended for seconds while its programs draw: what was
// drawn with the clock chip showing a time after the suspend was drawn in a
// copy, and no two copies may have it.
func TestWorldsWindow(t *testing.T) {
	h := newHost(t)
	h.ok("up", "--name", "app")
	h.install("app", "drawer.py", "ticker.py")
	h.start("app", "ticker.py", "test -s /run/ticker")
	h.start("app", "drawer.py rtc", "test -e /run/drawing")
	begin := time.Now()
	h.ok("suspend", "app")
	asleep := time.Now()
	time.Sleep(5 * time.Second)
	wake := time.Now()
	h.fork("app", 2, "try")
	took := asleep.Sub(begin) + time.Since(wake)
	if v := h.find("app"); v.State != "suspended" {
		t.Errorf("the fork woke the parent: %s", v.State)
	}
	drawn := map[string][]draw{"try-1": h.drawn("try-1"), "try-2": h.drawn("try-2")}
	wantDifferent(t, drawn)
	asleep = asleep.UTC()
	second := asleep.Hour()*3600 + asleep.Minute()*60 + asleep.Second()
	late := map[string]bool{}
	for _, d := range drawn["try-1"] {
		if (d.second-second+86400)%86400 < 43200 && d.second != second { // after it, over midnight, too
			late[d.random], late[d.uuid] = true, true
		}
	}
	if len(late) == 0 {
		t.Error("try-1 drew nothing after the load")
	}
	for _, d := range drawn["try-2"] {
		if late[d.random] || late[d.uuid] {
			t.Errorf("both copies drew %s or %s after their load", d.random, d.uuid)
		}
	}
	t.Logf("%d values of try-1 were drawn after its load", len(late))
	for _, n := range []string{"try-1", "try-2"} {
		h.wantClock(n)
		h.wantSteady(n, took) // the five seconds asleep are none
	}
}
