// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/vm"
)

// trustFor is how long an answer proves that the agent lives. A stream that is opened later
// asks the agent for a sign of life: this side of the port does not see an agent die.
const trustFor = 2 * time.Second

// agentLink keeps one session with the guest's agent, and makes a new one when
// it is lost.
type agentLink struct {
	subject string // the VM's id, for errors
	path    string // QEMU's socket
	log     *slog.Logger

	mu      sync.Mutex // guards the fields below
	key     []byte
	others  [][]byte       // tried beside key until setKey
	paused  bool           // the guest is paused: silence is no fault
	session *yamux.Session // nil while there is none
	heard   time.Time      // last sign of life
	changed chan struct{}  // closed and replaced when session is set
	refused int            // consecutive handshakes that the agent refused
	retry   chan struct{}  // capacity one: the port has a listener again
	ahead   net.Conn       // connected before QEMU loaded; nil when there is none or it is in use
	waking  *link.Waking   // for the first session; nil when the guest is not woken
	tried   bool           // the wake message was sent
	slow    time.Duration  // how long the guest's last answer to a handshake took
	wanted  chan struct{}  // capacity one: a caller waits for a session

	wg sync.WaitGroup // pings
}

const (
	// wakePatience is how long a guest may take to answer the wake message before it
	// is asked for a session: an agent of an older Warren answers only the latter.
	wakePatience = 500 * time.Millisecond
	// linkLater is when a woken guest gets a session that no caller asked for. The
	// first session costs 20 ms of emulated code, which its siblings need at that
	// time.
	linkLater = time.Second
)

func newAgentLink(subject, path string, key []byte, others [][]byte, log *slog.Logger) *agentLink {
	return &agentLink{subject: subject, path: path, key: key, others: others, log: log, changed: make(chan struct{}), retry: make(chan struct{}, 1), wanted: make(chan struct{}, 1)}
}

// run keeps the link up until ctx ends, and then takes it down.
func (l *agentLink) run(ctx context.Context) {
	defer l.wg.Wait()
	defer l.drop()
	for ctx.Err() == nil {
		session, err := l.connect(ctx)
		if err != nil {
			if ctx.Err() == nil {
				l.log.Warn("agent link", "err", err)
			}
			l.note(err)
			l.backOff(ctx)
			continue
		}
		began := time.Now()
		select {
		case <-session.CloseChan():
			if time.Since(began) < shortLife {
				l.backOff(ctx)
			}
		case <-ctx.Done():
		}
	}
}

// refusals is how many consecutive refusals count: when a guest restarts its agent,
// the old one may have answered the first ones.
const refusals = 3

// note counts consecutive refusals, for callers that wait.
func (l *agentLink) note(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !errors.Is(err, link.ErrRefused) {
		l.refused = 0
		return
	}
	if l.refused++; l.refused >= refusals {
		close(l.changed)
		l.changed = make(chan struct{})
	}
}

// shortLife: after a session that lived no longer than this, the next handshake
// waits. An agent that works does not end sessions so soon.
const shortLife = 100 * time.Millisecond

// backOff waits before the next handshake.
func (l *agentLink) backOff(ctx context.Context) {
	t := time.NewTimer(100 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.retry:
	case <-ctx.Done():
	}
}

