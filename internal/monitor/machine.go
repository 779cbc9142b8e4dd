// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/warren-vm/warren/internal/confine"
	"github.com/warren-vm/warren/internal/guest"
	"github.com/warren-vm/warren/internal/intercept"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/internal/proxy"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/internal/usernet"
	"github.com/warren-vm/warren/vm"
)

// machine is one running VM as its monitor sees it.
type machine struct {
	spec  vm.MachineSpec
	log   *slog.Logger
	begun time.Time
	conns ring
	// reading reads requests to hosts with a secret or with a rule about requests, with the
	// VM's own CA.
	reading   *intercept.Interceptor
	authority func() (*intercept.Authority, error)
	server    func() *http.Client // reaches the server as the monitor itself
	// report records the connections. It ends after the network, so that its last ones are
	// recorded.
	report    *reporter
	reporting context.Context
	endReport context.CancelFunc
	reported  chan struct{}
	net       *usernet.Net
	names     *proxy.Proxy // answers for the names inside the VM's network
	link      *agentLink
	guest     *guest.Client

	lifetime context.Context // ends with end
	end      context.CancelFunc
	wg       sync.WaitGroup // everything that serves the machine

	proc    atomic.Pointer[qemu.Process] // set before started is closed; reseat replaces it
	moving  sync.Mutex                   // held by reseat: QEMU's end is then not the machine's
	started chan struct{}                // closed when the machine is ready
	gone    chan struct{}                // closed when QEMU is gone; exit is set first
	exit    vm.MachineExit

	consoled <-chan struct{} // closed when the console's log is complete for this QEMU

	folders   folders
	spare     spare
	capturing sync.Mutex  // one capture at a time; guards held
	held      bool        // the guest's programs are frozen after a capture with Hold
	full      atomic.Bool // the host's disk had no room when the machine was last resumed

	mu      sync.Mutex // guards the fields below
	hello   vm.AgentHello
	resets  vm.ResetReport
	timings map[string]time.Duration
	intent  string // why the monitor ends it: "stop", "kill"; "" if it does not
}

func newMachine(ctx context.Context, spec vm.MachineSpec, log *slog.Logger) (*machine, error) {
	m := &machine{
		spec: spec, log: log, begun: time.Now(),
		started: make(chan struct{}), gone: make(chan struct{}),
		timings: make(map[string]time.Duration), folders: folders{change: make(chan struct{}, 1)},
	}
	m.names = proxy.New(proxy.Config{Certificate: m.serverRun().InsideCert(), Log: log, Names: map[string]http.Handler{
		vm.GitHost:    proxy.Upstream(m.serverRun().Inside(), spec.ID, log),
		vm.S3Host:     proxy.Upstream(m.serverRun().Inside(), spec.ID, log),
		vm.PolicyHost: proxy.Upstream(m.serverRun().Inside(), spec.ID, log),
	}})
	reading := m.newInterceptor(ctx)
	m.report = newReporter(proxy.Client(m.serverRun().Inside(), spec.ID), layout.VMDir(spec.Dir).Connections(), log)
	n, err := usernet.New(usernet.Config{Policy: spec.Network, Inside: m.names, Intercept: reading, Scan: reading.Scan, ScanBytes: reading.ScanBytes, OnConnection: m.ended, Full: m.report.full, Log: log})
	if err != nil {
		return nil, vm.Errorf(vm.Internal, string(spec.ID), "network: %w", err)
	}
	m.net = n
	m.reading = reading
	m.link = newAgentLink(string(spec.ID), layout.RunVM(spec.RunDir).Agent(), spec.GuestKey, spec.OtherKeys, log)
	m.guest = guest.New(m.link.open)
	m.lifetime, m.end = context.WithCancel(context.WithoutCancel(ctx))
	m.reporting, m.endReport = context.WithCancel(context.WithoutCancel(ctx))
	m.reported = make(chan struct{})
	go func() { // ends with close
		defer close(m.reported)
		m.report.run(m.reporting)
	}()
	return m, nil
}

// ended takes a connection of the guest that has ended or was refused.
func (m *machine) ended(c vm.Connection) {
	m.conns.add(c)
	m.report.add(c)
}

// serverRun is the run directory of the server that the machine belongs to.
func (m *machine) serverRun() layout.RunDir { return layout.RunDir(filepath.Dir(m.spec.RunDir)) }

// qemu returns the machine's process; nil before its start.
func (m *machine) qemu() *qemu.Process { return m.proc.Load() }

// mark records when a step of the start was done.
func (m *machine) mark(step string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.timings[step] = time.Since(m.begun)
}

