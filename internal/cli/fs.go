// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

func newFs(a *app) *cobra.Command {
	cmd := group("fs", "List, read and change files in a VM", "  warren fs ls box:/work\n  warren fs cat box:/etc/os-release",
		newFsLs(a), newFsCat(a), newFsWrite(a), newFsMkdir(a), newFsRm(a), newFsMv(a), newFsStat(a))
	cmd.Long = cmd.Short + ".\n\n" + aboutWorkdir
	return cmd
}

// fsOptions are the options of all file verbs; each verb uses some.
type fsOptions struct {
	places []place
	user   string
	deep   bool // recursive, or with parents
	mode   string
	json   bool
}

// fsVerb is a command on files of one VM.
type fsVerb struct {
	use, short, example string
	least, most         int
	do                  func(context.Context, *client.Client, *fsOptions) error
}

func (a *app) fsCommand(v fsVerb, o *fsOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use: v.use, Short: v.short, Example: v.example,
		Args: args(v.least, v.most, "a path is missing: write NAME:/path"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.places = o.places[:0]
			for _, s := range list {
				p, err := guestPlace(s)
				if err != nil {
					return err
				}
				o.places = append(o.places, p)
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			return v.do(cmd.Context(), c, o)
		},
		ValidArgsFunction: a.completePlace,
	}
	cmd.Flags().StringVar(&o.user, "user", "", "Linux user in the guest to act as (default root)")
	return cmd
}

func newFsLs(a *app) *cobra.Command {
	o := &fsOptions{}
	cmd := a.fsCommand(fsVerb{
		use: "ls NAME:/path", short: "List a directory", example: "  warren fs ls box:/work\n  warren fs ls box:/work --json", least: 1, most: 1,
		do: func(ctx context.Context, c *client.Client, o *fsOptions) error {
			l, err := c.ReadDir(ctx, o.places[0].vm, o.user, o.places[0].path)
			switch {
			case err != nil:
				return err
			case o.json:
				return list(a.io, l)
			}
			t := &table{head: []string{"MODE", "OWNER", "SIZE", "CHANGED", "NAME"}}
			for _, f := range l {
				t.add(modeText(f), fmt.Sprintf("%d:%d", f.UID, f.GID), human(f.Size), f.ModTime.Local().Format(time.DateTime), nameText(f))
			}
			if len(l) > 0 {
				a.io.print(t)
			}
			return nil
		},
	}, o)
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func modeText(f vm.FileInfo) string {
	letter := map[vm.FileKind]string{vm.FileDirectory: "d", vm.FileSymlink: "l", vm.FileOther: "?"}[f.Kind]
	return or(letter, "-") + (fs.FileMode(f.Mode) & 0o777).String()[1:]
}

func nameText(f vm.FileInfo) string {
	if f.Kind == vm.FileSymlink {
		return printable(f.Name) + " -> " + printable(f.Target)
	}
	return printable(f.Name)
}

func newFsCat(a *app) *cobra.Command {
	return a.fsCommand(fsVerb{
		use: "cat NAME:/path", short: "Print a file of any size", example: "  warren fs cat box:/etc/os-release", least: 1, most: 1,
		do: func(ctx context.Context, c *client.Client, o *fsOptions) error {
			_, r, err := c.GetRaw(ctx, o.places[0].vm, o.user, o.places[0].path, 0)
			if err != nil {
				return err
			}
			defer r.Close()
			w := a.io.guestWriter(false)
			_, err = io.Copy(w, r)
			return errors.Join(err, w.Close())
		},
	}, &fsOptions{})
}

func newFsWrite(a *app) *cobra.Command {
	o := &fsOptions{}
	cmd := a.fsCommand(fsVerb{
		use: "write NAME:/path", short: "Write standard input to a file", example: "  echo data | warren fs write box:/work/in.txt\n  warren fs write -p --mode 755 box:/opt/tool/run", least: 1, most: 1,
		do: func(ctx context.Context, c *client.Client, o *fsOptions) error {
			mode, err := parseMode(o.mode)
			if err != nil {
				return err
			}
			_, err = c.PutRaw(ctx, o.places[0].vm, o.user, o.places[0].path, mode, o.deep, -1, a.io.in)
			return a.changedQuietly(err, change{Name: o.places[0].String(), Result: "written"})
		},
	}, o)
	cmd.Flags().StringVar(&o.mode, "mode", "644", "permissions, octal")
	cmd.Flags().BoolVarP(&o.deep, "parents", "p", false, "make missing directories")
	return a.changing(cmd)
}

// parseMode reads octal permission bits.
func parseMode(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 8, 32)
	if err != nil || n > 0o7777 {
		return 0, usage("--mode: %s is not a mode", printable(s)).WithHint("give octal digits such as 644 or 755")
	}
	return uint32(n), nil
}

