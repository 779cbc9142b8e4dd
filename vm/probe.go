// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"strconv"
	"strings"
	"unicode"
)

// Probe is a port's answer to a request.
type Probe struct {
	// OK says that a program accepted the connection and answered, or at
	// least holds it open; an HTTP error of a server is OK.
	OK     bool   `json:"ok"`
	Kind   string `json:"kind"`             // http, tls, postgres, redis, banner, silent, closed, refused, none
	Status int    `json:"status,omitempty"` // of HTTP
	Server string `json:"server,omitempty"` // the server's own name
	Answer string `json:"answer,omitempty"` // the beginning, printable
	Why    string `json:"why,omitempty"`    // why there is no answer
	From   string `json:"from,omitempty"`   // where the request came from: "host" (through the VM's network) or "guest"
	Millis int64  `json:"ms,omitempty"`
}

// MaxProbe is the number of bytes of an answer that ReadProbe reads.
const MaxProbe = 2048

// ProbeRequest returns the request for a port of a program with this command
// line; "" = only listen. The request changes nothing, and the program knows
// its protocol, so that its log shows no error if possible.
func ProbeRequest(command string, port int) string {
	switch program := ProgramName(command); {
	case strings.HasPrefix(program, "postgres"):
		return "\x00\x00\x00\x08\x04\xd2\x16\x2f" // do you speak TLS?
	case strings.HasPrefix(program, "redis-server"), strings.HasPrefix(program, "valkey-server"):
		return "PING\r\n"
	case strings.HasPrefix(program, "sshd"), strings.HasPrefix(program, "mysqld"), strings.HasPrefix(program, "mariadbd"):
		return "" // they speak first
	}
	return "GET / HTTP/1.1\r\nHost: localhost:" + strconv.Itoa(port) +
		"\r\nUser-Agent: warren-state\r\nAccept: */*\r\nConnection: close\r\n\r\n"
}

// ProbeComplete reports whether the answer is long enough to be judged.
func ProbeComplete(answer []byte) bool {
	if len(answer) >= MaxProbe {
		return true
	}
	if bytes.HasPrefix(answer, []byte("HTTP/")) {
		_, body, ok := bytes.Cut(answer, []byte("\r\n\r\n"))
		return ok && len(body) > 0
	}
	return len(answer) > 0 && (len(answer) > 4 || !bytes.HasPrefix([]byte("HTTP/"), answer))
}

// ReadProbe interprets an answer. ended says that the program closed the connection.
func ReadProbe(request string, answer []byte, ended bool) Probe {
	p := Probe{OK: true, Kind: "banner", Answer: firstWords(answer)}
	text := string(answer)
	switch {
	case len(answer) == 0 && ended:
		return Probe{Kind: "closed", Why: "it accepts the connection and closes it without data"}
	case len(answer) == 0:
		return Probe{OK: true, Kind: "silent", Why: "it accepts the connection and does not answer"}
	case strings.HasPrefix(text, "HTTP/"):
		p.readHTTP(text)
	case answer[0] == 0x15 && len(answer) > 1 && answer[1] == 3:
		p.Kind, p.Answer = "tls", "" // an alert: it expects a handshake
	case strings.HasPrefix(request, "\x00\x00\x00\x08") && len(answer) == 1 && (text == "S" || text == "N"):
		p.Kind = "postgres"
	case strings.HasPrefix(text, "+PONG"), strings.HasPrefix(text, "-NOAUTH"), strings.HasPrefix(text, "-ERR wrong number of arguments for 'get'"):
		p.Kind = "redis"
	}
	return p
}

// readHTTP takes status, server and the first line of the body.
func (p *Probe) readHTTP(text string) {
	head, body, _ := strings.Cut(text, "\r\n\r\n")
	lines := strings.Split(head, "\r\n")
	p.Kind = "http"
	if f := strings.Fields(lines[0]); len(f) > 1 {
		p.Status, _ = strconv.Atoi(f[1])
	}
	chunked := false
	for _, l := range lines[1:] {
		name, value, _ := strings.Cut(l, ":")
		switch strings.ToLower(name) {
		case "server":
			p.Server = firstWords([]byte(value))
		case "transfer-encoding":
			chunked = strings.Contains(strings.ToLower(value), "chunked")
		}
	}
	if chunked { // the first line is a chunk length
		_, body, _ = strings.Cut(body, "\r\n")
	}
	p.Answer = firstWords([]byte(body))
	if p.Status == 400 && strings.Contains(body, "HTTPS") {
		p.Kind = "tls"
	}
}

// firstWords returns the first line with printable text, shortened.
func firstWords(b []byte) string {
	const most = 80
	for line := range bytes.Lines(b) {
		clean := strings.TrimSpace(strings.Map(func(r rune) rune {
			if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
				return ' '
			}
			return r
		}, strings.ToValidUTF8(string(line), " ")))
		if clean = strings.Join(strings.Fields(clean), " "); clean == "" {
			continue
		}
		if r := []rune(clean); len(r) > most {
			return string(r[:most]) + "…"
		}
		return clean
	}
	return ""
}

// ProgramName returns the base name of a command line's program. It also
// reads titles that programs set ("postgres: writer", "-bash").
func ProgramName(command string) string {
	word, _, _ := strings.Cut(command, " ")
	word = strings.TrimSuffix(strings.Trim(word, "[]-"), ":")
	return word[strings.LastIndexByte(word, '/')+1:]
}
