// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/vm"
)

func newProfile(a *app) *cobra.Command {
	return group("profile", "Show how far VMs are trusted", "  warren profile ls\n  warren up --profile dev", newProfileLs(a))
}

func newProfileLs(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "ls", Short: "List the profiles of up and run",
		Example: "  warren profile ls\n  warren profile ls --json",
		Args:    args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.profileLs(asJSON)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func (a *app) profileLs(asJSON bool) error {
	if asJSON {
		return list(a.io, vm.Profiles)
	}
	t := &table{head: []string{"PROFILE", "NETWORK", "VOLUMES", "FOLDERS", "TTL", "FOR"}}
	for _, row := range profileRows() {
		t.add(row...)
	}
	a.io.print(t)
	return nil
}

// profileRows are the profiles in words.
func profileRows() (rows [][]string) {
	for _, p := range vm.Profiles {
		network, volumes, folders, ttl := or(string(p.Network), "the server's"), "no", "to read", "none"
		if p.Closed {
			network += " only"
		}
		if p.Volumes {
			volumes = "yes"
		}
		if p.Folders {
			folders = "to write"
		}
		if p.TTL > 0 {
			ttl = span(p.TTL)
		}
		rows = append(rows, []string{p.Name, network, volumes, folders, ttl, p.For})
	}
	return rows
}

func profileNames() (names []string) {
	for _, p := range vm.Profiles {
		names = append(names, p.Name)
	}
	return names
}

// profileFlag adds --profile to a command that makes VMs.
func (a *app) profileFlag(cmd *cobra.Command, to *string, otherwise string) {
	cmd.Flags().StringVar(to, "profile", "", "how far the VM is trusted: untrusted, agent, dev (default "+otherwise+"); see \"warren profile ls\"")
	a.completeFlag(cmd, "profile", profileNames()...)
}
