// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"sync"
	"time"
)

const (
	progressAfter = time.Second            // what is quicker needs no words
	progressEvery = 200 * time.Millisecond // on a terminal
	progressLines = 15 * time.Second       // elsewhere
)

// progress tells on stderr what goes on, once that takes longer than a second:
// on a terminal by one line that is wiped at the end, elsewhere, unless quiet
// is set, by a line now and then.
type progress struct {
	io    *streams
	start time.Time
	stop  chan struct{}
	ended chan struct{}

	mu   sync.Mutex // guards the fields below
	text func() string
}

// progress begins to watch something; text says how it stands and is called
// from another goroutine. Call done at the end.
func (s *streams) progress(quiet bool, text func() string) *progress {
	p := &progress{io: s, start: time.Now(), stop: make(chan struct{}), ended: make(chan struct{}), text: text}
	if quiet && !s.errTTY {
		close(p.ended)
		return p
	}
	go p.run()
	return p
}

// doing is progress with a fixed text.
func (s *streams) doing(format string, args ...any) *progress {
	text := fmt.Sprintf(format, args...)
	return s.progress(false, func() string { return text })
}

func (p *progress) run() {
	defer close(p.ended)
	first := time.NewTimer(progressAfter)
	defer first.Stop()
	select {
	case <-p.stop:
		return
	case <-first.C:
	}
	every := progressLines
	if p.io.errTTY {
		every = progressEvery
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		p.show()
		select {
		case <-p.stop:
			if p.io.errTTY {
				_, _ = fmt.Fprint(p.io.err, "\r\x1b[K")
			}
			return
		case <-tick.C:
		}
	}
}

func (p *progress) show() {
	p.mu.Lock()
	text := p.text()
	p.mu.Unlock()
	took := time.Since(p.start).Round(time.Second)
	if p.io.errTTY {
		_, _ = fmt.Fprintf(p.io.err, "\r\x1b[K%s  %s", plain(text), took)
		return
	}
	p.io.notef("%s ... %s", plain(text), took)
}

// done ends it and returns when nothing more is written.
func (p *progress) done() {
	select {
	case <-p.stop:
	default:
		close(p.stop)
	}
	<-p.ended
}
