// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

type ptyReadOptions struct {
	app           *app
	name, session string
	scrollback    bool
	since         int64
	json          bool
}

// ptyText is `pty read --scrollback --json`.
type ptyText struct {
	Text   string `json:"text"`
	Offset int64  `json:"offset"` // to continue from
}

func newPtyRead(a *app) *cobra.Command {
	o := &ptyReadOptions{app: a}
	cmd := &cobra.Command{
		Use:   "read NAME SESSION",
		Short: "Print a terminal's screen as text",
		Long: `Print a terminal's screen as text, or with --scrollback its output as lines, without colours and control
sequences. The last MiB of output is kept.`,
		Example: `  warren pty read box work
  warren pty read box work --json
  warren pty read box work --scrollback
  warren pty read box work --since 4096 --json`,
		Args:              args(2, 2, "which terminal? give the VM and the session; `warren pty ls NAME` lists them"),
		ValidArgsFunction: a.completeSession,
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name, o.session = list[0], list[1]
			o.scrollback = o.scrollback || cmd.Flags().Changed("since")
			return o.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.BoolVar(&o.scrollback, "scrollback", false, "print the kept output instead of the screen")
	fs.Int64Var(&o.since, "since", 0, "print the output from this offset on")
	fs.BoolVar(&o.json, "json", false, "print as JSON: the screen with its colours and cursor, or text and offset")
	return cmd
}

func (o *ptyReadOptions) run(ctx context.Context) error {
	if o.since < 0 {
		return usage("--since %d: an offset is not negative", o.since)
	}
	c, err := o.app.client()
	if err != nil {
		return err
	}
	s, err := findSession(ctx, c, o.name, o.session)
	if err != nil {
		return err
	}
	if o.scrollback {
		text, next, err := c.TerminalText(ctx, o.name, userOf(s), o.session, o.since)
		switch {
		case err != nil:
			return err
		case o.json:
			return o.app.io.json(ptyText{text, next})
		}
		return o.app.say(text)
	}
	screen, err := c.TerminalScreen(ctx, o.name, userOf(s), o.session)
	switch {
	case err != nil:
		return err
	case o.json:
		return o.app.io.json(screen)
	}
	return o.app.say(screen.Text)
}

// say prints text of a guest, with a line break.
func (a *app) say(text string) error {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	w := a.io.guestWriter(false)
	if _, err := w.Write([]byte(text)); err != nil {
		return vm.Errorf(vm.Internal, "stdout", "cannot be written: %w", err)
	}
	return w.Close()
}

type ptySendOptions struct {
	app           *app
	name, session string
	text          []string
	keys          []string
	noEnter       bool
	wait, timeout string
	screen        bool
	json          bool
}

func newPtySend(a *app) *cobra.Command {
	o := &ptySendOptions{app: a}
	cmd := &cobra.Command{
		Use:   "send NAME SESSION [TEXT...]",
		Short: "Type into a terminal and print its answer",
		Long: `Type text and Enter, or keys, into a terminal, wait until its output pauses, and print the new output as lines of
text. Put -- before text that begins with a hyphen.`,
		Example: `  warren pty send box work ls -- -la
  warren pty send box repl 'print(6*7)' --wait 0.5
  warren pty send box editor --key esc --no-enter ':wq'
  warren pty send box work --key ctrl-c --screen`,
		Args:              args(2, -1, "which terminal? give the VM and the session; `warren pty ls NAME` lists them"),
		ValidArgsFunction: a.completeSession,
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name, o.session, o.text = list[0], list[1], list[2:]
			return o.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.StringArrayVarP(&o.keys, "key", "k", nil, "press a key before the text, such as esc, up, f1, ctrl-c, alt-x; may repeat")
	fs.BoolVar(&o.noEnter, "no-enter", false, "do not press Enter after the text")
	fs.StringVar(&o.wait, "wait", "", "return when there was no output for so many seconds (default 0.25)")
	fs.StringVar(&o.timeout, "timeout", "", "return after so many seconds at the latest (default 10)")
	fs.BoolVar(&o.screen, "screen", false, "print the screen instead of the new output")
	fs.BoolVar(&o.json, "json", false, "print output, screen, offset and state as JSON")
	return cmd
}

// input is the text and keys from the flags.
func (o *ptySendOptions) input() (api.PtyInput, error) {
	var in api.PtyInput
	for _, k := range o.keys {
		s, err := parseKey(k)
		if err != nil {
			return in, err
		}
		in.Data += s
	}
	in.Data += strings.Join(o.text, " ")
	if len(o.text) > 0 && !o.noEnter {
		in.Data += "\r"
	}
	if in.Data == "" {
		return in, usage("nothing to type").WithHint("give text, or --key")
	}
	for value, to := range map[*string]**vm.Millis{&o.wait: &in.Quiet, &o.timeout: &in.Timeout} {
		if *value == "" {
			continue
		}
		d, err := parseSeconds(*value)
		if err != nil {
			return in, err
		}
		*to = new(vm.Millis(d))
	}
	return in, nil
}

func (o *ptySendOptions) run(ctx context.Context) error {
	in, err := o.input()
	if err != nil {
		return err
	}
	c, err := o.app.client()
	if err != nil {
		return err
	}
	s, err := findSession(ctx, c, o.name, o.session)
	if err != nil {
		return err
	}
	out, err := c.SendTerminal(ctx, o.name, userOf(s), o.session, in)
	switch {
	case err != nil:
		return err
	case o.json:
		return o.app.io.json(out)
	case o.screen:
		return o.app.say(out.Screen)
	}
	return o.app.say(out.Output)
}
