// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"
)

type watchFilesOptions struct {
	name  string
	paths []string
	user  string
	json  bool
}

func newWatchFiles(a *app) *cobra.Command {
	o := &watchFilesOptions{}
	cmd := &cobra.Command{
		Use:   "watch-files NAME [PATH...]",
		Short: "Print file changes until ^C",
		Long: `Print files that are created, modified, renamed or deleted below each PATH, a directory or a file, until ^C or
until one of the paths is removed. The default PATH is the working directory.

` + aboutWorkdir,
		Example: `  warren watch-files box
  warren watch-files box src /etc/nginx
  warren watch-files box --json | jq -r .filename`,
		Args: args(1, -1, "which VM? give its name or id; `warren ls` lists VMs"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name, o.paths = list[0], list[1:]
			return a.watchFiles(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVM,
	}
	cmd.Flags().StringVar(&o.user, "user", "", "Linux user in the guest to act as (default root)")
	cmd.Flags().BoolVar(&o.json, "json", false, "print a JSON object a line")
	return cmd
}

func (a *app) watchFiles(ctx context.Context, o *watchFilesOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	w, err := c.WatchFiles(ctx, o.name, o.user, o.paths...)
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()
	for {
		e, err := w.Next()
		switch {
		case ctx.Err() != nil || errors.Is(err, io.EOF):
			return nil // ^C ends it without an error
		case err != nil:
			return err
		case o.json:
			if err := a.io.line(e); err != nil {
				return err
			}
		default:
			a.io.printf("%-7s %s\n", plain(e.Type), printable(e.Path))
		}
	}
}
