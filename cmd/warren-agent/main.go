// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Command warren-agent is the program inside a guest: its first program (as PID 1
// of the initramfs), the agent's supervisor, the agent, and the command of the guest's users.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/warren-vm/warren/internal/agent"
)

// version is set by the linker.
var version = "devel"

func main() {
	if os.Getpid() != 1 && agent.IsApplet(os.Args[0]) {
		os.Exit(agent.Applet(os.Args, os.Stdout, os.Stderr))
	}
	if args := os.Args[1:]; os.Getpid() != 1 && (len(args) == 0 || !isOwn(args[0])) {
		os.Exit(agent.Command(context.Background(), args, os.Stdout, os.Stderr))
	}
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "warren-agent:", err)
		if os.Getpid() == 1 {
			agent.Kmsg("fatal: " + err.Error())
			agent.PowerOffNow() // else the kernel panics, which says less and never ends
		}
		os.Exit(1)
	}
}

// isOwn reports whether a command is not for users: the agent starts itself with these.
func isOwn(command string) bool {
	return command == "agent" || command == "supervise" || command == "services" || command == "check"
}

func run(ctx context.Context, args []string) error {
	// The kernel passes unknown parameters ("nokaslr") to PID 1 as arguments.
	if os.Getpid() == 1 && (len(args) == 0 || args[0] != "supervise") {
		return agent.Boot(ctx)
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
	case "services":
		return agent.RunServices(ctx)
	case "check":
		fmt.Println(version)
		return nil
	}
	return fmt.Errorf("no such command: %q", args[0])
}
