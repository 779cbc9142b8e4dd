// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"time"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

// tidyWithin limits the clean-up after a command has ended.
const tidyWithin = 5 * time.Second

// checkTTY refuses flags that cannot be combined with a terminal, as docker
// does.
func (o *execOptions) checkTTY(in any) error {
	_, tty := terminal(in)
	switch {
	case o.tty && o.json:
		return usage("the output of a terminal is not JSON").WithHint("omit -t or --json")
	case !o.tty:
		return nil
	case o.stdin && !tty:
		return usage("-i with -t: standard input is not a terminal").WithHint("omit -t to pass a pipe or a file")
	case o.background:
		return usage("a command in the background gets no terminal").WithHint("omit -t, or use `warren pty %s --detach --exec CMD`", printable(o.name))
	case o.timeout != "":
		return usage("--timeout: not with -t").WithHint("let the guest end it: `-- timeout --foreground %s CMD`", printable(o.timeout))
	}
	return nil
}

// onTerminal runs a command on a terminal of the guest and connects it to this
// program's terminal until the command ends.
func (a *app) onTerminal(ctx context.Context, c *client.Client, name string, spec vm.ExecSpec) error {
	cols, rows := a.io.size()
	t, err := c.OpenTerminal(ctx, name, vm.TerminalSpec{
		Command: "exec " + joinShell(spec.Argv), User: spec.User, Cwd: spec.Cwd, Env: spec.Env, Cols: cols, Rows: rows,
	})
	if err != nil {
		return err
	}
	v := &ptyView{app: a, c: c, name: name, t: t, news: make(chan struct{}), inline: true, watches: !spec.Stdin}
	v.out = &ptyFilter{w: a.io.out}
	err = v.run(ctx)
	if v.ended {
		// Nobody will ask for the terminal by its number. The guest also removes it
		// by itself.
		tidy, stop := context.WithTimeout(context.WithoutCancel(ctx), tidyWithin)
		defer stop()
		_, _ = c.CloseTerminal(tidy, name, spec.User, t.Session().SessionID)
	}
	return err
}
