// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/vm"
)

// fromNow requests only events after this moment.
const fromNow = -1

type eventsOptions struct {
	types []string
	vm    string
	after int64
	json  bool
}

func newEvents(a *app) *cobra.Command {
	o := &eventsOptions{}
	cmd := &cobra.Command{
		Use:   "events",
		Short: "Print events as they happen, until ^C",
		Long:  "Print the server's events as they happen. Each has a number: --after NUMBER continues after it, so that you miss none.",
		Example: `  warren events
  warren events --vm box --type vm.running,vm.stopped
  warren events --after 120 --json`,
		Args: args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("after") {
				o.after = fromNow
			}
			return a.events(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.types, "type", nil, "only these types")
	f.StringVar(&o.vm, "vm", "", "only events of this VM")
	f.Int64Var(&o.after, "after", 0, "begin after this number; 0 = with the oldest event (default from now on)")
	f.BoolVar(&o.json, "json", false, "print a JSON object a line")
	return cmd
}

func (a *app) events(ctx context.Context, o *eventsOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	s, err := c.Events(ctx, o.after, o.types, o.vm)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	last := o.after
	for {
		e, err := s.Next()
		switch {
		case ctx.Err() != nil:
			return nil // ^C ends it without an error
		case errors.Is(err, io.EOF):
			e := vm.Errorf(vm.Unavailable, "events", "the server ended the stream")
			if last < 0 {
				return e
			}
			return e.WithHint("continue with `warren events --after %d`", last)
		case err != nil:
			return err
		}
		last = e.ID
		if o.json {
			if err := a.io.line(e); err != nil {
				return err
			}
			continue
		}
		data := ""
		if len(e.Data) > 0 {
			if text, err := json.Marshal(e.Data); err == nil {
				data = plain(string(text))
			}
		}
		a.io.printf("%d %s %-14s %s %s\n", e.ID, e.Time.Local().Format(time.DateTime), e.Type, or(string(e.VM), "-"), data)
	}
}
