// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/warren-vm/warren/internal/link"
	"github.com/warren-vm/warren/internal/vt"
	"github.com/warren-vm/warren/vm"
)

const (
	keepEnded   = 32  // ended terminals that are kept at most
	rememberIDs = 256 // ids of removed terminals that are remembered
	closeGrace  = 500 * time.Millisecond
	closeLimit  = 5 * time.Second
)

// terminals are the terminals of one guest.
type terminals struct {
	open sync.Mutex // one terminal is opened at a time

	mu      sync.Mutex
	byID    map[string]*terminal
	next    int
	expired []string
	lost    []vm.TerminalSession // lost when their agent died

	saving sync.Mutex
	file   string // names the running ones, for an agent after a crash
}

// init finds the terminals that ended with an agent that died. The kernel has
// hung them up, because that agent held their masters.
func (l *terminals) init(file string) {
	l.file = file
	b, err := os.ReadFile(file)
	if err != nil {
		return // no file: there were none
	}
	lost, err := link.DecodeTerminals(b)
	if err != nil {
		return
	}
	now := time.Now().UTC()
	for _, t := range lost {
		if !t.Lost {
			t.Lost, t.ExitedAt = true, &now
		}
		l.lost = append(l.lost, t)
		if n, ok := strings.CutPrefix(t.ID, "pty-"); ok {
			n, _ := strconv.Atoi(n) // 0 if its user named it
			l.next = max(l.next, n)
		}
	}
	l.lost = l.lost[max(0, len(l.lost)-vm.MaxTerminals):]
}

// save records which terminals run, and which were lost.
func (l *terminals) save() {
	l.saving.Lock()
	defer l.saving.Unlock()
	var running []vm.TerminalSession
	for _, t := range l.list() {
		t.mu.Lock()
		if t.info.ExitCode == nil {
			running = append(running, t.info)
		}
		t.mu.Unlock()
	}
	l.mu.Lock()
	running = append(running, l.lost...)
	l.mu.Unlock()
	_ = writeSmall(l.file, string(link.EncodeTerminals(running)), 0o600) // needed only after a crash
}

// addTerminal opens a terminal, or returns an error.
func (a *Agent) addTerminal(gone <-chan struct{}, s vm.TerminalSpec) (*terminal, error) {
	l := &a.terms
	l.open.Lock()
	defer l.open.Unlock()
	if err := l.check(&s); err != nil {
		return nil, err
	}
	s.Cols, s.Rows = fitting(s.Cols, s.Rows)
	t, err := a.openTerminal(gone, s)
	if err != nil {
		return nil, err
	}
	defer l.save()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = slices.DeleteFunc(l.lost, func(t vm.TerminalSession) bool { return t.ID == s.ID })
	if old := l.byID[s.ID]; old != nil {
		old.drop()
	}
	l.byID[s.ID] = t
	l.expired = slices.DeleteFunc(l.expired, func(id string) bool { return id == s.ID })
	return t, nil
}

// check chooses or checks the id. The id of an ended terminal may be used again.
func (l *terminals) check(s *vm.TerminalSpec) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byID == nil {
		l.byID = make(map[string]*terminal)
	}
	running := 0
	for _, t := range l.byID {
		running += 1 - bit(t.over())
	}
	if running >= vm.MaxTerminals {
		return vm.Errorf(vm.Limit, "", "%d terminals run in this VM already", running).
			WithCode("SESSION_CAP_REACHED", "limit", vm.MaxTerminals).WithHint("close some: `warren pty ls NAME` lists them")
	}
	for s.ID == "" {
		l.next++
		if id := "pty-" + strconv.Itoa(l.next); l.byID[id] == nil {
			s.ID = id
		}
	}
	if err := vm.CheckTerminalID(s.ID); err != nil {
		return err
	}
	if t := l.byID[s.ID]; t != nil && !t.over() {
		return vm.Errorf(vm.Exists, s.ID, "a terminal with this id runs already").
			WithCode("SESSION_ALREADY_EXISTS", "sessionId", s.ID).WithHint("attach to it, or choose another id")
	}
	return nil
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// fitting limits a size to the allowed range.
func fitting(cols, rows int) (int, int) {
	if cols <= 0 || rows <= 0 {
		return vm.TerminalCols, vm.TerminalRows
	}
	return min(cols, vt.MaxCols), min(rows, vt.MaxRows)
}

