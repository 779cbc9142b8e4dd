// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/client"
)

const (
	refusalsNamed = 3               // names that are listed
	refusalsWait  = 2 * time.Second // for the server's list
)

// explainRefusals prints, after a command failed, which connections the
// network refused since start, because programs seldom say why they could not
// connect.
func (a *app) explainRefusals(ctx context.Context, c *client.Client, name string, start time.Time) {
	ctx, cancel := context.WithTimeout(ctx, refusalsWait)
	defer cancel()
	list, err := c.Connections(ctx, name)
	if err != nil {
		return // only the command's own failure is returned
	}
	var names []string
	why := ""
	for _, l := range list {
		dest := l.Name
		if dest == "" {
			dest = l.Dest
		}
		if l.Allowed || l.Time.Before(start) || slices.Contains(names, printable(dest)) {
			continue
		}
		names, why = append(names, printable(dest)), l.Reason
	}
	if len(names) == 0 {
		return
	}
	more := ""
	if len(names) > refusalsNamed {
		names, more = names[:refusalsNamed], ", …"
	}
	a.io.tellf("warren: the network refused %s%s: %s", strings.Join(names, ", "), more, printable(why))
	a.io.tellf("  hint: `warren net explain %s` says what would allow it; `warren net log %s --refused` lists what was refused", name, name)
}
