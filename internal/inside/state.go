// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/program"
	"github.com/warren-vm/warren/vm"
)

// Limits of the requests to a guest's ports.
const (
	probeMost   = 64
	probeAtOnce = 16
	probeTime   = 1500 * time.Millisecond
	maxUnits    = 256 << 10 // bytes of systemctl's output
)

// State describes a VM: the lists of its guest, each port with its answer to a request,
// and what the last start restored and lost. If the VM does not run, only its record is
// used.
func (in *Inside) State(ctx context.Context, c *vm.Call, ref string) (vm.GuestState, error) {
	rec, v, err := in.look(ctx, c, ref)
	if err != nil {
		return vm.GuestState{}, err
	}
	if v == nil {
		return in.known(rec), nil
	}
	bounded, stop := v.bounded(0)
	defer stop()
	out, err := v.state(bounded)
	err = v.Fail(bounded, err)
	v.End(err, nil)
	if err != nil {
		return vm.GuestState{}, err
	}
	return out, nil
}

// known returns the state from a VM's record alone. Lists are never nil.
func (in *Inside) known(rec vm.VM) vm.GuestState {
	out := vm.GuestState{
		ID: rec.ID, Name: rec.Name, State: rec.State, Time: in.now(), StartedAt: rec.StartedAt,
		From: origin(rec), Generation: rec.Generation, Parent: rec.Parent,
		Restored: append([]string{}, rec.Restored...), Losses: append([]string{}, rec.Losses...),
		Processes: []vm.GuestProcess{}, Terminals: []vm.GuestTerminal{}, Ports: []vm.GuestPort{}, Services: []vm.GuestService{},
		Mounts: []vm.GuestMount{}, Roles: []vm.GuestRole{}, Problems: []string{},
	}
	if rec.State == vm.Suspended && rec.TerminalsOmitted > 0 {
		out.Problems = append(out.Problems, fmt.Sprintf("terminal sessions: %d more that the guest named were not recorded", rec.TerminalsOmitted))
	}
	return out
}

// origin describes what a VM's machine was or will be started from.
func origin(rec vm.VM) string {
	switch {
	case rec.State == vm.Suspended && rec.Generation != "":
		return "will continue from generation " + string(rec.Generation)
	case rec.Generation != "":
		return "generation " + string(rec.Generation)
	case rec.State == vm.Stopped:
		return "will boot on its own disk"
	case rec.Booted:
		return "a boot on its own disk"
	}
	return "the warm generation of image " + cmp.Or(rec.ImageName, string(rec.Image))
}

// lostTerminals adds the sessions that ended when an agent died.
func (v *visit) lostTerminals(ctx context.Context, out *vm.GuestState) {
	list, err := v.guest.Terminals(ctx)
	if err != nil {
		out.Problems = append(out.Problems, "terminal sessions: "+err.Error())
		return
	}
	for _, t := range list {
		if t.Lost && !v.hides(t.User) {
			out.Losses = append(out.Losses, "terminal session "+t.ID+" ("+clip(cmp.Or(t.Command, "login shell"))+"): it ended because the guest's agent died")
		}
	}
}

// state asks the guest, then its ports and its systemd concurrently.
func (v *visit) state(ctx context.Context) (vm.GuestState, error) {
	out := v.in.known(v.rec)
	got, err := v.guest.State(ctx)
	if err != nil {
		return vm.GuestState{}, err
	}
	out.Live, out.Time, out.UptimeSeconds = true, got.Time, got.UptimeSeconds
	out.Processes = append(out.Processes, got.Processes...)
	out.Terminals = append(out.Terminals, got.Terminals...)
	v.lostTerminals(ctx, &out)
	out.Ports = append(out.Ports, got.Ports...)
	out.Mounts = append(out.Mounts, got.Mounts...)
	out.Roles = append(out.Roles, got.Roles...)
	out.Problems = append(out.Problems, got.Problems...)
	var units sync.WaitGroup
	var failed string
	units.Go(func() {
		var err error
		if out.Services, err = services(ctx, v); err != nil {
			failed = "services: " + err.Error()
		}
	})
	v.askPorts(ctx, out.Ports)
	units.Wait()
	if failed != "" {
		out.Services = []vm.GuestService{}
		out.Problems = append(out.Problems, failed)
	}
	judge(out.Roles, out.Ports)
	v.hide(&out)
	return out, nil
}