// findTerminal returns a terminal for a Linux user; "" is the agent's own user.
func (a *Agent) findTerminal(id, user string) (*terminal, error) {
	l := &a.terms
	l.mu.Lock()
	t, expired := l.byID[id], slices.Contains(l.expired, id)
	lost := slices.ContainsFunc(l.lost, func(t vm.TerminalSession) bool { return t.ID == id })
	l.mu.Unlock()
	switch {
	case t == nil && lost:
		return nil, vm.Errorf(vm.NotFound, id, "this terminal was lost: the guest's agent died, and its programs were hung up").
			WithCode("SESSION_EXPIRED", "sessionId", id).WithHint("open it again by the same id")
	case t == nil && expired:
		return nil, vm.Errorf(vm.NotFound, id, "this terminal ended some time ago").WithCode("SESSION_EXPIRED", "sessionId", id)
	case t == nil:
		return nil, vm.Errorf(vm.NotFound, id, "the VM has no such terminal").WithCode("SESSION_NOT_FOUND", "sessionId", id).
			WithHint("`warren pty ls NAME` lists them")
	}
	u, err := a.users.find(user)
	if err != nil {
		return nil, err
	}
	if u.name != t.info.User {
		return nil, vm.Errorf(vm.Denied, id, "this terminal was opened as Linux user %s", t.info.User).
			WithCode("SESSION_USER_MISMATCH", "sessionId", id)
	}
	return t, nil
}

func (l *terminals) list() []*terminal {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]*terminal, 0, len(l.byID))
	for _, t := range l.byID {
		out = append(out, t)
	}
	slices.SortFunc(out, func(a, b *terminal) int { return a.info.CreatedAt.Compare(b.info.CreatedAt) })
	return out
}

// trim removes the oldest ended terminals beyond the limit.
func (l *terminals) trim() {
	defer l.save()
	ended := slices.DeleteFunc(l.list(), func(t *terminal) bool { return !t.over() })
	for len(ended) > keepEnded {
		l.forget(ended[0], true)
		ended = ended[1:]
	}
}

// forget removes an ended terminal; with remember its id is kept.
func (l *terminals) forget(t *terminal, remember bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byID[t.info.ID] != t {
		return
	}
	delete(l.byID, t.info.ID)
	if remember {
		l.expired = append(l.expired, t.info.ID)
		l.expired = l.expired[max(0, len(l.expired)-rememberIDs):]
	}
	t.drop()
}

// drop frees the memory of an ended terminal once no viewer is left.
func (t *terminal) drop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.expiry != nil {
		t.expiry.Stop()
	}
	if len(t.viewers) > 0 { // they are told of the end and then leave
		t.expiry = time.AfterFunc(time.Second, t.drop)
		return
	}
	t.tape.free()
}

func (t *terminal) over() bool { return isClosed(t.ended) }

func (a *Agent) openTerm(w *answer, r *request) error {
	b, err := r.words()
	if err != nil {
		return err
	}
	s, err := link.DecodeTerminalSpec(b)
	if err != nil {
		return vm.Errorf(vm.Invalid, "", "malformed terminal: %w", err)
	}
	t, err := a.addTerminal(r.ctx.Done(), s)
	if err != nil {
		return err
	}
	return t.serve(w, r, vm.TerminalView{Cols: s.Cols, Rows: s.Rows}, false)
}

func (a *Agent) attachTerm(w *answer, r *request) error {
	t, err := a.findTerminal(r.query.Get("id"), r.query.Get("user"))
	if err != nil {
		return err
	}
	view := vm.TerminalView{}
	for name, to := range map[string]*int{"cols": &view.Cols, "rows": &view.Rows} {
		n, err := r.number(name)
		if err != nil {
			return err
		}
		*to = int(n)
	}
	if view.Cols > 0 && view.Rows > 0 {
		view.Cols, view.Rows = fitting(view.Cols, view.Rows)
	}
	if view.Since, err = r.number("since"); err != nil {
		return err
	}
	return t.serve(w, r, view, true)
}

// serve turns the request into a stream of frames until either side ends it.
func (t *terminal) serve(w *answer, r *request, view vm.TerminalView, replay bool) error {
	w.closing, w.started = true, true
	c := &client{w: w.conn}
	v := t.attach(c, view)
	defer v.leave()
	t.mu.Lock()
	info := link.EncodeTerminal(t.view())
	t.mu.Unlock()
	b := make([]byte, len(upgraded)+link.FrameHeader, len(upgraded)+link.FrameHeader+len(info))
	copy(b, upgraded)
	link.PutFrameHeader(b[len(upgraded):], link.FrameStarted, len(info))
	if err := c.send(append(b, info...)); err != nil {
		return err
	}
	var listening sync.WaitGroup
	listening.Go(func() { v.listen(link.NewFrameReader(r.in)) })
	v.show(replay)
	c.close()
	listening.Wait()
	return nil
}

