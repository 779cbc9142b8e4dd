// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package layout

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestBoundedLog: a log keeps its end and never grows beyond its limit, also
// where others write to its descriptor.
func TestBoundedLog(t *testing.T) {
	for _, c := range []struct {
		name string
		open func(t *testing.T, path string) *BoundedLog
	}{
		{"a file", func(t *testing.T, path string) *BoundedLog {
			b, err := OpenBounded(path, 100)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}},
		{"a stream", func(t *testing.T, path string) *BoundedLog {
			f, err := openAppend(path, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := BoundStream(f, path+"x", 100); ok {
				t.Error("a stream is taken for another file")
			}
			b, ok := BoundStream(f, path, 100)
			if !ok {
				t.Fatal("the stream is not known as the file")
			}
			if _, err := f.WriteString(strings.Repeat("-", 95) + "\n"); err != nil { // past the log
				t.Fatal(err)
			}
			return b
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			b := c.open(t, path)
			defer b.Close()
			for i := range 50 {
				if _, err := fmt.Fprintf(b, "line %02d\n", i); err != nil {
					t.Fatal(err)
				}
				if st, err := os.Stat(path); err != nil || st.Size() > 100 {
					t.Fatalf("the log has %d bytes after line %d, %v", st.Size(), i, err)
				}
			}
			if n, err := b.Write([]byte(strings.Repeat("x", 1000) + "end\n")); err != nil || n != 1004 {
				t.Errorf("a long line: %d, %v", n, err)
			}
			old, err := os.ReadFile(path + ".1")
			if err != nil || len(old) > 100 || !strings.HasSuffix(string(old), "line 48\nline 49\n") {
				t.Errorf("before the last lines there was %q, %v", old, err)
			}
			now, err := os.ReadFile(path)
			if err != nil || len(now) > 100 || !strings.HasSuffix(string(now), "xend\n") {
				t.Errorf("the log ends in %q, %v", now, err)
			}
		})
	}
}
