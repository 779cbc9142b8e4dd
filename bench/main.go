// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Command bench measures a real Warren beside its floors and peers, all in one
// run and interleaved, so that the load of the machine falls on both alike. It
// starts a `serve` of its own on a fresh data directory that borrows the
// images of another one, and prints medians with the least, the greatest and
// the number of samples; the samples themselves go to a JSON file.
//
// What is measured is in sections (section.go), each with its own duration, load
// and steal; one that fails loses its own rows only.
//
// The floors and peers: QEMU alone on the same generation for whatever starts a
// VM, the cold boot of the same VM, OpenSSH over an open ControlMaster connection into
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
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/warren-vm/warren/internal/layout"
)

type options struct {
	binary string
	images string
	out    string
	only   string
	n      int
	many   int
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
	if len(os.Args) == 4 && (os.Args[1] == asVersity || os.Args[1] == asSyncedVersity) {
		if err := beVersity(ctx, os.Args[2], os.Args[3], os.Args[1] == asSyncedVersity); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			stop()
			os.Exit(1)
		}
		return
	}
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
	fs.StringVar(&o.only, "only", "", "run only the sections that match this `regexp`: "+strings.Join(sectionNames(), ", "))
	fs.IntVar(&o.n, "n", 11, "samples of each quick measurement")
	fs.IntVar(&o.many, "many", 100, "VMs of the section herd")
	fs.Int64Var(&o.size, "mib", 128, "size of the file that is streamed, in MiB")
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
	log      io.Writer
	dir      string // scratch, removed at the end
	server   *server
	rep      *report
	recorded layout.Dir // see onRecord
	tooled   string     // see withTools
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	chosen, err := choose(o.only)
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
	if err := b.freshServer(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.server.stop()) }()
	b.rep.Host = describe(ctx, b.server)
	err = b.runSections(ctx, chosen, b.tidy)
	b.rep.print(stdout)
	return errors.Join(err, writeJSON(o.out, b.rep))
}

// freshServer starts the server that the sections measure, on a data directory
// that nobody has used.
func (b *bench) freshServer(ctx context.Context) error {
	data, err := os.MkdirTemp(b.dir, "data-")
	if err != nil {
		return err
	}
	s, err := startServer(ctx, b.binary, data, b.images, 0)
	if err == nil {
		b.server = s
	}
	return err
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
