// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/internal/treesync"
	"github.com/warren-vm/warren/vm"
)

type syncOptions struct {
	dir, place   string
	to, prefer   string
	watch        bool
	dryRun       bool
	forget       bool
	allowDeletes bool
	exclude      []string
	user         string
	json         bool
}

func newSync(a *app) *cobra.Command {
	o := &syncOptions{}
	cmd := &cobra.Command{
		Use:   "sync DIR NAME:PATH",
		Short: "Keep a directory of this computer and one of a VM alike",
		Long: `Compare DIR on this computer, PATH in the VM, and what both had after the last sync. A path that changed on one
side is copied to the other. A path that changed on both sides, or that was deleted on one and changed on the
other, is a conflict: it is listed, and neither side is touched. To solve a conflict, make both sides equal or
delete the one that you do not want, or let one side win with --prefer.

Nothing is overwritten silently. A file is checked again right before it is replaced. What is deleted here, or
replaced here because of --prefer, is first copied to a backup directory, which the output names. If more than
half of the files were deleted in the VM, nothing is deleted here without --allow-deletes. If the VM was rolled
back, sync stops: its older files do not replace newer ones here. --forget then compares both sides from the start.

.git is left out at any place: use Git for it. --exclude leaves out more: a name at any place, or a path from the
top if it has a slash. Links are copied as links; links in the VM that lead out of PATH, devices, pipes and sockets
are left out. Owners and permissions are not copied, except whether a file is executable.

The exit status is 0 if there is no conflict, else 1.

` + aboutWorkdir,
		Example: `  warren sync . app:/work/site
  warren sync . app:/work/site --watch
  warren sync out app:/work/out --to local
  warren sync . app:/work/site --exclude node_modules --exclude '*.log' --dry-run
  warren sync . app:/work/site --json | jq '.conflicts[].path'`,
		Args: args(2, 2, "which directories? warren sync DIR NAME:/path"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.dir, o.place = list[0], list[1]
			return a.sync(cmd.Context(), o)
		},
		ValidArgsFunction: func(cmd *cobra.Command, list []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(list) == 1 {
				return a.completePlace(cmd, list, prefix)
			}
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.to, "to", treesync.Both, "copy only in one direction: vm, local or both")
	f.StringVar(&o.prefer, "prefer", "", "the side that wins conflicts: vm or local (default none)")
	f.BoolVar(&o.watch, "watch", false, "continue when files change on either side, until ^C")
	f.BoolVar(&o.dryRun, "dry-run", false, "say what would be done, and do nothing")
	f.BoolVar(&o.forget, "forget", false, "compare both sides without the state of the last sync")
	f.BoolVar(&o.allowDeletes, "allow-deletes", false, "delete files here even if these are more than half of them")
	f.StringArrayVar(&o.exclude, "exclude", nil, "leave out what matches this name or path, with * and ?; may be repeated")
	f.StringVar(&o.user, "user", "", "Linux user in the guest to act as (default root)")
	f.BoolVar(&o.json, "json", false, "print the result as JSON, with --watch one line for each sync")
	for name, values := range map[string][]string{"to": {treesync.VM, treesync.Local, treesync.Both}, "prefer": {treesync.VM, treesync.Local}} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, noFiles)) // the flag exists
	}
	return cmd
}

// syncing is one pair of directories.
type syncing struct {
	*app
	o     *syncOptions
	c     *client.Client
	at    place
	vm    vm.ID
	dir   string // absolute
	pair  string // names the pair
	state string // directory of its state and backups
	here  *treesync.LocalSide
	there remoteSide
}

// synced is what --json prints.
type synced struct {
	Dir string `json:"dir"`
	VM  vm.ID  `json:"vm"`
	At  string `json:"path"`
	treesync.Report
	DryRun bool   `json:"dryRun,omitempty"`
	Backup string `json:"backup,omitempty"` // directory with what was deleted or replaced here
	Ms     int64  `json:"ms"`
}

