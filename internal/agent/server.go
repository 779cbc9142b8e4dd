// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// This is the part of HTTP/1.1 that the host's client uses: requests with a
// length or in chunks; answers with a length, in chunks, or upgraded. Right
// after a restore under emulation every instruction runs for the first time,
// so net/http would delay the first command by tens of milliseconds.

const (
	maxHead  = 64 << 10 // of a request's head, in bytes
	maxWords = 4 << 20  // of a request's body that is read into memory, in bytes
)

// request is one request. Its body returns io.ErrUnexpectedEOF if it is incomplete.
type request struct {
	ctx    context.Context // ends with the session
	method string
	path   string
	query  url.Values
	body   io.Reader
	conn   net.Conn
	in     *bufio.Reader
	size   int64 // of the body; -1 = chunked
}

// answer writes the answer to one request.
type answer struct {
	conn    net.Conn
	started bool
	closing bool // the stream cannot carry another request
}

// serveConn answers the requests of one stream.
func (a *Agent) serveConn(ctx context.Context, c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		r, err := readRequest(in)
		if err != nil {
			return
		}
		r.ctx, r.conn = ctx, c
		w := &answer{conn: c}
		if err := a.handle(w, r); err != nil {
			if w.started || w.fail(err) != nil {
				return // the host sees an incomplete answer
			}
		}
		if w.closing || !r.finished() {
			return
		}
	}
}

// handle calls the verb of a request.
func (a *Agent) handle(w *answer, r *request) error {
	r.unruled()
	switch r.method + " " + r.path {
	case "POST /exec":
		return a.exec(w, r)
	case "POST /wake":
		return a.wake(w, r, true)
	case "POST /reset":
		return a.wake(w, r, false)
	case "POST /give":
		return a.giveNow(w, r)
	case "GET /hello":
		return w.bytes(link.EncodeWake(a.hello(), nil))
	case "POST /start":
		return a.start(w, r)
	}
	if h, ok := routes[r.method+" "+r.path]; ok {
		return h(a, w, r)
	}
	return vm.Errorf(vm.Unsupported, r.path, "this agent has no such verb")
}

// routes are the verbs that a start does not use.
var routes = map[string]func(*Agent, *answer, *request) error{
	"GET /processes":   (*Agent).processes,
	"GET /process":     (*Agent).process,
	"POST /wait":       (*Agent).wait,
	"POST /signal":     (*Agent).signal,
	"POST /forget":     (*Agent).forget,
	"GET /log":         (*Agent).readLog,
	"GET /stat":        (*Agent).stat,
	"GET /readdir":     (*Agent).readDir,
	"GET /file":        (*Agent).openFile,
	"PUT /file":        (*Agent).writeFile,
	"POST /mkdir":      (*Agent).mkdir,
	"POST /rename":     (*Agent).rename,
	"POST /remove":     (*Agent).remove,
	"POST /chmod":      (*Agent).chmod,
	"POST /symlink":    (*Agent).symlink,
	"GET /tar":         (*Agent).tarDown,
	"PUT /tar":         (*Agent).tarUp,
	"GET /tree":        (*Agent).listTree,
	"POST /pick":       (*Agent).pickFiles,
	"PUT /place":       (*Agent).placeFiles,
	"PUT /restore":     (*Agent).restore,
	"GET /watch":       (*Agent).watch,
	"GET /stats":       (*Agent).stats,
	"GET /state":       (*Agent).state,
	"GET /evidence":    (*Agent).evidence,
	"POST /upgrade":    (*Agent).upgrade,
	"POST /freeze":     (*Agent).freeze,
	"POST /sync":       (*Agent).sync,
	"POST /thaw":       (*Agent).thaw,
	"POST /clock":      (*Agent).clock,
	"POST /poweroff":   (*Agent).powerOff,
	"POST /pty":        (*Agent).openTerm,
	"POST /pty/attach": (*Agent).attachTerm,
	"GET /ptys":        (*Agent).listTerms,
	"POST /pty/close":  (*Agent).closeTerm,
	"GET /pty/read":    (*Agent).readTerm,
	"POST /pty/send":   (*Agent).sendTerm,
	"POST /grow":       (*Agent).grow,
	"GET /disk":        (*Agent).disk,
	"POST /mount":      (*Agent).mount,
	"POST /unmount":    (*Agent).unmount,
	"POST /folder":     (*Agent).folder,
	"POST /scrub":      (*Agent).scrub,
	"GET /user":        (*Agent).linuxUser,
	"POST /dial":       (*Agent).dialSocket,
	"POST /listen":     (*Agent).listenSocket,
	"POST /accept":     (*Agent).acceptSocket,
	"POST /handle":     (*Agent).handleFile,
	"POST /setattr":    (*Agent).setAttr,
	"POST /link":       (*Agent).link,
}

var errHead = errors.New("agent: malformed request")

