// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

// execGrace is how long after a command's time limit the guest may take to
// end it. After that the guest counts as silent.
const execGrace = 15 * time.Second

// startGrace is how long a command may still take to start after ^C.
const startGrace = 3 * time.Second

type execOptions struct {
	name         string
	argv         []string
	timeout      string
	user         string
	cwd          string
	env          []string
	stdin        bool
	tty          bool
	background   bool
	json         bool
	turn         string
	summary      bool
	captureFirst bool
}

// add adds the flags that every command line for a guest has.
func (o *execOptions) add(f *pflag.FlagSet) {
	f.StringVar(&o.timeout, "timeout", "", "end the command after this time: seconds, or a duration such as 10m; the exit status is then 124")
	f.StringVar(&o.user, "user", "", "Linux user in the guest (default root)")
	f.StringVar(&o.cwd, "cwd", "", aboutCwd)
	f.StringArrayVarP(&o.env, "env", "e", nil, "set a variable: NAME=VALUE, or NAME to copy this shell's; may repeat")
	f.BoolVarP(&o.stdin, "stdin", "i", false, "pass standard input to the command")
	f.BoolVar(&o.json, "json", false, "print output and exit status as one JSON object at the end")
}

func newExec(a *app) *cobra.Command {
	o := &execOptions{}
	cmd := &cobra.Command{
		Use:   "exec NAME [flags] -- CMD [ARG...]",
		Short: "Run a command in a VM",
		Long: `Run a command in a running VM. Its output, standard error and exit status are passed on; 124 says that
--timeout ended it, 125 that Warren failed and not the command, 126 and 127 that the guest could not run it.

-t gives the command a terminal; -it connects it to this terminal, with the same size, and all keys, including ^C,
go to the command. -it needs a terminal here; -t alone does not. If the connection breaks, the command keeps
running, "warren pty ls" lists it, and exec attaches again. Like every terminal, it keeps the VM awake by its
input and output, not by being open.

Without -t, the first ^C goes to the command. A second one detaches from it: the command keeps running in the
background with a log, as it does when this program or the server dies ("warren ps", "warren logs", "warren
wait").

` + aboutWorkdir,
		Example: `  warren exec box -- uname -a
  warren exec box --user nobody --cwd /tmp -e LANG=C -- sh -c 'pwd; exit 3'
  warren exec -it box -- bash
  warren exec box -i --timeout 30 -- python3 -
  warren exec box --background -- python3 -m http.server
  warren exec box --turn 'upgrade the framework' -- npm update
  warren exec box --summary -- make install
  warren exec box --json -- sh -c 'echo out; echo err >&2; exit 3'`,
		Annotations: map[string]string{passes: "yes"},
		Args:        passingArgs(args(2, -1, "the VM or the command is missing: warren exec NAME -- CMD")),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.name, o.argv = list[0], list[1:]
			return passed(a.exec(cmd.Context(), o))
		},
		ValidArgsFunction: a.completeVM,
	}
	o.add(cmd.Flags())
	cmd.Flags().StringVar(&o.turn, "turn", "", "first mark a turn with this note, to which warren undo returns")
	cmd.Flags().BoolVar(&o.captureFirst, "capture-first", false, "first mark a turn, with the command as its note")
	cmd.Flags().BoolVar(&o.summary, "summary", false, "afterwards print on standard error which files changed; the VM is paused for a moment before and after")
	cmd.Flags().BoolVarP(&o.tty, "tty", "t", false, "give it a terminal; -it to type into it")
	cmd.Flags().BoolVarP(&o.background, "background", "d", false, "print the process's id and return; its output goes to its log")
	return cmd
}

// passed marks Warren's failures in a command that returns the guest's exit
// status.
func passed(err error) error {
	var status exitStatus
	if err == nil || errors.As(err, &status) {
		return err
	}
	return passing{err}
}

func passingArgs(f cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, list []string) error { return passed(f(cmd, list)) }
}

// spec turns the flags into the request.
func (o *execOptions) spec(getenv func(string) string) (vm.ExecSpec, error) {
	s := vm.ExecSpec{Argv: o.argv, User: o.user, Cwd: o.cwd, Stdin: o.stdin, Background: o.background}
	var err error
	if s.Env, err = parseEnv(o.env, getenv); err != nil {
		return s, err
	}
	if o.timeout != "" {
		d, err := parseSeconds(o.timeout)
		if err != nil {
			return s, err
		}
		s.Timeout = vm.Millis(d)
	}
	if s.Turn = o.turn; o.captureFirst && o.turn == "" {
		s.Turn = strings.Join(o.argv, " ")
	}
	if s.Summary = o.summary; o.summary && (o.background || o.tty) {
		return s, usage("--summary needs a command that this program waits for, without a terminal").
			WithHint("mark a turn instead, and look at the changes later: `warren exec --turn NOTE`, `warren diff`")
	}
	if o.background && o.stdin {
		return s, usage("a command in the background gets no input").WithHint("leave out -i, or -d")
	}
	return s, nil
}

