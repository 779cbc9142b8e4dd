// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package s3d

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// TestChunks: signatures of chunks are dropped, their bytes and a trailing checksum stay.
func TestChunks(t *testing.T) {
	long := strings.Repeat("x", 0x5000)
	for in, want := range map[string]string{
		"5;chunk-signature=ab\r\nhello\r\n0;chunk-signature=cd\r\n\r\n":                                                                          "5\r\nhello\r\n0\r\n\r\n",
		"5000;chunk-signature=ab\r\n" + long + "\r\n0;chunk-signature=cd\r\nx-amz-checksum-crc32:AAAAAA==\r\nx-amz-trailer-signature:ef\r\n\r\n": "5000\r\n" + long + "\r\n0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n",
		"0;chunk-signature=cd\r\nx-amz-checksum-crc32:AAAAAA==\n\r\nX-Amz-Trailer-Signature:ef\r\n\r\n":                                          "0\r\nx-amz-checksum-crc32:AAAAAA==\r\n\r\n",
	} {
		for name, from := range map[string]io.Reader{"whole": strings.NewReader(in), "byte by byte": iotest.OneByteReader(strings.NewReader(in))} {
			got, err := io.ReadAll(&chunks{from: bufio.NewReader(from)})
			if err != nil || string(got) != want {
				t.Errorf("%.60q, read %s, becomes %.60q, %v, want %.60q", in, name, got, err, want)
			}
		}
	}
}

// TestChunksBad: a body that is not made of chunks, or is cut, ends with an error.
func TestChunksBad(t *testing.T) {
	for in, want := range map[string]error{
		"":                                  io.ErrUnexpectedEOF,
		"5;chunk-signature=ab":              io.ErrUnexpectedEOF,
		"5;chunk-signature=ab\r\nhel":       io.ErrUnexpectedEOF,
		"5;chunk-signature=ab\r\nhello":     io.ErrUnexpectedEOF,
		"5;chunk-signature=ab\r\nhello\r\n": io.ErrUnexpectedEOF,
		"-5\r\nhello\r\n":                   errChunk,
		"hello\r\n":                         errChunk,
		"ffffffffffffffff\r\nhello\r\n":     errChunk,
		"5;" + strings.Repeat("x", 2000) + "\r\nhello\r\n": errChunk,
		"5;" + strings.Repeat("x", 90000):                  errChunk,
		"0\r\n" + strings.Repeat("a:b\r\n", 100):           errChunk,
	} {
		_, err := io.ReadAll(&chunks{from: bufio.NewReader(strings.NewReader(in))})
		if !errors.Is(err, want) {
			t.Errorf("%.40q ends with %v, want %v", in, err, want)
		}
	}
}
