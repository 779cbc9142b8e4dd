// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

// sandboxDriver measures what it is told on stdin with E2B's SDK, and prints milliseconds.
const sandboxDriver = `
import { Sandbox } from "e2b";
import readline from "node:readline";
const data = new Blob([Buffer.alloc(16 << 20, "x")]);
let s = await Sandbox.create();
const old = [];
const verbs = {
  create: async () => { const t = await Sandbox.create(); await t.commands.run("true"); old.push(t); },
  run: () => s.commands.run("true"),
  write: () => s.files.write("/tmp/large", data, { useOctetStream: true }),
};
console.log("ready");
for await (const verb of readline.createInterface({ input: process.stdin })) {
  const began = performance.now();
  await verbs[verb]();
  const took = performance.now() - began;
  while (old.length) await old.pop().kill();
  console.log(took);
}
await s.kill();
`

// sandboxSDK is a running driver.
type sandboxSDK struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func (s *server) sandboxSDK(ctx context.Context) (*sandboxSDK, error) {
	dir, err := filepath.Abs("test/contract/e2b")
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules/e2b")); err != nil {
		install := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund")
		install.Dir = dir
		if err := finish(install); err != nil {
			return nil, err
		}
	}
	d := &sandboxSDK{cmd: exec.CommandContext(ctx, "node", "--input-type=module", "-e", sandboxDriver)}
	d.cmd.Dir, d.cmd.Stderr = dir, os.Stderr
	d.cmd.Env = append(os.Environ(), "E2B_API_KEY=e2b_"+hex.EncodeToString([]byte(s.key)), "E2B_API_URL="+s.url+"/e2b", "E2B_SANDBOX_URL="+s.url)
	if d.in, err = d.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	d.out = bufio.NewScanner(out)
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	if !d.out.Scan() || d.out.Text() != "ready" {
		return nil, errors.Join(errors.New("the driver of E2B's SDK does not start"), d.cmd.Wait())
	}
	return d, nil
}

// do measures one verb.
func (d *sandboxSDK) do(verb string) (time.Duration, error) {
	if _, err := fmt.Fprintln(d.in, verb); err != nil {
		return 0, err
	}
	if !d.out.Scan() {
		return 0, fmt.Errorf("%s with E2B's SDK failed", verb)
	}
	ms, err := strconv.ParseFloat(strings.TrimSpace(d.out.Text()), 64)
	return time.Duration(ms * float64(time.Millisecond)), err
}

func (d *sandboxSDK) close() error {
	return errors.Join(d.in.Close(), d.cmd.Wait())
}

// e2b measures E2B's SDK for JavaScript beside Warren's own ways, in turns, on a server with a pool of
// one machine.
func (b *bench) e2b(ctx context.Context) (err error) {
	s, err := startServer(ctx, b.binary, filepath.Join(b.dir, "sandboxes"), b.server.dir.Images(), 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	d, err := s.sandboxSDK(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	id, err := s.createVM(ctx, vm.NetClosed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.remove(context.WithoutCancel(ctx), id)) }()
	large, err := os.CreateTemp(b.dir, "large")
	if err != nil {
		return err
	}
	defer large.Close()
	if err := large.Truncate(16 << 20); err != nil {
		return err
	}
	verbs := []struct {
		name, verb string
		most       float64
		own        func() error
		before     func() error
	}{
		{"create to the first command", "create", 1.3, func() error { return s.upAndExec(ctx) }, func() error { return s.fullPool(ctx) }},
		{"a command that does nothing", "run", 2, func() error { return finish(s.cli(ctx, "exec", id, "--", "true")) }, nil},
		{"write of 16 MiB", "write", 1 / 0.6, func() error {
			return s.putFile(ctx, id, "/tmp/large", large.Name())
		}, nil},
	}
	for _, v := range verbs {
		theirs, ours := b.rep.series(v.name+": e2b", "ms", bound{}), b.rep.series(v.name+": warren", "ms", bound{})
		for turn := range 1 + max(4, b.n/3) { // the first is not counted
			if v.before != nil {
				if err := v.before(); err != nil {
					return err
				}
			}
			took, err := d.do(v.verb)
			if err != nil {
				return err
			}
			if v.before != nil {
				if err := v.before(); err != nil {
					return err
				}
			}
			began := time.Now()
			if err := v.own(); err != nil {
				return err
			}
			if turn > 0 {
				theirs.took(took)
				ours.took(time.Since(began))
			}
			if v.verb == "create" {
				if err := finish(s.cli(ctx, "rm", "-q", besideE2B)); err != nil {
					return err
				}
			}
		}
		b.rep.ratio(v.name+": e2b / warren", theirs, ours, bound{Max: v.most})
	}
	return nil
}

const besideE2B = "beside-e2b"

// upAndExec makes a VM and runs a command in it, by the command line.
func (s *server) upAndExec(ctx context.Context) error {
	if err := finish(s.cli(ctx, "up", "--name", besideE2B)); err != nil {
		return err
	}
	return finish(s.cli(ctx, "exec", besideE2B, "--", "true"))
}
