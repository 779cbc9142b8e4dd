// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"github.com/spf13/cobra"
)

func newServe(a *app) *cobra.Command {
	o := &ServeOptions{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the server",
		Long: `Run the server in the foreground until SIGTERM or ^C. It needs no root. VMs survive it: a restarted server finds
them. At its first start it writes the key of the admin to admin.key in the data directory (mode 0600); commands
on this host use that key unless WARREN_API_KEY is set.

Settings come from flags, then the environment, then server.yaml in the data directory;
"warren config show" lists them.`,
		Example: `  warren serve
  warren serve --listen 127.0.0.1:9000 --data /srv/warren
  warren serve --require-kvm --net-default closed
  warren serve --preview :443 --preview-domain vms.example.com --preview-domain warren.localhost`,
		Args: args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Data = a.data
			if a.local.Serve == nil {
				return notHere("serve")
			}
			return a.local.Serve(cmd.Context(), *o, a.io.out, a.io.err)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	f := cmd.Flags()
	f.StringVar(&o.Listen, "listen", "", "address of the HTTP API (default 127.0.0.1:8787)")
	f.StringVar(&o.SSH, "ssh", "", "address of the SSH gateway, or off")
	f.StringVar(&o.Preview, "preview", "", "address of the preview gateway, or off")
	f.StringSliceVar(&o.PreviewDomain, "preview-domain", nil, "domain of previews; may repeat (default warren.localhost)")
	f.StringVar(&o.S3, "s3", "", "address of object storage for S3 clients, or off")
	f.StringVar(&o.S3URL, "s3-url", "", "address in signed links, if another one is forwarded to --s3")
	f.StringVar(&o.S3Endpoint, "s3-endpoint", "", "store the bytes of objects in this bucket of another S3: https://HOST/BUCKET")
	f.StringVar(&o.S3Credentials, "s3-credentials", "", "file with AWS_ACCESS_KEY_ID= and AWS_SECRET_ACCESS_KEY= for --s3-endpoint")
	f.StringVar(&o.Clamd, "clamd", "", "ClamAV daemon that judges uploads, too: its socket, or host:port")
	f.StringVar(&o.AskWebhook, "ask-webhook", "", "URL that is told of what waits for approval; ask-webhook.secret in the data directory signs the calls")
	f.StringVar(&o.AuditKey, "audit-key", "", "file with the key that signs the audit log (default: one in the data directory)")
	f.StringVar(&o.AuditSigner, "audit-signer", "", "program that signs the audit log in place of a key")
	f.StringArrayVar(&o.AuditAnchor, "audit-anchor", nil, "place outside that gets each checkpoint of the audit log, file:PATH, webhook:https://... or object:https://HOST/BUCKET/PREFIX; may repeat")
	f.StringVar(&o.AuditKeys, "audit-credentials", "", "file with AWS_ACCESS_KEY_ID= and AWS_SECRET_ACCESS_KEY= for an object: anchor")
	f.StringVar(&o.AuditKeep, "audit-keep", "", "age at which audit records are removed, such as 90d (default: never)")
	f.StringVar(&o.AuditArgs, "audit-args", "", "arguments of commands in audit records: full, digest or none (default full)")
	f.BoolVar(&o.RequireKVM, "require-kvm", false, "refuse to run where VMs would be emulated")
	f.StringSliceVar(&o.EtcdEndpoints, "etcd-endpoints", nil, "use this etcd cluster instead of the embedded one")
	f.StringVar(&o.HostID, "host-id", "", "id of this server among the servers of one etcd cluster (default: kept in the data directory)")
	f.StringVar(&o.NetDefault, "net-default", "", "network of VMs that name none: closed, packages, open (default closed)")
	f.StringVar(&o.Pool, "pool", "", "warm machines kept ready for each image and size in use; 0 = none (default 2)")
	f.StringVar(&o.StorageBudget, "storage-budget", "", "limit of the data directory, such as 200G or 80% of the disk (default 80%)")
	f.StringVar(&o.AccountDisk, "account-disk", "", "default disk quota of accounts other than admins': 50G, 50% of the budget, or off (default 50%)")
	a.completeFlag(cmd, "net-default", "closed", "packages", "open")
	a.completeFlag(cmd, "audit-args", "full", "digest", "none")
	return cmd
}
