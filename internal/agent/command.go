// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/warren-vm/warren/vm"
)

// The exit status of Command.
const (
	exitYes     = 0   // allowed, approved, done
	exitNo      = 1   // refused, denied, no decision before the deadline
	exitPending = 2   // not decided yet
	exitFault   = 125 // a wrong command line, or no answer
)

// Usage is the help of Command.
const Usage = `warren-agent says what this VM may do, and asks for more.

  warren-agent status                     what this VM is, what is mounted, what its programs may do
  warren-agent why HOST[:PORT]            what the network policy says of a host
  warren-agent ask HOST[:PORT] --why TEXT propose that the policy allows it
  warren-agent turn "NOTE"                mark a state to which the host can undo
  warren-agent snapshot [NAME]            keep a snapshot of this VM
  warren-agent fork [-n N] [--name NAME]  make running copies of this VM
  warren-agent filesystem                 which places last, as FILESYSTEM.md
  warren-agent policy                     what the network allows, and what it refused lately

why and ask take --port N, --proto udp, --method GET and --path /v1/x, or a URL in place of HOST.
ask takes --wait 5m to wait for the decision, and --id ASK to wait for an earlier one.
--json prints JSON. The profile of the VM decides which commands are granted.

Examples:
  warren-agent why pypi.org
  warren-agent ask api.example.com --why "the tests call it" --wait 5m && make test
  warren-agent ask https://api.example.com/v1/items --method GET --why "read the list"
  warren-agent filesystem > FILESYSTEM.md

Exit status: 0 allowed, approved or done; 1 refused, denied or expired; 2 not decided yet; 125 an error.
`

// commandFlags are the flags of Command.
type commandFlags struct {
	port, count                        int
	proto, method, path, why, name, id string
	wait                               time.Duration
	json                               bool
	args                               []string // that are no flags
}

// Command is the program of guest users: it passes one request on to what the guest's network
// answers at vm.PolicyHost, and prints the answer. It returns the exit status.
func Command(ctx context.Context, args []string, out, errs io.Writer) int {
	c := &guestCommand{socket: filepath.Join(runDir, policySocket), machineID: "/etc/machine-id", out: out, errs: errs}
	return c.run(ctx, args)
}

// guestCommand is one run of Command.
type guestCommand struct {
	socket    string
	machineID string // file
	out, errs io.Writer
	flags     commandFlags
	before    string // the machine's id when it began
}

// errForked says that this process is the copy in a fork.
var errForked = errors.New("this is a fork")

func (c *guestCommand) run(ctx context.Context, args []string) int {
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		_, _ = io.WriteString(c.out, Usage)
		return exitYes
	}
	if err := c.parse(args[1:]); errors.Is(err, flag.ErrHelp) {
		_, _ = io.WriteString(c.out, Usage)
		return exitYes
	} else if err != nil {
		return c.fault(err)
	}
	c.before = c.machine()
	method, path, query, err := c.request(args[0])
	if err != nil {
		return c.fault(err)
	}
	if path == "/ask" {
		return c.ask(ctx, query)
	}
	a, err := c.call(method, path, query)
	if errors.Is(err, errForked) && path == "/fork" {
		return c.forked()
	}
	if err != nil {
		return c.fault(err)
	}
	return c.show(a)
}