// again makes run retry at once: a new QEMU listens.
func (l *agentLink) again() {
	select {
	case l.retry <- struct{}{}:
	default:
	}
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// dialAhead connects to QEMU before it loads its generation, for the first session.
// The guest does what wake says before that session; nil means nothing.
func (l *agentLink) dialAhead(ctx context.Context, wake *link.Waking) error {
	conn, err := dialUnix(ctx, l.path)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ahead, l.waking = conn, wake
	return nil
}

// dial returns a connection on which the port works: the one that was made before
// QEMU loaded, or one that was closed and made again. See qemu.AwaitRunning.
func (l *agentLink) dial(ctx context.Context) (net.Conn, error) {
	l.mu.Lock()
	conn := l.ahead
	l.ahead = nil
	l.mu.Unlock()
	if conn != nil {
		return conn, nil
	}
	conn, err := dialUnix(ctx, l.path)
	if err != nil {
		return nil, err
	}
	conn.Close()
	return dialUnix(ctx, l.path)
}

// learn notes how long the guest took to answer a handshake or to wake.
func (l *agentLink) learn(took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slow = took
}

// patience is how long the agent may take to answer. It grows with a slow guest, such as
// one that is emulated inside an emulated machine.
// The caller holds mu.
func (l *agentLink) patience() time.Duration {
	return min(max(linkDeadline, 4*l.slow), linkLongest)
}

// connect makes a session. A guest that was not woken yet is reset first.
func (l *agentLink) connect(ctx context.Context) (*yamux.Session, error) {
	conn, err := l.dial(ctx)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	key, others, wake, first := l.key, l.others, l.waking, !l.tried
	l.tried = true
	l.mu.Unlock()
	if wake != nil && first {
		if err = link.Wake(ctx, conn, wake, wakePatience, key, others...); err == nil {
			l.whenWanted(ctx, wake)
		}
	}
	var session *yamux.Session
	began := time.Now()
	if err == nil {
		session, err = link.Host(ctx, conn, wake, key, others...)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.session, l.heard, l.refused, l.waking = session, time.Now(), 0, nil
	if !first { // the first one may have waited for the guest to boot
		l.slow = time.Since(began)
	}
	close(l.changed)
	l.changed = make(chan struct{})
	return session, nil
}

// whenWanted waits, for a guest that is awake, until a caller wants a session.
func (l *agentLink) whenWanted(ctx context.Context, wake *link.Waking) {
	if wake.Answer() == nil {
		return
	}
	t := time.NewTimer(linkLater)
	defer t.Stop()
	select {
	case <-l.wanted:
	case <-t.C:
	case <-ctx.Done():
	}
}

// want asks run for a session now.
func (l *agentLink) want() {
	select {
	case l.wanted <- struct{}{}:
	default:
	}
}

// setKey sets the key of the next handshake.
func (l *agentLink) setKey(key []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.key, l.others, l.refused = key, nil, 0
}

// holds returns the key of the next handshake, which is the key that the agent
// holds. This is its only current copy.
func (l *agentLink) holds() []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.key
}

// setPaused says whether the guest is paused.
func (l *agentLink) setPaused(paused bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paused, l.heard = paused, time.Now()
}

// drop ends the session; run makes a new one.
func (l *agentLink) drop() {
	l.mu.Lock()
	session, ahead := l.session, l.ahead
	l.session, l.ahead = nil, nil
	l.mu.Unlock()
	if session != nil {
		_ = session.Close() // its last message was read
	}
	if ahead != nil {
		ahead.Close()
	}
}

// open opens a stream to the agent and waits for a session. Without a deadline in
// ctx it gives up after patience. Kind GuestFault when the agent does not
// answer.
func (l *agentLink) open(ctx context.Context) (net.Conn, error) {
	l.mu.Lock()
	limit := l.patience()
	l.mu.Unlock()
	octx, cancel := within(ctx, limit)
	defer cancel()
	for {
		session, err := l.wait(octx)
		if err != nil {
			if ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled) {
				return nil, ctx.Err()
			}
			return nil, vm.Errorf(vm.GuestFault, l.subject, "the agent in the guest does not answer: %w", err).
				WithHint("look at its console (`warren logs NAME`), or stop and start the VM")
		}
		stream, err := session.OpenStream()
		if err == nil {
			l.probe(session)
			return stream, nil
		}
		l.lost(session)
	}
}

// wait returns a live session; link.ErrRefused when the agent holds another key.
func (l *agentLink) wait(ctx context.Context) (*yamux.Session, error) {
	l.want()
	return l.waitOr(ctx, nil)
}

// waitOr is wait, without asking for a session, and returns nil when done is closed
// before there is one.
func (l *agentLink) waitOr(ctx context.Context, done <-chan struct{}) (*yamux.Session, error) {
	for {
		l.mu.Lock()
		session, changed, refused := l.session, l.changed, l.refused
		l.mu.Unlock()
		if session != nil && !session.IsClosed() {
			return session, nil
		}
		if refused >= refusals {
			return nil, link.ErrRefused
		}
		select {
		case <-done:
			return nil, nil
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// lost ends a session, if it is still the current one.
func (l *agentLink) lost(session *yamux.Session) {
	_ = session.Close() // it has failed already
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session == session {
		l.session = nil
	}
}

// probe asks a silent session for a sign of life. Without one it ends the session,
// so that the next handshake finds a new agent.
func (l *agentLink) probe(session *yamux.Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.paused || time.Since(l.heard) < trustFor {
		return
	}
	l.heard = time.Now() // one probe at a time
	wait := l.patience() / 2
	l.wg.Go(func() {
		answer := make(chan error, 1)
		l.wg.Go(func() { // ends with the session at the latest
			_, err := session.Ping()
			answer <- err
		})
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case err := <-answer:
			if err != nil {
				return // the session has ended by itself
			}
			l.mu.Lock()
			l.heard = time.Now()
			l.mu.Unlock()
		case <-t.C:
			l.mu.Lock()
			paused := l.paused
			l.mu.Unlock()
			if !paused {
				l.log.Warn("agent link: no sign of life; starting over")
				l.lost(session)
			}
		case <-session.CloseChan():
		}
	})
}