func (a *app) sync(ctx context.Context, o *syncOptions) error {
	at, err := guestPlace(o.place)
	switch {
	case err != nil:
		return err
	case !slices.Contains([]string{treesync.Both, treesync.VM, treesync.Local}, o.to):
		return usage("--to %s is no direction", printable(o.to)).WithHint("use --to vm, --to local or --to both")
	case !slices.Contains([]string{"", treesync.VM, treesync.Local}, o.prefer):
		return usage("--prefer %s is no side", printable(o.prefer)).WithHint("use --prefer vm or --prefer local")
	case o.watch && (o.dryRun || o.forget):
		return usage("--watch cannot be used with --dry-run or --forget")
	}
	if err := treesync.CheckExclude(o.exclude); err != nil {
		return err
	}
	s := &syncing{app: a, o: o, at: at}
	if s.c, err = a.client(); err != nil {
		return err
	}
	if err := s.open(ctx); err != nil {
		return err
	}
	defer s.here.Close()
	if o.watch {
		return s.watch(ctx)
	}
	r, err := s.once(ctx)
	if err != nil {
		return err
	}
	if err := s.tell(r); err != nil {
		return err
	}
	if len(r.Conflicts) > 0 {
		return exitStatus(1)
	}
	return nil
}

// open finds both directories. The first sync makes the one that it copies to.
func (s *syncing) open(ctx context.Context) error {
	v, err := s.c.Get(ctx, s.at.vm)
	if err != nil {
		return err
	}
	s.vm = v.ID
	if s.dir, err = filepath.Abs(s.o.dir); err != nil {
		return localError(s.o.dir, err)
	}
	sum := sha256.Sum256([]byte(string(s.vm) + "\x00" + s.at.path + "\x00" + s.o.user + "\x00" + s.dir))
	s.pair = hex.EncodeToString(sum[:8])
	base := s.getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) {
		home := s.getenv("HOME")
		if !filepath.IsAbs(home) {
			return usage("the home directory is not known").WithHint("set HOME or XDG_STATE_HOME: the state of the sync is kept there")
		}
		base = filepath.Join(home, ".local", "state")
	}
	s.state = filepath.Join(base, "warren", "sync", s.pair)
	st, err := treesync.OpenState(s.state)
	if err != nil {
		return err
	}
	first := st.Mark == ""
	st.Close()
	if first && s.o.to != treesync.VM && !s.o.dryRun {
		if err := os.MkdirAll(s.dir, 0o755); err != nil {
			return localError(s.dir, err)
		}
	}
	if s.here, err = treesync.OpenLocal(s.dir); err != nil {
		return err
	}
	if first && s.o.to != treesync.Local && !s.o.dryRun {
		if err := s.c.Mkdir(ctx, s.at.vm, s.o.user, s.at.path, 0o755, true); err != nil {
			s.here.Close()
			return err
		}
	}
	s.there = remoteSide{c: s.c, vm: string(s.vm), user: s.o.user, path: s.at.path, to: onThisHost(s.dir)}
	return nil
}

// once makes both sides alike, as far as they are not in conflict.
func (s *syncing) once(ctx context.Context) (synced, error) {
	began := time.Now()
	out := synced{Dir: s.dir, VM: s.vm, At: s.at.path, DryRun: s.o.dryRun}
	st, err := treesync.OpenState(s.state)
	if err != nil {
		return out, err
	}
	defer st.Close()
	st.Dir, st.VM, st.Path = s.dir, string(s.vm), s.at.path
	if !s.o.dryRun {
		if err := s.here.Clean(); err != nil {
			return out, localError(s.dir, err)
		}
	}
	s.here.Backup, s.here.Kept = filepath.Join(s.state, "backup-"+began.UTC().Format("20060102T150405.000Z")), 0
	moved := new(atomic.Int64)
	p := s.io.progress(func() string { return "syncing " + s.dir + " with " + s.at.typed() + ", " + human(moved.Load()) })
	defer p.done()
	out.Report, err = treesync.Run(ctx, s.here, s.there, st, treesync.Options{
		Pair: s.pair, To: s.o.to, Prefer: s.o.prefer, DryRun: s.o.dryRun, Forget: s.o.forget, AllowDeletes: s.o.allowDeletes,
		Exclude: s.o.exclude, Folds: treesync.Folds(s.dir), Moved: moved,
	})
	p.done()
	if s.here.Kept > 0 {
		out.Backup = s.here.Backup
	}
	out.Ms = time.Since(began).Milliseconds()
	return out, err
}

