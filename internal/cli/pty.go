// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

// ptyOptions are those of pty, pty attach and shell.
type ptyOptions struct {
	app       *app
	name      string
	session   string
	command   string
	user      string
	cwd       string
	detached  bool
	must      bool // attach only
	detachKey string
	clipboard bool
}

const aboutDetaching = `Ctrl-] (or --detach-key), or Ctrl-P Ctrl-Q, detaches from the terminal. Its programs keep running; they also
survive the end of this program, of the connection or of the server, and a suspend or fork of the VM. Attaching
wakes a suspended VM. The exit status is that of the terminal's program; after detaching it is 0.

Output of the VM's programs reaches this terminal's screen, but not its clipboard, printer or files. Queries whose
answer could type text of their choice are removed. --clipboard lets programs set the clipboard.`

func newPty(a *app) *cobra.Command {
	cmd := newPtyOpen(a)
	cmd.AddCommand(newPtyLs(a), newPtyAttach(a), newPtyRead(a), newPtySend(a), newPtyClose(a))
	return cmd
}

func newPtyOpen(a *app) *cobra.Command {
	o := &ptyOptions{app: a}
	cmd := &cobra.Command{
		Use:   "pty NAME",
		Short: "Open a terminal in a VM, or attach to a running one",
		Long: `Open a terminal in a VM. If --session names a running terminal, attach to it and show its screen.

` + aboutDetaching + "\n\n" + aboutWorkdir,
		Example: `  warren pty box
  warren pty box --session work
  warren pty box --session editor --exec 'vim notes.txt'
  warren pty box --session repl --exec python3 --detach
  warren pty ls box`,
		Args:              args(1, 1, "which VM? give its name or id; `warren ls` lists VMs"),
		ValidArgsFunction: a.completeVM,
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			return o.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.StringVarP(&o.session, "session", "s", "", "id of the terminal: up to 64 letters, digits, . _ - (default a new one)")
	fs.StringVar(&o.command, "exec", "", "command line to run instead of the login shell")
	fs.StringVar(&o.user, "user", "", "Linux user in the guest (default root)")
	fs.StringVar(&o.cwd, "cwd", "", aboutCwd)
	fs.BoolVarP(&o.detached, "detach", "d", false, "open it, print its id and detach")
	o.addKey(cmd)
	return cmd
}

func (o *ptyOptions) addKey(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.clipboard, "clipboard", false, "let the VM's programs set this terminal's clipboard")
	cmd.Flags().StringVar(&o.detachKey, "detach-key", "ctrl-]", "key that detaches from the terminal, or none")
	o.app.completeFlag(cmd, "detach-key", "ctrl-]", "ctrl-\\", "ctrl-_", "ctrl-^", "none")
}

func newPtyAttach(a *app) *cobra.Command {
	o := &ptyOptions{app: a, must: true}
	cmd := &cobra.Command{
		Use:   "attach NAME SESSION",
		Short: "Attach to a terminal",
		Long:  "Attach to a terminal that \"warren pty ls\" lists, and show its screen. Several viewers may attach to one.\n\n" + aboutDetaching,
		Example: `  warren pty attach box work
  warren pty attach box editor --detach-key 'ctrl-\'`,
		Args:              args(2, 2, "which terminal? give the VM and the session; `warren pty ls NAME` lists them"),
		ValidArgsFunction: a.completeSession,
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name, o.session = list[0], list[1]
			return o.run(cmd.Context())
		},
	}
	o.addKey(cmd)
	return cmd
}