func readRequest(in *bufio.Reader) (*request, error) {
	left := maxHead
	line, err := readLine(in, &left)
	if err != nil {
		return nil, err
	}
	method, rest, ok := strings.Cut(line, " ")
	target, proto, ok2 := strings.Cut(rest, " ")
	if !ok || !ok2 || proto != "HTTP/1.1" || !strings.HasPrefix(target, "/") {
		return nil, errHead
	}
	path, raw, _ := strings.Cut(target, "?")
	r := &request{method: method, path: path, in: in}
	if raw != "" {
		if r.query, err = url.ParseQuery(raw); err != nil {
			return nil, errHead
		}
	}
	for {
		line, err := readLine(in, &left)
		if err != nil {
			return nil, err
		}
		if line == "" {
			break
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, errHead
		}
		value = strings.TrimSpace(value)
		switch {
		case strings.EqualFold(name, "Content-Length"):
			if r.size, err = strconv.ParseInt(value, 10, 64); err != nil || r.size < 0 {
				return nil, errHead
			}
		case strings.EqualFold(name, "Transfer-Encoding"):
			if !strings.EqualFold(value, "chunked") {
				return nil, errHead
			}
			r.size = -1
		}
	}
	if r.size < 0 {
		r.body = &chunkReader{in: in}
	} else {
		r.body = &lengthReader{in: in, left: r.size}
	}
	return r, nil
}

// readLine reads a line, without its end, and subtracts its length from left.
func readLine(in *bufio.Reader, left *int) (string, error) {
	var long []byte
	for {
		part, err := in.ReadSlice('\n')
		if *left -= len(part); *left < 0 {
			return "", errHead
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, part...)
			continue
		}
		if err != nil {
			return "", err
		}
		if long != nil {
			part = append(long, part...)
		}
		return strings.TrimSuffix(string(part[:len(part)-1]), "\r"), nil
	}
}

// words reads a small body into memory.
func (r *request) words() ([]byte, error) {
	if r.size < 0 || r.size > maxWords {
		return nil, vm.Errorf(vm.Invalid, "", "the request is longer than %d bytes", maxWords)
	}
	b := make([]byte, r.size)
	_, err := io.ReadFull(r.body, b)
	return b, err
}

// finished reports whether the whole body was read.
func (r *request) finished() bool {
	n, err := r.body.Read(make([]byte, 1))
	return n == 0 && err == io.EOF
}

func (r *request) flag(name string) bool { return r.query.Get(name) == "1" }

// number returns a query parameter that is a decimal number, 0 if it is missing.
func (r *request) number(name string) (int64, error) {
	s := r.query.Get(name)
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, vm.Errorf(vm.Invalid, name, "not a number: %q", s)
	}
	return n, nil
}

// mode returns the mode for a new file; 0 or a missing one gives the default.
func (r *request) mode(fallback int64) (int64, error) {
	mode, err := r.number("mode")
	if mode == 0 {
		mode = fallback
	}
	return mode, err
}

// untilGone returns a context that ends when the client closes the stream.
// The stream cannot carry another request afterwards.
func (r *request) untilGone(w *answer) (context.Context, context.CancelFunc) {
	w.closing = true
	ctx, cancel := context.WithCancel(r.ctx)
	go func() { // ends with the stream, which serveConn closes
		_, _ = r.in.ReadByte()
		cancel()
	}()
	return ctx, cancel
}

// bytes answers with b.
func (w *answer) bytes(b []byte) error {
	w.started = true
	_, err := w.conn.Write(append(fmt.Appendf(nil, "HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n", w.manner(), len(b)), b...))
	return err
}

// manner is the header line that announces the end of the stream, if it ends with this answer.
func (w *answer) manner() string {
	if w.closing {
		return "Connection: close\r\n"
	}
	return ""
}

// done answers with an empty success, or with the error.
func (w *answer) done(err error) error {
	if err != nil {
		return err
	}
	return w.bytes(nil)
}

// json answers with v, or with the error.
func (w *answer) json(v any, err error) error {
	if err != nil {
		return err
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.bytes(b)
}

// fail answers with an error.
func (w *answer) fail(err error) error {
	status := "400 Bad Request"
	switch vm.KindOf(err) {
	case vm.NotFound:
		status = "404 Not Found"
	case vm.Internal:
		status = "500 Internal Server Error"
	}
	b := link.EncodeError(err)
	w.started, w.closing = true, true // the body may not have been read completely
	_, werr := w.conn.Write(append(fmt.Appendf(nil, "HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n", status, w.manner(), len(b)), b...))
	return werr
}

// head writes the head of an answer of size bytes, or of a chunked one if
// size is -1. extra has further header lines, each with its line end.
func (w *answer) head(size int64, extra string) error {
	w.started = true
	length := "Transfer-Encoding: chunked"
	if size >= 0 {
		length = "Content-Length: " + strconv.FormatInt(size, 10)
	}
	_, err := io.WriteString(w.conn, "HTTP/1.1 200 OK\r\n"+extra+w.manner()+length+"\r\n\r\n")
	return err
}
