// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"unicode/utf8"
)

// safeWriter shows bytes of a guest on a terminal. Line breaks and tabs stay;
// characters that could control the terminal become visible escapes. Close
// writes the rest of an incomplete character.
type safeWriter struct {
	w    io.Writer
	rest []byte // beginning of a character
}

func (s *safeWriter) Write(p []byte) (int, error) {
	data := append(s.rest, p...)
	cut := len(data)
	for i := 1; i < utf8.UTFMax && i <= len(data); i++ {
		if c := data[len(data)-i]; utf8.RuneStart(c) {
			if !utf8.FullRune(data[len(data)-i:]) {
				cut = len(data) - i
			}
			break
		}
	}
	s.rest = append([]byte(nil), data[cut:]...)
	if err := s.show(data[:cut]); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (s *safeWriter) show(data []byte) error {
	out := make([]byte, 0, len(data)+16)
	start := 0
	flush := func(end int) { out = append(out, plain(string(data[start:end]))...) }
	for i, c := range data {
		if c == '\n' || c == '\t' {
			flush(i)
			out = append(out, c)
			start = i + 1
		} else if c == '\r' && i+1 < len(data) && data[i+1] == '\n' {
			flush(i)
			start = i + 1
		}
	}
	flush(len(data))
	_, err := s.w.Write(out)
	return err
}

func (s *safeWriter) Close() error {
	data := s.rest
	s.rest = nil
	return s.show(data)
}
