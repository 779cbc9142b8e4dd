// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package mcpd

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

// instructions are shown to the model of every client that connects.
const instructions = `Warren gives you Linux machines of your own (real VMs). A machine keeps its files and its processes; an idle one sleeps and wakes by itself at the next call.
Name a machine by its name or id. Work in it with exec, read_file, write_file and list_files. Programs that need a person at a terminal (editors, REPLs, prompts) run in a terminal.
Try risky things in copies: fork makes running copies within a second or two, compare shows what each copy changed and runs a check in all of them, keep puts the best one in the place of the original.
mark_turn marks a state and undo returns to it. diff shows what changed; commit and publish bring work out of the machine.
An answer that failed says why and what to do next.`

// endWithin is how long ending a command that nobody waits for may take.
const endWithin = 15 * time.Second

// Server is the tools and resources for MCP clients.
type Server struct {
	mcp  *mcp.Server
	bind func(*mcp.RequestExtra) (*client.Client, context.Context)

	// cleaning counts what still has to be ended for clients that have left.
	cleaning sync.WaitGroup

	mu    sync.Mutex
	owned map[*mcp.ServerSession]map[terminalKey]*client.Client // terminals that end with a session
}

// terminalKey names a terminal.
type terminalKey struct{ machine, id, user string }

// New returns the tools of one client: what `warren mcp` serves.
func New(c *client.Client) *Server {
	return newServer(func(*mcp.RequestExtra) (*client.Client, context.Context) { return c, nil })
}

// newServer makes the tools. bind returns the client of a request, and a context that ends
// when the caller has left; nil = there is none.
func newServer(bind func(*mcp.RequestExtra) (*client.Client, context.Context)) *Server {
	s := &Server{bind: bind, owned: map[*mcp.ServerSession]map[terminalKey]*client.Client{}}
	s.mcp = mcp.NewServer(&mcp.Implementation{Name: "warren", Title: "Warren", Version: api.Version}, &mcp.ServerOptions{
		Instructions: instructions,
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}, Resources: &mcp.ResourceCapabilities{}},
	})
	s.addMachines()
	s.addExec()
	s.addFiles()
	s.addTerminals()
	s.addWorlds()
	s.addReview()
	s.addShipping()
	s.addNetwork()
	s.addResources()
	return s
}

// Run serves one client over a transport until it leaves or ctx ends. When it returns,
// nothing runs any more that the client alone owned.
func (s *Server) Run(ctx context.Context, t mcp.Transport) error {
	err := s.mcp.Run(ctx, t)
	s.cleaning.Wait()
	if errors.Is(err, mcp.ErrConnectionClosed) || ctx.Err() != nil {
		return nil // it has left
	}
	return err
}

// Wait returns when nothing has to be ended any more. No client may be connected by then.
func (s *Server) Wait() { s.cleaning.Wait() }

// call is one request of a client.
type call struct {
	c       *client.Client
	session *mcp.ServerSession
	token   any // of progress; nil = the client wants none

	stateless bool // the session ends with the request
}

// enter finds out who calls. The context ends when the caller cancels or leaves.
func (s *Server) enter(ctx context.Context, session *mcp.ServerSession, extra *mcp.RequestExtra, token any) (context.Context, context.CancelFunc, *call) {
	c, here := s.bind(extra)
	ctx, cancel := context.WithCancel(ctx)
	s.cleaning.Add(1)
	leave := func() bool { return true }
	if here != nil {
		leave = context.AfterFunc(here, cancel)
	}
	return ctx, func() { leave(); cancel(); s.cleaning.Done() }, &call{c: c, session: session, token: token, stateless: extra != nil && extra.Header != nil && session.ID() == ""}
}

// add adds a tool. Its failures are answers that the model reads.
func add[In, Out any](s *Server, t *mcp.Tool, do func(ctx context.Context, k *call, in In) (Out, error)) {
	mcp.AddTool(s.mcp, t, func(ctx context.Context, req *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		ctx, leave, k := s.enter(ctx, req.Session, req.Extra, req.Params.GetProgressToken())
		defer leave()
		out, err := do(ctx, k, in)
		if err != nil {
			var none Out
			return nil, none, tell(err)
		}
		return nil, out, nil
	})
}

// told is a failure as a model reads it: the sentence, what to do next, and the code.
type told struct {
	text string
	err  error
}

func (t *told) Error() string { return t.text }
func (t *told) Unwrap() error { return t.err }

// tell makes an error readable for a model.
func tell(err error) error {
	e := vm.AsError(err)
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	if e.Hint != "" {
		text += "\nhint: " + e.Hint
	}
	return &told{text: text + "\ncode: " + api.CodeOf(e), err: err}
}

// Annotations of tools. Every tool works on machines of one server, which is a closed
// world, but for those that run programs or reach hosts.
var (
	no  = false
	yes = true
)

func reads(title string) *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{Title: title, ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: &no}
}

// adds is for tools that change something and lose nothing.
func adds(title string) *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{Title: title, DestructiveHint: &no, OpenWorldHint: &no}
}

// loses is for tools that may lose something.
func loses(title string) *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{Title: title, DestructiveHint: &yes, OpenWorldHint: &no}
}

// runs is for tools that run programs, which may do anything that the machine allows.
func runs(title string) *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{Title: title, DestructiveHint: &yes, OpenWorldHint: &yes}
}

// tick is how often a client hears of the progress of a call.
const tick = time.Second

// progress tells the client each second what a call does, until stop is called.
func (k *call) progress(ctx context.Context, say func() string) (stop func()) {
	if k.token == nil {
		return func() {}
	}
	over, ended := make(chan struct{}), make(chan struct{})
	began := time.Now()
	go func() {
		defer close(ended)
		t := time.NewTicker(tick)
		defer t.Stop()
		for {
			select {
			case <-over:
				return
			case <-ctx.Done():
				return
			case <-t.C:
				// A client that does not read them loses them.
				_ = k.session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: k.token, Progress: time.Since(began).Seconds(), Message: say()})
			}
		}
	}()
	return sync.OnceFunc(func() { close(over); <-ended })
}

// doing is progress with one sentence.
func (k *call) doing(ctx context.Context, what string) (stop func()) {
	return k.progress(ctx, func() string { return what })
}
