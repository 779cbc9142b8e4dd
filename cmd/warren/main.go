// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Command warren is all of Warren in one binary: the command line, and the
// server as `warren serve`.
package main

import (
	"context"
	"os"

	"github.com/warren-vm/warren/internal/cli"
	"github.com/warren-vm/warren/internal/serve"
)

func main() {
	local := serve.Local(os.Getenv, os.Getuid())
	local.Program = os.Args[0]
	os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv, local))
}
