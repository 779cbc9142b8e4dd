// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package usernet is the network of one VM: an Ethernet segment that exists only
// inside the monitor. On one side it speaks QEMU's stream netdev, on the other it
// uses ordinary sockets of an unprivileged process: DHCP, a name server, connections
// out under the egress policy, and connections into the guest. It listens on nothing
// on the host, and no two VMs share anything, so every guest always has the same
// addresses.
//
// Package egress decides what is allowed. This package asks it before each lookup
// and each dial, dials the address that was judged, and records each connection.
// Where a policy names hosts it also reads the server name of each TLS greeting and
// the Host of each HTTP request. It follows no redirects for the guest: a registry
// that redirects to another host works only if the policy names that host, too.
//
// It holds no VM state; the monitor owns a Net and may call all of it.
package usernet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/vm"
)

// The addresses of every VM's network.
var (
	Gateway    = netip.MustParseAddr("10.0.2.2")
	NameServer = netip.MustParseAddr("10.0.2.3")
	Guest      = netip.MustParseAddr("10.0.2.15")
	Services   = netip.MustParseAddr("10.0.2.4") // what Config.Inside answers
)

// Bounds of one VM.
const (
	maxFlows    = 512              // connections at once, all protocols
	maxUDPFlows = 128              // of them, UDP
	dialTimeout = 10 * time.Second // per address
	mtu         = 1500
)

