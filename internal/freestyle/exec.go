// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package freestyle

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

func insideRoutes(at func(string, right, handler), stream func(string, right, streamer)) {
	at("POST /v5/vms/{vm}/exec-await", member, (*caller).exec)

	at("GET /v5/vms/{vm}/fs/dir", member, (*caller).dir)
	at("GET /v5/vms/{vm}/fs/stat", member, (*caller).stat)
	at("GET /v5/vms/{vm}/fs/exists", member, (*caller).exists)
	at("POST /v5/vms/{vm}/fs/mkdir", member, (*caller).mkdir)
	at("DELETE /v5/vms/{vm}/fs/remove", member, (*caller).remove)
	stream("GET /v5/vms/{vm}/fs/read", member, (*caller).readFile)
	stream("PUT /v5/vms/{vm}/fs/write", member, (*caller).writeFile)

	at("POST /v5/vms/{vm}/fs/uploads", member, (*caller).beginUpload)
	at("GET /v5/vms/{vm}/fs/uploads/{upload}", member, (*caller).uploadState)
	at("DELETE /v5/vms/{vm}/fs/uploads/{upload}", member, (*caller).dropUpload)
	at("POST /v5/vms/{vm}/fs/uploads/{upload}/commit", member, (*caller).commitUpload)
	stream("PUT /v5/vms/{vm}/fs/uploads/{upload}", member, (*caller).uploadChunk)

	stream("GET /v5/vms/{vm}/pty", member, (*caller).openTerminal)
	at("GET /v5/vms/{vm}/pty/sessions", member, (*caller).terminals)
	stream("GET /v5/vms/{vm}/pty/sessions/{session}", member, (*caller).attachTerminal)
	at("DELETE /v5/vms/{vm}/pty/sessions/{session}", member, (*caller).closeTerminal)
}

// Limits of exec-await.
const (
	defaultTimeout = 30 * time.Second
	maxTimeout     = 24 * time.Hour
	// inlineTimeout is the longest one of a caller that is not answered later: fetch waits
	// 300 s for the beginning of an answer.
	inlineTimeout = 290 * time.Second
	maxStdin      = 1 << 20
	maxOutput     = 2 << 20 // of each stream
	maxCaptured   = 512 << 20
)

var (
	userPattern     = regexp.MustCompile(`^[a-z_][a-z0-9_-]*$`)
	variablePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// captured is how much output the door holds, of all commands together.
var captured atomic.Int64

// capture keeps the beginning of a stream.
type capture struct {
	mu  sync.Mutex
	buf bytes.Buffer
	cut bool
}

func (o *capture) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	keep := p[:min(len(p), maxOutput-o.buf.Len())]
	if captured.Add(int64(len(keep))) > maxCaptured {
		captured.Add(-int64(len(keep)))
		keep = nil
	}
	o.cut = o.cut || len(keep) < len(p)
	o.buf.Write(keep)
	return len(p), nil
}

// text returns what was kept, once.
func (o *capture) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	captured.Add(-int64(o.buf.Len()))
	return strings.ToValidUTF8(o.buf.String(), "\uFFFD")
}

// linux finds the Linux user of a request: the named one, else that of the VM, else the one with
// id 1000, else root.
func (c *caller) linux(rec vm.VM, named string) (vm.LinuxUser, error) {
	if named != "" && !userPattern.MatchString(named) {
		return vm.LinuxUser{}, invalid("linuxUser", "%q is not the name of a Linux user", vm.Clip(named, 40))
	}
	name := cmp.Or(named, rec.User, "1000")
	u, err := c.d.Inside.LinuxUser(c.ctx, c.call, string(rec.ID), name)
	if named == "" && rec.User == "" && vm.AsError(err).Code == "USER_NOT_FOUND" {
		u, err = c.d.Inside.LinuxUser(c.ctx, c.call, string(rec.ID), "")
	}
	if err != nil {
		if vm.KindOf(err) == vm.Denied && named == "" {
			err = vm.AsError(err).WithHint("name one of the Linux users that the identity may act as: linuxUser")
		}
		return u, err
	}
	if u.Name == "root" || u.UID == 0 {
		u.Name = "" // as the rooms name root
	}
	c.user = u.Name
	return u, nil
}

