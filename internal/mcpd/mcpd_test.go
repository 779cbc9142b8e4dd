// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package mcpd

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/internal/httpd"
	"github.com/warren-vm/warren/internal/vmtest"
)

// desk is an API over simulated machines, with an MCP door at /mcp and a machine "box".
type desk struct {
	url    string
	secret string
	c      *client.Client
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	site, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	e, err := site.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, secret, err := vmtest.Admin(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	lifetime, end := context.WithCancel(context.Background())
	wire := NewWire()
	door := NewDoor(lifetime, wire.Dial, slog.New(slog.DiscardHandler))
	h := httpd.New(httpd.Config{House: e.Rooms, Log: slog.New(slog.DiscardHandler), Settings: map[string]any{"data": "x"}, Lifetime: lifetime, MCP: door})
	inner := &http.Server{Handler: h}
	go func() { _ = inner.Serve(wire) }()
	s := httptest.NewServer(h)
	d := &desk{url: s.URL, secret: secret, c: client.New(s.URL, secret)}
	t.Cleanup(func() {
		end()
		d.c.Close()
		s.Close()
		door.Close()
		inner.Close()
		h.Wait()
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if _, err := d.c.Create(t.Context(), api.CreateVM{Name: "box"}); err != nil {
		t.Fatal(err)
	}
	return d
}

// connect returns a client of the tools over the in-memory transport, as `warren mcp` has
// them, and the server's end.
func (d *desk) connect(t *testing.T, o *mcp.ClientOptions) (*mcp.ClientSession, *Server, <-chan error) {
	t.Helper()
	near, far := mcp.NewInMemoryTransports()
	s := New(d.c)
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- s.Run(ctx, far) }()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).Connect(t.Context(), near, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = session.Close(); cancel() })
	return session, s, ended
}

// bearer sends a key with each request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// overHTTP returns a client of the tools at /mcp.
func (d *desk) overHTTP(t *testing.T, secret string) (*mcp.ClientSession, error) {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: d.url + "/mcp", HTTPClient: &http.Client{Transport: bearer(secret)}, MaxRetries: -1}, nil)
	if err == nil {
		t.Cleanup(func() { _ = session.Close() })
	}
	return session, err
}

// use calls a tool and decodes its answer; failed is the text of an answer that is an error.
func use[Out any](t *testing.T, s *mcp.ClientSession, tool string, in any) (out Out, failed string) {
	t.Helper()
	r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tool, Arguments: in})
	if err != nil {
		t.Fatalf("the call of %s broke: %v", tool, err)
	}
	if r.IsError {
		return out, r.Content[0].(*mcp.TextContent).Text
	}
	data, err := json.Marshal(r.StructuredContent)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		t.Fatalf("%s: the answer is not what its schema says: %v", tool, err)
	}
	return out, ""
}

// must is use of a tool that has to succeed.
func must[Out any](t *testing.T, s *mcp.ClientSession, tool string, in any) Out {
	t.Helper()
	out, failed := use[Out](t, s, tool, in)
	if failed != "" {
		t.Fatalf("%s failed: %s", tool, failed)
	}
	return out
}

type args = map[string]any

func TestToolsAreDescribed(t *testing.T) {
	s, _, _ := newDesk(t).connect(t, nil)
	l, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(l.Tools); n < 15 || n > 20 {
		t.Errorf("there are %d tools, want 15 to 20: few enough to choose from", n)
	}
	for _, tool := range l.Tools {
		if len(tool.Description) < 30 || tool.InputSchema == nil || tool.OutputSchema == nil || tool.Annotations == nil {
			t.Errorf("the tool %s lacks a description, a schema or annotations", tool.Name)
		}
		in, _ := json.Marshal(tool.InputSchema)
		var schema struct {
			Properties map[string]struct{ Description string }
		}
		if err := json.Unmarshal(in, &schema); err != nil {
			t.Fatal(err)
		}
		if len(schema.Properties) == 0 {
			t.Errorf("the schema of %s names no argument", tool.Name)
		}
	}
}

func TestExec(t *testing.T) {
	d := newDesk(t)
	s, _, _ := d.connect(t, nil)
	o := must[execOut](t, s, "exec", args{"machine": "box", "command": "echo out; echo err >&2; exit 3"})
	if o.Stdout != "out\n" || o.Stderr != "err\n" || o.ExitCode == nil || *o.ExitCode != 3 {
		t.Errorf("the command's answer is %+v, want its two streams and status 3", o)
	}
	o = must[execOut](t, s, "exec", args{"machine": "box", "command": "cat", "stdin": "typed"})
	if o.Stdout != "typed" {
		t.Errorf("cat returned %q, want its input", o.Stdout)
	}
	_, failed := use[execOut](t, s, "exec", args{"machine": "nowhere", "command": "true"})
	if !strings.Contains(failed, "nowhere") || !strings.Contains(failed, "hint: ") || !strings.Contains(failed, "code: ") {
		t.Errorf("a machine that does not exist gives %q, want the sentence, the hint and the code", failed)
	}
}

