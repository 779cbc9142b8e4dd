// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"os"
	"os/exec"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/vm"
)

func newCA(a *app) *cobra.Command {
	return group("ca", "Have this computer trust previews' certificates", "  warren ca print\n  warren ca trust",
		newCAPrint(a, nil), newCATrust(a, nil))
}

func newCAPrint(a *app, runF func(context.Context) error) *cobra.Command {
	return &cobra.Command{
		Use: "print", Short: "Print the CA's certificate as PEM", Example: "  warren ca print", Args: args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runF != nil {
				return runF(cmd.Context())
			}
			pem, err := a.authority(cmd.Context())
			if err == nil {
				a.io.printf("%s", pem)
			}
			return err
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
}

func (a *app) authority(ctx context.Context) ([]byte, error) {
	c, err := a.client()
	if err != nil {
		return nil, err
	}
	return c.CA(ctx)
}

const (
	debianStore = "/usr/local/share/ca-certificates/warren-previews.crt"
	browserHint = `Chromium and Firefox keep a store of their own; for Chromium (package libnss3-tools):
  warren ca print > warren-ca.pem
  certutil -d sql:$HOME/.pki/nssdb -A -t C,, -n warren-previews -i warren-ca.pem
For Firefox: Settings, Certificates, Authorities, Import.
`
)

func newCATrust(a *app, runF func(context.Context) error) *cobra.Command {
	return &cobra.Command{
		Use: "trust", Short: "Add the CA to this computer's store, as root; else say how", Example: "  warren ca trust",
		Long: "Add the CA to the store that curl and other programs of Debian use, and say how browsers are told.\n" +
			"The CA can only speak for names below the preview domain.",
		Args: args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if runF != nil {
				return runF(cmd.Context())
			}
			return a.caTrust(cmd.Context())
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
}

func (a *app) caTrust(ctx context.Context) error {
	pem, err := a.authority(ctx)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		a.io.printf("Only root may change the system's store:\n  warren ca print | sudo tee %s >/dev/null\n  sudo update-ca-certificates\n\n%s", debianStore, browserHint)
		return nil
	}
	if err := os.WriteFile(debianStore, pem, 0o644); err != nil {
		return vm.Errorf(vm.Unsupported, debianStore, "cannot be written: %w", err).WithHint("add the output of `warren ca print` to this system's store by hand")
	}
	if out, err := exec.CommandContext(ctx, "update-ca-certificates").CombinedOutput(); err != nil {
		return vm.Errorf(vm.Unsupported, "update-ca-certificates", "%w: %s", err, printable(string(out))).WithHint("install the package ca-certificates")
	}
	a.io.printf("The system's store has it: %s\n\n%s", debianStore, browserHint)
	return nil
}
