// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/diagnose"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/program"
	"github.com/warren-vm/warren/internal/spec"
	"github.com/warren-vm/warren/vm"
)

// Limits of a diagnosis.
const (
	defaultLook = 3 * time.Second // between the two samples
	maxLook     = 60 * time.Second
	afterLook   = 2 * time.Minute // for all requests after the samples
	tellUnits   = 8               // units whose journal is read
	tellLogs    = 16              // commands whose log is read
	tellScreens = 8
	tellDisks   = 3
	tailBytes   = 8 << 10 // of a log
	tailLines   = 40
	logsOfAge   = 15 * time.Minute // age of an ended command
	duTime      = 15 * time.Second
)

// Diagnose reports what is wrong with a VM. It takes two samples of the guest, some time
// apart (0 = 3 s). It does not wake a VM: if the VM does not run, its record says why.
func (in *Inside) Diagnose(ctx context.Context, c *vm.Call, ref string, apart time.Duration) (vm.Diagnosis, error) {
	if apart = cmp.Or(apart, defaultLook); apart < 0 || apart > maxLook {
		return vm.Diagnosis{}, vm.WithOp(vm.OpState, ref, vm.Errorf(vm.Invalid, "seconds", "%v is not within 0 and %v", apart, maxLook).WithCode("INVALID_REQUEST"))
	}
	rec, v, err := in.look(ctx, c, ref)
	if err != nil {
		return vm.Diagnosis{}, err
	}
	out := vm.Diagnosis{ID: rec.ID, Name: rec.Name, State: rec.State, Time: in.now(), Findings: []vm.Finding{}, Problems: []string{}}
	if v == nil {
		out.Findings = diagnose.Asleep(rec)
		return out, nil
	}
	bounded, stop := v.within(apart + afterLook)
	defer stop()
	r, problems, err := v.collect(bounded, apart)
	err = v.Fail(bounded, err)
	v.End(err, nil)
	if err != nil {
		return vm.Diagnosis{}, err
	}
	out.Live, out.Time = true, r.After.State.Time
	out.Seconds = r.After.State.UptimeSeconds - r.Before.State.UptimeSeconds
	out.Findings, out.Problems = diagnose.Find(r), append(out.Problems, problems...)
	return out, nil
}

// look enters a VM without waking it. The visit is nil if the VM does not run.
func (in *Inside) look(ctx context.Context, c *vm.Call, ref string) (vm.VM, *visit, error) {
	for {
		rec, err := in.cfg.Engine.Get(ctx, c, ref)
		if err != nil {
			return rec, nil, vm.WithOp(vm.OpState, ref, err)
		}
		switch rec.State {
		case vm.Running, vm.Starting, vm.Building:
		default:
			return rec, nil, nil
		}
		v, err := in.visit(ctx, c, string(rec.ID), vm.OpState, "")
		if vm.KindOf(err) != vm.WrongState {
			return rec, v, err
		}
		// The VM ended in between: its record says how.
		if now, gerr := in.cfg.Engine.Get(ctx, c, string(rec.ID)); gerr != nil || now.State == rec.State {
			return rec, nil, err
		}
	}
}

// collector continues after failures and lists what it could not read.
type collector struct {
	*visit
	mu       sync.Mutex
	problems []string
}

func (k *collector) failed(what string, err error) {
	if err == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.problems = append(k.problems, what+": "+why(err))
}

