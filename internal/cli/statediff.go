// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"maps"
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// difference is one thing that differs between two VMs.
type difference struct {
	What  string `json:"what"`  // process, terminal, port, service, mount, role
	Name  string `json:"name"`  //
	Left  string `json:"left"`  // in the first VM; "" = missing
	Right string `json:"right"` // in the other VM
}

// differ prints the differences between two VMs.
func (o *stateOptions) differ(left, right vm.GuestState) error {
	for _, w := range []vm.GuestState{left, right} {
		if !w.Live {
			return vm.Errorf(vm.WrongState, or(w.Name, string(w.ID)), "the VM is %s; only running VMs can be compared", w.State).
				WithHint("start it first: `warren start %s`", or(w.Name, string(w.ID)))
		}
	}
	found := differences(left, right)
	if o.json {
		return list(o.app.io, found)
	}
	if len(found) == 0 {
		o.app.io.printf("no difference\n")
		return nil
	}
	name := func(w vm.GuestState) string { return strings.ToUpper(printable(or(w.Name, string(w.ID)))) }
	t := &table{head: []string{"WHAT", "NAME", name(left), name(right)}}
	for _, d := range found {
		t.add(d.What, plain(d.Name), plain(or(d.Left, "-")), plain(or(d.Right, "-")))
	}
	o.app.io.print(t)
	return nil
}

// differences compares things that have names. It leaves out processes of the
// system, which come and go.
func differences(left, right vm.GuestState) []difference {
	var out []difference
	a, b := facts(left), facts(right)
	for what := range a {
		names := maps.Clone(a[what])
		maps.Copy(names, b[what])
		for name := range names {
			if l, r := a[what][name], b[what][name]; l != r {
				out = append(out, difference{what, name, l, r})
			}
		}
	}
	slices.SortFunc(out, func(x, y difference) int {
		return strings.Compare(x.What+"\x00"+x.Name, y.What+"\x00"+y.Name)
	})
	return out
}

// facts maps each thing in a VM to its description, without values that always
// differ: times and usage.
func facts(w vm.GuestState) map[string]map[string]string {
	out := map[string]map[string]string{"process": {}, "terminal": {}, "port": {}, "service": {}, "mount": {}, "role": {}}
	for _, p := range w.Processes {
		if !p.System {
			out["process"][itoa(p.PID)+" "+p.Command] = "there"
			if p.State == "Z" || p.State == "T" {
				out["process"][itoa(p.PID)+" "+p.Command] = p.Waits
			}
		}
	}
	for _, t := range w.Terminals {
		out["terminal"][t.Name] = or(t.Command, t.Shell) + " in " + or(t.Cwd, "?") + " " + t.Waits
	}
	for _, p := range w.Ports {
		p.Probe.Millis = 0
		answer, _, _ := strings.Cut(answerText(p.Probe), " in 0 ms")
		out["port"][p.Proto+" "+p.Address+" "+itoa(p.Port)] = answer
	}
	for _, s := range w.Services {
		out["service"][s.Name] = s.Active + " (" + s.Sub + ")"
	}
	for _, m := range w.Mounts {
		out["mount"][m.Path] = m.Type + " " + m.Source
		if m.ReadOnly {
			out["mount"][m.Path] += " ro"
		}
	}
	for _, r := range w.Roles {
		alive := "alive"
		if !r.Alive {
			alive = "not alive"
		}
		out["role"][string(r.Role)+" "+itoa(r.PID)+" "+r.Seen] = alive
	}
	return out
}