// parse reads the flags, which may stand before and after the other arguments.
func (c *guestCommand) parse(args []string) error {
	f := &c.flags
	fs := flag.NewFlagSet("warren-agent", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.IntVar(&f.port, "port", 0, "")
	fs.IntVar(&f.count, "n", 0, "")
	fs.StringVar(&f.proto, "proto", "", "")
	fs.StringVar(&f.method, "method", "", "")
	fs.StringVar(&f.path, "path", "", "")
	fs.StringVar(&f.why, "why", "", "")
	fs.StringVar(&f.name, "name", "", "")
	fs.StringVar(&f.id, "id", "", "")
	fs.DurationVar(&f.wait, "wait", 0, "")
	fs.BoolVar(&f.json, "json", false, "")
	for {
		if err := fs.Parse(args); err != nil {
			return err
		}
		if fs.NArg() == 0 {
			return nil
		}
		f.args, args = append(f.args, fs.Arg(0)), fs.Args()[1:]
	}
}

// request is what a verb asks of the policy host.
func (c *guestCommand) request(verb string) (method, path string, query url.Values, err error) {
	f, query := &c.flags, url.Values{}
	most := 1
	switch verb {
	case "status", "filesystem":
		method, path, most = "GET", "/"+verb, 0
	case "policy":
		method, path, most = "GET", "/", 0
	case "why", "ask":
		if method, path = "GET", "/"+verb; verb == "ask" {
			method = "POST"
		}
		if verb == "ask" && f.id != "" {
			most = 0
			break
		}
		if len(f.args) == 0 {
			return "", "", nil, fmt.Errorf("which host? warren-agent %s HOST", verb)
		}
		if err := f.host(query, f.args[0]); err != nil {
			return "", "", nil, err
		}
	case "turn":
		method, path = "POST", "/turn"
		set(query, "note", f.arg())
	case "snapshot":
		method, path = "POST", "/snapshot"
		set(query, "name", or(f.arg(), f.name))
	case "fork":
		method, path, most = "POST", "/fork", 0
		set(query, "name", f.name)
		set(query, "count", digits(f.count))
	default:
		return "", "", nil, fmt.Errorf("no such command: %q; see warren-agent help", verb)
	}
	if len(f.args) > most {
		return "", "", nil, fmt.Errorf("too many arguments for %s; see warren-agent help", verb)
	}
	return method, path, query, nil
}

func (f *commandFlags) arg() string {
	if len(f.args) == 0 {
		return ""
	}
	return f.args[0]
}

func digits(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func set(query url.Values, name, value string) {
	if value != "" {
		query.Set(name, value)
	}
}

// host fills in what HOST, HOST:PORT or a URL and the flags say.
func (f *commandFlags) host(query url.Values, text string) error {
	host, port, path := text, f.port, f.path
	if strings.Contains(text, "://") {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" {
			return fmt.Errorf("%q is not a URL", text)
		}
		host = u.Host
		if u.Scheme == "http" && u.Port() == "" && port == 0 {
			port = 80
		}
		if path == "" && f.method != "" {
			path = or(u.EscapedPath(), "/")
		}
	}
	if i := strings.LastIndexByte(host, ':'); i >= 0 && (strings.IndexByte(host, ':') == i || strings.HasSuffix(host[:i], "]")) {
		n, err := strconv.Atoi(host[i+1:])
		if err != nil || n <= 0 || port != 0 && port != n {
			return fmt.Errorf("%q has no such port", text)
		}
		host, port = host[:i], n
	}
	query.Set("host", strings.Trim(host, "[]"))
	set(query, "port", digits(port))
	set(query, "proto", f.proto)
	set(query, "method", f.method)
	set(query, "path", path)
	set(query, "why", f.why)
	return nil
}

// ask files a proposal, or finds an earlier one, and waits for its decision as long as wanted.
func (c *guestCommand) ask(ctx context.Context, query url.Values) int {
	end := time.Now().Add(c.flags.wait)
	id := c.flags.id
	if id == "" {
		a, err := c.call("POST", "/ask", query)
		if err != nil {
			return c.fault(err)
		}
		if id = a.id; a.answer != string(vm.AskPending) || id == "" || c.flags.wait <= 0 {
			return c.show(a)
		}
		if !c.flags.json {
			_, _ = c.out.Write(a.body)
		}
	}
	for {
		left := max(0, time.Until(end))
		a, err := c.call("GET", "/ask/"+url.PathEscape(id), url.Values{"wait": {min(left, 30*time.Second).Round(time.Millisecond).String()}})
		switch {
		case errors.Is(err, errForked):
			return c.fault(errors.New("this is a fork now: the ask belongs to the VM that made it; ask again"))
		case err == nil && (a.answer != string(vm.AskPending) || left == 0):
			return c.show(a)
		case err != nil && left == 0:
			return c.fault(err)
		case err != nil:
			pause(ctx, time.Second)
		}
		if ctx.Err() != nil {
			return c.fault(context.Cause(ctx))
		}
	}
}

// guestAnswer is an answer of the policy host.
type guestAnswer struct {
	answer string // the word of its header
	id     string // of an ask
	body   []byte
}

// maxGuestAnswer limits an answer, in bytes.
const maxGuestAnswer = 1 << 20

// call makes one request. An answer that is lost because this guest was forked meanwhile is
// errForked in the fork.
func (c *guestCommand) call(method, path string, query url.Values) (a guestAnswer, err error) {
	f, err := connect(me(), &syscall.SockaddrUnix{Name: c.socket})
	if err != nil {
		return a, fmt.Errorf("the agent of this VM does not answer at %s: %w", c.socket, err)
	}
	defer f.Close()
	accept := "text/plain"
	if c.flags.json {
		accept = "application/json"
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	_, err = fmt.Fprintf(f, "%s %s HTTP/1.0\r\nHost: %s\r\nAccept: %s\r\nContent-Length: 0\r\n\r\n", method, path, vm.PolicyHost, accept)
	var data []byte
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(f, maxGuestAnswer))
	}
	head, body, whole := bytes.Cut(data, []byte("\r\n\r\n"))
	if err != nil || !whole {
		if now := c.machine(); now != c.before {
			return a, errForked
		}
		return a, fmt.Errorf("the answer was lost; see its result: warren-agent status (%w)", cmp.Or(err, io.ErrUnexpectedEOF))
	}
	a.body = body
	for line := range strings.SplitSeq(string(head), "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		switch {
		case strings.EqualFold(name, "Warren-Answer"):
			a.answer = strings.TrimSpace(value)
		case strings.EqualFold(name, "Warren-Ask"):
			a.id = strings.TrimSpace(value)
		}
	}
	return a, nil
}

// machine is the machine's id. A fork has another one.
func (c *guestCommand) machine() string {
	b, err := os.ReadFile(c.machineID)
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(b))
}

// show prints an answer and returns its exit status.
func (c *guestCommand) show(a guestAnswer) int {
	to, code := c.out, exitFault
	switch a.answer {
	case "allowed", "done", string(vm.AskApproved):
		code = exitYes
	case "refused", string(vm.AskDenied), string(vm.AskExpired), string(vm.AskEnded):
		code = exitNo
	case string(vm.AskPending):
		code = exitPending
	default:
		to = c.errs
	}
	_, _ = to.Write(a.body)
	return code
}

// forked tells the copy of this process in a fork where it is.
func (c *guestCommand) forked() int {
	name, _ := os.Hostname() // "" if the kernel has none
	if c.flags.json {
		_, _ = fmt.Fprintf(c.out, "{\"fork\":true,\"name\":%q}\n", name)
	} else {
		_, _ = fmt.Fprintf(c.out, "this is the fork %s\n", name)
	}
	return exitYes
}

func (c *guestCommand) fault(err error) int {
	_, _ = fmt.Fprintln(c.errs, "warren-agent:", err)
	return exitFault
}