// Resolver looks names up on the host. A *net.Resolver is one.
type Resolver interface {
	// LookupNetIP returns the addresses of a host; network is "ip4". The name
	// is absolute and has no final dot.
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Inside answers for names that exist only inside the VM's network. The policy does not
// apply to them.
type Inside interface {
	// Has reports whether it answers for a host name in lower case.
	Has(name string) bool
	// Serve takes over a connection to a port (80 or 443) and closes it at its end.
	Serve(c net.Conn, port uint16)
}

// Config is what a Net needs. Only Policy must be set.
type Config struct {
	Policy vm.NetworkPolicy
	Inside Inside // nil = no name below vm.InsideDomain exists
	// Resolver defaults to the host's own.
	Resolver Resolver
	// Dial opens a connection to an address that the policy allows; network is
	// tcp or udp, address an IP and a port, never a name.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// HostAddresses defaults to egress.HostAddresses.
	HostAddresses func() ([]netip.Addr, error)
	// Intercept ends the TLS of hosts whose requests must be read; nil = connections to
	// hosts with a rule about requests are refused, and secrets are not put in.
	Intercept Interceptor
	// Scan returns why a plain HTTP request must not leave under a policy; "" = it may.
	// It may replace the request's body by one that fails. nil = all may.
	Scan func(p vm.NetworkPolicy, r *http.Request) string
	// ScanBytes is Scan for what the guest sends without TLS. window holds the new bytes
	// and before them up to 255 that came earlier. It is called while a policy has secrets.
	ScanBytes func(p vm.NetworkPolicy, window []byte) string
	// OnConnection gets each connection when it has ended or was refused, one
	// at a time. It must not block and must not call back into the Net.
	OnConnection func(vm.Connection)
	// Full says why no new connection may be made: its record could not be kept; "" = it
	// may. nil = it always may.
	Full func() string
	Log  *slog.Logger
}

// Net is the network of one VM. Its methods may be called at any time from any
// goroutine.
type Net struct {
	cfg     Config
	log     *slog.Logger
	ctx     context.Context // ends at Close
	cancel  context.CancelFunc
	link    *link
	stack   *stack.Stack
	names   *directory
	lookups lookups
	rec     *recorder
	web     *web
	host    hostAddresses

	mu     sync.Mutex // guards the fields below
	flows  map[*flow]struct{}
	udp    int // UDP flows among them
	closed bool
	timer  *time.Timer // when the next rule ends

	current atomic.Pointer[inForce]
	meters  meters

	switching sync.Mutex // held by SetPolicy, so that policies come into force in order

	wg sync.WaitGroup // services and flows; Add under mu while not closed
}

// New returns a Net without a connected guest. It lives until Close, not until a
// context ends.
func New(cfg Config) (*Net, error) {
	if cfg.Resolver == nil {
		cfg.Resolver = hostResolver{net.DefaultResolver}
	}
	if cfg.Dial == nil {
		cfg.Dial = (&net.Dialer{Timeout: dialTimeout}).DialContext
	}
	if cfg.HostAddresses == nil {
		cfg.HostAddresses = egress.HostAddresses
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background()) //nolint:forbidigo // the Net lives from New to Close, whatever its maker waits for
	n := &Net{
		cfg: cfg, log: cfg.Log, ctx: ctx, cancel: cancel,
		flows: make(map[*flow]struct{}),
		names: newDirectory(cfg.Resolver), lookups: newLookups(),
		rec:  newRecorder(cfg.OnConnection),
		host: hostAddresses{read: cfg.HostAddresses},
	}
	n.current.Store(&inForce{policy: cfg.Policy, digest: cfg.Policy.Digest()})
	n.web = newWeb(n)
	if err := n.build(); err != nil {
		cancel()
		return nil, err
	}
	n.mu.Lock()
	n.schedule(cfg.Policy)
	n.mu.Unlock()
	return n, nil
}

// inForce is a policy and its digest.
type inForce struct {
	policy vm.NetworkPolicy
	digest string
}

// Serve carries frames between the guest and the network until c ends, and
// closes c. It may be called again with another connection, as after a
// re-attach; the newest one counts. It returns nil when ctx or the Net ended it.
func (n *Net) Serve(ctx context.Context, c net.Conn) error {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return errors.Join(net.ErrClosed, c.Close())
	}
	n.wg.Add(1)
	n.mu.Unlock()
	defer n.wg.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	unhook := context.AfterFunc(n.ctx, cancel)
	defer unhook()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	err := n.link.run(c)
	ended := !stop()
	closeErr := c.Close()
	if ended {
		return nil
	}
	return errors.Join(err, ignoreClosed(closeErr))
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Policy returns the policy in force.
func (n *Net) Policy() vm.NetworkPolicy { return n.current.Load().policy }

// digest names the policy in force.
func (n *Net) digest() string { return n.current.Load().digest }

// SetPolicy applies p at once. Connections that it does not allow are cut.
func (n *Net) SetPolicy(p vm.NetworkPolicy) {
	n.switching.Lock()
	defer n.switching.Unlock()
	n.current.Store(&inForce{policy: p, digest: p.Digest()})
	n.meters.keep(p)
	n.rejudge("cut when the policy changed: ")
	n.mu.Lock()
	defer n.mu.Unlock()
	n.schedule(p)
}

// rejudge cuts the connections that the policy in force does not allow. A connection that
// names no host is judged again when the denied names have been looked up.
func (n *Net) rejudge(why string) {
	n.mu.Lock()
	flows := make([]*flow, 0, len(n.flows))
	for f := range n.flows {
		flows = append(flows, f)
	}
	n.mu.Unlock()
	mute := n.cut(flows, why)
	names := n.names.unknown(egress.Denied(n.Policy()))
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(mute) == 0 || len(names) == 0 || n.closed {
		return
	}
	n.wg.Go(func() {
		n.resolveAll(names)
		n.cut(mute, why)
	})
}

// cut cuts those of the flows that the policy in force does not allow. It returns those of
// the others that name no host.
func (n *Net) cut(flows []*flow, why string) (mute []*flow) {
	p, host := n.Policy(), n.host.get()
	for _, f := range flows {
		if v := f.rejudge(p, host); !v.Allow {
			f.stop(why + v.Record())
			continue
		}
		f.mu.Lock()
		if f.mute {
			mute = append(mute, f)
		}
		f.mu.Unlock()
	}
	return mute
}

// schedule judges the connections again when the next rule of p ends. n.mu is held.
func (n *Net) schedule(p vm.NetworkPolicy) {
	if n.timer != nil {
		n.timer.Stop()
	}
	end := egress.NextEnd(p, time.Now())
	if end.IsZero() || n.closed {
		return
	}
	n.timer = time.AfterFunc(time.Until(end), func() {
		n.mu.Lock()
		if n.closed {
			n.mu.Unlock()
			return
		}
		n.wg.Add(1)
		n.mu.Unlock()
		defer n.wg.Done()
		n.switching.Lock()
		defer n.switching.Unlock()
		n.rejudge("cut when a rule ended: ")
		n.mu.Lock()
		defer n.mu.Unlock()
		n.schedule(n.Policy())
	})
}

// Live returns the open connections, with their bytes so far.
func (n *Net) Live() []vm.Connection {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make([]vm.Connection, 0, len(n.flows))
	for f := range n.flows {
		out = append(out, f.connection())
	}
	return out
}

// Counters returns the bytes that came from the guest (rx) and went to it (tx)
// in Ethernet frames.
func (n *Net) Counters() (rx, tx int64) { return n.link.rx.Load(), n.link.tx.Load() }

// Dial opens a TCP connection to a port of the guest, which sees the gateway's
// address. The policy does not apply. Without a deadline in ctx it gives up after
// ten seconds. Errors: Unavailable when nothing listens there or no guest is
// connected, Timeout, Cancelled.
func (n *Net) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	subject := fmt.Sprintf("port %d", port)
	if !n.link.connected() {
		return nil, vm.Errorf(vm.Unavailable, subject, "the VM's network is not connected")
	}
	dctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	defer context.AfterFunc(n.ctx, cancel)()
	c, err := gonet.DialTCPWithBind(dctx, n.stack,
		tcpip.FullAddress{NIC: nic, Addr: tcpip.AddrFrom4(Gateway.As4())},
		tcpip.FullAddress{NIC: nic, Addr: tcpip.AddrFrom4(Guest.As4()), Port: port}, ipv4.ProtocolNumber)
	switch {
	case err == nil:
		return c, nil
	case ctx.Err() != nil:
		return nil, vm.Errorf(vm.KindOf(ctx.Err()), subject, "gave up dialling the guest: %w", ctx.Err())
	case errors.Is(err, context.DeadlineExceeded):
		return nil, vm.Errorf(vm.Timeout, subject, "the guest did not answer within %s", dialTimeout)
	default:
		return nil, vm.Errorf(vm.Unavailable, subject, "the guest refused the connection: %w", err)
	}
}

