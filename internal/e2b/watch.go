// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package e2b

import (
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// Messages about watches.
type (
	watchMessage struct {
		Path      string `json:"path"`
		Recursive bool   `json:"recursive"`
		Entry     bool   `json:"includeEntry"`
	}
	fileEvent struct {
		Name  string `json:"name"`
		Type  string `json:"type"`
		Entry *entry `json:"entry,omitempty"`
	}
	watchAnswer struct {
		Start     *empty     `json:"start,omitempty"`
		File      *fileEvent `json:"filesystem,omitempty"`
		Keepalive *empty     `json:"keepalive,omitempty"`
	}
	watcherMessage struct {
		ID string `json:"watcherId"`
	}
	watcherEvents struct {
		Events []fileEvent `json:"events"`
	}
)

// watchKinds are the kinds of events by the agent's.
var watchKinds = map[string]string{
	"create": "EVENT_TYPE_CREATE", "modify": "EVENT_TYPE_WRITE", "delete": "EVENT_TYPE_REMOVE", "rename": "EVENT_TYPE_RENAME",
}

// watching is an open watch.
type watching struct {
	c     *visitor
	root  string
	entry bool
	w     engine.Watch
}

func (c *visitor) watch(in *watchMessage) (*watching, error) {
	if _, err := c.linux(c.user); err != nil {
		return nil, err
	}
	at, err := c.directory(in.Path)
	if err != nil {
		return nil, err
	}
	w, err := c.d.Inside.Watch(c.ctx, c.call, c.ref(), "", at, in.Recursive)
	if err != nil {
		return nil, err
	}
	return &watching{c, at, in.Entry, w}, nil
}

// next waits for a change, and returns its events.
func (w *watching) next() ([]fileEvent, error) {
	for {
		ev, err := w.w.Next()
		if err != nil {
			return nil, err
		}
		kind, known := watchKinds[ev.Type]
		name := strings.TrimPrefix(strings.TrimPrefix(ev.Path, w.root), "/")
		if !known || name == "" {
			continue
		}
		all := []string{kind}
		if ev.Type == "create" && w.c.d.uploaded(w.c.rec.ID, ev.Path) {
			all = []string{kind, "EVENT_TYPE_CHMOD", "EVENT_TYPE_WRITE"}
		}
		var e *entry
		if w.entry && ev.Type != "delete" && ev.Type != "rename" {
			e, _ = w.c.look(ev.Path) // it may be gone by now
		}
		list := make([]fileEvent, 0, len(all))
		for _, k := range all {
			list = append(list, fileEvent{name, k, e})
		}
		return list, nil
	}
}

// watchDir streams the changes of a directory.
func (d *Door) watchDir(w http.ResponseWriter, r *http.Request, c *visitor) {
	var in watchMessage
	err := readFrame(w, r, &in)
	var x *watching
	if err == nil {
		x, err = c.watch(&in)
	}
	s := newStream(w)
	if err != nil {
		s.end(d, err)
		return
	}
	defer func() { _ = x.w.Close() }()
	if s.send(watchAnswer{Start: &empty{}}) != nil {
		return
	}
	var timeout <-chan time.Time
	if limit := deadline(r); limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		timeout = timer.C
	}
	events, over := make(chan []fileEvent), make(chan error, 1)
	go func() { // ends with the watch
		for {
			list, err := x.next()
			if err != nil {
				over <- err
				return
			}
			select {
			case events <- list:
			case <-c.ctx.Done():
				return
			}
		}
	}()
	tick := time.NewTicker(pingInterval(r))
	defer tick.Stop()
	for {
		select {
		case list := <-events:
			for i := range list {
				if s.send(watchAnswer{File: &list[i]}) != nil {
					return
				}
			}
		case <-tick.C:
			if s.send(watchAnswer{Keepalive: &empty{}}) != nil {
				return
			}
		case <-timeout:
			s.end(d, vm.Errorf(vm.Timeout, "", "the deadline of the watch has passed"))
			return
		case err := <-over:
			if _, ok := d.alive(c.rec.ID); !ok || vm.KindOf(err) == vm.GuestFault {
				panic(http.ErrAbortHandler)
			}
			s.end(d, nil)
			return
		case <-c.ctx.Done():
			return
		}
	}
}

// watcher is a watch whose events wait until a client asks for them.
type watcher struct {
	of   vm.ID
	x    *watching
	mu   sync.Mutex
	list []fileEvent // guarded by mu
}

const (
	maxWatchers = 256   // of all sandboxes; further ones are refused
	maxWaiting  = 20000 // events of one watch; the oldest are dropped
	// settles is how long the first question after a change waits for the event.
	settles = 50 * time.Millisecond
)

func (d *Door) createWatcher(c *visitor, in *watchMessage) (*watcherMessage, error) {
	own := *c
	own.ctx = d.Lifetime
	x, err := own.watch(in)
	if err != nil {
		return nil, err
	}
	w := &watcher{of: c.rec.ID, x: x}
	id := vm.NewUUID()
	d.mu.Lock()
	full := len(d.watchers) >= maxWatchers
	if !full {
		d.watchers[id] = w
	}
	d.mu.Unlock()
	if full {
		_ = x.w.Close()
		return nil, vm.Errorf(vm.Limit, "", "%d watchers are open, which is the maximum", maxWatchers).WithHint("stop some")
	}
	go func() { // ends with the watch, its sandbox or the server
		for {
			list, err := x.next()
			if err != nil {
				break
			}
			w.add(list)
		}
		d.dropWatcher(id)
	}()
	return &watcherMessage{id}, nil
}

func (w *watcher) add(list []fileEvent) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, list...)
	if over := len(w.list) - maxWaiting; over > 0 {
		w.list = w.list[over:]
	}
}

func (d *Door) watcherOf(c *visitor, id string) (*watcher, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w := d.watchers[id]; w != nil && w.of == c.rec.ID {
		return w, nil
	}
	return nil, vm.Errorf(vm.NotFound, vm.Clip(id, 64), "no such watcher")
}

func (d *Door) watcherEvents(c *visitor, in *watcherMessage) (*watcherEvents, error) {
	w, err := d.watcherOf(c, in.ID)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(settles)
	defer timer.Stop()
	select { // an event of what the client has just done may still be coming
	case <-timer.C:
	case <-c.ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	out := &watcherEvents{Events: w.list}
	if out.Events == nil {
		out.Events = []fileEvent{}
	}
	w.list = nil
	return out, nil
}

func (d *Door) removeWatcher(c *visitor, in *watcherMessage) (*empty, error) {
	w, err := d.watcherOf(c, in.ID)
	if err != nil {
		return nil, err
	}
	d.dropWatcher(in.ID)
	return &empty{}, w.x.w.Close()
}

func (d *Door) dropWatcher(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.watchers, id)
}
