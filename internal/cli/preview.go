// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

type previewOptions struct {
	name    string
	port    uint16
	link    bool
	open    bool
	lasts   time.Duration
	public  bool
	private bool
	json    bool
}

func newPreview(a *app) *cobra.Command {
	o := &previewOptions{}
	cmd := &cobra.Command{
		Use: "preview NAME PORT", Short: "Show a port of a VM in a browser",
		Example: "  warren preview box 3000\n  warren preview box 3000 --open\n  warren preview box 3000 --link --for 8h\n  warren preview box 3000 --public\n  warren preview ls box",
		Long: "Print the address of a VM's port at the preview gateway, or set who may open it.\n\n" +
			"A port is private: it opens with an API key or token in the header X-Warren-Key, in your browser with the\n" +
			"address that --open prints (for one use, within 30 seconds), to others with a signed link (--link).\n" +
			"A page load wakes a suspended VM.",
		Args: args(2, 2, "which port of which VM? warren preview NAME PORT"),
		RunE: func(cmd *cobra.Command, list []string) error {
			var err error
			o.name = list[0]
			if o.port, err = portArg(list[1]); err != nil {
				return err
			}
			return a.preview(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeVM,
	}
	f := cmd.Flags()
	f.BoolVar(&o.open, "open", false, "print an address that opens it in a browser as you, once")
	f.BoolVar(&o.link, "link", false, "sign a link that opens it")
	f.DurationVar(&o.lasts, "for", time.Hour, "how long the link opens it")
	f.BoolVar(&o.public, "public", false, "open it to everybody")
	f.BoolVar(&o.private, "private", false, "make it private, and revoke its signed links")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	cmd.MarkFlagsMutuallyExclusive("open", "link", "public", "private")
	cmd.AddCommand(newPreviewLs(a))
	return cmd
}

func (a *app) preview(ctx context.Context, o *previewOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	if o.link || o.open {
		var l api.PreviewLink
		if o.open {
			l, err = c.TicketPreview(ctx, o.name, o.port)
		} else {
			l, err = c.LinkPreview(ctx, o.name, o.port, o.lasts)
		}
		switch {
		case err != nil:
			return err
		case o.json:
			return a.io.json(l)
		}
		a.io.printf("%s\n", plain(l.URL))
		return nil
	}
	var p api.Preview
	switch {
	case o.public:
		p, err = c.SetPreview(ctx, o.name, o.port, true)
	case o.private:
		p, err = c.ClosePreview(ctx, o.name, o.port)
	default:
		p, err = c.Preview(ctx, o.name, o.port)
	}
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(p)
	case p.URL == "":
		return vm.Errorf(vm.Unsupported, "previews", "the preview gateway is off").WithHint("start the server with --preview ADDRESS")
	}
	a.io.printf("%s\n", plain(p.URL))
	if !p.Public {
		a.io.notef("private: --open opens it in a browser, --link signs a link for others")
	}
	return nil
}

func newPreviewLs(a *app) *cobra.Command {
	o := &previewOptions{}
	cmd := &cobra.Command{
		Use: "ls NAME", Short: "List the ports of a VM whose access was set", Example: "  warren preview ls box\n  warren preview ls box --json",
		Args: args(1, 1, "which VM? warren preview ls NAME"),
		RunE: func(cmd *cobra.Command, l []string) error {
			o.name = l[0]
			c, err := a.client()
			if err != nil {
				return err
			}
			found, err := c.Previews(cmd.Context(), o.name)
			switch {
			case err != nil:
				return err
			case o.json:
				return list(a.io, found)
			}
			t := &table{head: []string{"PORT", "PUBLIC", "URL"}}
			for _, p := range found {
				open := "no"
				if p.Public {
					open = "yes"
				}
				t.add(itoa(int(p.Port)), open, plain(p.URL))
			}
			a.io.print(t)
			return nil
		},
		ValidArgsFunction: a.completeVM,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}
