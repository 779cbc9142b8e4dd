// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// folderProgram measures a directory in the guest: MB/s of one large file, its
// pages dropped before it is read, and small files a second.
const folderProgram = `
import os, sys, time
d = sys.argv[1] + "/bench"; n = 200; piece = os.urandom(1 << 20)
os.makedirs(d, exist_ok=True)
def rate(count, f):
    begun = time.monotonic(); f(); return count / (time.monotonic() - begun)
def drop():
    open("/proc/sys/vm/drop_caches", "w").write("3")
def write():
    with open(d + "/big", "wb", 0) as f:
        for _ in range(64): f.write(piece)
        os.fsync(f.fileno())
def read():
    with open(d + "/big", "rb", 0) as f:
        while f.read(1 << 20): pass
def create():
    for i in range(n):
        with open("%s/f%d" % (d, i), "xb", 0) as f: f.write(piece[:2048])
def stats():
    for i in range(n): os.stat("%s/f%d" % (d, i))
def scan():
    for e in os.scandir(d): e.stat()
def fetch():
    for i in range(n):
        with open("%s/f%d" % (d, i), "rb", 0) as f: f.read()
def remove():
    for i in range(n): os.unlink("%s/f%d" % (d, i))
mb = 64 * 1.048576
out = [("write", rate(mb, write))]; drop(); out.append(("read", rate(mb, read)))
out += [("create", rate(n, create)), ("stat", rate(n, stats)), ("stat again", rate(n, stats))]
drop(); out.append(("stat, cold", rate(n, scan))); drop(); out.append(("read, cold", rate(n, fetch))); out.append(("remove", rate(n, remove)))
for name, value in out: print("%s\t%.1f" % (name, value))
`

// folderBounds are the goals for a folder; the other figures have none.
var folderBounds = map[string]bound{"write": {Min: 50}, "read": {Min: 60}, "create": {Min: 400}, "stat again": {Min: 3000}}

// folder measures a directory of the host in a guest, compared with sshfs and with
// the guest's own disk.
func (b *bench) folder(ctx context.Context) (err error) {
	host := filepath.Join(b.dir, "folder")
	if err := os.Mkdir(host, 0o755); err != nil {
		return err
	}
	const name = "bench-folder"
	if err := b.tools(ctx); err != nil {
		return err
	}
	up := b.server.cli(ctx, "up", cmp.Or(b.tooled, "base"), "--name", name, "--profile", "dev", "--add-dir", host+":/folder:rw")
	if err := finish(up); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.server.remove(context.WithoutCancel(ctx), name)) }()
	peer := filepath.Join(b.dir, "folder-sshfs")
	if err := os.Mkdir(peer, 0o755); err != nil {
		return err
	}
	end, err := b.sshfs(ctx, name, peer)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	for i := range 4 {
		if err := b.hostCreates(filepath.Join(b.dir, "folder-host")); err != nil {
			return err
		}
		for what, dir := range map[string]string{"folder": "/folder", "sshfs": sshfsPath, "the VM's own disk": "/root"} {
			if err := b.folderRound(ctx, name, what, dir, i > 0); err != nil {
				return err
			}
		}
	}
	for _, op := range []string{"write", "read", "create", "stat", "stat, cold", "read, cold", "remove"} {
		for _, other := range []string{"sshfs", "the VM's own disk"} {
			if x, y := b.rep.find(op+": folder"), b.rep.find(op+": "+other); x != nil && y != nil {
				b.rep.ratio(op+": folder / "+other, x, y, bound{})
			}
		}
	}
	return nil
}

// hostCreates creates the small files of folderProgram on the host itself: its file
// system's time is part of the folder's figure.
func (b *bench) hostCreates(dir string) (err error) {
	const n = 200
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	data, began := make([]byte, 2048), time.Now()
	for i := range n {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), data, 0o644); err != nil {
			return err
		}
	}
	b.rep.series("create: the host itself", "1/s", bound{}).add(n / time.Since(began).Seconds())
	return os.RemoveAll(dir)
}

func (b *bench) folderRound(ctx context.Context, name, what, dir string, keep bool) error {
	cmd := b.server.cli(ctx, "exec", name, "--", "python3", "-c", folderProgram, dir)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", what, err, stderr.Bytes())
	}
	for line := range strings.Lines(string(out)) {
		op, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
		x, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return fmt.Errorf("%s: %q is no figure", what, line)
		}
		unit, want := "1/s", bound{}
		if op == "write" || op == "read" {
			unit = "MB/s"
		}
		if what == "folder" {
			want = folderBounds[op]
		}
		if s := b.rep.series(op+": "+what, unit, want); keep { // the first round runs code for the first time
			s.add(x)
		}
	}
	return nil
}
