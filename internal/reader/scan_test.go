// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package reader_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/reader"
	"github.com/warren-vm/warren/internal/scan"
)

func newScanner(t *testing.T, binary string, deadline time.Duration) *reader.Scanner {
	t.Helper()
	return reader.NewScanner(reader.Config{Log: slog.New(slog.NewTextHandler(t.Output(), nil)), Binary: binary, Root: filepath.Join(t.TempDir(), "root"), Deadline: deadline})
}

func packed(t *testing.T, name string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: name, Size: 5, Mode: 0o600}), second(w.Write([]byte("hello"))), w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func second[T any](_ T, err error) error { return err }

// TestScanner: the confined program judges archives.
//
// 001-24
func TestScanner(t *testing.T) {
	s := newScanner(t, build(t, "warren-reader", "../../cmd/warren-reader"), time.Minute)
	for name, want := range map[string]string{"docs/a": "", "../a": "outside its directory"} {
		data := packed(t, name)
		v, err := s.Whole(t.Context(), scan.Input{Key: "a.tgz", Size: int64(len(data)), Head: data}, bytes.NewReader(data))
		if err != nil || (v.Refused == "") != (want == "") || !strings.Contains(v.Refused, want) {
			t.Errorf("an archive with %s is refused for %q, %v, want %q", name, v.Refused, err, want)
		}
	}
	if _, err := s.Whole(t.Context(), scan.Input{Key: "a.tgz", Size: 1000, Head: packed(t, "a")}, failing{}); err == nil || !strings.Contains(err.Error(), "the disk is gone") {
		t.Errorf("an upload that cannot be read gives %v, want the reason and no verdict", err)
	}
}

// failing is an upload whose disk fails.
type failing struct{}

func (failing) ReadAt([]byte, int64) (int, error) { return 0, errors.New("the disk is gone") }

// TestHostileScanner: a program that has been taken over, or fails, cannot make an upload
// clean that it has not judged, and gets nothing but the upload.
func TestHostileScanner(t *testing.T) {
	s := newScanner(t, build(t, "hostile", "./testdata/hostile"), 2*time.Second)
	v, err := s.Whole(t.Context(), scan.Input{Key: "a.tgz", Size: 5}, strings.NewReader("bytes"))
	if err != nil || v.Refused == "" {
		t.Errorf("an upload whose scanner fails is %+v, %v, want refused", v, err)
	}
}
