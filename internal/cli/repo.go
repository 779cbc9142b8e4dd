// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import "github.com/spf13/cobra"

func newRepo(a *app) *cobra.Command {
	return group("repo", "Say which VMs may use a git repository of the server",
		"  warren repo grant app --vm box --write\n  warren repo revoke app --vm box",
		newRepoGrant(a), newRepoRevoke(a))
}
