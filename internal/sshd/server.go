// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package sshd

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// Engine has the methods of the engine that the gateway needs.
type Engine interface {
	// Enter records a login, and returns a function that records its end.
	Enter(ctx context.Context, c *vm.Call, ref string, detail map[string]any) (vm.VM, func(error, map[string]any), error)
	LinuxUser(ctx context.Context, c *vm.Call, ref, name string) (vm.LinuxUser, error)

	Exec(ctx context.Context, c *vm.Call, ref string, spec vm.ExecSpec) (engine.Exec, error)
	SignalProcess(ctx context.Context, c *vm.Call, ref, user, id, name string) error
	ForgetProcess(ctx context.Context, c *vm.Call, ref, user, id string) error
	OpenTerminal(ctx context.Context, c *vm.Call, ref string, spec vm.TerminalSpec) (engine.Terminal, error)
	AttachTerminal(ctx context.Context, c *vm.Call, ref, id string, view vm.TerminalView) (engine.Terminal, error)
	Terminals(ctx context.Context, c *vm.Call, ref string) ([]vm.TerminalSession, error)
	CloseTerminal(ctx context.Context, c *vm.Call, ref, user, id string) (vm.TerminalSession, error)

	DialSocket(ctx context.Context, c *vm.Call, ref string, s vm.SocketSpec) (net.Conn, error)
	ListenSocket(ctx context.Context, c *vm.Call, ref string, s vm.SocketSpec) (engine.SocketListener, error)

	// Conceal returns an error without the host's paths.
	Conceal(err error) error

	Files
	Rights
}

// Rights authenticates and authorises callers.
type Rights interface {
	// Authenticate returns the holder of an API key or token; kind Unauthenticated.
	Authenticate(ctx context.Context, secret string) (vm.Actor, error)
	// AuthenticateSSHKey returns the identity as which the holder of a key, given
	// by its SHA256 fingerprint, may enter; kind Unauthenticated if there is none.
	AuthenticateSSHKey(ctx context.Context, fingerprint, ref, user string) (vm.Actor, vm.IdentityKey, error)
	// SSHKeyHolders returns the identities that have a key, given by its SHA256
	// fingerprint, as actors.
	SSHKeyHolders(fingerprint string) []vm.Actor
	MayEnter(ctx context.Context, a vm.Actor, ref, user string) (vm.VM, error)
	// Session returns a context that ends with the caller's right.
	Session(ctx context.Context, c *vm.Call, ref, user string) (context.Context, context.CancelFunc)
}

// Config configures a gateway.
type Config struct {
	Engine  Engine
	HostKey ssh.Signer
	// Repositories are what the user name "git" leads to; nil = there are none.
	Repositories Repositories
	Log          *slog.Logger
	Version      string
}

// Limits. A person needs few; VS Code uses about ten channels.
const (
	maxConns     = 1024 // connections at once that have logged in
	maxOfAccount = 512  // of those, of one account
	maxStrangers = 256  // connections at once that have not logged in
	maxStrange   = 64   // of those, from one address
	maxSessions  = 64   // sessions of a connection
	maxStreams   = 512  // forwarded connections of a connection
	maxForwards  = 64   // listening sockets of a connection
	maxTries     = 6    // login attempts of a connection
	loginWithin  = time.Minute
	keepAlive    = 30 * time.Second // time between keepalive requests
	keepTries    = 3                // unanswered ones before the client counts as gone
)

// Server is a gateway.
type Server struct {
	cfg   Config
	guard *guard
	conns sync.WaitGroup

	mu   sync.Mutex
	open map[vm.AccountID]int // connections that have logged in
	all  int                  // all connections that have logged in
}

// New returns a gateway.
func New(cfg Config) *Server {
	return &Server{cfg: cfg, guard: newGuard(time.Now), open: map[vm.AccountID]int{}}
}

// Serve accepts clients until ctx ends. It returns when all have left.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	defer s.conns.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end()
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		var temporary interface{ Temporary() bool }
		switch {
		case err == nil:
			s.conns.Go(func() { s.serveConn(ctx, conn, nil) })
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &temporary) && temporary.Temporary(): // too many open files
			sleep(ctx, 50*time.Millisecond)
		default:
			return vm.Errorf(vm.Internal, l.Addr().String(), "the SSH gateway: %w", err)
		}
	}
}

// ServeActor serves one connection of an authenticated user to one VM. The user
// name that the client sends is the Linux user.
func (s *Server) ServeActor(ctx context.Context, conn net.Conn, from string, a vm.Actor, ref string) {
	s.serveConn(ctx, conn, &visitor{actor: a, ref: ref, how: "api", from: from})
}