// start starts QEMU, reaches the agent, resets the guest and connects the network.
// On an error the caller calls destroy.
func (m *machine) start(ctx context.Context) error {
	d := m.spec.Deadline
	if d <= 0 {
		d = startDeadline
	}
	ctx, cancel := m.patient(ctx, d)
	defer cancel()
	if err := m.spawn(ctx); err != nil {
		return explained(ctx, err)
	}
	// From here on the end of QEMU ends the start.
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	stop := make(chan struct{})
	defer close(stop)
	m.wg.Go(func() {
		select {
		case <-m.qemu().Exited():
			abort(errGone)
		case <-stop:
		}
	})
	err := m.wake(ctx)
	if err == nil && m.spec.Spare {
		m.makeSpare()
	}
	if err != nil && m.endsNow() {
		return m.endedEarly(ctx)
	}
	return explained(ctx, err)
}

// endsNow reports whether QEMU has ended or is about to: effects of its end, such
// as a lost agent link, may show first.
func (m *machine) endsNow() bool {
	t := time.NewTimer(300 * time.Millisecond)
	defer t.Stop()
	select {
	case <-m.qemu().Exited():
		return true
	case <-t.C:
		return false
	}
}

var errGone = errors.New("qemu has ended")

// endedEarly explains a QEMU that ended before its machine was ready.
func (m *machine) endedEarly(ctx context.Context) error {
	<-m.qemu().Exited()
	exit := m.qemu().Reason(context.WithoutCancel(ctx))
	switch exit.Reason {
	case "guest-poweroff", "guest-reboot", "guest-panic":
		if line := m.panicked(); line != "" {
			return vm.Errorf(vm.GuestFault, string(m.spec.ID), "the guest's kernel panicked while it was started: %s", line).
				WithHint("look at its console: `warren logs NAME`")
		}
		return vm.Errorf(vm.GuestFault, string(m.spec.ID), "the guest ended while it was started (%s)", exit.Reason).
			WithHint("look at its console (`warren logs NAME`)")
	}
	return vm.Errorf(vm.Internal, string(m.spec.ID), "qemu ended while the guest was started: %s", exit.Detail).
		WithHint("`warren doctor` checks this host")
}

func (m *machine) spawn(ctx context.Context) error {
	proc, err := qemu.Spawn(ctx, m.spec)
	for _, key := range m.spec.VolumeKeys { // QEMU has them
		clear(key)
	}
	if err != nil {
		return err
	}
	m.proc.Store(proc)
	proc.DropSpare() // of a machine before it
	m.mark("qemu")
	m.console()
	m.watchDisk()
	if err := m.link.dialAhead(ctx, m.waking()); err != nil {
		return vm.Errorf(vm.Internal, string(m.spec.ID), "agent: %w", err)
	}
	return proc.AwaitRunning(ctx)
}

// waking returns what the guest does before anything else. A guest that boots, and
// one that needs its folders before its programs continue, is reset over the link
// instead.
func (m *machine) waking() *link.Waking {
	if m.spec.Generation == nil || len(m.spec.Folders) > 0 || len(m.spec.LostFolders) > 0 {
		return nil
	}
	return link.NewWaking(func() []byte { return link.EncodeReset(m.fresh()) })
}

// console writes the serial console's log while the machine runs.
func (m *machine) console() {
	done := make(chan struct{})
	m.consoled = done
	m.wg.Go(func() {
		defer close(done)
		err := copyConsole(m.lifetime, layout.RunVM(m.spec.RunDir).Console(), layout.VMDir(m.spec.Dir).ConsoleLog())
		if err != nil && m.lifetime.Err() == nil {
			m.log.Warn("console", "err", err)
		}
	})
}

// wake finds the agent, gives the guest its own identity, and connects its network.
func (m *machine) wake(ctx context.Context) error {
	m.mark("running")
	waking := m.link.waking // no other caller uses the link yet
	m.wg.Go(func() { m.link.run(m.lifetime) })
	if err := m.greet(ctx, waking); err != nil {
		return err
	}
	if want := m.spec.AgentDigest; want != "" && m.agent().Digest != want {
		if err := m.upgrade(ctx); err != nil {
			return err
		}
		m.mountFolders(ctx) // which the previous agent could not
	}
	m.mark("reset")
	m.fillDisk(ctx)
	if err := m.connectNetwork(ctx); err != nil {
		return err
	}
	m.mark("ready")
	m.setClockAgain()
	close(m.started)
	m.wg.Go(func() { m.keepMounting(m.lifetime) })
	return nil
}

