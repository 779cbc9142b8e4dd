// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Command bench measures a real Warren beside its floors and peers, all in one
// run and interleaved, so that the load of the machine falls on both alike. It
// starts a `serve` of its own on a fresh data directory that borrows the
// images of another one, and prints medians with the least, the greatest and
// the number of samples; the samples themselves go to a JSON file.
//
// The floors and peers: raw QEMU on the same warm generation for create, the
// cold boot of the same VM, OpenSSH over an open ControlMaster connection into
// the same guest for exec, scp into the same guest for files and for scp through
// the gateway, the guest's port dialled for previews; QEMU's savevm,
// `virsh save` and a copy with a cold boot for forks and suspends.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"syscall"
	"time"
)

type options struct {
	binary string
	images string
	out    string
	only   string
	n      int
	size   int64
	keep   bool
	soak   bool
}

func main() {
	if len(os.Args) == 4 && os.Args[1] == asMonitor {
		if err := beMonitor(os.Args[2], os.Args[3], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.binary, "binary", "bin/warren", "the `warren` to measure")
	fs.StringVar(&o.images, "images", ".work/data/images", "image `directory` to borrow; it must hold the image base")
	fs.StringVar(&o.out, "json", ".work/bench.json", "`file` for the raw samples")
	fs.StringVar(&o.only, "only", "", "run only the sections that match this `regexp`: create, exec, files, folder, keeping, list, memory, pool, preview, run, scp, terminal.echo, terminal.flood, volumes, worlds.pause, worlds.private, worlds.fork, worlds.suspend, worlds.peers")
	fs.IntVar(&o.n, "n", 15, "samples of each quick measurement")
	fs.Int64Var(&o.size, "mib", 256, "size of the file that is streamed, in MiB")
	fs.BoolVar(&o.soak, "soak", false, "forks of 64 children too")
	fs.BoolVar(&o.keep, "keep", false, "keep the data directory")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	for _, p := range []*string{&o.binary, &o.images, &o.out} {
		abs, err := filepath.Abs(*p)
		if err != nil {
			return o, err
		}
		*p = abs
	}
	return o, nil
}

// bench is one run.
type bench struct {
	options
	log    io.Writer
	dir    string // scratch, removed at the end
	server *server
	rep    *report
}

// section is one group of measurements.
type section struct {
	name  string
	run   func(*bench, context.Context) error
	parts []string // that can be asked for alone
}

var sections = []section{
	{"memory", (*bench).memory, nil},
	{"create", (*bench).create, nil},
	{"pool", (*bench).pool, nil},
	{"run", (*bench).oneShot, nil},
	{"exec", (*bench).guest, []string{"files"}}, // they share the guest with its SSH server
	{"terminal", (*bench).terminal, []string{"terminal.echo", "terminal.flood"}},
	{"preview", (*bench).preview, nil},
	{"scp", (*bench).copies, nil},
	{"list", (*bench).list, nil},
	{"folder", (*bench).folder, nil},
	{"keeping", (*bench).keeping, nil},
	{"volumes", (*bench).volumes, nil},
	{"worlds.pause", (*bench).worldPause, nil},
	{"worlds.private", (*bench).worldPrivate, nil},
	{"worlds.fork", (*bench).worldFork, nil},
	{"worlds.suspend", (*bench).worldSuspend, nil},
	{"worlds.peers", (*bench).worldPeers, nil},
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	only, err := regexp.Compile(o.only)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp(filepath.Dir(filepath.Dir(o.images)), "bench-") // the images' file system
	if err != nil {
		return err
	}
	b := &bench{options: o, log: stderr, dir: dir, rep: newReport()}
	defer func() {
		if !o.keep {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	b.server, err = startServer(ctx, o.binary, filepath.Join(dir, "data"), o.images, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.server.stop()) }()
	b.rep.Host = describe(ctx, b.server)
	for _, s := range sections {
		if !only.MatchString(s.name) && !slices.ContainsFunc(s.parts, only.MatchString) {
			continue
		}
		began := time.Now()
		fmt.Fprintf(stderr, "%s ...", s.name)
		if serr := s.run(b, ctx); serr != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", s.name, serr))
			fmt.Fprintf(stderr, " failed: %v", serr)
		}
		fmt.Fprintf(stderr, " %.0f s\n", time.Since(began).Seconds())
		if ctx.Err() != nil {
			break
		}
	}
	b.rep.print(stdout)
	return errors.Join(err, writeJSON(o.out, b.rep))
}

// describe says on what was measured.
func describe(ctx context.Context, s *server) map[string]any {
	out := map[string]any{"cpus": runtime.NumCPU(), "time": time.Now().UTC().Format(time.RFC3339)}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		out["loadavg"] = string(load[:len(load)-1])
	}
	var host map[string]any
	if err := s.call(ctx, "GET", "/v1/host", nil, &host); err == nil {
		out["warren"] = host
	}
	return out
}

func writeJSON(path string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