func newShell(a *app) *cobra.Command {
	o := &ptyOptions{app: a}
	cmd := &cobra.Command{
		Use:   "shell NAME",
		Short: "Open a shell in a VM that keeps running when you leave",
		Long: `Open a login shell in a VM, or attach to the one that you left: the terminal "shell", or "shell-USER" with --user,
or the one that --session names.

` + aboutDetaching + `

If standard input is not a terminal, and --session is not given, a login shell runs its commands without a terminal
and then ends.

` + aboutWorkdir,
		Example: `  warren shell box
  warren shell box --user dev
  warren shell box --session work
  echo 'uname -a; exit 3' | warren shell box`,
		Args:              args(1, 1, "which VM? give its name or id; `warren ls` lists VMs"),
		ValidArgsFunction: a.completeVM,
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			_, tty := terminal(a.io.in)
			script := !tty && o.session == ""
			if o.session == "" {
				o.session = "shell"
				if o.user != "" && o.user != "root" {
					o.session += "-" + o.user
				}
			}
			if script {
				return a.exec(cmd.Context(), &execOptions{
					name: o.name, user: o.user, stdin: true, argv: []string{"/bin/sh", "-c", `exec "${SHELL:-/bin/sh}" -l`},
				})
			}
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().StringVarP(&o.session, "session", "s", "", "id of the terminal (default shell)")
	cmd.Flags().StringVar(&o.user, "user", "", "Linux user in the guest (default root)")
	o.app.completeFlag(cmd, "session")
	o.addKey(cmd)
	return cmd
}

// run opens a terminal or attaches to it, until the program ends or the
// detach key is pressed.
func (o *ptyOptions) run(ctx context.Context) error {
	key, err := parseDetachKey(o.detachKey)
	if err != nil {
		return err
	}
	c, err := o.app.client()
	if err != nil {
		return err
	}
	cols, rows := o.app.io.size()
	t, err := o.open(ctx, c, cols, rows)
	if err != nil {
		return err
	}
	id := t.Session().SessionID
	if o.detached {
		_ = t.Detach()
		o.app.io.printf("%s\n", id)
		return nil
	}
	if _, tty := terminal(o.app.io.in); tty && key != 0 {
		o.app.io.notef("warren: terminal %s; %s detaches", id, o.detachKey)
	}
	v := &ptyView{app: o.app, c: c, name: o.name, key: key, t: t, news: make(chan struct{})}
	v.out = &ptyFilter{w: o.app.io.out, clipboard: o.clipboard}
	return v.run(ctx)
}

// open attaches to the session if it exists, and otherwise opens it.
func (o *ptyOptions) open(ctx context.Context, c *client.Client, cols, rows int) (*client.Terminal, error) {
	view := vm.TerminalView{User: o.user, Cols: cols, Rows: rows, Since: -1}
	find := o.session != "" && o.command == ""
	if find {
		s, err := findSession(ctx, c, o.name, o.session)
		if err != nil && (o.must || vm.KindOf(err) != vm.WrongState) { // a stopped VM is started
			return nil, err
		}
		if o.must || s != nil && (s.Running || s.Suspended) {
			view.User = or(o.user, userOf(s))
			return c.AttachTerminal(ctx, o.name, o.session, view)
		}
	}
	t, err := c.OpenTerminal(ctx, o.name, vm.TerminalSpec{
		ID: o.session, Command: o.command, User: o.user, Cwd: o.cwd, Cols: cols, Rows: rows,
	})
	if find && err != nil && vm.AsError(err).Code == "SESSION_ALREADY_EXISTS" { // another client was faster
		return c.AttachTerminal(ctx, o.name, o.session, view)
	}
	return t, err
}

// findSession returns a session; nil when there is none.
func findSession(ctx context.Context, c *client.Client, name, session string) (*api.PtySession, error) {
	l, err := c.Terminals(ctx, name)
	if err != nil {
		return nil, err
	}
	for i := range l {
		if l[i].SessionID == session {
			return &l[i], nil
		}
	}
	return nil, nil
}

// userOf returns the Linux user that a session was opened as, "" = root.
func userOf(s *api.PtySession) string {
	if s == nil || s.User == nil {
		return ""
	}
	return *s.User
}

// completeSession completes a VM, then one of its terminals.
func (a *app) completeSession(cmd *cobra.Command, list []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(list) != 1 {
		return a.completeVM(cmd, list, prefix)
	}
	return a.asked(cmd.Context(), prefix, func(ctx context.Context, c *client.Client) (all []string, err error) {
		l, err := c.Terminals(ctx, list[0])
		for _, s := range l {
			all = append(all, s.SessionID)
		}
		return all, err
	}), noFiles
}

type ptyLsOptions struct {
	app  *app
	name string
	json bool
}

func newPtyLs(a *app) *cobra.Command {
	o := &ptyLsOptions{app: a}
	cmd := &cobra.Command{
		Use:               "ls NAME",
		Short:             "List a VM's terminals",
		Long:              "List the terminals of a VM. A terminal whose program has ended is listed for ten minutes.",
		Example:           "  warren pty ls box\n  warren pty ls box --json",
		Args:              args(1, 1, "which VM? give its name or id; `warren ls` lists VMs"),
		ValidArgsFunction: a.completeVM,
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			return o.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (o *ptyLsOptions) run(ctx context.Context) error {
	c, err := o.app.client()
	if err != nil {
		return err
	}
	l, err := c.Terminals(ctx, o.name)
	switch {
	case err != nil:
		return err
	case o.json:
		return list(o.app.io, l)
	case len(l) == 0:
		o.app.io.notef("no terminals; `warren pty %s` opens one", o.name)
		return nil
	}
	t := &table{head: []string{"SESSION", "STATE", "USER", "SIZE", "VIEWERS", "AGE", "COMMAND", "TITLE"}}
	for _, s := range l {
		state := "running"
		if s.Suspended {
			state = "suspended"
		}
		switch {
		case s.Lost:
			state = "lost"
		case s.ExitCode != nil:
			state = "exited " + itoa(*s.ExitCode)
		}
		t.add(s.SessionID, state, printable(or(userOf(&s), "root")), itoa(s.Cols)+"x"+itoa(s.Rows), itoa(s.AttachedCount),
			age(time.UnixMilli(s.CreatedAtMs)), plain(or(s.Exec, "-")), plain(or(s.Title, "-")))
	}
	o.app.io.print(t)
	return nil
}

type ptyCloseOptions struct {
	app           *app
	name, session string
}

func newPtyClose(a *app) *cobra.Command {
	o := &ptyCloseOptions{app: a}
	return a.changing(&cobra.Command{
		Use:               "close NAME SESSION",
		Short:             "End a terminal's programs and remove it",
		Long:              "Hang up a terminal: its programs end (they are killed if they refuse), and its screen is removed.",
		Example:           "  warren pty close box work",
		Args:              args(2, 2, "which terminal? give the VM and the session; `warren pty ls NAME` lists them"),
		ValidArgsFunction: a.completeSession,
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name, o.session = list[0], list[1]
			return o.run(cmd.Context())
		},
	})
}

func (o *ptyCloseOptions) run(ctx context.Context) error {
	c, err := o.app.client()
	if err != nil {
		return err
	}
	s, err := findSession(ctx, c, o.name, o.session)
	if err != nil {
		return err
	}
	_, err = c.CloseTerminal(ctx, o.name, userOf(s), o.session)
	return o.app.changedQuietly(err, change{Name: o.session, Result: "closed"})
}
