// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/vm"
)

func newService(a *app) *cobra.Command {
	return group("service", "Manage services of a VM's systemd",
		"  warren service ls box\n  warren service add box web --workdir /srv -- python3 -m http.server 3000\n  warren service logs box web",
		newServiceLs(a), newServiceStatus(a), newServiceLogs(a), newServiceAdd(a), newServiceRm(a),
		newServiceSwitch(a, "start"), newServiceSwitch(a, "stop"), newServiceSwitch(a, "restart"))
}

type serviceOptions struct {
	name     string // of the VM
	services []string
	command  []string
	all      bool
	json     bool
	lines    int
	since    string
	unit     vm.Unit
	user     string
	workdir  string
	env      []string
	restart  string
	disabled bool
}

// serviceCommand is a command about a VM and, with one, of its services.
func serviceCommand(a *app, o *serviceOptions, use, short, example string, least, most int, do func(context.Context, *serviceOptions) error) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Example: example,
		Args: args(least, most, "warren service "+use),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name, o.services = list[0], list[1:]
			return do(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVM,
	}
}

func newServiceLs(a *app) *cobra.Command {
	o := &serviceOptions{}
	cmd := serviceCommand(a, o, "ls VM", "List services", "  warren service ls box\n  warren service ls box --all\n  warren service ls box --json", 1, 1, a.serviceLs)
	cmd.Flags().BoolVarP(&o.all, "all", "a", false, "also inactive services")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) serviceLs(ctx context.Context, o *serviceOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	l, err := c.Services(ctx, o.name)
	switch {
	case err != nil:
		return err
	case o.json:
		return list(a.io, l)
	}
	t := &table{head: []string{"SERVICE", "ACTIVE", "STATE", "DESCRIPTION"}}
	for _, s := range l {
		if o.all || s.ActiveState != "inactive" {
			t.add(printable(s.Name), plain(s.ActiveState), plain(s.SubState), printable(s.Description))
		}
	}
	a.io.print(t)
	return nil
}

func newServiceStatus(a *app) *cobra.Command {
	o := &serviceOptions{}
	cmd := serviceCommand(a, o, "status VM SERVICE", "Show the state of a service", "  warren service status box web\n  warren service status box web --json", 2, 2, a.serviceStatus)
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) serviceStatus(ctx context.Context, o *serviceOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	s, err := c.Service(ctx, o.name, o.services[0])
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(s)
	}
	a.io.printf("%s: %s (%s), %s\n%s\n", printable(s.Name), plain(s.ActiveState), plain(s.SubState), plain(or(s.Enabled, s.LoadState)), printable(s.Description))
	return nil
}

func newServiceLogs(a *app) *cobra.Command {
	o := &serviceOptions{}
	cmd := serviceCommand(a, o, "logs VM SERVICE", "Show the last lines of a service's journal",
		"  warren service logs box web\n  warren service logs box web --tail 20 --since '10 min ago'\n  warren service logs box web --json", 2, 2, a.serviceLogs)
	cmd.Flags().IntVarP(&o.lines, "tail", "n", 100, "only the last N lines")
	cmd.Flags().IntVar(&o.lines, "lines", 100, "the same as --tail")
	cmd.Flags().StringVar(&o.since, "since", "", "only lines from this time on")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) serviceLogs(ctx context.Context, o *serviceOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	l, err := c.ServiceLogs(ctx, o.name, o.services[0], o.lines, o.since)
	switch {
	case err != nil:
		return err
	case o.json:
		return list(a.io, l)
	}
	for _, line := range l {
		a.io.printf("%s %s\n", line.Timestamp.Local().Format(time.TimeOnly), printable(line.Message))
	}
	return nil
}

