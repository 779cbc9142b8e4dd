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

// A silent link is asked for a sign of life when a stream is opened on it:
// the death of an agent cannot be seen on the host's side of the port.
const (
	trustFor = 2 * time.Second // an answer is proof for so long
	pingWait = 5 * time.Second
)

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
	refused int            // handshakes in a row that the agent refused
	retry   chan struct{}  // holds one word: somebody listens again
	ahead   net.Conn       // was dialled before QEMU loaded; nil = there is none, or it is in use
	waking  *link.Waking   // of the first session; nil = of none
	tried   bool           // the waking was sent
	wanted  chan struct{}  // holds one word: somebody waits for a session

	wg sync.WaitGroup // pings
}

const (
	// wakePatience is how long a guest may take to answer to its waking before it is
	// asked for a session: an agent of an older Warren answers to that alone.
	wakePatience = 500 * time.Millisecond
	// linkLater is when a guest that was woken gets a session that nobody has asked
	// for: its first one is 20 ms of emulated code, which siblings do without.
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
			l.rest(ctx)
			continue
		}
		began := time.Now()
		select {
		case <-session.CloseChan():
			if time.Since(began) < shortLife {
				l.rest(ctx)
			}
		case <-ctx.Done():
		}
	}
}

// refusals is how often an agent must refuse before it is believed: a guest that
// starts its agent again may have answered for the one before.
const refusals = 3

// note keeps count of refusals, for whoever waits.
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

// shortLife is the life of a session after which the next one waits: no agent ends
// one so soon again and again.
const shortLife = 100 * time.Millisecond

// rest waits before the next try.
func (l *agentLink) rest(ctx context.Context) {
	t := time.NewTimer(100 * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.retry:
	case <-ctx.Done():
	}
}

// again has run try at once: a new QEMU listens.
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
// wake is what that guest is to do before it; nil = nothing.
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

// connect makes a session, and has the guest do before what it was not woken for yet.
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
	close(l.changed)
	l.changed = make(chan struct{})
	return session, nil
}

// whenWanted waits, with a guest that is awake, until somebody wants a session.
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

// want has the link made now.
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

// holds returns the key of the next handshake: the one copy that counts of what
// the agent holds.
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
		_ = session.Close() // it has no more to say
	}
	if ahead != nil {
		ahead.Close()
	}
}

// open opens a stream to the agent, waiting for a session. Without a deadline
// in ctx it gives up after linkDeadline. Kind GuestFault when the agent does
// not answer.
func (l *agentLink) open(ctx context.Context) (net.Conn, error) {
	octx, cancel := within(ctx, linkDeadline)
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

// lost ends that session, if it is still the current one.
func (l *agentLink) lost(session *yamux.Session) {
	_ = session.Close() // it has failed already
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session == session {
		l.session = nil
	}
}

// probe asks a session that has been silent for a sign of life, and ends it
// when there is none, so that the handshake finds a new agent.
func (l *agentLink) probe(session *yamux.Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.paused || time.Since(l.heard) < trustFor {
		return
	}
	l.heard = time.Now() // one probe at a time
	l.wg.Go(func() {
		answer := make(chan error, 1)
		l.wg.Go(func() { // ends with the session at the latest
			_, err := session.Ping()
			answer <- err
		})
		t := time.NewTimer(pingWait)
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