func TestFiles(t *testing.T) {
	s, _, _ := newDesk(t).connect(t, nil)
	must[writeFileOut](t, s, "write_file", args{"machine": "box", "path": "/root/dir/a.txt", "content": "hello world"})
	if r := must[readFileOut](t, s, "read_file", args{"machine": "box", "path": "/root/dir/a.txt", "offset": 6, "limit": 3}); r.Content != "wor" || r.Next != 9 || r.Size != 11 {
		t.Errorf("a part of the file is %+v, want wor, and 9 as the next offset", r)
	}
	if l := must[listFilesOut](t, s, "list_files", args{"machine": "box", "path": "/root/dir"}); len(l.Entries) != 1 || l.Entries[0].Name != "a.txt" {
		t.Errorf("the directory has %+v, want a.txt", l.Entries)
	}
	must[writeFileOut](t, s, "write_file", args{"machine": "box", "path": "/root/b", "content": "AP8=", "encoding": "base64"})
	if r := must[readFileOut](t, s, "read_file", args{"machine": "box", "path": "/root/b"}); r.Encoding != "base64" || r.Content != "AP8=" {
		t.Errorf("bytes are returned as %+v, want base64", r)
	}
	if _, failed := use[writeFileOut](t, s, "write_file", args{"machine": "box", "path": "/x", "content": strings.Repeat("x", writeMost+1)}); !strings.Contains(failed, "hint: ") {
		t.Errorf("a file that is too large gives %q, want a refusal with what to do", failed)
	}
	r, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "warren://machines/box/files/root/dir/a.txt"})
	if err != nil || r.Contents[0].Text != "hello world" {
		t.Errorf("the file as a resource is %+v, %v, want its content", r, err)
	}
	if _, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "warren://machines/box/files/root/none"}); err == nil {
		t.Error("a file that does not exist was read as a resource")
	}
}

// TestHTTPDoorHasTheCallersRights: an identity sees the machines that it was granted.
func TestHTTPDoorHasTheCallersRights(t *testing.T) {
	d := newDesk(t)
	if _, err := d.overHTTP(t, "warren_wrong"); err == nil {
		t.Error("a client with an unknown key was let in")
	}
	owner, err := d.overHTTP(t, d.secret)
	if err != nil {
		t.Fatal(err)
	}
	if l := must[machinesOut](t, owner, "list_machines", args{}); len(l.Machines) != 1 || l.Machines[0].Name != "box" {
		t.Errorf("the owner sees %+v, want box", l.Machines)
	}
	if o := must[execOut](t, owner, "exec", args{"machine": "box", "command": "echo hi"}); o.Stdout != "hi\n" {
		t.Errorf("over HTTP the command printed %q, want hi", o.Stdout)
	}
	token := identity(t, d.c)
	other, err := d.overHTTP(t, token)
	if err != nil {
		t.Fatal(err)
	}
	if l := must[machinesOut](t, other, "list_machines", args{}); len(l.Machines) != 0 {
		t.Errorf("an identity without a grant sees %+v, want nothing", l.Machines)
	}
	if _, failed := use[execOut](t, other, "exec", args{"machine": "box", "command": "true"}); !strings.Contains(failed, "code: ") {
		t.Errorf("an identity without a grant ran a command: %q", failed)
	}
	if _, failed := use[createOut](t, other, "create_machine", args{"name": "mine"}); !strings.Contains(failed, "code: FORBIDDEN") {
		t.Errorf("an identity made a machine: %q", failed)
	}
}

// identity makes an identity without any right and returns a token of it.
func identity(t *testing.T, c *client.Client) string {
	t.Helper()
	i, err := c.CreateIdentity(t.Context(), "helper")
	if err != nil {
		t.Fatal(err)
	}
	tok, err := c.CreateToken(t.Context(), string(i.ID), api.NewToken{})
	if err != nil {
		t.Fatal(err)
	}
	return tok.Token
}

// running counts the processes of box that have not ended.
func (d *desk) running(t *testing.T) (n int) {
	t.Helper()
	l, err := d.c.Processes(t.Context(), "box")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range l {
		if p.EndedAt == nil {
			n++
		}
	}
	return n
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// TestCancelEndsTheCommand: a call that is cancelled leaves no process.
func TestCancelEndsTheCommand(t *testing.T) {
	d := newDesk(t)
	s, _, _ := d.connect(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "exec", Arguments: args{"machine": "box", "command": "sleep 600"}})
		ended <- err
	}()
	eventually(t, "the command runs", func() bool { return d.running(t) == 1 })
	cancel()
	if err := <-ended; err == nil {
		t.Error("a cancelled call succeeded")
	}
	eventually(t, "the command has ended", func() bool { return d.running(t) == 0 })
}