const maxSyncTold = 20 // lines of one list; --json has all

// tell prints what a sync did.
func (s *syncing) tell(r synced) error {
	if s.o.json {
		if s.o.watch {
			return s.io.line(r)
		}
		return s.io.json(r)
	}
	some := func(n int, line func(i int) string) {
		for i := range min(n, maxSyncTold) {
			s.io.printf("%s\n", line(i))
		}
		if n > maxSyncTold {
			s.io.printf("  … and %d more; --json lists them\n", n-maxSyncTold)
		}
	}
	change := func(c treesync.Change) string {
		arrow := "→ VM  "
		if c.To == treesync.Local {
			arrow = "← VM  "
		}
		return fmt.Sprintf("%s %-8s %s", arrow, plain(c.What), c.Path.String())
	}
	some(len(r.Changes), func(i int) string { return change(r.Changes[i]) })
	if n := len(r.Held); n > 0 {
		s.io.printf("not copied, because of --to %s:\n", s.o.to)
		some(n, func(i int) string { return "  " + change(r.Held[i]) })
	}
	if n := len(r.LeftOut); n > 0 {
		s.io.printf("left out:\n")
		some(n, func(i int) string {
			return "  " + r.LeftOut[i].Path.String() + ": " + plain(r.LeftOut[i].Why)
		})
	}
	if n := len(r.Conflicts); n > 0 {
		s.io.printf("conflicts, neither side was touched:\n")
		some(n, func(i int) string {
			return "  " + r.Conflicts[i].Path.String() + ": " + plain(r.Conflicts[i].Why)
		})
	}
	if r.Backup != "" {
		s.io.printf("what was here before is in %s\n", printable(r.Backup))
	}
	if _, err := os.Lstat(filepath.Join(s.dir, ".git")); err == nil && !s.o.watch {
		s.io.notef(".git is left out; `warren clone %s` makes the VM's repository a remote of one here", s.at.typed())
	}
	switch n := len(r.Changes); {
	case r.DryRun:
		s.io.notef("%d changes and %d conflicts; nothing was done", n, len(r.Conflicts))
	default:
		s.io.notef("%d changes, %s, %d conflicts; %d files are alike", n, human(r.Bytes), len(r.Conflicts), r.Files)
	}
	return nil
}

// remoteSide is a directory of a VM.
type remoteSide struct {
	c              *client.Client
	vm, user, path string
	to             string // the directory of this computer, for the server's records
}

// List implements treesync.Side.
func (r remoteSide) List(ctx context.Context, o treesync.ListOptions) (treesync.Listing, error) {
	body, err := r.c.ListTree(ctx, r.vm, r.user, r.path, o)
	if err != nil {
		return treesync.Listing{}, err
	}
	defer body.Close()
	l, err := treesync.ReadListing(body)
	return l, r.incomplete(err)
}

// Pick implements treesync.Side.
func (r remoteSide) Pick(ctx context.Context, names []vm.GuestPath) (io.ReadCloser, error) {
	return r.c.PickFiles(client.WithDestination(ctx, r.to), r.vm, r.user, r.path, vm.TreePick{Names: names})
}

// Place implements treesync.Side.
func (r remoteSide) Place(ctx context.Context, in io.Reader, mark treesync.Mark) (treesync.Placed, error) {
	return r.c.PlaceFiles(ctx, r.vm, r.user, r.path, mark.Pair, mark.Value, in)
}

// incomplete says why an answer ended too early.
func (r remoteSide) incomplete(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return vm.Errorf(vm.GuestFault, r.path, "the VM's answer is incomplete: %w", err).WithHint("run it again")
	}
	return err
}
