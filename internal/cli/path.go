// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

func newPath(a *app) *cobra.Command {
	return group("path", "Say which paths of a VM may be read and changed", "  warren path hide box .env --mount /src\n  warren path read-only box /src/docs\n  warren path show box",
		newPathShow(a), newPathRm(a),
		newPathRule(a, vm.PathHide, "Let paths look as if they did not exist"),
		newPathRule(a, vm.PathDeny, "Deny paths: their names are seen, their content is not"),
		newPathRule(a, vm.PathAsk, "Let each first access to paths wait for an approval"),
		newPathRule(a, vm.PathReadOnly, "Allow to read paths, not to change them"),
		newPathRule(a, vm.PathAllow, "Allow paths that another rule restricts"))
}

type pathOptions struct {
	name  string
	mount string
	json  bool
}

const pathHelp = `

The newest rule comes first, and the first rule that matches a path decides. A rule about a directory is about
all that is below it. In PATTERN * stands for a part of a name, ? for a character and ** for any directories; a
pattern without a leading slash matches at any depth. Rules that restrict ignore case.

In directories of the host a rule binds every program of the VM, root's too. On the VM's own disk and on volumes
it binds calls of the file API only, such as "warren cp": "warren path show" says where a rule is void.`

func newPathRule(a *app, action vm.PathAction, short string) *cobra.Command {
	o := &pathOptions{}
	verb := string(action)
	cmd := a.changing(&cobra.Command{
		Use: verb + " NAME PATTERN", Short: short, Long: short + "." + pathHelp,
		Example: "  warren path " + verb + " box /src/keys\n  warren path " + verb + " box '*.pem' --mount /src",
		Args:    args(2, 2, "warren path "+verb+" NAME PATTERN"),
		RunE: func(cmd *cobra.Command, list []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			got, err := c.AddPath(cmd.Context(), list[0], api.AddPath{Action: action, Path: list[1], Mount: o.mount})
			if err == nil && len(got.Rules) > 0 {
				r := got.Rules[0]
				a.changed(change{Name: list[0], Result: verb, text: verb + " " + printable(r.Path)})
				a.voidNote(r)
			}
			return err
		},
		ValidArgsFunction: a.completeVM,
	})
	cmd.Flags().StringVar(&o.mount, "mount", "", "the pattern is about what is below this mount point")
	return cmd
}

// voidNote says where root in the guest makes a rule void.
func (a *app) voidNote(r vm.PathRuleShown) {
	for _, p := range r.Places {
		if p.Void {
			a.io.notef("void for programs in %s (%s): %s", printable(p.Path), plain(p.Kind), plain(p.Why))
		}
	}
}

func newPathRm(a *app) *cobra.Command {
	o := &pathOptions{}
	cmd := a.changing(&cobra.Command{
		Use: "rm NAME RULE", Short: "Remove a path rule", Example: "  warren path rm box /src/docs\n  warren path rm box .env --mount /src",
		Long: "Remove a path rule. RULE is its pattern or its id.",
		Args: args(2, 2, "warren path rm NAME RULE"),
		RunE: func(cmd *cobra.Command, list []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if _, err = c.RemovePath(cmd.Context(), list[0], list[1], o.mount); err == nil {
				a.changed(change{Name: list[0], Result: "removed", text: "removed " + printable(list[1])})
			}
			return err
		},
		ValidArgsFunction: a.completeVM,
	})
	cmd.Flags().StringVar(&o.mount, "mount", "", "the pattern is about what is below this mount point")
	return cmd
}

func newPathShow(a *app) *cobra.Command {
	o := &pathOptions{}
	cmd := &cobra.Command{
		Use: "show NAME", Aliases: []string{"ls"}, Short: "List the path rules of a VM, and where they hold", Example: "  warren path show box\n  warren path show box --json",
		Args: args(1, 1, "which VM? warren path show NAME"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			return a.pathShow(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVM,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) pathShow(ctx context.Context, o *pathOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	got, err := c.Paths(ctx, o.name)
	switch {
	case err != nil:
		return err
	case o.json:
		return list(a.io, got.Rules)
	case len(got.Rules) == 0:
		a.io.notef("%s has no path rules: every path is allowed", printable(o.name))
		return nil
	}
	t := &table{head: []string{"ACTION", "PATH", "HOLDS IN", "FILE API ONLY IN", "ID"}}
	for _, r := range got.Rules {
		var holds, void []string
		for _, p := range r.Places {
			if p.Void {
				void = append(void, p.Path)
			} else {
				holds = append(holds, p.Path)
			}
		}
		t.add(plain(string(r.Action)), printable(r.Path), printable(or(strings.Join(holds, " "), "-")), printable(or(strings.Join(void, " "), "-")), plain(r.ID))
	}
	a.io.print(t)
	return nil
}

// pathRules reads the values of --path: ACTION:PATTERN.
func pathRules(list []string) (out []api.AddPath, err error) {
	for _, s := range list {
		action, pattern, ok := strings.Cut(s, ":")
		if !ok || pattern == "" {
			return nil, usage("--path %s: it is not ACTION:PATTERN", s).WithHint("write for example --path hide:/src/.env")
		}
		out = append(out, api.AddPath{Action: vm.PathAction(action), Path: pattern})
	}
	return out, nil
}
