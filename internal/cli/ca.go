// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/vm"
)

func newCA(a *app) *cobra.Command {
	return group("ca", "Make this computer trust the certificates of previews", "  warren ca print\n  warren ca trust",
		newCAPrint(a), newCATrust(a))
}

func newCAPrint(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "print", Short: "Print the CA's certificate as PEM", Example: "  warren ca print", Args: args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			pem, err := a.authority(cmd.Context())
			switch {
			case err != nil:
				return err
			case asJSON:
				return a.io.json(map[string]string{"certificate": string(pem)})
			}
			a.io.printf("%s", pem)
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func (a *app) authority(ctx context.Context) ([]byte, error) {
	c, err := a.client()
	if err != nil {
		return nil, err
	}
	return c.CA(ctx)
}

// Debian's certificate store: the local CAs, and the bundle made from them.
const (
	caLocal = "usr/local/share/ca-certificates"
	caEtc   = "etc/ssl/certs"
	caConf  = "etc/ca-certificates.conf"
	caHooks = "etc/ca-certificates/update.d"
	caFile  = "warren-previews.crt"
)

const browserHint = `Chromium and Firefox have their own certificate stores; for Chromium (package libnss3-tools):
  warren ca print > warren-ca.pem
  certutil -d sql:$HOME/.pki/nssdb -A -t C,, -n warren-previews -i warren-ca.pem
For Firefox: Settings, Certificates, Authorities, Import.
`

func newCATrust(a *app) *cobra.Command {
	return a.changing(&cobra.Command{
		Use: "trust", Short: "Make this computer trust the CA (needs root), or print how to", Example: "  warren ca trust",
		Long: "Add the CA to the certificate store that curl and other Debian programs use, and print how to add it to browsers.\n" +
			"The CA can sign only names below the preview domain.",
		Args: args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.caTrust(cmd.Context(), os.Geteuid(), "/")
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	})
}

// caTrust adds the CA to the certificate store below root, if the user has
// permission.
func (a *app) caTrust(ctx context.Context, uid int, root string) error {
	pem, err := a.authority(ctx)
	if err != nil {
		return err
	}
	file := filepath.Join(root, caLocal, caFile)
	if uid != 0 {
		a.changed(change{Name: file, Result: "not trusted", text: "Only root may change the system's certificate store:"})
		a.details("  warren ca print | sudo tee %s >/dev/null\n  sudo update-ca-certificates\n\n%s", file, browserHint)
		return nil
	}
	if err := os.WriteFile(file, pem, 0o644); err != nil {
		return vm.Errorf(vm.Unsupported, file, "cannot be written: %w", err).WithHint("install the package ca-certificates, or add the output of `warren ca print` to this system's certificate store by hand")
	}
	cmd := exec.CommandContext(ctx, "update-ca-certificates", "--localcertsdir", filepath.Join(root, caLocal), "--etccertsdir", filepath.Join(root, caEtc),
		"--certsconf", filepath.Join(root, caConf), "--hooksdir", filepath.Join(root, caHooks))
	if out, err := cmd.CombinedOutput(); err != nil {
		return vm.Errorf(vm.Unsupported, "update-ca-certificates", "%w: %s", err, printable(string(out))).WithHint("install the package ca-certificates")
	}
	a.changed(change{Name: file, Result: "trusted", text: "added to the system's certificate store: " + file})
	a.details("\n%s", browserHint)
	return nil
}
