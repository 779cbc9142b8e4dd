// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside

import (
	"context"
	"errors"
	"io"
	"maps"
	"sync/atomic"

	"github.com/warren-vm/warren/vm"
)

// guard watches a visit without a deadline. When no byte has moved for a while, it asks
// the guest for a sign of life, and ends the visit if none arrives. Whoever moves bytes
// increments the returned counter.
func (v *visit) guard() *atomic.Int64 {
	moved := &atomic.Int64{}
	v.in.spawn(func() {
		for seen := int64(-1); ; {
			after, stop := v.in.cfg.Clock.After(v.in.cfg.Settings.StallCheck)
			select {
			case <-after:
			case <-v.ctx.Done():
				stop()
				return
			case <-v.in.life.Done():
				stop()
				return
			}
			if n := moved.Load(); n != seen {
				seen = n
				continue
			}
			bounded, stop := v.bounded(0)
			_, err := v.guest.Hello(bounded)
			stop()
			if err != nil && v.ctx.Err() == nil {
				v.Cancel(vm.Errorf(vm.GuestFault, string(v.rec.ID), "the guest has stopped answering").
					WithHint("look at the console: `warren logs %s`; end it with `warren kill %s`", label(v.rec), label(v.rec)))
				return
			}
		}
	})
	return moved
}

// reader is a stream out of a guest. Closing it ends the visit.
type reader struct {
	v       *visit
	r       io.ReadCloser
	moved   *atomic.Int64
	n       int64
	traffic *traffic // nil unless the stream may be silent for long
	err     error    // the first that was not io.EOF
	eof     bool
}

// newReader takes over the visit and r.
func newReader(v *visit, r io.ReadCloser) *reader {
	return &reader{v: v, r: r, moved: v.guard()}
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	r.n += int64(n)
	r.moved.Add(int64(n))
	if r.traffic != nil {
		r.traffic.count(n)
	}
	if errors.Is(err, io.EOF) {
		r.eof = true
		return n, io.EOF
	}
	if err != nil {
		err = r.v.Fail(r.v.ctx, err)
		if r.err == nil {
			r.err = err
		}
	}
	return n, err
}

func (r *reader) Close() error { return r.endWith(nil) }

// endWith ends the visit, with more detail for its audit record.
func (r *reader) endWith(detail map[string]any) error {
	err := r.r.Close()
	outcome := r.err
	if outcome == nil && !r.eof {
		outcome = &vm.Error{Kind: vm.Cancelled, Op: vm.OpRead, Subject: string(r.v.rec.ID), Msg: "closed before the end"}
	}
	all := map[string]any{"bytes": r.n}
	maps.Copy(all, detail)
	r.v.End(outcome, all)
	return err
}

// counted counts the bytes that go into a guest. Like an HTTP client, it may still be
// read shortly after the call that it was given to.
type counted struct {
	r     io.Reader
	moved *atomic.Int64
	n     atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	c.moved.Add(int64(n))
	return n, err
}

// open starts a stream out of a guest. Only the first answer has the deadline of a short
// call.
func open[T any](v *visit, f func(ctx context.Context) (T, error)) (T, error) {
	timer, stop := v.in.cfg.Clock.After(v.in.cfg.Settings.GuestDeadline)
	defer stop()
	answered := make(chan struct{})
	v.in.spawn(func() {
		select {
		case <-timer:
			v.Cancel(v.noAnswer(v.in.cfg.Settings.GuestDeadline))
		case <-answered:
		case <-v.ctx.Done():
		case <-v.in.life.Done():
		}
	})
	out, err := f(v.ctx)
	close(answered)
	if err != nil {
		err = v.Fail(v.ctx, err)
		v.End(err, nil)
		var none T
		return none, err
	}
	return out, nil
}
