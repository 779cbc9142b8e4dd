// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

type applyOptions struct {
	src, dir string
	from     string
	dry      bool
	json     bool
}

func newApply(a *app) *cobra.Command {
	o := &applyOptions{}
	cmd := &cobra.Command{
		Use:   "apply NAME:/path DIR",
		Short: "Apply a VM's changes to a directory of this computer",
		Long: `Apply what changed below a directory of a VM to a directory of this computer, such as your own clone of the same
repository. Everything is checked first: a path that was changed here, too, is a conflict, and then nothing is
written. Files that are committed in DIR may be replaced, because git can bring them back. Nothing outside of DIR
and nothing in .git is touched, and links on the way are refused.`,
		Example: "  warren apply app:/work/shop . --dry-run\n  warren apply app:/work/shop ~/shop\n  warren apply app:/work/shop . --from sl-0123456789abcdef --json",
		Args:    args(2, 2, "what, and to where? warren apply NAME:/path DIR"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.src, o.dir = list[0], list[1]
			return a.apply(cmd.Context(), o)
		},
		ValidArgsFunction: a.completePlace,
	}
	f := cmd.Flags()
	f.StringVar(&o.from, "from", "", "state with which the change begins: a generation, snapshot or turn, image, parent (default: what the VM was made from)")
	f.BoolVar(&o.dry, "dry-run", false, "only show what would be written")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

// applied is what an apply did or would do.
type applied struct {
	*applyPlan
	Applied    bool            `json:"applied"`
	Generation vm.GenerationID `json:"generation"`
}

func (a *app) apply(ctx context.Context, o *applyOptions) error {
	src, err := guestPlace(o.src)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(src.path, "/") || src.path == "/" {
		return usage("%s does not name a directory in a VM", printable(o.src)).WithHint("write NAME:/path, such as app:/work/shop")
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(o.dir)
	if err != nil {
		return localError(o.dir, err)
	}
	defer root.Close()
	p := a.io.doing("comparing %s", src.vm)
	base := vm.GuestPath(strings.TrimRight(src.path, "/"))
	d, err := c.Diff(ctx, src.vm, vm.DiffRequest{From: o.from, Paths: []vm.GuestPath{base}})
	p.done()
	if err != nil {
		return err
	}
	plan := newApplyPlan(root, committedIn(ctx, o.dir, root))
	if err := plan.plan(base, &d); err != nil {
		return err
	}
	out := applied{applyPlan: plan, Generation: d.To.Generation}
	if len(plan.Conflicts) == 0 && !o.dry {
		p := a.io.doing("applying %d changes", len(plan.Steps))
		err := plan.apply(func(paths []vm.GuestPath, w io.Writer) error {
			return contentTo(ctx, c, src.vm, api.ContentOf{State: string(d.To.Generation), Paths: paths}, w)
		})
		p.done()
		if err != nil {
			return err
		}
		out.Applied = true
	}
	if err := a.showApplied(out, o); err != nil {
		return err
	}
	if n := len(plan.Conflicts); n > 0 {
		return vm.Errorf(vm.Exists, o.dir, "%s cannot be applied; nothing was written", counted(n, "path")).
			WithHint("commit or remove what is here and apply again; or take the change as a commit and merge it with git: `warren commit %s %s --repo REPOSITORY`", src.vm, printable(src.path))
	}
	return nil
}

func contentTo(ctx context.Context, c *client.Client, ref string, in api.ContentOf, w io.Writer) error {
	r, err := c.Content(ctx, ref, in)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(w, r)
	return err
}

func (a *app) showApplied(out applied, o *applyOptions) error {
	if o.json {
		return a.io.json(out)
	}
	for _, c := range out.Conflicts {
		a.io.printf("conflict  %s: %s\n", c.Path, plain(c.Why))
	}
	if len(out.Conflicts) > 0 {
		return nil
	}
	for _, s := range out.Steps {
		note := ""
		if s.keep {
			note = "  (replaces what is committed here)"
		}
		if !a.io.quiet {
			a.io.printf("%-9s %s%s\n", s.Do, printable(s.Path), note)
		}
	}
	verb := "applied"
	if o.dry {
		verb = "would apply"
	}
	a.io.notef("%s %s to %s; %d were there already", verb, counted(len(out.Steps), "change"), printable(o.dir), out.Same)
	for _, why := range slices.Sorted(maps.Keys(out.LeftOut)) {
		a.io.notef("left out: %d %s", out.LeftOut[why], plain(why))
	}
	return nil
}

// committedIn returns a function that reports whether a file of a directory has the
// content of the last commit there. It is nil if the directory is in no repository. It
// asks git only for names of objects, so that no filter or hook runs.
func committedIn(ctx context.Context, dir string, root *os.Root) func(rel string) bool {
	top, err := exec.CommandContext(ctx, "git", "-C", dir, "rev-parse", "--show-prefix").Output()
	if err != nil {
		return nil
	}
	prefix := strings.TrimSpace(string(top))
	return func(rel string) bool {
		out, err := exec.CommandContext(ctx, "git", "-C", dir, "rev-parse", "--verify", "--quiet", "HEAD:"+prefix+rel).Output()
		if err != nil {
			return false
		}
		f, err := root.Open(filepath.FromSlash(rel))
		if err != nil {
			return false
		}
		defer f.Close()
		st, err := f.Stat()
		if err != nil {
			return false
		}
		sum := vm.NewBlobHash(st.Size())
		_, err = io.Copy(sum, f)
		return err == nil && bytes.Equal(bytes.TrimSpace(out), []byte(hex.EncodeToString(sum.Sum(nil))))
	}
}