// greet finds the agent and gives the guest its own identity, with the wake message
// or over a session.
func (m *machine) greet(ctx context.Context, w *link.Waking) error {
	if w != nil {
		began := time.Now()
		if _, err := m.link.waitOr(ctx, w.Done()); err != nil {
			return m.silent(err)
		}
		m.link.learn(time.Since(began))
		if b := w.Answer(); b != nil {
			hello, report, err := guest.ReadWake(b)
			return m.accept(m.spec.Reset, hello, report, err)
		}
	}
	if _, err := m.link.wait(ctx); err != nil {
		return m.silent(err)
	}
	m.mark("linked")
	if m.spec.Generation == nil && m.spec.WaitBooted {
		if err := m.awaitBooted(ctx); err != nil {
			return err
		}
	}
	m.mountFolders(ctx) // before programs resume
	return m.reset(ctx, m.guest.Wake)
}

const (
	clockTries = 5
	clockExact = 10 * time.Millisecond
	clockPause = 100 * time.Millisecond
)

// setClockAgain starts setClock, after a message that has set the clock and resumed the programs.
func (m *machine) setClockAgain() {
	m.wg.Go(func() { m.setClock(m.lifetime) })
}

// setClock corrects the guest's clock for the time that the reset or thaw took to arrive:
// up to some tenths of a second for untranslated code on a busy host. It ends when
// a request was quick enough to be exact.
func (m *machine) setClock(ctx context.Context) {
	for range clockTries {
		sent := time.Now()
		if err := m.guest.SetClock(ctx); err != nil || time.Since(sent) < clockExact {
			return
		}
		pause(ctx, clockPause)
	}
}

func (m *machine) silent(err error) error {
	if errors.Is(err, link.ErrRefused) {
		return vm.Errorf(vm.GuestFault, string(m.spec.ID), "the agent in the guest refuses this server's key: it holds another one").
			WithHint("a suspended VM can be booted on its disk, and keeps its memory: `warren start NAME --disk-only`")
	}
	return vm.Errorf(vm.GuestFault, string(m.spec.ID), "the agent in the guest did not answer: %w", err).
		WithHint("look at its console (`warren logs NAME`)")
}

func (m *machine) agent() vm.AgentHello {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hello
}

// awaitBooted waits until init has reached its target.
func (m *machine) awaitBooted(ctx context.Context) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		hello, err := m.guest.Hello(ctx)
		if err == nil && hello.Booted {
			m.mark("booted")
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return vm.Errorf(vm.GuestFault, string(m.spec.ID), "the guest did not finish booting: %w", errors.Join(err, ctx.Err())).
				WithHint("look at its console (`warren logs NAME`)")
		}
	}
}

type resetFunc func(context.Context, vm.Reset) (vm.AgentHello, vm.ResetReport, error)

// fresh is the machine's reset with the current time and new entropy.
func (m *machine) fresh() vm.Reset {
	m.mu.Lock()
	r := m.spec.Reset
	m.mu.Unlock()
	r.Entropy = make([]byte, 64)
	_, _ = rand.Read(r.Entropy) // never fails
	m.fill(&r)
	r.Time = time.Now()
	return r
}

// reset gives the guest its own identity. Time and entropy are read last.
func (m *machine) reset(ctx context.Context, do resetFunc) error {
	r := m.fresh()
	hello, report, err := do(ctx, r)
	return m.accept(r, hello, report, err)
}

// accept checks the guest's answer to a reset. A reset that is not acknowledged
// fails the start.
func (m *machine) accept(r vm.Reset, hello vm.AgentHello, report vm.ResetReport, err error) error {
	m.mu.Lock()
	m.hello, m.resets = hello, report
	m.mu.Unlock()
	if err != nil {
		return m.silent(err)
	}
	for _, name := range vm.Resets {
		if got := report[name]; got != "ok" {
			if got == "" {
				got = "not acknowledged"
			}
			return vm.Errorf(vm.GuestFault, string(m.spec.ID), "the guest's %s could not be reset: %s", name, got).
				WithCode("", "resets", report)
		}
	}
	if len(r.LinkKey) > 0 {
		m.link.setKey(r.LinkKey)
	}
	return nil
}

const (
	upgradeWait = 20 * time.Second
	upgradeTry  = 2 * time.Second // one reset; it is repeated
	upgradeLook = 100 * time.Millisecond
)

