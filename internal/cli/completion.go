// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"github.com/spf13/cobra"
)

func newCompletion(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|zsh|fish",
		Short: "Print a script that completes commands, flags and names of VMs",
		Example: `  source <(warren completion bash)
  warren completion zsh
  warren completion fish`,
		Args:      args(1, 1, "for which shell? warren completion bash|zsh|fish"),
		ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: func(cmd *cobra.Command, list []string) error {
			root := cmd.Root()
			switch list[0] {
			case "bash":
				return root.GenBashCompletionV2(a.io.out, true)
			case "zsh":
				return root.GenZshCompletion(a.io.out)
			case "fish":
				return root.GenFishCompletion(a.io.out, true)
			}
			return usage("%s is not a supported shell", printable(list[0])).WithHint("use bash, zsh or fish")
		},
	}
}
