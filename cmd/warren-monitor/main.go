// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Command warren-monitor is the process beside one running VM. `warren serve`
// starts it; people have no use for it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/warren-vm/warren/internal/monitor"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stderr))
}

func run(args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("warren-monitor", flag.ContinueOnError)
	flags.SetOutput(stderr)
	spec := flags.String("spec", "", "path of the machine's specification")
	attach := flags.Bool("attach", false, "take over a machine whose monitor is gone")
	status := flags.Int("status-fd", -1, "descriptor that gets one message when the start is over")
	keys := flags.Int("keys-fd", -1, "descriptor from which the keys of volumes come")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *spec == "" || flags.NArg() > 0 {
		fmt.Fprintln(stderr, "warren-monitor: started by `warren serve`, not by hand")
		return 2
	}
	// The terminal's signals are not for it: a VM outlives who started it.
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGPIPE)
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	o := monitor.Options{Spec: *spec, Attach: *attach, Log: slog.New(slog.NewTextHandler(monitor.LogOutput(*spec), nil))}
	if *status >= 0 {
		syscall.CloseOnExec(*status)
		o.Status = os.NewFile(uintptr(*status), "status")
	}
	if *keys >= 0 {
		syscall.CloseOnExec(*keys)
		o.Keys = os.NewFile(uintptr(*keys), "keys")
	}
	if err := monitor.Main(ctx, o); err != nil {
		o.Log.Error("monitor", "err", err)
		return 1
	}
	return 0
}