// Close cuts every connection and waits until all goroutines of the Net have ended.
func (n *Net) Close() error {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		n.wg.Wait()
		return nil
	}
	n.closed = true
	if n.timer != nil {
		n.timer.Stop()
	}
	flows := make([]*flow, 0, len(n.flows))
	for f := range n.flows {
		flows = append(flows, f)
	}
	n.mu.Unlock()
	n.cancel()
	for _, f := range flows {
		f.stop("the network was shut down")
	}
	err := n.web.shutDown()
	n.stack.Close() // ends handshakes that wait for the guest
	n.link.detach()
	n.wg.Wait()
	n.stack.Wait()
	return err
}

// start runs a service until Close; close is called to end it.
func (n *Net) start(service func(), stop func()) {
	n.wg.Add(1)
	context.AfterFunc(n.ctx, stop)
	go func() {
		defer n.wg.Done()
		service()
	}()
}

// hostAddresses remembers the host's addresses for two seconds.
type hostAddresses struct {
	read func() ([]netip.Addr, error)

	mu    sync.Mutex
	last  time.Time
	addrs []netip.Addr
}

func (h *hostAddresses) get() []netip.Addr {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.last) < 2*time.Second {
		return h.addrs
	}
	if addrs, err := h.read(); err == nil {
		h.addrs, h.last = addrs, time.Now()
	}
	return h.addrs
}
