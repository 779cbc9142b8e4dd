// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"encoding/hex"
	"errors"
	"strings"
	"unicode/utf8"
)

// PathSegments returns the decoded segments of an HTTP path as it stands in a request line. It
// refuses every path that two servers may read differently. Rules of policies and grants of
// secrets are about these segments.
func PathSegments(path string) ([]string, error) {
	if len(path) > 8<<10 {
		return nil, errors.New("it is longer than 8 KiB")
	}
	rest, ok := strings.CutPrefix(path, "/")
	if !ok {
		return nil, errors.New("it does not begin with a slash")
	}
	parts := strings.Split(rest, "/")
	for i, raw := range parts {
		s, err := decodeSegment(raw)
		if err != nil {
			return nil, err
		}
		switch {
		case s == "" && i < len(parts)-1:
			return nil, errors.New("it has an empty part (//)")
		case strings.HasSuffix(s, ".") || strings.HasSuffix(s, " "):
			return nil, errors.New("a part of it ends with a dot or a space")
		}
		parts[i] = s
	}
	return parts, nil
}

// decodeSegment reads one segment's percent-encoding, once.
func decodeSegment(raw string) (string, error) {
	b := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if c == '%' {
			one, err := hex.DecodeString(raw[i+1 : min(i+3, len(raw))])
			if err != nil || len(one) != 1 {
				return "", errors.New("its percent-encoding is malformed")
			}
			c = one[0]
			i += 2
			if c == '/' || c == '?' || c == '#' || c == '%' {
				return "", errors.New("it hides one of / ? # % in percent-encoding")
			}
		} else if c >= 0x80 || c == ' ' {
			return "", errors.New("it has bytes that should be percent-encoded")
		}
		if c < 0x20 || c == 0x7f || c == '\\' || c == ';' || c == '?' || c == '#' {
			return "", errors.New("it has a control character or one of \\ ; ? #")
		}
		b = append(b, c)
	}
	if !utf8.Valid(b) {
		return "", errors.New("it is not proper UTF-8")
	}
	s := string(b)
	if strings.ContainsFunc(s, Lookalike) {
		return "", errors.New("it has a character that some servers read as another one")
	}
	return s, nil
}

// Lookalike reports whether some servers fold a character of a path to one of ASCII's, or drop
// it.
func Lookalike(r rune) bool {
	switch {
	case r < 0x80:
		return false
	case r < 0xa0, r == 0xad, r >= 0x2000 && r <= 0x206f, r >= 0x2100 && r <= 0x22ff, r >= 0x2460 && r <= 0x24ff,
		r >= 0xfe00 && r <= 0xfe6f, r >= 0xff00 && r <= 0xffef, r == 0xfeff, r >= 0x1d400 && r <= 0x1d7ff, r >= 0xe0000,
		r == 0x3000, r == 0x3002, r == 0x212a, r == 0x17f, r == 0x130, r == 0x131:
		return true
	}
	return false
}