// HostKey returns the public host key in the format of known_hosts: type and key.
func (s *Server) HostKey() string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(s.cfg.HostKey.PublicKey())))
}

// roomLocked returns an error of kind Limit if an account may not open another
// connection. s.mu is held.
func (s *Server) roomLocked(a vm.AccountID) error {
	switch {
	case s.open[a] >= maxOfAccount:
		return vm.Errorf(vm.Limit, string(a), "the account has %d SSH connections open", maxOfAccount).WithHint("close some of them first")
	case s.all >= maxConns:
		return vm.Errorf(vm.Limit, "", "the SSH gateway has %d connections open", maxConns).WithHint("try again later")
	}
	return nil
}

// room is roomLocked without the lock held.
func (s *Server) room(a vm.AccountID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.roomLocked(a)
}

// begin counts a connection that has logged in; see roomLocked for its error.
func (s *Server) begin(a vm.AccountID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.roomLocked(a); err != nil {
		return err
	}
	s.open[a]++
	s.all++
	return nil
}

func (s *Server) end(a vm.AccountID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.open[a]--; s.open[a] == 0 {
		delete(s.open, a)
	}
}

// serveConn serves a connection until its end.
func (s *Server) serveConn(ctx context.Context, raw net.Conn, known *visitor) {
	defer raw.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	conn, channels, requests, who, err := s.handshake(ctx, raw, known)
	if err != nil {
		s.cfg.Log.Debug("ssh: a connection ended without a login", "from", raw.RemoteAddr(), "err", err)
		return
	}
	defer shut(conn)
	if err := s.begin(who.actor.Account); err != nil {
		s.cfg.Log.Warn("ssh: a login was refused", "vm", who.ref, "err", err)
		return
	}
	defer s.end(who.actor.Account)
	if len(who.holders) > 0 {
		s.serveGit(ctx, conn, channels, requests, who)
		return
	}
	rec, left, err := s.cfg.Engine.Enter(ctx, who.call(), who.ref, map[string]any{
		"how": who.how, "user": who.linuxUser(), "from": who.from, "client": string(conn.ClientVersion()),
	})
	if err != nil {
		s.cfg.Log.Warn("ssh: a login was refused", "vm", who.ref, "err", err)
		return
	}
	who.ref = string(rec.ID)
	ctx, release := s.cfg.Engine.Session(ctx, who.call(), who.ref, who.linuxUser())
	defer release()
	c := &client{s: s, ctx: ctx, conn: conn, visitor: *who, forwards: map[string]engine.SocketListener{}}
	watching := make(chan struct{})
	go func() { // ends with the connection
		defer close(watching)
		c.watch()
	}()
	c.work.Go(func() { c.requests(requests) })
	for ch := range channels {
		c.channel(ch)
	}
	release()
	<-watching
	c.work.Wait()
	if why := c.why(); !errors.Is(why, context.Canceled) {
		err = why
	}
	left(err, nil)
}

// handshake establishes an SSH connection on a raw one, within a minute.
func (s *Server) handshake(ctx context.Context, raw net.Conn, known *visitor) (*ssh.ServerConn, <-chan ssh.NewChannel, <-chan *ssh.Request, *visitor, error) {
	ctx, cut := context.WithCancel(ctx) // a wrong secret's delay ends with the connection
	defer cut()
	if known == nil {
		leave, err := s.guard.enter(raw, func() {
			cut()
			_ = raw.Close()
		})
		if err != nil {
			return nil, nil, nil, nil, err
		}
		defer leave()
	}
	timer := time.AfterFunc(loginWithin, func() { _ = raw.Close() })
	defer timer.Stop()
	l := &login{s: s, ctx: ctx, raw: raw, known: known}
	conn, channels, requests, err := ssh.NewServerConn(raw, l.config())
	if err != nil {
		return nil, nil, nil, nil, err
	}
	who, ok := conn.Permissions.ExtraData[visitorKey{}].(*visitor)
	if !ok {
		_ = conn.Close()
		return nil, nil, nil, nil, vm.Errorf(vm.Internal, "", "a login without a visitor")
	}
	who.from = host(raw)
	if known != nil {
		who.from = known.from
	}
	return conn, channels, requests, who, nil
}

// client is a connection that has logged in.
type client struct {
	visitor

	s    *Server
	ctx  context.Context
	conn *ssh.ServerConn

	once sync.Once
	home vm.LinuxUser
	herr error

	work sync.WaitGroup

	mu sync.Mutex
	// guarded by mu
	sessions, streams int
	forwards          map[string]engine.SocketListener // nil = being made
	unnamed           int                              // forwards without a requested port so far
	names             map[string]resolved
	cut               error // why the gateway closed it
}