func (a *app) exec(ctx context.Context, o *execOptions) error {
	spec, err := o.spec(a.getenv)
	if err == nil {
		err = o.checkTTY(a.io.in)
	}
	if err != nil {
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	if o.background {
		p, err := c.StartProcess(ctx, o.name, spec)
		switch {
		case err != nil:
			return err
		case o.json:
			return a.io.json(p)
		}
		a.noteTurn(o.name, p.Turn)
		a.io.printf("%s\n", p.ID)
		return nil
	}
	if o.tty {
		return a.onTerminal(ctx, c, o.name, spec)
	}
	if o.json {
		a.gather = &gathered{}
	}
	return a.printGathered(a.attached(ctx, c, o.name, spec, a.leave))
}

// attached runs a command with this program's streams until it ends. Signals
// go to the command; after the second signal, leave decides.
func (a *app) attached(ctx context.Context, c *client.Client, name string, spec vm.ExecSpec, leave leaveFunc) error {
	if spec.Timeout > 0 {
		limit := time.Duration(spec.Timeout) + execGrace
		var late context.CancelFunc
		ctx, late = context.WithTimeoutCause(ctx, limit, vm.Errorf(vm.GuestFault, name, "the guest does not answer").
			WithHint("`warren kill %s` ends it without the guest's help", name))
		defer late()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	sigs, release := a.signals.take()
	defer release()
	early, started := earlySignal(sigs, cancel)
	begun := time.Now()
	e, err := c.Exec(ctx, name, spec)
	close(started)
	first := <-early
	if err != nil {
		return causeOf(ctx, err)
	}
	over := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		a.passSignals(e, name, first, sigs, over, leave)
	}()
	a.noteTurn(name, e.Turn())
	if spec.Stdin {
		// Nothing can interrupt a read of a terminal. This goroutine ends with
		// the input or with the program.
		go feed(e, a.io.in)
	}
	// If the reader of our output goes away, this program must signal the
	// command before it ends.
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	defer signal.Stop(pipe)
	stdout, stderr := a.guestStreams()
	status, err := e.Run(&telling{stdout, e}, &telling{stderr, e})
	close(over)
	<-watched
	a.noteSummary(e.Summary())
	switch {
	case errors.Is(err, syscall.EPIPE):
		return exitStatus(128 + int(syscall.SIGPIPE))
	case err != nil:
		return causeOf(ctx, err)
	case status.TimedOut && a.gather != nil:
		a.gather.timedOut = true
		return exitStatus(statusTimeout)
	case status.TimedOut:
		a.io.tellf("warren: the command was ended after %s", time.Duration(spec.Timeout))
		return exitStatus(statusTimeout)
	case status.Code != 0:
		a.explainRefusals(ctx, c, name, begun)
		return exitStatus(status.Code)
	}
	return nil
}

// telling writes output. If nobody reads it any more, it signals the command,
// as a local pipe would.
type telling struct {
	w io.Writer
	e *client.Exec
}

func (t *telling) Write(p []byte) (int, error) {
	n, err := t.w.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		_ = t.e.Signal("PIPE") // a command that cannot be signalled keeps running in the background
	}
	return n, err
}

// causeOf returns the cause of a context's end, if there is one, instead of
// its error.
func causeOf(ctx context.Context, err error) error {
	var why *vm.Error
	if errors.As(context.Cause(ctx), &why) {
		return why
	}
	return err
}

// feed sends input to its end.
func feed(e *client.Exec, in io.Reader) {
	// Run reports a failure of the connection; input that the command no
	// longer reads is no failure.
	_, _ = io.Copy(e, in)
	_ = e.CloseStdin()
}

// leaveFunc detaches from a command that a signal did not end.
type leaveFunc func(e *client.Exec, name string)

// earlySignal watches signals while a command is being started. It keeps the
// first one for the command. If the command does not start soon after, or at a
// second signal, the start is cancelled. Close started at the end and then read
// early, once.
func earlySignal(sigs <-chan os.Signal, giveUp context.CancelCauseFunc) (early <-chan os.Signal, started chan struct{}) {
	out := make(chan os.Signal, 1)
	started = make(chan struct{})
	go func() {
		defer close(out)
		var first os.Signal
		select {
		case <-started:
			return
		case first = <-sigs:
		}
		late := time.NewTimer(startGrace)
		defer late.Stop()
		select {
		case <-started:
			out <- first
		case <-sigs:
			giveUp(vm.Errorf(vm.Cancelled, "", "interrupted"))
		case <-late.C:
			giveUp(vm.Errorf(vm.Cancelled, "", "interrupted"))
		}
	}()
	return out, started
}

// passSignals sends the first ^C to the command. The second ^C, and SIGTERM,
// only detach from it. first is a signal that came early, or nil.
func (a *app) passSignals(e *client.Exec, name string, first os.Signal, sigs <-chan os.Signal, over <-chan struct{}, leave leaveFunc) {
	for n := 0; ; n++ {
		sig := first
		if first = nil; sig == nil {
			select {
			case <-over:
				return
			case sig = <-sigs:
			}
		}
		if n == 0 && sig == os.Interrupt && e.Signal(signalName(sig)) == nil {
			continue
		}
		leave(e, name)
		return
	}
}

// leave detaches and prints how to find the command again.
func (a *app) leave(e *client.Exec, name string) {
	_ = e.Detach() // Run reports the result
	id := e.Process().ID
	a.io.tellf("%s", strings.Join([]string{
		"warren: left " + id + " running in the background; find it again with",
		"  warren logs -f " + name + " " + id,
		"  warren wait " + name + " " + id,
		"  warren signal " + name + " " + id + " KILL",
	}, "\n"))
}
