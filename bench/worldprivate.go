// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// worldPrivate measures the pause of a VM that has written more and more since its
// start, while its programs are idle and while one keeps rewriting 32 MiB. The VM
// is never idle long enough to get a new base.
func (b *bench) worldPrivate(ctx context.Context) (err error) {
	id, err := b.world(ctx, 4096)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.server.remove(context.WithoutCancel(ctx), id)) }()
	have := 0
	for _, mib := range []int{32, 256, 2048} {
		const write = `dd if=/dev/urandom of=/run/fill/seed bs=1M count=16 status=none
for i in $(seq %d %d); do cat /run/fill/seed > /run/fill/more$i; done`
		if err := b.server.exec(ctx, id, "sh", "-c", fmt.Sprintf(write, have/16+1, mib/16)); err != nil {
			return err
		}
		have = mib
		for _, c := range []struct{ name, begin, end string }{
			{"at rest", "true", "true"},
			{"with a busy writer", busyWriter, "rm -f /run/fill/busy"},
		} {
			s := b.rep.series(fmt.Sprintf("fork: parent's pause, %d MiB of private pages, %s", mib, c.name), "ms", bound{})
			if err := b.server.exec(ctx, id, "sh", "-c", c.begin); err != nil {
				return err
			}
			err := b.pauses(ctx, id, min(b.n, 3), s)
			if err := errors.Join(err, b.server.exec(ctx, id, "sh", "-c", c.end), pause(ctx, time.Second)); err != nil {
				return err
			}
		}
	}
	return nil
}

// busyWriter writes the same 32 MiB until its flag is gone.
const busyWriter = `touch /run/fill/busy
setsid sh -c 'while [ -e /run/fill/busy ]; do cat /run/fill/seed /run/fill/seed > /run/fill/again; done' >/dev/null 2>&1 &
sleep 1`
