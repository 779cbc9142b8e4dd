// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// guest measures exec and files in one guest that has an SSH server too.
func (b *bench) guest(ctx context.Context) (err error) {
	id, err := b.withTools(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.server.remove(context.WithoutCancel(ctx), id)) }()
	p, err := b.peer(ctx, id, "ssh")
	if err != nil {
		b.rep.note("no SSH peer: %v", err)
		p = nil
	} else {
		defer func() { err = errors.Join(err, p.close()) }()
	}
	if b.wants("exec") {
		err = b.exec(ctx, id, p)
	}
	if b.wants("files") {
		err = errors.Join(err, b.files(ctx, id, p))
	}
	return err
}

// way is one way to run `true` in the guest.
type way struct {
	name string
	run  func() error
	lat  *series
	par  *series
}

// exec measures `true`: by the API, compared with a session of an open SSH
// connection in this process, and by the command line, compared with the ssh
// program over its open ControlMaster connection.
func (b *bench) exec(ctx context.Context, id string, p *peer) error {
	s := b.server
	ways := []*way{
		{name: "API, argv", run: func() error { return s.exec(ctx, id, "true") }},
		{name: "API, exec-await (shell)", run: func() error { return s.execAwait(ctx, id, "true") }},
		{name: "warren exec", run: func() error { return finish(s.cli(ctx, "exec", id, "--", "true")) }},
	}
	if p != nil {
		ways = append(ways,
			&way{name: "SSH session in process", run: func() error { return p.session("true") }},
			&way{name: "ssh over ControlMaster", run: func() error { return finish(p.ssh(ctx, "root@guest", "true")) }})
	}
	ways, broken := warmUp(ways, func(w *way) (string, func() error) { return w.name, w.run })
	for _, w := range ways {
		w.lat = b.rep.series("exec true: "+w.name, "ms", bound{})
		w.par = b.rep.series("exec true, 4 in parallel: "+w.name, "1/s", bound{})
	}
	for range max(30, 2*b.n) {
		for _, w := range ways {
			began := time.Now()
			if err := w.run(); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			w.lat.took(time.Since(began))
		}
	}
	for range 3 {
		for _, w := range ways {
			rate, err := parallel(w.run, 4, 40)
			if err != nil {
				return fmt.Errorf("%s, in parallel: %w", w.name, err)
			}
			w.par.add(rate)
		}
	}
	b.compare("exec true, time: ", " / ", "API, argv", "SSH session in process", "exec true: ", bound{Max: 0.7})
	b.compare("exec true, time: ", " / ", "warren exec", "ssh over ControlMaster", "exec true: ", bound{Max: 0.7})
	b.compare("exec true x 4, rate: ", " / ", "API, argv", "SSH session in process", "exec true, 4 in parallel: ", bound{Min: 1 / 0.7})
	b.compare("exec true x 4, rate: ", " / ", "warren exec", "ssh over ControlMaster", "exec true, 4 in parallel: ", bound{Min: 1 / 0.7})
	return broken
}

// compare notes a ratio of two series, named by what follows prefix, if both were
// measured.
func (b *bench) compare(what, by, x, y, prefix string, want bound) {
	sx, sy := b.rep.find(prefix+x), b.rep.find(prefix+y)
	if sx != nil && sy != nil {
		b.rep.ratio(what+x+by+y, sx, sy, want)
	}
}

// warmUp runs each way three times and returns those that work. The error names the
// others: they are missing from the report, which then is a failure.
func warmUp[T any](ways []T, of func(T) (string, func() error)) ([]T, error) {
	var good []T
	var errs []error
	for _, w := range ways {
		name, run := of(w)
		var err error
		for i := 0; i < 3 && err == nil; i++ {
			err = run()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
			continue
		}
		good = append(good, w)
	}
	return good, errors.Join(errs...)
}