// upgrade replaces an agent of another version by ours, in place, and repeats the
// resets with the new one, which may know more of them. A guest that has no room
// for it keeps its agent, which has done every reset.
func (m *machine) upgrade(ctx context.Context) error {
	f, err := os.Open(m.spec.Agent)
	if err != nil {
		return pathError(m.spec.Agent, err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return pathError(m.spec.Agent, err)
	}
	if err := m.guest.Upgrade(ctx, f, st.Size()); err != nil {
		return m.keepAgent(ctx, err)
	}
	// The old agent answers before it becomes the new one. A link that is made at
	// once may still reach the old one; it fails or falls silent when that ends.
	ctx, cancel := context.WithTimeout(ctx, upgradeWait)
	defer cancel()
	tick := time.NewTicker(upgradeLook)
	defer tick.Stop()
	for {
		m.guest.Close()
		m.link.drop()
		try, stop := context.WithTimeout(ctx, upgradeTry)
		err := m.reset(try, m.guest.Wake)
		stop()
		got := m.agent().Digest
		if err == nil && got == m.spec.AgentDigest {
			m.mark("upgraded")
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if err != nil {
				return err
			}
			return vm.Errorf(vm.GuestFault, string(m.spec.ID), "its agent is still %.12s after it was replaced", got)
		}
	}
}

// keepAgent keeps an agent that could not be replaced, if it still answers.
func (m *machine) keepAgent(ctx context.Context, why error) error {
	try, stop := context.WithTimeout(ctx, upgradeTry)
	defer stop()
	hello, err := m.guest.Hello(try)
	if err != nil || hello.Digest != m.agent().Digest {
		return vm.Errorf(vm.GuestFault, string(m.spec.ID), "its agent could not be replaced: %w", why)
	}
	m.log.Warn("the guest's agent could not be replaced and stays", "digest", hello.Digest, "err", why)
	return nil
}

// connectNetwork connects the guest's network card, and connects it again when that
// fails.
func (m *machine) connectNetwork(ctx context.Context) error {
	conn, err := dialUnix(ctx, layout.RunVM(m.spec.RunDir).Net())
	if err != nil {
		return vm.Errorf(vm.Internal, string(m.spec.ID), "network: %w", err)
	}
	m.wg.Go(func() {
		for {
			if err := m.net.Serve(m.lifetime, conn); err != nil {
				m.log.Warn("network", "err", err)
			}
			for pause(m.lifetime, 100*time.Millisecond); ; pause(m.lifetime, time.Second) {
				if m.lifetime.Err() != nil {
					return
				}
				if conn, err = m.dialNetwork(); err == nil {
					break
				}
			}
		}
	})
	return nil
}

// dialNetwork connects to the socket of a QEMU that has loaded. Before that, QEMU would set
// the link down after the connection has set it up, and no packet would pass any more.
func (m *machine) dialNetwork() (net.Conn, error) {
	m.moving.Lock() // wait for a reseat
	defer m.moving.Unlock()
	return dialUnix(m.lifetime, layout.RunVM(m.spec.RunDir).Net())
}

func dialUnix(ctx context.Context, path string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", path)
}

// status never fails: what cannot be read stays zero.
func (m *machine) status(ctx context.Context) vm.MachineStatus {
	st := m.brief()
	st.MonRSS, _ = memory(os.Getpid())
	if !st.Ready {
		return st
	}
	now := m.qemu().Machine()
	st.Size, st.Plugged = now.Size, now.Plugged
	st.RxBytes, st.TxBytes = m.net.Counters()
	st.CPU = cpuTime(st.QEMUPID)
	st.Confined, _ = confine.Of(st.QEMUPID)
	st.RSS, st.PSS = memory(st.QEMUPID)
	ctx, cancel := context.WithTimeout(ctx, callDeadline/3) // less than the client's own
	defer cancel()
	st.RunState, _ = m.qemu().RunState(ctx)
	if st.RunState == "running" && m.full.Load() { // it is let try whether there is room
		st.RunState = "io-error"
	}
	return st
}

// brief is the part of the status that is in memory.
func (m *machine) brief() vm.MachineStatus {
	m.mu.Lock()
	st := vm.MachineStatus{
		ID: m.spec.ID, Protocol: Protocol, RAM: qemu.RAMPath(m.spec), MonitorPID: os.Getpid(), StartedAt: m.begun,
		Folders: folderPaths(m.spec.Folders), Agent: m.hello, Resets: maps.Clone(m.resets), Timings: maps.Clone(m.timings),
	}
	m.mu.Unlock()
	switch {
	case closed(m.gone): // read first: a machine that is gone was started once
		st.RunState = "gone"
	case !closed(m.started):
		st.RunState = "starting"
	default:
		st.Ready, st.RunState, st.QEMUPID = true, "running", m.qemu().Ident.PID
	}
	return st
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// ring holds the last connections of the guest.
type ring struct {
	mu   sync.Mutex // guards all
	kept []vm.Connection
	next int
}

const ringSize = 1000

func (r *ring) add(c vm.Connection) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.kept) < ringSize {
		r.kept = append(r.kept, c)
		return
	}
	r.kept[r.next] = c
	r.next = (r.next + 1) % ringSize
}

// list returns them, oldest first.
func (r *ring) list() []vm.Connection {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Concat(r.kept[r.next:], r.kept[:r.next])
}
