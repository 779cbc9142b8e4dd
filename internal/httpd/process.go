// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

func (s *server) processes(q *request) error {
	l, err := s.Inside.Processes(q.Context(), q.call, q.ref())
	if err != nil {
		return err
	}
	if l == nil {
		l = []vm.Process{}
	}
	return q.ok(api.ProcessList{Processes: l})
}

func (s *server) startProcess(q *request) error {
	var spec vm.ExecSpec
	if err := q.decode(&spec, maxBody); err != nil {
		return err
	}
	if spec.User == "" {
		spec.User = q.user()
	}
	spec.Background = true
	around, err := s.before(q, &spec)
	if err != nil {
		return err
	}
	p, err := s.Inside.StartProcess(q.Context(), q.call, q.ref(), spec)
	if err != nil {
		return err
	}
	return q.ok(api.StartedProcess{Process: p, Turn: around.turn})
}

func (s *server) process(q *request) error {
	p, err := s.Inside.Process(q.Context(), q.call, q.ref(), q.values["process"])
	if err != nil {
		return err
	}
	return q.ok(p)
}

func (s *server) forgetProcess(q *request) error {
	if err := s.Inside.ForgetProcess(q.Context(), q.call, q.ref(), q.user(), q.values["process"]); err != nil {
		return err
	}
	return q.ok(okBody{})
}

func (s *server) waitProcess(q *request) error {
	ms, err := q.int("timeoutMs", 0)
	if err != nil {
		return err
	}
	ctx, cancel := s.streaming(q)
	defer cancel()
	if ms > 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(ms)*time.Millisecond)
		defer cancel()
	}
	p, err := s.Inside.WaitProcess(ctx, q.call, q.ref(), q.values["process"])
	if ctx.Err() != nil && q.Context().Err() == nil && ms > 0 {
		return vm.Errorf(vm.Timeout, q.values["process"], "it has not ended within %d ms", ms).
			WithCode("EXEC_TIMED_OUT", "timeoutMs", ms).WithHint("the process keeps running; wait again")
	}
	if err != nil {
		return err
	}
	return q.ok(p)
}

func (s *server) signalProcess(q *request) error {
	var in api.Signal
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	if in.Signal == "" {
		in.Signal = "TERM"
	}
	if err := s.Inside.SignalProcess(q.Context(), q.call, q.ref(), q.user(), q.values["process"], in.Signal); err != nil {
		return err
	}
	return q.ok(okBody{})
}

func (s *server) processLog(q *request) error {
	return s.log(q, func(ctx context.Context, from int64, follow bool) (io.ReadCloser, int64, error) {
		return s.Inside.ProcessLog(ctx, q.call, q.ref(), q.user(), q.values["process"], from, follow)
	})
}

// log sends a log from the requested offset, and follows it if the request asks for that.
func (s *server) log(q *request, read func(ctx context.Context, from int64, follow bool) (io.ReadCloser, int64, error)) error {
	from, err := q.int("from", 0)
	if err != nil {
		return err
	}
	follow, err := q.bool("follow")
	if err != nil {
		return err
	}
	ctx, cancel := s.streaming(q)
	defer cancel()
	r, offset, err := read(ctx, from, follow)
	if err != nil {
		return err
	}
	defer r.Close()
	return q.bytes(r, offset, http.StatusOK)
}

// bytes sends a log as it arrives, starting at an absolute offset.
func (q *request) bytes(r io.Reader, offset int64, status int) error {
	q.w.Header().Set(api.HeaderOffset, strconv.FormatInt(offset, 10))
	q.header("application/octet-stream")
	q.w.WriteHeader(status)
	f := http.NewResponseController(q.w)
	if err := f.Flush(); err != nil {
		return nil // gone
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if _, err := q.w.Write(buf[:n]); err != nil {
				return nil // gone
			}
			_ = f.Flush()
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err // cuts the connection
		}
	}
}
