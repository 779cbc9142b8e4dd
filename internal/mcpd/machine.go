// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package mcpd

import (
	"context"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// machine is a machine as a model sees it.
type machine struct {
	Name      string            `json:"name,omitempty"`
	ID        string            `json:"id"`
	State     string            `json:"state" jsonschema:"running, suspended (asleep: the next call wakes it), stopped, ..."`
	Image     string            `json:"image"`
	Network   string            `json:"network" jsonschema:"closed, packages or open; the tool network has the rules"`
	CPUs      int               `json:"cpus"`
	MemoryMiB int               `json:"memory_mib"`
	DiskMiB   int               `json:"disk_mib"`
	Workdir   string            `json:"workdir,omitempty"`
	Parent    string            `json:"parent,omitempty" jsonschema:"id of the machine that it was copied from"`
	CreatedAt string            `json:"created_at"`
	ExpiresAt string            `json:"expires_at,omitempty" jsonschema:"then it is deleted"`
	Labels    map[string]string `json:"labels,omitempty"`
	Warning   string            `json:"warning,omitempty"`
}

func machineOf(v api.VM) machine {
	m := machine{
		Name: v.Name, ID: string(v.ID), State: string(v.State), Image: v.Image, Network: v.Network, CPUs: v.Sizing.VCPUCount,
		MemoryMiB: v.Sizing.MemSizeMib, DiskMiB: v.Sizing.RootfsSizeMib, Workdir: v.Workdir, Parent: string(v.ParentVMID),
		CreatedAt: v.CreatedAt.Format(time.RFC3339), Labels: v.Labels, Warning: v.Warning,
	}
	if !v.ExpiresAt.IsZero() {
		m.ExpiresAt = v.ExpiresAt.Format(time.RFC3339)
	}
	return m
}

type machinesIn struct {
	Machine string   `json:"machine,omitempty" jsonschema:"only this machine, by name or id"`
	Labels  []string `json:"labels,omitempty" jsonschema:"only machines with all of these labels, such as task=42"`
}

type machinesOut struct {
	Machines []machine `json:"machines"`
	More     int       `json:"more,omitempty" jsonschema:"how many machines are left out"`
}

type createIn struct {
	Name      string            `json:"name,omitempty" jsonschema:"a short name. If a machine has it, that one is started and returned"`
	Image     string            `json:"image,omitempty" jsonschema:"an image, or a snapshot's id or name; default base (Debian). Others, where they are built: agents, node, python, go, desktop, docker"`
	Network   string            `json:"network,omitempty" jsonschema:"what it may reach: closed, packages, open, or hosts such as api.example.com:443, with commas between; default as the server says"`
	CPUs      int               `json:"cpus,omitempty"`
	MemoryMiB int               `json:"memory_mib,omitempty"`
	DiskGiB   int               `json:"disk_gib,omitempty"`
	TTL       int               `json:"ttl_seconds,omitempty" jsonschema:"delete it after this time, in any state; default never"`
	Idle      *int              `json:"idle_timeout_seconds,omitempty" jsonschema:"suspend it after this time without use; default 300, 0 = never"`
	Labels    map[string]string `json:"labels,omitempty"`
	Secrets   []string          `json:"secrets,omitempty" jsonschema:"names of secrets that its network puts into requests"`
}

type createOut struct {
	Machine machine `json:"machine"`
	Created bool    `json:"created" jsonschema:"false: it was there, and was started"`
}

type changeIn struct {
	Machine string `json:"machine" jsonschema:"name or id of the machine"`
	Action  string `json:"action" jsonschema:"start; suspend (files and processes stay, nothing runs); stop (shut down: processes are lost, files stay); delete (everything is lost)"`
}

type changeOut struct {
	Machine *machine `json:"machine,omitempty" jsonschema:"absent after delete"`
	Deleted bool     `json:"deleted,omitempty"`
}

func (s *Server) addMachines() {
	add(s, &mcp.Tool{
		Name: "list_machines", Annotations: reads("List machines"),
		Description: "List the machines that you may use, or look at one.",
	}, listMachines)
	add(s, &mcp.Tool{
		Name: "create_machine", Annotations: adds("Create a machine"),
		Description: "Make a machine and start it, or start the one of that name. It is ready when the call returns.",
	}, createMachine)
	add(s, &mcp.Tool{
		Name: "change_machine", Annotations: loses("Start, suspend, stop or delete a machine"),
		Description: "Start, suspend, stop or delete a machine.",
	}, changeMachine)
}

func listMachines(ctx context.Context, k *call, in machinesIn) (machinesOut, error) {
	out := machinesOut{Machines: []machine{}}
	if in.Machine != "" {
		v, err := k.c.Get(ctx, in.Machine)
		return machinesOut{Machines: []machine{machineOf(v)}}, err
	}
	l, err := k.c.List(ctx, false, in.Labels...)
	out.More = max(0, len(l.VMs)-listMost)
	for _, v := range l.VMs[out.More:] {
		out.Machines = append(out.Machines, machineOf(v))
	}
	return out, err
}

func createMachine(ctx context.Context, k *call, in createIn) (out createOut, err error) {
	if in.Name != "" {
		v, err := k.c.Get(ctx, in.Name)
		if err == nil {
			defer k.doing(ctx, "starting "+in.Name)()
			_, err = k.c.Start(ctx, in.Name, api.StartVM{})
			if err == nil {
				v, err = k.c.Get(ctx, in.Name)
			}
			return createOut{Machine: machineOf(v)}, err
		}
		if k := vm.KindOf(err); k != vm.NotFound && k != vm.Denied { // a stranger does not learn which names exist
			return out, err
		}
	}
	r := api.CreateVM{Name: in.Name, UniqueName: in.Name != "", Image: in.Image, Network: vm.NetworkSpec(in.Network), Labels: in.Labels, Secrets: in.Secrets}
	r.VCPUCount, r.MemSizeMib, r.RootfsSizeGb = in.CPUs, in.MemoryMiB, in.DiskGiB
	if in.TTL > 0 {
		r.TTL = vm.Some(secondsOf(in.TTL))
	}
	if in.Idle != nil {
		if r.IdleTimeout = vm.Null[vm.Seconds](); *in.Idle > 0 {
			r.IdleTimeout = vm.Some(secondsOf(*in.Idle))
		}
	}
	defer k.doing(ctx, "making a machine")()
	made, err := k.c.Create(ctx, r)
	return createOut{Machine: machineOf(made.VM), Created: true}, err
}

func changeMachine(ctx context.Context, k *call, in changeIn) (out changeOut, err error) {
	defer k.doing(ctx, fmt.Sprintf("%s %s", in.Action, in.Machine))()
	switch in.Action {
	case "start":
		_, err = k.c.Start(ctx, in.Machine, api.StartVM{})
	case "suspend":
		_, err = k.c.Suspend(ctx, in.Machine, api.SuspendVM{})
	case "stop":
		_, err = k.c.Stop(ctx, in.Machine)
	case "delete":
		err = k.c.Delete(ctx, in.Machine)
		return changeOut{Deleted: err == nil}, err
	default:
		err = unknownAction(in.Action, "start, suspend, stop or delete")
	}
	if err != nil {
		return out, err
	}
	v, err := k.c.Get(ctx, in.Machine)
	m := machineOf(v)
	return changeOut{Machine: &m}, err
}

func secondsOf(n int) vm.Seconds { return vm.Seconds(time.Duration(n) * time.Second) }