// TestVanishedClients: what a client alone owned ends with it, over both transports.
func TestVanishedClients(t *testing.T) {
	d := newDesk(t)
	t.Run("stdio", func(t *testing.T) {
		near, far := net.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- New(d.c).Run(context.Background(), &mcp.IOTransport{Reader: far, Writer: far}) }()
		s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), &mcp.IOTransport{Reader: near, Writer: near}, nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			_, _ = s.CallTool(context.Background(), &mcp.CallToolParams{Name: "exec", Arguments: args{"machine": "box", "command": "sleep 600"}})
		}()
		eventually(t, "the command runs", func() bool { return d.running(t) == 1 })
		near.Close() // as when the client's process is killed
		if err := <-ended; err != nil {
			t.Errorf("a client that left is an error: %v", err)
		}
		if n := d.running(t); n != 0 {
			t.Errorf("%d commands run after the client has left, want none", n)
		}
	})
	for _, version := range []string{"2025-06-18", "2025-11-25"} {
		t.Run("http "+version, func(t *testing.T) {
			id := d.initialize(t, version)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				r, err := d.post(ctx, version, id, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"exec","arguments":{"machine":"box","command":"sleep 600"}}}`)
				if err == nil {
					_, _ = io.Copy(io.Discard, r.Body)
					r.Body.Close()
				}
			}()
			eventually(t, "the command runs", func() bool { return d.running(t) == 1 })
			cancel() // the connection breaks, without a word
			eventually(t, "the command has ended", func() bool { return d.running(t) == 0 })
		})
	}
}

// post sends one message as a client without the SDK does.
func (d *desk) post(ctx context.Context, version, session, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, d.url+"/mcp", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+d.secret)
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
		r.Header.Set("Mcp-Protocol-Version", version)
	}
	return http.DefaultClient.Do(r)
}

func (d *desk) initialize(t *testing.T, version string) (session string) {
	t.Helper()
	r, err := d.post(t.Context(), version, "", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"`+version+`","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		t.Fatalf("initialize was answered with %s", r.Status)
	}
	session = r.Header.Get("Mcp-Session-Id")
	if r, err = d.post(t.Context(), version, session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); err != nil {
		t.Fatal(err)
	}
	r.Body.Close()
	return session
}

// TestSessionsBelongToTheirKey: the id of a session is not enough to use it.
func TestSessionsBelongToTheirKey(t *testing.T) {
	d := newDesk(t)
	id := d.initialize(t, "2025-06-18")
	other := *d
	other.secret = identity(t, d.c)
	r, err := other.post(t.Context(), "2025-06-18", id, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusForbidden {
		t.Errorf("another caller used the session: %s, want 403", r.Status)
	}
}

func TestTerminals(t *testing.T) {
	d := newDesk(t)
	s, _, ended := d.connect(t, nil)
	o := must[terminalOut](t, s, "terminal", args{"machine": "box", "action": "open"})
	kept := must[terminalOut](t, s, "terminal", args{"machine": "box", "action": "open", "keep": true})
	if o.Terminal == "" || !o.Running {
		t.Fatalf("the terminal is %+v, want one that runs", o)
	}
	must[terminalOut](t, s, "terminal", args{"machine": "box", "action": "send", "terminal": o.Terminal, "text": "echo hello\r"})
	if l := must[terminalOut](t, s, "terminal", args{"machine": "box", "action": "list"}); len(l.Terminals) != 2 {
		t.Errorf("%d terminals are listed, want 2", len(l.Terminals))
	}
	_ = s.Close()
	<-ended
	l, err := d.c.Terminals(t.Context(), "box")
	if err != nil {
		t.Fatal(err)
	}
	if len(l) != 1 || l[0].SessionID != kept.Terminal {
		t.Errorf("after the client has left there are %+v, want only the one that was to be kept", l)
	}
}

func TestProgress(t *testing.T) {
	d := newDesk(t)
	heard := make(chan string, 100)
	s, _, _ := d.connect(t, &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { heard <- r.Params.Message }})
	p := &mcp.CallToolParams{Name: "exec", Arguments: args{"machine": "box", "command": "echo step one; sleep 2"}}
	p.SetProgressToken("t")
	if _, err := s.CallTool(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	select {
	case text := <-heard:
		if text != "step one" {
			t.Errorf("the progress is %q, want the last line of the output", text)
		}
	case <-time.After(5 * time.Second):
		t.Error("no progress was told")
	}
}

// TestClip: a stream's beginning and end are kept, whatever the sizes of the writes.
func TestClip(t *testing.T) {
	for _, step := range []int{1, 7, 1000} {
		c := &clip{most: 20}
		all := strings.Repeat("a", 10) + strings.Repeat("x", 5000) + strings.Repeat("z", 10)
		for i := 0; i < len(all); i += step {
			_, _ = c.Write([]byte(all[i:min(len(all), i+step)]))
		}
		if got, want := c.text(), "aaaaaaaaaa\n[5000 bytes left out]\nzzzzzzzzzz"; got != want || !c.cut() {
			t.Errorf("in steps of %d the kept text is %q, want %q", step, got, want)
		}
	}
	c := &clip{most: 20}
	_, _ = c.Write([]byte("short"))
	if c.text() != "short" || c.cut() {
		t.Errorf("a short text became %q", c.text())
	}
}
