// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"strconv"

	"github.com/warren-vm/warren/internal/scan"
)

// Scanner has archives judged by the confined program. Uploads are hostile, and one may have
// taken over the program: it gets the bytes of one upload and nothing else, and ends with it.
type Scanner struct{ r *Reader }

// NewScanner returns a scanner. Config.Deadline bounds the scan of one archive; 0 = two
// minutes.
func NewScanner(cfg Config) *Scanner { return &Scanner{New(cfg)} }

// say logs what a program has said. Its status is of no interest: it was killed.
func (r *Reader) say(said string, _ error) {
	if said != "" {
		r.cfg.Log.Warn("the scanner of uploads has said", "what", strconv.QuoteToASCII(said))
	}
}

// Whole judges an upload by its bytes, in a program of its own. An upload with which the
// program fails or takes too long is refused.
func (s *Scanner) Whole(ctx context.Context, in scan.Input, body io.ReaderAt) (v scan.Verdict, err error) {
	select {
	case s.r.turn <- struct{}{}:
		defer func() { <-s.r.turn }()
	case <-ctx.Done():
		return v, context.Cause(ctx)
	}
	bounded, stop := context.WithTimeout(ctx, s.r.cfg.Deadline)
	defer stop()
	p, err := s.r.starts(bounded)
	if err != nil {
		return v, err
	}
	served := &faulty{r: body}
	if err = ask(p.in, scan.All, in); err == nil {
		v, err = attend(p, served, in.Size)
	}
	s.r.say(p.end(true))
	switch {
	case ctx.Err() != nil:
		return v, context.Cause(ctx)
	case served.err != nil:
		return v, served.err
	case bounded.Err() != nil:
		return scan.Verdict{Refused: "its scan takes longer than " + s.r.cfg.Deadline.String()}, nil
	case err != nil:
		return scan.Verdict{Refused: "the scanner fails on it"}, nil
	}
	return v, nil
}

// faulty remembers that the upload could not be read.
type faulty struct {
	r   io.ReaderAt
	err error
}

// starts starts the program as a scanner.
func (r *Reader) starts(ctx context.Context) (*program, error) {
	if err := r.makeRoot(); err != nil {
		return nil, err
	}
	return r.start(ctx, nil, "scan")
}

func ask(w io.Writer, kind byte, in scan.Input) error {
	data, err := json.Marshal(in)
	if err != nil {
		return err
	}
	return scan.Send(w, kind, data)
}

var errMessage = errors.New("a message that was not expected")

// attend gives the program the ranges that it asks for, until it answers.
func attend(p *program, body *faulty, size int64) (v scan.Verdict, err error) {
	r := bufio.NewReader(p.out)
	buffer := make([]byte, scan.MaxRange)
	for {
		kind, data, err := scan.Receive(r)
		switch {
		case err != nil:
			return v, err
		case kind == scan.Said:
			return v, json.Unmarshal(data, &v)
		case kind != scan.Want || len(data) != 12:
			return v, errMessage
		}
		from, n := int64(binary.BigEndian.Uint64(data)), int64(binary.BigEndian.Uint32(data[8:])) //nolint:gosec // checked next
		if from < 0 || from > size || n > scan.MaxRange || from+n > size {
			return v, errMessage
		}
		if _, err := body.r.ReadAt(buffer[:n], from); err != nil {
			body.err = err
			return v, err
		}
		if err := scan.Send(p.in, scan.Have, buffer[:n]); err != nil {
			return v, err
		}
	}
}
