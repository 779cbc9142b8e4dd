// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package changes

import (
	"bytes"
	"cmp"
	"context"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// Limits of a comparison of VMs.
const (
	maxCandidates  = 32
	runLimit       = 10 * time.Minute // of a command, unless the request says otherwise
	tailBytes      = 16 << 10
	tailLines      = 20
	candidateShown = 10 // changed paths outside that are named
)

// Compare shows how VMs differ from what they were forked or made from, beside each other.
// With a command it also runs that in each, all at once, after their disks were compared.
// What fails in one VM is told in its candidate.
func (x *Changes) Compare(ctx context.Context, c *vm.Call, r vm.CompareRequest) (out vm.ForkComparison, err error) {
	if len(r.VMs) == 0 || len(r.VMs) > maxCandidates {
		return out, vm.WithOp(vm.OpDiff, "", vm.Errorf(vm.Invalid, "vms", "%d VMs are named, not 1 to %d", len(r.VMs), maxCandidates).WithCode("INVALID_REQUEST"))
	}
	if r.Timeout < 0 || r.Timeout > vm.Millis(vm.MaxDuration) {
		return out, vm.WithOp(vm.OpDiff, "", vm.Errorf(vm.Invalid, "timeoutMs", "it is out of range").WithCode("INVALID_REQUEST"))
	}
	out.Candidates = make([]vm.Candidate, len(r.VMs))
	for i, ref := range r.VMs {
		rec, err := x.cfg.Engine.Get(ctx, c, ref)
		if err != nil {
			return out, err
		}
		out.Candidates[i] = vm.Candidate{VM: rec.ID, Name: rec.Name, Workdir: cmp.Or(r.Cwd, rec.Workdir)}
	}
	var all sync.WaitGroup
	for i := range out.Candidates {
		all.Go(func() { x.candidate(ctx, c, &out.Candidates[i]) })
	}
	all.Wait()
	if r.Run != "" {
		for i := range out.Candidates {
			all.Go(func() { out.Candidates[i].Run = x.runIn(ctx, c, out.Candidates[i].VM, r) })
		}
		all.Wait()
	}
	if ctx.Err() != nil {
		return out, vm.WithOp(vm.OpDiff, "", context.Cause(ctx))
	}
	out.Common = out.Candidates[0].From.Generation
	for _, cand := range out.Candidates {
		if cand.From.Generation != out.Common {
			out.Common = ""
		}
	}
	return out, nil
}

// candidate compares a VM with what it was made from.
func (x *Changes) candidate(ctx context.Context, c *vm.Call, cand *vm.Candidate) {
	own := *c // a capture is not what the caller asked for
	d, err := x.compareStates(ctx, &own, string(cand.VM), engine.StateOrigin, engine.StateNow)
	if err != nil {
		cand.Error = x.cfg.Journal.ConcealText(vm.AsError(err).Error())
		return
	}
	cand.From, cand.Stat, cand.Alerts = d.From, d.Stat, d.Alerts
	inside := make([]vm.GuestPath, 0, 1+len(d.Repos))
	if cand.Workdir != "" {
		inside = append(inside, vm.GuestPath(cand.Workdir))
	}
	for _, repo := range d.Repos {
		inside = append(inside, repo.Path)
	}
	cand.OutsidePaths, cand.Outside, _ = outsideOf(&d, inside)
	cand.OutsidePaths = cand.OutsidePaths[:min(len(cand.OutsidePaths), candidateShown)]
}

// runIn runs the command of a comparison in a VM.
func (x *Changes) runIn(ctx context.Context, c *vm.Call, id vm.ID, r vm.CompareRequest) *vm.CandidateRun {
	out := &vm.CandidateRun{}
	limit := cmp.Or(time.Duration(r.Timeout), runLimit)
	own, start := *c, time.Now()
	e, err := x.guests.Exec(ctx, &own, string(id), vm.ExecSpec{Command: r.Run, User: r.User, Cwd: r.Cwd, Timeout: vm.Millis(limit)})
	if err == nil {
		var st vm.ExitStatus
		end := &tail{}
		st, err = e.Run(end, end)
		out.ExitCode, out.TimedOut, out.Tail = st.Code, st.TimedOut, end.text()
	}
	if err != nil {
		out.Error = x.cfg.Journal.ConcealText(vm.AsError(err).Error())
	}
	out.Seconds = time.Since(start).Seconds()
	return out
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p[max(0, len(p)-tailBytes):]...)
	t.buf = t.buf[max(0, len(t.buf)-tailBytes):]
	return len(p), nil
}

// text is the last lines.
func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	buf := bytes.TrimRight(t.buf, "\n")
	for i, n := len(buf)-1, 0; i >= 0; i-- {
		if buf[i] == '\n' {
			if n++; n == tailLines {
				buf = buf[i+1:]
				break
			}
		}
	}
	return strings.ToValidUTF8(string(buf), "\uFFFD")
}
