// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Command warren-agent is the program inside a guest: its first program (as PID 1
// of the initramfs), the agent's supervisor, and the agent. People do not start it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/warren-vm/warren/internal/agent"
)

// version is set by the linker.
var version = "devel"

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "warren-agent:", err)
		if os.Getpid() == 1 {
			agent.Kmsg("fatal: " + err.Error())
			agent.PowerOffNow() // else the kernel panics, which says less and never ends
		}
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	// The kernel passes unknown parameters ("nokaslr") to PID 1 as arguments.
	if os.Getpid() == 1 && (len(args) == 0 || args[0] != "supervise") {
		return agent.Boot(ctx)
	}
	if len(args) == 0 {
		return errors.New("this program runs inside a guest; there is nothing to do here")
	}
	fs := flag.NewFlagSet("warren-agent", flag.ContinueOnError)
	heritage := fs.Int("heritage", -1, "descriptor of the state to take over")
	child := fs.Int("child", 0, "process id of a running agent")
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	switch args[0] {
	case "agent":
		log := slog.New(slog.NewTextHandler(os.Stderr, nil))
		return agent.Main(ctx, version, *heritage, log)
	case "supervise":
		return agent.Supervise(ctx, *child)
	case "check":
		fmt.Println(version)
		return nil
	}
	return fmt.Errorf("no such command: %q", args[0])
}
