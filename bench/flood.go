// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

const (
	floodLines = 1_400_000 // lines of 7 digits and a line end: 12.6 MB
	floodBytes = floodLines * 9
)

// flood measures 13 MB of terminal output: one viewer alone, the same beside a
// second one that reads at a third of the rate, and the slow one alone. Each viewer
// checks the order of the lines.
func (b *bench) flood(ctx context.Context, id string) error {
	alone := b.rep.series("13 MB of terminal output, one viewer", "s", bound{})
	beside := b.rep.series("13 MB of terminal output, beside a slow viewer", "s", bound{})
	slowly := b.rep.series("13 MB of terminal output, the slow viewer alone", "s", bound{})
	serve := b.rep.series("terminal output: growth of serve", "MB", bound{Max: 8})
	monitor := b.rep.series("terminal output: growth of the monitor", "MB", bound{Max: 8})
	if err := b.server.exec(ctx, id, "sh", "-c", fmt.Sprintf("seq -w 1 %d >/root/lines", floodLines)); err != nil {
		return err
	}
	for round := range max(1, b.n/8) {
		grown := func(f func() (time.Duration, error)) (time.Duration, error) {
			w, err := b.watchMemory(id)
			if err != nil {
				return 0, err
			}
			took, err := f()
			s, m := w.stop()
			serve.add(s)
			monitor.add(m)
			return took, err
		}
		rate := 0.0
		for _, p := range []struct {
			to *series
			of func() (time.Duration, error)
		}{
			{alone, func() (time.Duration, error) {
				took, err := b.pour(ctx, id, fmt.Sprintf("alone-%d", round), 0, 0)
				rate = floodBytes / took.Seconds() / 3
				return took, err
			}},
			{beside, func() (time.Duration, error) { return b.pour(ctx, id, fmt.Sprintf("beside-%d", round), 0, rate) }},
			{slowly, func() (time.Duration, error) { return b.pour(ctx, id, fmt.Sprintf("slowly-%d", round), rate, 0) }},
		} {
			took, err := grown(p.of)
			if err != nil {
				return fmt.Errorf("%s: %w", p.to.Name, err)
			}
			p.to.took(took)
		}
	}
	b.rep.ratio("13 MB of terminal output: beside a slow viewer / alone", beside, alone, bound{Max: 1.2})
	return nil
}

// pour makes a program write to a terminal and returns how long its first viewer
// took to see all of it. That viewer reads rate bytes a second, 0 = without a
// limit, and misses none; second is the rate of another viewer, 0 = none.
func (b *bench) pour(ctx context.Context, id, session string, rate, second float64) (time.Duration, error) {
	c := client.New(b.server.url, b.server.key)
	const command = "stty -echo; read go; cat /root/lines"
	first, err := c.OpenTerminal(ctx, id, vm.TerminalSpec{ID: session, Command: command, Cols: 80, Rows: 24})
	if err != nil {
		return 0, err
	}
	var other *client.Terminal
	if second > 0 {
		other, err = c.AttachTerminal(ctx, id, session, vm.TerminalView{Cols: 80, Rows: 24, Since: -1})
		if err != nil {
			return 0, errors.Join(err, first.Detach())
		}
	}
	return b.race(ctx, first, other, rate, second)
}

// race starts the program and both viewers.
func (b *bench) race(ctx context.Context, first, other *client.Terminal, rate, second float64) (time.Duration, error) {
	var beside sync.WaitGroup
	var slow *reader
	var slowErr error
	began := time.Now()
	if other != nil {
		slow = &reader{rate: second, began: began}
		beside.Go(func() { _, slowErr = other.Run(slow) })
	}
	if _, err := first.Write([]byte("go\n")); err != nil {
		return 0, err
	}
	r := &reader{rate: rate, began: began, every: true}
	st, err := first.Run(r)
	took := time.Since(began)
	beside.Wait()
	switch {
	case err != nil || slowErr != nil:
		return took, errors.Join(err, slowErr)
	case st.Code != 0 || r.last != floodLines || r.bad != "":
		return took, fmt.Errorf("the first viewer ends at line %d, status %d; %s", r.last, st.Code, r.bad)
	case slow != nil && (slow.last != floodLines || slow.bad != ""):
		return took, fmt.Errorf("the slow viewer ends at line %d; %s", slow.last, slow.bad)
	}
	if slow != nil {
		b.rep.note("beside a fast viewer the slow one saw %d of %d lines, in their order", slow.lines, floodLines)
	}
	return took, nil
}

// reader is a viewer of numbered lines with a limited rate.
type reader struct {
	rate  float64 // bytes a second; 0 = no limit
	began time.Time
	every bool // it must see each line

	bytes, lines, last int
	digits, number     int
	skip               int // in an escape sequence: 1 after ESC, 2 in its body
	bad                string
}

func (r *reader) Write(p []byte) (int, error) {
	for _, c := range p {
		switch {
		case r.skip == 1:
			r.skip = 0
			if c == '[' || c == ']' {
				r.skip = 2
			}
		case r.skip == 2:
			if c >= '@' && c <= '~' || c == 7 {
				r.skip = 0
			}
		case c >= '0' && c <= '9':
			r.digits, r.number = r.digits+1, r.number*10+int(c-'0')
			continue
		default:
			r.line()
			if c == 0x1b {
				r.skip = 1
			}
		}
		r.digits, r.number = 0, 0
	}
	r.bytes += len(p)
	if r.rate > 0 {
		time.Sleep(time.Until(r.began.Add(time.Duration(float64(r.bytes) / r.rate * float64(time.Second)))))
	}
	return len(p), nil
}

// line takes a complete number. A drawing may repeat what the screen showed, which
// is 24 lines.
func (r *reader) line() {
	if r.digits != 7 || r.bad != "" {
		return
	}
	if r.every && r.number != r.last+1 || r.number <= r.last-24 {
		r.bad = fmt.Sprintf("line %d came after %d", r.number, r.last)
	}
	r.lines++
	r.last = r.number
}

// memoryWatch notes the greatest resident memory of serve and a monitor.
type memoryWatch struct {
	pids   [2]int
	before [2]float64
	most   [2]float64
	done   chan struct{}
	over   sync.WaitGroup
}

func (b *bench) watchMemory(id string) (*memoryWatch, error) {
	pid, err := monitorPID(id)
	if err != nil {
		return nil, err
	}
	w := &memoryWatch{pids: [2]int{b.server.cmd.Process.Pid, pid}, done: make(chan struct{})}
	for i, pid := range w.pids {
		if w.before[i], err = procField(pid, "status", "VmRSS"); err != nil {
			return nil, err
		}
	}
	w.over.Go(func() {
		t := time.NewTicker(100 * time.Millisecond)
		defer t.Stop()
		for {
			select {
			case <-t.C:
			case <-w.done:
				return
			}
			for i, pid := range w.pids {
				if v, err := procField(pid, "status", "VmRSS"); err == nil {
					w.most[i] = max(w.most[i], v)
				}
			}
		}
	})
	return w, nil
}

// stop returns by how much the two have grown.
func (w *memoryWatch) stop() (serve, monitor float64) {
	close(w.done)
	w.over.Wait()
	return max(0, w.most[0]-w.before[0]), max(0, w.most[1]-w.before[1])
}