// user asks the guest once for the Linux user; this wakes a suspended VM.
func (c *client) user() (vm.LinuxUser, error) {
	c.once.Do(func() {
		c.home, c.herr = c.s.cfg.Engine.LinuxUser(c.ctx, c.call(), c.ref, c.name)
	})
	return c.home, c.herr
}

// channel answers a request for a channel.
func (c *client) channel(ch ssh.NewChannel) {
	serve := map[string]func(ssh.NewChannel){
		"session":                        c.session,
		"direct-tcpip":                   c.directTCP,
		"direct-streamlocal@openssh.com": c.directUnix,
	}[ch.ChannelType()]
	if serve == nil {
		_ = ch.Reject(ssh.UnknownChannelType, "Warren has no such channel")
		return
	}
	count, most := &c.streams, maxStreams
	if ch.ChannelType() == "session" {
		count, most = &c.sessions, maxSessions
	}
	c.mu.Lock()
	full := *count >= most
	if !full {
		*count++
	}
	c.mu.Unlock()
	if full {
		_ = ch.Reject(ssh.ResourceShortage, "this connection has too many channels")
		return
	}
	c.work.Go(func() {
		serve(ch)
		c.mu.Lock()
		*count--
		c.mu.Unlock()
	})
}

// requests answers requests about the connection as a whole.
func (c *client) requests(in <-chan *ssh.Request) {
	for r := range in {
		switch r.Type {
		case "tcpip-forward", "streamlocal-forward@openssh.com":
			spec, key, ok := forwardSpec(r)
			if ok {
				key, ok = c.reserve(spec, key)
			}
			if !ok {
				_ = r.Reply(false, nil)
				continue
			}
			c.work.Go(func() { c.forward(r, spec, key) })
		case "cancel-tcpip-forward", "cancel-streamlocal-forward@openssh.com":
			_ = r.Reply(c.unforward(r), nil)
		default:
			_ = r.Reply(false, nil) // any reply answers a keepalive
		}
	}
}

// watch closes the connection when its right ends or the client has left.
func (c *client) watch() {
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	answers, missing := make(chan struct{}, keepTries), 0
	for {
		select {
		case <-c.ctx.Done():
			c.end(context.Cause(c.ctx))
			return
		case <-answers:
			missing = 0
		case <-alive.C:
			if missing >= keepTries {
				c.end(vm.Errorf(vm.Cancelled, c.ref, "the client no longer answers"))
				return
			}
			missing++
			go func() { // ends with the connection
				if _, _, err := c.conn.SendRequest("keepalive@openssh.com", true, nil); err == nil {
					answers <- struct{}{}
				}
			}()
		}
	}
}

// end closes the connection.
func (c *client) end(why error) {
	c.mu.Lock()
	if c.cut == nil {
		c.cut = why
	}
	for _, l := range c.forwards {
		if l != nil {
			_ = l.Close()
		}
	}
	c.mu.Unlock()
	_ = c.conn.Close()
}

func (c *client) why() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut
}

// relay copies both ways between a channel and a connection until both directions have
// ended or the channel is closed. It passes on the end of each direction, and closes both.
func relay(ch ssh.Channel, requests <-chan *ssh.Request, conn net.Conn) {
	var wg sync.WaitGroup
	defer wg.Wait()
	defer shut(ch)
	defer shut(conn)
	wg.Go(func() {
		ssh.DiscardRequests(requests) // until the channel is closed
		_ = conn.Close()
	})
	sent := make(chan struct{})
	wg.Go(func() {
		defer close(sent)
		if _, err := copyStream(conn, ch); err != nil {
			_ = conn.Close()
			return
		}
		if c, ok := conn.(interface{ CloseWrite() error }); ok {
			_ = c.CloseWrite() // an error says that the peer has left
		}
	})
	if _, err := copyStream(ch, conn); err != nil {
		_ = ch.Close()
	}
	_ = ch.CloseWrite() // an error says that the client has left
	<-sent
}

// shut closes c and ignores the error.
func shut(c io.Closer) { _ = c.Close() }

func copyStream(to io.Writer, from io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, 32<<10))
}

// host returns the remote address of a connection.
func host(conn net.Conn) string {
	if a, ok := conn.RemoteAddr().(*net.TCPAddr); ok {
		return a.IP.String()
	}
	return "local"
}
