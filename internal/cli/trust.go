// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/vm"
)

// Trust is a recipe directory with a digest of all that it puts into an image.
type Trust struct {
	Dir    string    `json:"dir"`
	Digest string    `json:"digest"`
	Since  time.Time `json:"since,omitzero"`
	Says   []string  `json:"says,omitempty"` // what the recipe does
}

// Trusts are the functions for recipes that somebody trusts.
type Trusts struct {
	Look   func(ctx context.Context, dir string) (Trust, error)
	Add    func(ctx context.Context, data string, t Trust) error
	List   func(ctx context.Context, data string) ([]Trust, error)
	Remove func(ctx context.Context, data, ref string) error // by digest or directory
}

func newTrust(a *app) *cobra.Command {
	return group("trust", "Say which recipe directories may be used", "  warren trust add ./agent-image\n  warren trust ls",
		newTrustAdd(a), newTrustLs(a), newTrustRm(a))
}

func newTrustAdd(a *app) *cobra.Command {
	return a.changing(&cobra.Command{
		Use: "add DIR...", Short: "Trust recipe directories as they are now", Example: "  warren trust add ./agent-image",
		Long: `Trust recipe directories, each by a digest of its warren.yaml and of all files
that it uses. It prints what each one does.
When something in a directory changes, "warren up" and "warren image build" ask again.`,
		Args: args(1, -1, "which directory? warren trust add DIR..."),
		RunE: func(cmd *cobra.Command, list []string) error {
			if a.local.Trusts.Look == nil {
				return notHere("trust")
			}
			for _, dir := range list {
				t, err := a.local.Trusts.Look(cmd.Context(), dir)
				if err != nil {
					return err
				}
				a.sayTrust(t)
				if err := a.local.Trusts.Add(cmd.Context(), a.data, t); err != nil {
					return err
				}
				a.changed(change{Name: dir, Result: "trusted", text: dir + " is trusted: " + t.Digest})
			}
			return nil
		},
	})
}

func newTrustLs(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "ls", Short: "List the recipes that are trusted", Example: "  warren trust ls --json", Args: args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if a.local.Trusts.List == nil {
				return notHere("trust")
			}
			l, err := a.local.Trusts.List(cmd.Context(), a.data)
			switch {
			case err != nil:
				return err
			case asJSON:
				return list(a.io, l)
			}
			t := &table{head: []string{"DIRECTORY", "AGE", "DIGEST"}}
			for _, one := range l {
				t.add(printable(one.Dir), age(one.Since), plain(one.Digest))
			}
			a.io.print(t)
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func newTrustRm(a *app) *cobra.Command {
	return a.changing(&cobra.Command{
		Use: "rm DIR|DIGEST...", Short: "Ask again before a recipe is used", Example: "  warren trust rm ./agent-image",
		Args: args(1, -1, "which recipe? warren trust rm DIR|DIGEST..."),
		RunE: func(cmd *cobra.Command, list []string) error {
			if a.local.Trusts.Remove == nil {
				return notHere("trust")
			}
			for _, ref := range list {
				if err := a.local.Trusts.Remove(cmd.Context(), a.data, ref); err != nil {
					return err
				}
				a.changed(change{Name: ref, Result: "untrusted", text: ref + " is no longer trusted"})
			}
			return nil
		},
	})
}

// sayTrust prints what a recipe does.
func (a *app) sayTrust(t Trust) {
	a.io.askf("the recipe in %s does this:\n", printable(t.Dir))
	for _, s := range t.Says {
		mark := "  | "
		for line := range strings.SplitSeq(s, "\n") {
			a.io.askf("%s%s\n", mark, plain(line))
			mark = "  |   "
		}
	}
	a.io.askf("  its digest, which covers its files, is %s\n", plain(t.Digest))
}

// askTrust asks on a terminal whether a recipe is trusted. Without a terminal it is not.
func (a *app) askTrust(t Trust) error {
	untrusted := vm.Errorf(vm.Denied, t.Dir, "nobody has trusted this recipe as it is now").WithCode("UNTRUSTED", "digest", t.Digest).
		WithHint("look at it: `warren trust add %s`; or use --trust %s", t.Dir, t.Digest)
	if _, tty := terminal(a.io.in); !tty {
		return untrusted
	}
	a.sayTrust(t)
	if !a.yes("trust it?") {
		return untrusted
	}
	return nil
}

// trustFlag adds --trust.
func (a *app) trustFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.trust, "trust", "", "trust a recipe directory that has this digest: sha256:...")
}