func (a *Agent) listTerms(w *answer, _ *request) error {
	var views []vm.TerminalSession
	for _, t := range a.terms.list() {
		t.mu.Lock()
		views = append(views, t.view())
		t.mu.Unlock()
	}
	a.terms.mu.Lock()
	views = append(views, a.terms.lost...)
	a.terms.mu.Unlock()
	return w.bytes(link.EncodeTerminals(views))
}

// closeTerm ends a terminal's programs and removes it.
func (a *Agent) closeTerm(w *answer, r *request) error {
	t, err := a.findTerminal(r.query.Get("id"), r.query.Get("user"))
	if err != nil {
		return err
	}
	t.hangUp()
	if !t.endsWithin(closeGrace) {
		t.kill(syscall.SIGKILL, true)
		if !t.endsWithin(closeLimit) {
			return vm.Errorf(vm.Busy, t.info.ID, "its program does not end").WithHint("try again")
		}
	}
	t.mu.Lock()
	view := t.view()
	t.mu.Unlock()
	a.terms.forget(t, false)
	return w.bytes(link.EncodeTerminal(view))
}

func (t *terminal) endsWithin(d time.Duration) bool {
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-t.ended:
		return true
	case <-late.C:
		return false
	}
}

// readTerm answers with a terminal's screen, and with its output from an offset.
func (a *Agent) readTerm(w *answer, r *request) error {
	t, err := a.findTerminal(r.query.Get("id"), r.query.Get("user"))
	if err != nil {
		return err
	}
	since, err := r.number("since")
	if err != nil {
		return err
	}
	return w.bytes(link.EncodeContent(t.content(since)))
}

// content returns what the terminal shows. A negative offset asks for no output.
func (t *terminal) content(since int64) vm.TerminalContent {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := vm.TerminalContent{Session: t.view(), Redraw: t.screen.Redraw()}
	if since >= 0 {
		c.Output, c.Since = t.tape.since(since)
	}
	return c
}

// sendTerm types into a terminal and waits until it is quiet.
func (a *Agent) sendTerm(w *answer, r *request) error {
	t, err := a.findTerminal(r.query.Get("id"), r.query.Get("user"))
	if err != nil {
		return err
	}
	var wait [2]time.Duration
	for i, name := range [...]string{"quietMs", "limitMs"} {
		ms, err := r.number(name)
		if err != nil {
			return err
		}
		wait[i] = time.Duration(ms) * time.Millisecond
	}
	data, err := r.words()
	if err != nil {
		return err
	}
	ctx, stop := r.untilGone(w)
	defer stop()
	limit := time.NewTimer(wait[1])
	defer limit.Stop()
	t.mu.Lock()
	from := t.tape.end
	heard := t.heard
	f, err := t.dup()
	t.mu.Unlock()
	if err != nil {
		return vm.Errorf(vm.WrongState, t.info.ID, "its program has ended")
	}
	if err := typeIn(f, data, max(wait[1], closeLimit)); err != nil {
		return err
	}
	quiet := wait[0] == 0
	for !quiet && !t.over() {
		silence := time.NewTimer(wait[0])
		select {
		case <-heard:
		case <-silence.C:
			quiet = true
		case <-limit.C:
			silence.Stop()
			return w.bytes(link.EncodeContent(t.content(from)))
		case <-ctx.Done():
			silence.Stop()
			return ctx.Err()
		}
		silence.Stop()
		t.mu.Lock()
		heard = t.heard
		t.mu.Unlock()
	}
	c := t.content(from)
	c.Quiet = quiet
	return w.bytes(link.EncodeContent(c))
}

// typeIn writes input within a time limit.
func typeIn(f *os.File, data []byte, limit time.Duration) error {
	defer f.Close()
	_ = f.SetWriteDeadline(time.Now().Add(limit))
	_, err := f.Write(data)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return vm.Errorf(vm.Timeout, "", "the program does not read its input")
	}
	if err != nil {
		return vm.Errorf(vm.WrongState, "", "the terminal takes no input: %w", err)
	}
	return nil
}
