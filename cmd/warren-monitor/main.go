// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Command warren-monitor is the process that watches one running VM. `warren
// serve` starts it; people do not.
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
	attach := flags.Bool("attach", false, "take over a machine whose monitor has died")
	status := flags.Int("status-fd", -1, "descriptor that gets one message when the start has ended")
	keys := flags.Int("keys-fd", -1, "descriptor to read the keys of volumes from")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *spec == "" || flags.NArg() > 0 {
		fmt.Fprintln(stderr, "warren-monitor: started by `warren serve`, not by hand")
		return 2
	}
	// It ignores the terminal's signals, because a VM outlives the program that started it.
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
