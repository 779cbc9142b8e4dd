// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/client"
)

type logsOptions struct {
	app    *app
	name   string
	id     string // of a command; "" = the console
	follow bool
	tail   int
	from   int64
	raw    bool
}

func newLogs(a *app, runF func(context.Context, *logsOptions) error) *cobra.Command {
	o := &logsOptions{app: a}
	cmd := &cobra.Command{
		Use:   "logs NAME [PROCESS]",
		Short: "Show the output of a command in a VM, or the VM's console",
		Long: `Show the log of a command that runs or ran in the background, by the id that "warren ps" lists; without an
id the VM's console, where its kernel and boot write. On a terminal, bytes that could steer it are shown as escapes.`,
		Example: `  warren logs box
  warren logs box p3 -f
  warren logs box p3 --tail 20`,
		Args:              args(1, 2, "which VM? give its name or id"),
		ValidArgsFunction: a.completeVM,
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name = list[0]
			if len(list) > 1 {
				o.id = list[1]
			}
			if runF != nil {
				return runF(cmd.Context(), o)
			}
			return o.run(cmd.Context())
		},
	}
	fs := cmd.Flags()
	fs.BoolVarP(&o.follow, "follow", "f", false, "go on as more is written, until it ends or ^C")
	fs.IntVarP(&o.tail, "tail", "n", -1, "only the last so many lines")
	fs.Int64Var(&o.from, "from", 0, "begin at this byte")
	fs.BoolVar(&o.raw, "raw", false, "on a terminal, print every byte as it is")
	return cmd
}

func (o *logsOptions) run(ctx context.Context) error {
	c, err := o.app.client()
	if err != nil {
		return err
	}
	from := o.from
	out := o.app.io.guestWriter(o.raw)
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
		o.app.io.notef("%d bytes before this were dropped: the log is bounded", offset-from)
	}
	_, err = io.Copy(out, l)
	if o.follow && ctx.Err() != nil {
		return nil // ^C is how one stops looking
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

// guestWriter is stdout for bytes of a guest: on a terminal they are made safe.
func (s *streams) guestWriter(raw bool) io.WriteCloser {
	if s.outTTY && !raw {
		return &safeWriter{w: s.out}
	}
	return nopCloser{s.out}
}
