// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"sync"
	"time"
)

const (
	progressAfter = time.Second            // a quicker operation shows nothing
	progressEvery = 200 * time.Millisecond //
)

// progress shows an operation that takes longer than a second, on one line of a
// terminal's stderr. The line is erased at the end. Elsewhere it prints nothing.
type progress struct {
	io    *streams
	start time.Time
	stop  chan struct{}
	ended chan struct{}

	mu   sync.Mutex // guards the fields below
	text func() string
}

// progress starts to show an operation. text describes its state and is
// called from another goroutine. Call done at the end.
func (s *streams) progress(text func() string) *progress {
	p := &progress{io: s, start: time.Now(), stop: make(chan struct{}), ended: make(chan struct{}), text: text}
	if !s.errTTY || s.quiet {
		close(p.ended)
		return p
	}
	go p.run()
	return p
}

// doing is progress with a fixed text.
func (s *streams) doing(format string, args ...any) *progress {
	text := fmt.Sprintf(format, args...)
	return s.progress(func() string { return text })
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
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		p.show()
		select {
		case <-p.stop:
			_, _ = fmt.Fprint(p.io.err, "\r\x1b[K")
			return
		case <-tick.C:
		}
	}
}

func (p *progress) show() {
	p.mu.Lock()
	text := p.text()
	p.mu.Unlock()
	took := "  " + time.Since(p.start).Round(time.Second).String()
	line := []rune(plain(text))
	if room := p.io.errWidth - len(took) - 1; room > 0 && len(line) > room { // a line that wraps could not be erased
		line = append(line[:room-1], '…')
	}
	_, _ = fmt.Fprintf(p.io.err, "\r\x1b[K%s%s", string(line), took)
}

// done ends the display, and returns when nothing more will be written.
func (p *progress) done() {
	select {
	case <-p.stop:
	default:
		close(p.stop)
	}
	<-p.ended
}