// askPorts sends a request to each TCP port that the host can reach.
func (v *visit) askPorts(ctx context.Context, ports []vm.GuestPort) {
	var all sync.WaitGroup
	slots := make(chan struct{}, probeAtOnce)
	asked := 0
	for i := range ports {
		p := &ports[i]
		addr, err := netip.ParseAddr(p.Address)
		// The agent itself asked ports that listen on one address only; the host may not
		// be able to reach that address.
		if !strings.HasPrefix(p.Proto, "tcp") || err != nil || !addr.IsUnspecified() || p.Port < 1 || p.Port > 65535 {
			continue
		}
		if asked++; asked > probeMost {
			p.Probe = vm.Probe{Kind: "none", Why: "too many ports to ask them all"}
			continue
		}
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			p.Probe = v.askPort(ctx, p.ListeningPort)
		})
	}
	all.Wait()
}

// askPort sends one request over the VM's network.
func (v *visit) askPort(ctx context.Context, l vm.ListeningPort) (p vm.Probe) {
	begin := v.in.now()
	defer func() { p.From, p.Millis = "host", v.in.now().Sub(begin).Milliseconds() }()
	ctx, stop := context.WithTimeout(ctx, probeTime)
	defer stop()
	conn, err := v.Ports().DialPort(ctx, uint16(l.Port))
	if err != nil {
		return vm.Probe{Kind: "refused", Why: why(err)}
	}
	defer conn.Close()
	unhook := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer unhook()
	request := vm.ProbeRequest(l.Command, l.Port)
	if _, err := io.WriteString(conn, request); err != nil && ctx.Err() == nil {
		return vm.ReadProbe(request, nil, true)
	}
	buf := make([]byte, vm.MaxProbe)
	for n := 0; ; {
		m, err := conn.Read(buf[n:])
		n += m
		if err != nil || vm.ProbeComplete(buf[:n]) {
			return vm.ReadProbe(request, buf[:n], err != nil && ctx.Err() == nil)
		}
	}
}

// why is the text of an error for a table column, without subject and hint.
func why(err error) string {
	if e := vm.AsError(err); e.Msg != "" {
		return e.Msg
	}
	return err.Error()
}

// judge uses the answers of the ports to judge the databases behind them.
func judge(roles []vm.GuestRole, ports []vm.GuestPort) {
	for i := range roles {
		r := &roles[i]
		if r.Role != vm.RoleDatabase {
			continue
		}
		asked, answered := 0, 0
		for _, p := range ports {
			if p.PID != r.PID || p.Probe.From == "" {
				continue
			}
			if asked++; p.Probe.OK && p.Probe.Kind != "silent" {
				answered++
				r.Why += fmt.Sprintf("; port %d answers (%s)", p.Port, p.Probe.Kind)
			}
		}
		if asked > 0 && answered == 0 {
			r.Alive = false
			r.Why += "; none of its ports answers"
		}
	}
}

// services asks the guest's systemd for its services.
func services(ctx context.Context, v *visit) ([]vm.GuestService, error) {
	x, err := v.guest.Exec(ctx, vm.ExecSpec{
		Argv: []string{"systemctl", "list-units", "--type=service", "--all", "--full", "--no-legend", "--no-pager", "--plain"}, Cwd: "/",
		Timeout: vm.Millis(5 * time.Second),
	})
	if err != nil {
		return nil, err
	}
	stdout, stderr := program.Head{Max: maxUnits}, program.Head{Max: 1 << 10}
	st, err := x.Run(&stdout, &stderr)
	_ = v.guest.Forget(context.WithoutCancel(ctx), x.Process().ID) // it is not the user's command
	switch {
	case err != nil:
		return nil, err
	case st.TimedOut:
		return nil, errors.New("systemctl gave no answer in 5 s")
	case st.Code == 127:
		return nil, errors.New("there is no systemctl in this guest")
	case st.Code != 0:
		return nil, fmt.Errorf("systemctl: status %d: %s", st.Code, clip(strings.TrimSpace(stderr.String())))
	}
	return parseUnits(stdout.String()), nil
}

// parseUnits parses systemctl's listing. It leaves out units that have no file and are
// only mentioned by others.
func parseUnits(text string) []vm.GuestService {
	out := []vm.GuestService{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 4 || f[1] == "not-found" {
			continue
		}
		name, ok := strings.CutSuffix(f[0], ".service")
		if !ok {
			continue
		}
		out = append(out, vm.GuestService{Name: name, Active: f[2], Sub: f[3], Description: strings.Join(f[4:], " ")})
	}
	slices.SortFunc(out, func(a, b vm.GuestService) int { return strings.Compare(a.Name, b.Name) })
	return out
}
