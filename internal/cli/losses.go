// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bufio"
	"context"
	"strings"
	"time"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

// lossLimit bounds how long a verb that removes a VM waits to learn what would be lost.
const lossLimit = 5 * time.Second

// losses says on standard error what exists only in a VM that is about to be removed, and
// returns whether there is something, or it is not known. -q silences it.
func (a *app) losses(ctx context.Context, c *client.Client, name string) bool {
	if a.io.quiet {
		return false
	}
	bounded, stop := context.WithTimeout(ctx, lossLimit)
	defer stop()
	p := a.io.doing("reading %s", name)
	t, err := c.Truth(bounded, name)
	p.done()
	shown := printable(name)
	switch {
	case vm.KindOf(err) == vm.NotFound: // the verb says it
		return false
	case bounded.Err() != nil && ctx.Err() == nil:
		a.io.notef("what exists only in %s was not determined within %s; `warren truth %s` takes its time", shown, lossLimit, shown)
		return true
	case err != nil:
		a.io.notef("what exists only in %s was not determined: %s", shown, err)
		return true
	case !t.Only.Some():
		return false
	}
	a.io.notef("only in %s, and lost when it is removed:", shown)
	for _, tree := range t.Trees {
		if only := onlyText(tree.Only, true); only != "" {
			a.io.notef("  %s: %s", printable(string(tree.Path)), plain(only))
		}
	}
	for _, k := range t.Kept {
		a.io.notef("  an older state stays: %s", plain(keptText(k)))
	}
	return true
}

// yes asks a question on a terminal. Without one the answer is yes: a script has decided.
func (a *app) yes(format string, args ...any) bool {
	if _, tty := terminal(a.io.in); !tty {
		return true
	}
	a.io.askf(format+" [y/N] ", args...)
	answer, _ := bufio.NewReader(a.io.in).ReadString('\n') // an end is a no
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(answer)), "y")
}
