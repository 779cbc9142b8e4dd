// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"strings"
	"testing"
)

// TestReadProbe: how each answer is interpreted.
func TestReadProbe(t *testing.T) {
	get := ProbeRequest("node server.js", 3000)
	for _, c := range []struct {
		request, answer string
		ended           bool
		want            Probe
	}{
		{get, "HTTP/1.1 200 OK\r\nServer: nginx\r\n\r\n\n  <h1>Hello</h1>\nmore", true, Probe{OK: true, Kind: "http", Status: 200, Server: "nginx", Answer: "<h1>Hello</h1>"}},
		{get, "HTTP/1.1 500 No\r\nTransfer-Encoding: chunked\r\n\r\n1f\r\n{\"error\":1}", false, Probe{OK: true, Kind: "http", Status: 500, Answer: `{"error":1}`}},
		{get, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n", true, Probe{OK: true, Kind: "tls", Status: 400, Answer: "Client sent an HTTP request to an HTTPS server."}},
		{get, "\x15\x03\x01\x00\x02\x02\x16", true, Probe{OK: true, Kind: "tls"}},
		{get, "SSH-2.0-x\x1b[2J\r\n", false, Probe{OK: true, Kind: "banner", Answer: "SSH-2.0-x [2J"}},
		{get, "", true, Probe{Kind: "closed", Why: "it accepts the connection and closes it without data"}},
		{get, "", false, Probe{OK: true, Kind: "silent", Why: "it accepts the connection and does not answer"}},
		{ProbeRequest("/usr/lib/postgresql/15/bin/postgres -D x", 5432), "N", false, Probe{OK: true, Kind: "postgres", Answer: "N"}},
		{ProbeRequest("/usr/bin/redis-server *:6379", 6379), "+PONG\r\n", false, Probe{OK: true, Kind: "redis", Answer: "+PONG"}},
	} {
		if got := ReadProbe(c.request, []byte(c.answer), c.ended); got != c.want {
			t.Errorf("%q: got %+v, want %+v", c.answer, got, c.want)
		}
	}
	if !strings.HasPrefix(get, "GET / HTTP/1.1\r\nHost: localhost:3000\r\n") || ProbeRequest("sshd: /usr/sbin/sshd -D", 22) != "" {
		t.Errorf("requests: %q", get)
	}
}

// TestProbeComplete: reading ends as soon as an answer can be judged.
func TestProbeComplete(t *testing.T) {
	for answer, want := range map[string]bool{
		"": false, "HT": false, "HTTP/1.1 200 OK\r\n": false, "HTTP/1.1 200 OK\r\n\r\n": false, "HTTP/1.1 200 OK\r\n\r\nx": true,
		"N": true, "+PONG\r\n": true, strings.Repeat("HTTP/", MaxProbe): true,
	} {
		if got := ProbeComplete([]byte(answer)); got != want {
			t.Errorf("the answer %.20q is complete: %v, want %v", answer, got, want)
		}
	}
}

// TestProgramName: a command line's program.
func TestProgramName(t *testing.T) {
	for line, want := range map[string]string{
		"/usr/bin/python3 -m x": "python3", "postgres: writer": "postgres", "-bash": "bash", "[gone]": "gone", "": "", "sshd: /usr/sbin/sshd": "sshd",
	} {
		if got := ProgramName(line); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
