// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/warren-vm/warren/internal/link"
)

// agentName is argv[0] of the agent and its supervisor. The "@" makes systemd
// spare them when it kills all other processes at shutdown.
const agentName = "@warren-agent"

// Main runs the agent. heritage is the descriptor that an upgrade passed on, or negative.
func Main(ctx context.Context, version string, heritage int, log *slog.Logger) error {
	debug.SetMemoryLimit(48 << 20)
	debug.SetGCPercent(100)
	cfg := Config{Version: version, Digest: CommandLine("warren.agent"), Log: log}
	if b, err := os.ReadFile("/run/warren/agent.digest"); err == nil {
		cfg.Digest = strings.TrimSpace(string(b))
	}
	var a *Agent
	var port *os.File
	var err error
	if heritage >= 0 {
		a, port, err = Inherit(cfg, heritage)
	} else if a, err = New(cfg); err == nil {
		port, err = OpenPort(ctx)
	}
	if err != nil {
		return err
	}
	defer port.Close()
	a.announce()
	a.oom.open()
	relax()
	// With a single processor the runtime would take it away at each slow
	// system call and give it back afterwards; under emulation all are slow.
	runtime.GOMAXPROCS(max(2, runtime.NumCPU()))
	if heritage >= 0 {
		refreshParent()
	}
	return a.Run(ctx, port)
}

// OpenPort waits for the agent's virtio port and opens it. It needs no udev:
// it reads the port's name from sysfs.
func OpenPort(ctx context.Context) (*os.File, error) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		names, err := filepath.Glob("/sys/class/virtio-ports/*/name")
		if err != nil {
			return nil, err
		}
		for _, n := range names {
			b, err := os.ReadFile(n)
			if err != nil || !bytes.Equal(bytes.TrimSpace(b), []byte(link.PortName)) {
				continue
			}
			dev := "/dev/" + filepath.Base(filepath.Dir(n))
			f, err := os.OpenFile(dev, os.O_RDWR|syscall.O_NONBLOCK, 0)
			if err == nil {
				return f, nil
			}
			if !errors.Is(err, os.ErrNotExist) {
				return nil, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
}