// collect takes two samples of a guest and follows up on what they show.
func (v *visit) collect(ctx context.Context, apart time.Duration) (*diagnose.Report, []string, error) {
	k := &collector{visit: v}
	r := &diagnose.Report{VM: v.rec, Usage: map[string][]diagnose.DiskUse{}, Screens: map[int]string{}}
	var err error
	if r.Before, err = v.guest.Evidence(ctx, false); err != nil {
		return nil, nil, err
	}
	done, stop := v.in.cfg.Clock.After(apart)
	defer stop()
	r.Services, err = services(ctx, v)
	k.failed("services", err)
	select {
	case <-done:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	asked := v.in.now()
	if r.After, err = v.guest.Evidence(ctx, true); err != nil {
		return nil, nil, err
	}
	r.Now = v.in.now()
	// The guest read its clock between sending the request and the answer.
	r.ClockSlack = r.Now.Sub(asked)
	r.ClockOff = r.After.State.Time.Sub(asked.Add(r.ClockSlack / 2))
	if v.mayBeRoot() { // they belong to every user
		r.Connections, err = v.Ports().Connections(ctx)
		k.failed("connections", err)
	}
	var ports sync.WaitGroup
	ports.Go(func() { v.askPorts(ctx, r.After.State.Ports) })
	k.units(ctx, r)
	k.commands(ctx, r)
	k.screens(ctx, r)
	k.disks(ctx, r)
	ports.Wait()
	judge(r.After.State.Roles, r.After.State.Ports)
	v.evidence(&r.Before)
	v.evidence(&r.After)
	return r, append(r.After.State.Problems, k.problems...), nil
}

// units reads the journals of failing units, which only root may read.
func (k *collector) units(ctx context.Context, r *diagnose.Report) {
	for _, s := range r.Services {
		if s.Active != "failed" && s.Sub != "auto-restart" {
			continue
		}
		if len(r.Units) == tellUnits {
			k.failed("services", vm.Errorf(vm.Limit, "", "only the first %d failed services were examined", tellUnits))
			return
		}
		u := diagnose.Unit{GuestService: s}
		if spec.CheckUnitName(s.Name) == nil {
			if k.mayBeRoot() {
				text, err := k.quietly(ctx, "journalctl", "--no-pager", "--output=json", "--unit="+spec.UnitName(s.Name), "--lines="+strconv.Itoa(tailLines))
				k.failed("journal of "+s.Name, err)
				for _, l := range spec.ParseJournal([]byte(text)) {
					u.Lines = append(u.Lines, l.Message)
				}
			}
			shown, err := k.quietly(ctx, "systemctl", "show", "--property=ExecStart", "--value", "--", spec.UnitName(s.Name))
			k.failed("unit "+s.Name, err)
			u.Exec = argvOf(shown)
		}
		r.Units = append(r.Units, u)
	}
}

// argvOf extracts the command line from systemd's "{ path=... ; argv[]=... ; ...".
func argvOf(shown string) string {
	_, rest, ok := strings.Cut(shown, "argv[]=")
	argv, _, _ := strings.Cut(rest, " ; ")
	if !ok {
		return strings.TrimSpace(shown)
	}
	return argv
}

// quietly runs one of Warren's programs in the guest and forgets it.
func (k *collector) quietly(ctx context.Context, argv ...string) (string, error) {
	return quietly(ctx, k.guest, 10*time.Second, argv...)
}

func quietly(ctx context.Context, g engine.Guest, limit time.Duration, argv ...string) (string, error) {
	x, err := g.Exec(ctx, vm.ExecSpec{Argv: argv, Cwd: "/", Timeout: vm.Millis(limit)})
	if err != nil {
		return "", err
	}
	out, errs := program.Head{Max: maxUnits}, program.Tail{Max: 1 << 10}
	st, err := x.Run(&out, &errs)
	_ = g.Forget(context.WithoutCancel(ctx), x.Process().ID) // it is not the user's command
	switch {
	case err != nil:
		return "", err
	case st.TimedOut:
		return out.String(), vm.Errorf(vm.Timeout, "", "%s took longer than %v", argv[0], limit)
	case st.Code == 127:
		return "", vm.Errorf(vm.Unsupported, "", "there is no %s in this guest", argv[0])
	}
	return out.String(), nil
}

// commands reads the ends of the logs of commands that run or ended recently.
func (k *collector) commands(ctx context.Context, r *diagnose.Report) {
	list, err := k.guest.Processes(ctx)
	k.failed("commands", err)
	for _, p := range slices.Backward(list) {
		if len(r.Commands) == tellLogs || p.LogBytes == 0 || k.hides(p.User) || p.EndedAt != nil && r.After.State.Time.Sub(*p.EndedAt) > logsOfAge {
			continue
		}
		lines, err := tail(ctx, k.guest, p, tailLines)
		k.failed("log of "+p.ID, err)
		r.Commands = append(r.Commands, diagnose.Command{Process: p, Lines: lines})
	}
}

// tail returns the last lines of a command's log.
func tail(ctx context.Context, g engine.Guest, p vm.Process, most int) ([]string, error) {
	l, _, err := g.Log(ctx, p.ID, max(p.LogBytes-tailBytes, p.LogStart), false)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	b, err := io.ReadAll(io.LimitReader(l, 2*tailBytes))
	lines := diagnose.Lines(b)
	return lines[max(len(lines)-most, 0):], err
}

// screens reads the last line of each terminal whose program waits for input.
func (k *collector) screens(ctx context.Context, r *diagnose.Report) {
	list, err := k.guest.Terminals(ctx)
	k.failed("terminals", err)
	for _, t := range list {
		if !t.Running() || len(r.Screens) == tellScreens || k.hides(t.User) {
			continue
		}
		got, err := k.guest.ReadTerminal(ctx, t.User, t.ID, max(t.End-tailBytes, t.Start))
		if err != nil {
			k.failed("terminal "+t.ID, err)
			continue
		}
		if lines := diagnose.Lines(got.Output); len(lines) > 0 {
			r.Screens[t.PID] = lines[len(lines)-1]
		}
	}
}

// disks finds out what fills the full disks. It runs as root, who can see every file.
func (k *collector) disks(ctx context.Context, r *diagnose.Report) {
	if !k.mayBeRoot() {
		return
	}
	for _, m := range r.After.State.Mounts {
		if !diagnose.Full(m) || len(r.Usage) == tellDisks {
			continue
		}
		text, err := quietly(ctx, k.guest, duTime, "nice", "stdbuf", "-oL", "du", "-x", "-k", "-d", "4", "--", m.Path)
		k.failed("directories of "+m.Path, err) // before the timeout it has listed some
		r.Usage[m.Path] = biggest(text, m.Path)
	}
}

// biggest parses du's output: the largest directories, the deepest first.
func biggest(text, top string) []diagnose.DiskUse {
	var all []diagnose.DiskUse
	for l := range strings.Lines(text) {
		n, where, ok := strings.Cut(strings.TrimSuffix(l, "\n"), "\t")
		kib, err := strconv.ParseInt(n, 10, 64)
		if ok && err == nil && where != top {
			all = append(all, diagnose.DiskUse{Path: where, Bytes: kib << 10})
		}
	}
	return diagnose.Biggest(all)
}