type execBody struct {
	Command string            `json:"command"`
	User    string            `json:"linuxUser"`
	Timeout *int64            `json:"timeoutMs"`
	Env     map[string]string `json:"env"`
	Stdin   *string           `json:"stdin"`
}

// spec checks a request.
func (b *execBody) spec(longest time.Duration) (s vm.ExecSpec, input []byte, err error) {
	if b.Command == "" {
		return s, nil, invalid("command", "is missing")
	}
	limit := defaultTimeout
	if b.Timeout != nil {
		if *b.Timeout < 1 || *b.Timeout > maxTimeout.Milliseconds() {
			return s, nil, invalid("timeoutMs", "%d is not within 1 to %d", *b.Timeout, maxTimeout.Milliseconds())
		}
		limit = time.Duration(*b.Timeout) * time.Millisecond
	}
	for name := range b.Env {
		if !variablePattern.MatchString(name) {
			return s, nil, invalid("env", "%q is not the name of a variable", vm.Clip(name, 80))
		}
	}
	if b.Stdin != nil {
		if input, err = base64.StdEncoding.DecodeString(*b.Stdin); err != nil {
			return s, nil, invalid("stdin", "is not base64")
		}
		if len(input) > maxStdin {
			return s, nil, &vm.Error{Kind: vm.Limit, Subject: "stdin", Msg: "has more than 1 MiB", Hint: "write it to a file of the VM, and let the command read the file", Code: largeBody}
		}
	}
	return vm.ExecSpec{Command: b.Command, Env: b.Env, Timeout: vm.Millis(min(limit, longest)), Stdin: len(input) > 0}, input, nil
}

// exec runs a command and waits for it.
func (c *caller) exec() (answer, error) {
	var in execBody
	if err := c.decodeStrict(&in); err != nil {
		return answer{}, err
	}
	longest := maxTimeout
	if c.Header.Get(api.HeaderBackgroundIn) == "" {
		longest = inlineTimeout
	}
	spec, input, err := in.spec(longest)
	if err != nil {
		return answer{}, err
	}
	rec, err := c.find()
	if err != nil {
		return answer{}, err
	}
	u, err := c.linux(rec, in.User)
	if err != nil {
		return answer{}, err
	}
	spec.User, spec.Cwd = u.Name, cmp.Or(u.Home, "/")
	ctx, release := c.d.Access.Session(c.ctx, c.call, string(rec.ID), u.Name)
	defer release()
	x, err := c.d.Inside.Exec(ctx, c.call, string(rec.ID), spec)
	if err != nil && vm.AsError(err).Code == "FILE_NOT_FOUND" && spec.Cwd != "/" { // the home is missing
		spec.Cwd = "/"
		x, err = c.d.Inside.Exec(ctx, c.call, string(rec.ID), spec)
	}
	if err != nil {
		return answer{}, err
	}
	var fed sync.WaitGroup
	if spec.Stdin {
		fed.Go(func() { // ends with the command
			_, _ = x.Write(input) // not reading input is no error
			_ = x.CloseStdin()
		})
	}
	var out, errs capture
	status, err := x.Run(&out, &errs)
	fed.Wait()
	result := execAnswer{Stdout: out.text(), Stderr: errs.text(), Truncated: out.cut || errs.cut}
	if err != nil {
		return answer{}, err
	}
	if !status.TimedOut {
		result.Status = &status.Code
	}
	return ok(result)
}

type execAnswer struct {
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	Status    *int   `json:"statusCode"` // null = its time-out ended it
	Truncated bool   `json:"truncated,omitempty"`
}