func newFsMkdir(a *app) *cobra.Command {
	o := &fsOptions{}
	cmd := a.fsCommand(fsVerb{
		use: "mkdir NAME:/path", short: "Make a directory", example: "  warren fs mkdir -p box:/work/a/b", least: 1, most: 1,
		do: func(ctx context.Context, c *client.Client, o *fsOptions) error {
			mode, err := parseMode(o.mode)
			if err != nil {
				return err
			}
			err = c.Mkdir(ctx, o.places[0].vm, o.user, o.places[0].path, mode, o.deep)
			return a.changedQuietly(err, change{Name: o.places[0].String(), Result: "made"})
		},
	}, o)
	cmd.Flags().StringVar(&o.mode, "mode", "755", "permissions, octal")
	cmd.Flags().BoolVarP(&o.deep, "parents", "p", false, "make missing parent directories; accept an existing directory")
	return a.changing(cmd)
}

func newFsRm(a *app) *cobra.Command {
	o := &fsOptions{}
	cmd := a.fsCommand(fsVerb{
		use: "rm NAME:/path...", short: "Remove files or, with -r, directories", example: "  warren fs rm box:/work/in.txt\n  warren fs rm -r box:/work/build", least: 1, most: -1,
		do: func(ctx context.Context, c *client.Client, o *fsOptions) error {
			for _, p := range o.places {
				err := c.Remove(ctx, p.vm, o.user, p.path, o.deep)
				if err = a.changedQuietly(err, change{Name: p.String(), Result: "removed"}); err != nil {
					return err
				}
			}
			return nil
		},
	}, o)
	cmd.Flags().BoolVarP(&o.deep, "recursive", "r", false, "remove a directory with everything in it")
	return a.changing(cmd)
}

func newFsMv(a *app) *cobra.Command {
	return a.changing(a.fsCommand(fsVerb{
		use: "mv NAME:/from NAME:/to", short: "Rename a file or directory in one VM", example: "  warren fs mv box:/work/a box:/work/b", least: 2, most: 2,
		do: func(ctx context.Context, c *client.Client, o *fsOptions) error {
			from, to := o.places[0], o.places[1]
			if from.vm != to.vm {
				return usage("%s and %s are in different VMs", from, to).WithHint("copy by way of this host: `warren cp`")
			}
			err := c.Rename(ctx, from.vm, o.user, from.path, to.path)
			return a.changedQuietly(err, change{Name: from.String(), Result: "renamed", To: to.String()})
		},
	}, &fsOptions{}))
}

func newFsStat(a *app) *cobra.Command {
	o := &fsOptions{}
	cmd := a.fsCommand(fsVerb{
		use: "stat NAME:/path", short: "Describe a file, not following a symlink", example: "  warren fs stat box:/work/in.txt --json", least: 1, most: 1,
		do: func(ctx context.Context, c *client.Client, o *fsOptions) error {
			f, err := c.Stat(ctx, o.places[0].vm, o.user, o.places[0].path)
			switch {
			case err != nil:
				return err
			case o.json:
				return a.io.json(f)
			}
			a.io.printf("%s %s %d bytes, mode %04o, owner %d:%d, changed %s\n", f.Kind, nameText(f), f.Size, f.Mode, f.UID, f.GID, f.ModTime.Local().Format(time.DateTime))
			return nil
		},
	}, o)
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}
