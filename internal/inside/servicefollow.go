// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside

import (
	"bytes"
	"context"
	"strconv"
	"time"

	"github.com/warren-vm/warren/internal/program"
	"github.com/warren-vm/warren/internal/spec"
	"github.com/warren-vm/warren/vm"
)

// followFor bounds one journalctl in the guest, so that it ends by itself if the machine
// was restored without its reader.
const followFor = time.Hour

// forgetWithin bounds the removal of an ended journalctl.
const forgetWithin = 15 * time.Second

// maxJournalLine bounds one line of a journal. Longer lines are left out.
const maxJournalLine = 1 << 20

// ServiceFollow follows a service's journal. Run, or Close, ends it.
type ServiceFollow struct {
	v     *visit
	argv  []string
	lines int
	since string
}

// FollowService opens a service's journal: its last lines, then new ones. Following does
// not keep the VM awake.
func (in *Inside) FollowService(ctx context.Context, c *vm.Call, ref, user, name string, lines int, since string) (*ServiceFollow, error) {
	from, refusal := spec.Since(since)
	if refusal == nil {
		refusal = spec.CheckUnitName(name)
	}
	if refusal == nil && (lines < 0 || lines > maxUnitLines) {
		refusal = vm.Errorf(vm.Invalid, "lines", "%d is not within 0 to %d", lines, maxUnitLines).WithCode("INVALID_REQUEST")
	}
	v, err := in.visit(ctx, c, ref, vm.OpService, user)
	if err != nil {
		return nil, err
	}
	v.CountTraffic()
	if err = refusal; err == nil {
		bounded, stop := v.bounded(0)
		_, err = program.UnitsOf(v.guest, user).One(bounded, name)
		stop()
	}
	if err != nil {
		err = v.Fail(v.ctx, err)
		v.End(err, nil)
		return nil, err
	}
	f := &ServiceFollow{v: v, lines: lines, since: from}
	// --merge: the guest's journald may have started under the ids of the machine from
	// which this one was copied. Without it journalctl follows only the current boot of
	// this machine.
	f.argv = []string{"journalctl", "--no-pager", "--output=json", "--follow", "--merge", "--unit=" + spec.UnitName(name)}
	return f, nil
}

// Close ends a follow that was not run.
func (f *ServiceFollow) Close() { f.v.End(nil, nil) }

// Run calls each for every line until it fails, the caller goes away or the journal ends.
func (f *ServiceFollow) Run(each func(vm.UnitLog) error) error {
	defer f.Close()
	last := cursor{each: each, stop: func() { f.v.Cancel(nil) }}
	for {
		argv := f.argv
		if last.at != "" {
			argv = append(argv[:len(argv):len(argv)], "--after-cursor="+last.at)
		} else {
			argv = append(argv[:len(argv):len(argv)], "--lines="+strconv.Itoa(f.lines))
			if f.since != "" {
				argv = append(argv, "--since="+f.since)
			}
		}
		again, err := f.once(argv, &last)
		if last.failed != nil || f.v.ctx.Err() != nil && !f.v.Lost() {
			return last.failed
		}
		if err != nil || !again {
			return f.v.Fail(f.v.ctx, err)
		}
	}
}

// once runs one journalctl and kills it when the caller goes away. Otherwise it would
// keep running in the background.
func (f *ServiceFollow) once(argv []string, out *cursor) (again bool, err error) {
	ctx := context.WithoutCancel(f.v.ctx)
	x, err := f.v.guest.Exec(ctx, vm.ExecSpec{Argv: argv, Cwd: "/", Timeout: vm.Millis(followFor)})
	if err != nil {
		return false, err
	}
	unhook := context.AfterFunc(f.v.ctx, func() { _ = x.Signal("KILL") }) // it may have ended
	defer unhook()
	errs := program.Tail{Max: 1 << 10}
	st, err := x.Run(out, &errs)
	bounded, stop := context.WithTimeout(ctx, forgetWithin)
	defer stop()
	_ = f.v.guest.Forget(bounded, x.Process().ID) // nothing to do if the machine is gone
	// journalctl ends by itself with an error if it cannot watch the journal.
	if err == nil && !st.TimedOut && (st.Code != 0 || errs.Len() > 0) && f.v.ctx.Err() == nil {
		err = vm.Errorf(vm.GuestFault, "", "%s", program.Ran{Err: errs.String(), Status: st}.Why()).WithHint("`warren diagnose %s` shows whether the guest can watch files", label(f.v.rec))
	}
	return st.TimedOut, err
}

// cursor parses journalctl's lines and remembers the position.
type cursor struct {
	each   func(vm.UnitLog) error
	stop   func()
	rest   []byte
	at     string
	failed error
}

func (c *cursor) Write(p []byte) (int, error) {
	c.rest = append(c.rest, p...)
	for {
		line, rest, ok := bytes.Cut(c.rest, []byte("\n"))
		if !ok {
			if len(c.rest) > maxJournalLine {
				c.rest = nil
			}
			return len(p), nil
		}
		c.rest = rest
		for _, l := range spec.ParseJournal(line) {
			if c.failed == nil {
				c.failed = c.each(l)
			}
		}
		if at := spec.JournalCursor(line); at != "" {
			c.at = at
		}
		if c.failed != nil {
			c.stop()
		}
	}
}
