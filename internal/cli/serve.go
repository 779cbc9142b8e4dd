// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"

	"github.com/spf13/cobra"
)

func newServe(a *app, runF func(context.Context, *ServeOptions) error) *cobra.Command {
	o := &ServeOptions{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Run the server in the foreground until SIGTERM or ^C. It needs no root. VMs outlive it: a server that is
started again finds them. At its first start it writes the key of the admin to admin.key in the data
directory (mode 0600); commands on this host use that key unless WARREN_API_KEY is set.

Settings come from flags, then the environment, then server.yaml in the data directory;
"warren config show" lists them.`,
		Example: `  warren serve
  warren serve --listen 127.0.0.1:9000 --data /srv/warren
  warren serve --require-kvm --net-default closed
  warren serve --preview :443 --preview-domain vms.example.com --preview-domain warren.localhost`,
		Args: args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Data = a.data
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			if a.local.Serve == nil {
				return notHere("serve")
			}
			return a.local.Serve(cmd.Context(), *o, a.io.out, a.io.err)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&o.Listen, "listen", "", "address of the HTTP API (default 127.0.0.1:8787)")
	f.StringVar(&o.SSH, "ssh", "", "address of the SSH door, or off")
	f.StringVar(&o.Preview, "preview", "", "address of the preview door, or off")
	f.StringSliceVar(&o.PreviewDomain, "preview-domain", nil, "domain that previews are shown below; may be given again (default warren.localhost)")
	f.StringVar(&o.S3, "s3", "", "of a version to come; the server says that nothing listens there")
	_ = f.MarkHidden("s3") // it fails for a flag that is not there
	f.BoolVar(&o.RequireKVM, "require-kvm", false, "refuse to run where VMs would be emulated")
	f.StringSliceVar(&o.EtcdEndpoints, "etcd-endpoints", nil, "use this etcd instead of the one inside")
	f.StringVar(&o.NetDefault, "net-default", "", "network of VMs that name none: closed, packages, open (default closed)")
	f.StringVar(&o.Pool, "pool", "", "warm machines kept ready of each image and size in use; 0 = none (default 2)")
	f.StringVar(&o.StorageBudget, "storage-budget", "", "what the data directory may take, such as 200G or 80% of the disk (default 80%)")
	f.StringVar(&o.AccountDisk, "account-disk", "", "what an account without a quota of disk may have, admins' excepted: 50G, 50% of the budget, or off (default 50%)")
	a.completeFlag(cmd, "net-default", "closed", "packages", "open")
	return cmd
}