// parallel runs f n times on k workers and returns how many were done a second.
func parallel(f func() error, k, n int) (float64, error) {
	var wg sync.WaitGroup
	errs := make([]error, k)
	began := time.Now()
	for i := range k {
		wg.Go(func() {
			for range n / k {
				if err := f(); err != nil {
					errs[i] = err
					return
				}
			}
		})
	}
	wg.Wait()
	return float64(n) / time.Since(began).Seconds(), errors.Join(errs...)
}

// slowSize is the size in MiB of the files that scp moves: an emulated guest takes
// seconds to decrypt one.
const slowSize = 32

// files measures streams of a large file both ways, compared with scp, which moves
// a smaller one over an open connection.
func (b *bench) files(ctx context.Context, id string, p *peer) error {
	src, small, dst := filepath.Join(b.dir, "big"), filepath.Join(b.dir, "small"), filepath.Join(b.dir, "back")
	if err := errors.Join(fill(src, b.size<<20), fill(small, slowSize<<20)); err != nil {
		return err
	}
	s := b.server
	limit := fmt.Sprint(b.size << 20)
	type stream struct {
		name string
		mib  int64
		want bound
		run  func() error
	}
	streams := []stream{
		{"into the guest: API", b.size, bound{Min: 100}, func() error { return s.putFile(ctx, id, "/root/big", src) }},
		{"out of the guest: API", b.size, bound{Min: 100}, func() error { return s.getFile(ctx, id, "/root/big", dst) }},
		{"into the guest: warren cp", b.size, bound{}, func() error { return finish(s.cli(ctx, "cp", src, id+":/root/big")) }},
		{"out of the guest: warren cp", b.size, bound{}, func() error { return finish(s.cli(ctx, "cp", "--max-bytes", limit, id+":/root/big", dst)) }},
	}
	if p != nil {
		streams = append(streams,
			stream{"into the guest: scp", slowSize, bound{}, func() error { return finish(p.scp(ctx, small, "root@guest:/root/small")) }},
			stream{"out of the guest: scp", slowSize, bound{}, func() error { return finish(p.scp(ctx, "root@guest:/root/small", dst)) }})
	}
	var broken error
	for round := range max(3, b.n/5) + 1 { // the first one is warm-up
		for i := 0; i < len(streams); i++ {
			st := streams[i]
			_ = os.Remove(dst) // absent at first
			began := time.Now()
			if err := st.run(); err != nil {
				broken = errors.Join(broken, fmt.Errorf("%s: %w", st.name, err))
				streams = slices.Delete(streams, i, i+1)
				i--
				continue
			}
			if s := b.rep.series("file "+st.name, "MB/s", st.want); round > 0 {
				s.add(float64(st.mib<<20) / 1e6 / time.Since(began).Seconds())
			}
		}
	}
	for _, way := range []string{"API", "warren cp"} {
		b.compare("file into the guest, rate: ", " / ", way, "scp", "file into the guest: ", bound{})
		b.compare("file out of the guest, rate: ", " / ", way, "scp", "file out of the guest: ", bound{})
	}
	return errors.Join(broken, removeFile(src), removeFile(small), removeFile(dst))
}

// fill writes random bytes, which cannot be compressed.
func fill(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, rand.Reader, size)
	return errors.Join(err, f.Close())
}

func (s *server) putFile(ctx context.Context, id, to, from string) error {
	f, err := os.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	return s.put(ctx, id, to, f)
}

func (s *server) put(ctx context.Context, id, to string, f *os.File) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	resp, err := s.do(ctx, http.MethodPut, "/v1/vms/"+id+"/raw/"+url.PathEscape(to), f, st.Size())
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}

func (s *server) getFile(ctx context.Context, id, from, to string) error {
	resp, err := s.do(ctx, http.MethodGet, "/v1/vms/"+id+"/raw/"+url.PathEscape(from), nil, -1)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	f, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, resp.Body)
	return errors.Join(err, f.Close())
}
