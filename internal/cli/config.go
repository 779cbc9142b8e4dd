// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
)

type configOptions struct {
	json bool
}

func newConfig(a *app) *cobra.Command {
	return group("config", "Show settings", "  warren config show", newConfigShow(a))
}

func newConfigShow(a *app) *cobra.Command {
	o := &configOptions{}
	cmd := &cobra.Command{
		Use:     "show",
		Short:   "Show a server's settings, and where each comes from",
		Example: "  warren config show\n  warren config show --json",
		Args:    args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.configShow(cmd.Context(), o)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

// effective is what `config show --json` prints.
type effective struct {
	Data     string    `json:"data"`
	Settings []Setting `json:"settings"`
}

func (a *app) configShow(ctx context.Context, o *configOptions) error {
	if a.local.Config == nil {
		return notHere("config")
	}
	data, settings, err := a.local.Config(ctx, a.data)
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(effective{Data: data, Settings: append([]Setting{}, settings...)})
	}
	t := &table{head: []string{"SETTING", "VALUE", "FROM"}}
	t.add("data", printable(data), "")
	for _, s := range settings {
		t.add(s.Name, value(s.Value), s.Origin)
	}
	a.io.print(t)
	return nil
}

func value(v any) string {
	if s, ok := v.(string); ok {
		return printable(s)
	}
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return plain(string(data))
}
