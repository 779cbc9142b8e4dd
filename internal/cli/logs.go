// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

type logsOptions struct {
	app    *app
	name   string
	id     string // of a command; "" = the console
	unit   string // a service instead
	since  string
	json   bool
	follow bool
	tail   int
	from   int64
	raw    bool
}

func newLogs(a *app) *cobra.Command {
	o := &logsOptions{app: a}
	cmd := &cobra.Command{
		Use:   "logs NAME [PROCESS]",
		Short: "Show the output of a command in a VM, or the VM's console",
		Long: `Show the log of a background command, by the id that "warren ps" lists. Without an id, show the VM's console, to
which its kernel and boot write. With --service, show the journal of a systemd service. On a terminal, control
characters are shown as escapes.`,
		Example: `  warren logs box
  warren logs box p3 -f
  warren logs box p3 --tail 20
  warren logs box --service web --lines 20 --follow
  warren logs box --service web --since '10 min ago' --json`,
		Args:              args(1, 2, "which VM? give its name or id"),
		ValidArgsFunction: a.completeVM,
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			if len(list) > 1 {
				o.id = list[1]
			}
			if err := o.check(cmd); err != nil {
				return err
			}
			if o.unit != "" {
				return o.service(cmd.Context())
			}
			return o.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.BoolVarP(&o.follow, "follow", "f", false, "print new lines until it ends or ^C")
	fs.IntVarP(&o.tail, "tail", "n", -1, "only the last N lines")
	fs.IntVar(&o.tail, "lines", -1, "the same as --tail")
	fs.StringVar(&o.unit, "service", "", "the journal of this systemd service, by default 100 lines")
	fs.StringVar(&o.since, "since", "", "with --service: only lines from this time on")
	fs.BoolVar(&o.json, "json", false, "print as JSON; without --service an object a line")
	fs.Int64Var(&o.from, "from", 0, "begin at this byte")
	fs.BoolVar(&o.raw, "raw", false, "on a terminal, print every byte as it is")
	return cmd
}

// check refuses flags that do not apply to the kind of log.
func (o *logsOptions) check(cmd *cobra.Command) error {
	var wrong []string
	switch {
	case o.unit != "" && o.id != "":
		return usage("%s and --service name two logs", printable(o.id))
	case o.unit != "":
		wrong = []string{"from", "raw"}
	default:
		wrong = []string{"since"}
	}
	for _, name := range wrong {
		if cmd.Flags().Changed(name) {
			return usage("--%s does not apply to that log", name).WithHint("--since needs --service; --from and --raw do not work with it")
		}
	}
	return nil
}

// service prints a service's journal.
func (o *logsOptions) service(ctx context.Context) error {
	c, err := o.app.client()
	if err != nil {
		return err
	}
	lines := o.tail
	if lines < 0 {
		lines = 100
	}
	if !o.follow {
		var l []vm.UnitLog
		if lines > 0 { // 0 means the server's default
			if l, err = c.ServiceLogs(ctx, o.name, o.unit, lines, o.since); err != nil {
				return err
			}
		}
		if o.json {
			return list(o.app.io, l)
		}
		for _, line := range l {
			o.line(line)
		}
		return nil
	}
	f, err := c.FollowService(ctx, o.name, o.unit, lines, o.since)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for {
		l, err := f.Next()
		switch {
		case ctx.Err() != nil || errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case o.json:
			if err := o.app.io.line(l); err != nil {
				return err
			}
		default:
			o.line(l)
		}
	}
}

// line prints one line of a journal; characters that could control a terminal
// are escaped.
func (o *logsOptions) line(l vm.UnitLog) {
	o.app.io.printf("%s %s\n", l.Timestamp.Local().Format(time.DateTime), plain(l.Message))
}

func (o *logsOptions) run(ctx context.Context) error {
	c, err := o.app.client()
	if err != nil {
		return err
	}
	from := o.from
	out := o.app.io.guestWriter(o.raw)
	if o.json {
		out = &jsonLines{io: o.app.io}
	}
	defer out.Close()
	if o.tail >= 0 {
		if from, err = o.last(ctx, c, out); err != nil || !o.follow {
			return err
		}
	}
	l, offset, err := o.open(ctx, c, from, o.follow)
	if err != nil {
		return err
	}
	defer l.Close()
	if offset > from {
		o.app.io.tellf("%d bytes before this were dropped: the size of the log is limited", offset-from)
	}
	_, err = io.Copy(out, l)
	if o.follow && ctx.Err() != nil {
		return nil // ^C ends it without an error
	}
	return err
}

func (o *logsOptions) open(ctx context.Context, c *client.Client, from int64, follow bool) (io.ReadCloser, int64, error) {
	if o.id == "" {
		return c.ConsoleLog(ctx, o.name, from, follow)
	}
	return c.ProcessLog(ctx, o.name, o.id, from, follow)
}

// last prints the last lines and returns where the log ended.
func (o *logsOptions) last(ctx context.Context, c *client.Client, out io.Writer) (int64, error) {
	l, offset, err := o.open(ctx, c, o.from, false)
	if err != nil {
		return 0, err
	}
	data, err := io.ReadAll(l) // logs are bounded by the server
	if err = errors.Join(err, l.Close()); err != nil {
		return 0, err
	}
	at := len(data)
	for range o.tail + boolToInt(bytes.HasSuffix(data, []byte("\n"))) {
		if at = bytes.LastIndexByte(data[:at], '\n'); at < 0 {
			break
		}
	}
	if o.tail == 0 {
		at = len(data) - 1
	}
	_, err = out.Write(data[at+1:])
	return offset + int64(len(data)), err
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// guestWriter is stdout for bytes of a guest: on a terminal it escapes control
// characters.
func (s *streams) guestWriter(raw bool) io.WriteCloser {
	if s.outTTY && !raw {
		return &safeWriter{w: s.out}
	}
	return nopCloser{s.out}
}