func newServiceAdd(a *app) *cobra.Command {
	o := &serviceOptions{}
	cmd := &cobra.Command{
		Use: "add VM SERVICE [flags] -- CMD [ARG...]", Short: "Install a service and start it",
		Long: "Install a systemd service and start it, now and with the VM. --oneshot is for a command that ends.",
		Example: "  warren service add box web --workdir /srv -- python3 -m http.server 3000\n" +
			"  warren service add box job --oneshot --env LEVEL=debug -- /opt/job.sh\n  warren service add box worker --restart on-failure --user ann -- /opt/worker",
		Args: args(3, -1, "warren service add VM SERVICE -- CMD"),
		RunE: func(cmd *cobra.Command, list []string) error {
			if cmd.ArgsLenAtDash() != 2 {
				return usage("the command comes after --").WithHint("warren service add %s %s -- CMD", list[0], list[1])
			}
			o.name, o.services, o.command = list[0], list[1:2], list[2:]
			if err := o.fill(); err != nil {
				return err
			}
			return a.serviceAdd(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVM,
	}
	f := cmd.Flags()
	f.BoolVar(&o.all, "oneshot", false, "the command ends; the service then is active until it is stopped")
	f.StringVar(&o.user, "user", "", "Linux user to run as (default root)")
	f.StringVar(&o.workdir, "workdir", "", "directory to run in")
	f.StringArrayVarP(&o.env, "env", "e", nil, "a variable as KEY=VALUE")
	f.StringVar(&o.restart, "restart", "", "when to restart it: no, on-failure, always, on-abnormal")
	f.BoolVar(&o.disabled, "disabled", false, "only install it")
	return a.changing(cmd)
}

// fill makes a unit from the flags and arguments.
func (o *serviceOptions) fill() error {
	quoted := make([]string, 0, len(o.command))
	for _, w := range o.command {
		quoted = append(quoted, unitWord(w))
	}
	o.unit = vm.Unit{Name: o.services[0], Mode: vm.UnitService, Exec: []string{strings.Join(quoted, " ")}}
	if o.all {
		o.unit.Mode = vm.UnitOneshot
	}
	for _, kv := range o.env {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return usage("%s is not KEY=VALUE", printable(kv))
		}
		if o.unit.Env == nil {
			o.unit.Env = map[string]string{}
		}
		o.unit.Env[k] = v
	}
	if o.user != "" {
		o.unit.User = &o.user
	}
	if o.workdir != "" {
		o.unit.Workdir = &o.workdir
	}
	if o.restart != "" {
		o.unit.RestartPolicy = &vm.RestartPolicy{Policy: o.restart}
	}
	if o.disabled {
		enable := false
		o.unit.Enable = &enable
	}
	return nil
}

// unitWord quotes one word for systemd, so that it arrives unchanged.
func unitWord(w string) string {
	if w != "" && !strings.ContainsAny(w, " \t\n\"'\\$;") {
		return w
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", "$$", "\n", `\n`, "\t", `\t`).Replace(w) + `"`
}

func (a *app) serviceAdd(ctx context.Context, o *serviceOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	r, err := c.AddService(ctx, o.name, o.unit)
	if err != nil {
		return err
	}
	if !r.Success {
		return vm.Errorf(vm.GuestFault, r.ServiceName, "installed, but it does not start: %s", firstLine(r.Message)).
			WithHint("`warren service logs %s %s` shows what it wrote", o.name, o.services[0])
	}
	a.changed(change{Name: r.ServiceName, Result: r.Message})
	return nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func newServiceRm(a *app) *cobra.Command {
	o := &serviceOptions{}
	return a.changing(serviceCommand(a, o, "rm VM SERVICE...", "Stop and remove added services", "  warren service rm box web", 2, -1, a.serviceRm))
}

func (a *app) serviceRm(ctx context.Context, o *serviceOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	for _, s := range o.services {
		if err := c.RemoveService(ctx, o.name, s); err != nil {
			return err
		}
		a.changed(change{Name: s, Result: "removed"})
	}
	return nil
}

func newServiceSwitch(a *app, verb string) *cobra.Command {
	o := &serviceOptions{}
	run := func(ctx context.Context, o *serviceOptions) error { return a.serviceSwitch(ctx, verb, o) }
	short := strings.ToUpper(verb[:1]) + verb[1:] + " services"
	return a.changing(serviceCommand(a, o, verb+" VM SERVICE...", short, "  warren service "+verb+" box web", 2, -1, run))
}

func (a *app) serviceSwitch(ctx context.Context, verb string, o *serviceOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	results, err := c.SwitchServices(ctx, o.name, verb, o.services...)
	if err != nil {
		return err
	}
	for _, r := range results {
		if !r.Success {
			return vm.Errorf(vm.GuestFault, r.ServiceID, "%s: %s", verb, firstLine(r.Message)).
				WithHint("`warren service logs %s %s` shows what it wrote", o.name, r.ServiceID)
		}
		a.changed(change{Name: r.ServiceID, Result: r.Message})
	}
	return nil
}
