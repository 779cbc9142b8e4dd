// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/warren-vm/warren/vm"
)

const benchVolume = "bench"

// volumes measures managed volumes: to mount one in a VM, to lock it, and to read
// and write it, compared with the VM's own disk, which is not encrypted.
func (b *bench) volumes(ctx context.Context) (err error) {
	s := b.server
	id, err := s.createVM(ctx, vm.NetClosed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.remove(context.WithoutCancel(ctx), id)) }()
	if err := s.call(ctx, "POST", "/v1/volumes", map[string]any{"name": benchVolume, "sizeMib": 2 * b.size}, nil); err != nil {
		return err
	}
	if err := b.volumeTimes(ctx, id); err != nil {
		return err
	}
	if err := b.volumeRates(ctx, id); err != nil {
		return err
	}
	return errors.Join(b.unmountVolume(ctx, id), s.call(ctx, "DELETE", "/v1/volumes/"+benchVolume, nil, nil))
}

func (b *bench) mountVolume(ctx context.Context, id string) error {
	err := b.server.call(ctx, "POST", "/v1/volumes/"+benchVolume+"/unlock", nil, nil)
	if err == nil {
		err = b.server.call(ctx, "POST", "/v1/vms/"+id+"/mounts", map[string]any{"volume": benchVolume, "path": "/data", "rw": true}, nil)
	}
	return err
}

func (b *bench) unmountVolume(ctx context.Context, id string) error {
	err := b.server.call(ctx, "DELETE", "/v1/vms/"+id+"/mounts?path=/data", nil, nil)
	if err == nil {
		err = b.server.call(ctx, "POST", "/v1/volumes/"+benchVolume+"/lock", nil, nil)
	}
	return err
}

// volumeTimes measures mounting and locking, of a volume that has a file system.
func (b *bench) volumeTimes(ctx context.Context, id string) error {
	s := b.server
	mount := b.rep.series("volume: unlock, attach and mount", "ms", bound{Max: 500})
	lock := b.rep.series("volume: lock", "ms", bound{Max: 50})
	if err := b.mountVolume(ctx, id); err != nil {
		return err
	}
	for range b.n {
		if err := s.call(ctx, "DELETE", "/v1/vms/"+id+"/mounts?path=/data", nil, nil); err != nil {
			return err
		}
		began := time.Now()
		if err := s.call(ctx, "POST", "/v1/volumes/"+benchVolume+"/lock", nil, nil); err != nil {
			return err
		}
		lock.took(time.Since(began))
		began = time.Now()
		if err := b.mountVolume(ctx, id); err != nil {
			return err
		}
		mount.took(time.Since(began))
	}
	return nil
}

// volumeRates measures dd in the guest, alternately on the volume and on the VM's
// disk. The files are in the host's cache: reads from the host's disks would hide
// the cost of encryption.
func (b *bench) volumeRates(ctx context.Context, id string) error {
	mib := min(b.size, 64)
	places := []struct{ name, file string }{{"volume", "/data/f"}, {"VM's disk", "/root/f"}}
	works := []struct {
		name, before, dd string
	}{
		{"write, O_DIRECT", "sync", "if=/dev/zero of=%[1]s bs=1M count=%[2]d oflag=direct conv=notrunc"},
		{"read, O_DIRECT", "sync", "if=%[1]s of=/dev/null bs=1M iflag=direct"},
		{"write, fsync at the end", "sync", "if=/dev/zero of=%[1]s bs=1M count=%[2]d conv=notrunc,fsync"},
		{"read through the guest's cache", "sync; echo 3 >/proc/sys/vm/drop_caches", "if=%[1]s of=/dev/null bs=1M"},
		{"read, O_DIRECT, 4 KiB each", "sync", "if=%[1]s of=/dev/null bs=4k count=1000 iflag=direct"},
	}
	for _, w := range works {
		for round := range 5 + 1 { // the first one is warm-up
			for _, p := range places {
				rate, err := b.dd(ctx, id, w.before, fmt.Sprintf(w.dd, p.file, mib))
				if err != nil {
					return err
				}
				if s := b.rep.series("volume, "+w.name+": "+p.name, "MB/s", bound{}); round > 0 {
					s.add(rate)
				}
			}
		}
		b.compare("volume, rate, "+w.name+": ", " / ", places[0].name, places[1].name, "volume, "+w.name+": ", bound{Min: 0.5})
	}
	return nil
}

var ddSaid = regexp.MustCompile(`(\d+) bytes .* copied, ([0-9.e-]+) s`)

// dd runs dd in the guest and returns its MB/s.
func (b *bench) dd(ctx context.Context, id, before, args string) (float64, error) {
	said, err := b.server.cli(ctx, "exec", id, "--", "sh", "-c", before+"; LC_ALL=C dd "+args+" 2>&1").Output()
	if err != nil {
		return 0, fmt.Errorf("dd %s: %w: %s", args, err, said)
	}
	m := ddSaid.FindSubmatch(said)
	if m == nil {
		return 0, fmt.Errorf("dd %s said %q", args, said)
	}
	bytes, err1 := strconv.ParseFloat(string(m[1]), 64)
	seconds, err2 := strconv.ParseFloat(string(m[2]), 64)
	return bytes / 1e6 / seconds, errors.Join(err1, err2)
}
