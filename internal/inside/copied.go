// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"path"
	"slices"
	"strings"
)

// Bounds of the list of a tree's files, which is in memory until its end.
const (
	mostListed = 100_000  // files
	mostNames  = 16 << 20 // bytes of their names
)

// Download is a stream out of a guest, whose audit record gets the digest of what was
// copied. The caller closes it.
type Download struct {
	*reader
	whole hash.Hash // of all bytes; nil = what is read is no copy of files
	tree  *treeSum  // nil = it is no tar stream
}

// SHA256 is the digest of the bytes, in hex, once they were read to their end.
func (d *Download) SHA256() string { return hex.EncodeToString(d.whole.Sum(nil)) }

// Read implements io.Reader.
func (d *Download) Read(p []byte) (int, error) {
	n, err := d.reader.Read(p)
	if d.whole != nil {
		_, _ = d.whole.Write(p[:n]) // documented never to fail
	}
	if d.tree != nil {
		_, _ = d.tree.Write(p[:n]) // fails only after the tree has ended
	}
	return n, err
}

// Close ends the visit, and writes the digest to the audit record if the end was reached.
func (d *Download) Close() error {
	detail := map[string]any{}
	if d.tree != nil {
		if sum, files := d.tree.end(); d.eof && sum != "" {
			detail["treeSha256"], detail["files"] = sum, files
		}
	}
	if d.eof && d.whole != nil {
		name := "sha256"
		if d.tree != nil {
			name = "tarSha256"
		}
		detail[name] = d.SHA256()
	}
	return d.endWith(detail)
}

// treeSum computes one digest for the files of a tar stream that goes past: the SHA-256 of
// what `find . -type f -exec sha256sum {} + | LC_ALL=C sort` prints in the copy.
type treeSum struct {
	*io.PipeWriter
	done  chan struct{} // closed when the fields below are final
	lines []string
	bad   bool // it is no tar stream, or has more files than are listed
}

func newTreeSum() *treeSum {
	r, w := io.Pipe()
	t := &treeSum{PipeWriter: w, done: make(chan struct{})}
	go func() { // ends with the pipe, which end closes
		defer close(t.done)
		t.bad = t.list(tar.NewReader(r)) != nil
		_, _ = io.Copy(io.Discard, r) // what follows the archive, or its fault
	}()
	return t
}

// list reads the files of the stream.
func (t *treeSum) list(in *tar.Reader) error {
	digests, names := map[string]string{}, 0
	for {
		h, err := in.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		name, digest := path.Clean(h.Name), ""
		switch h.Typeflag {
		case tar.TypeReg, tar.TypeGNUSparse:
			sum := sha256.New()
			if _, err := io.Copy(sum, in); err != nil {
				return err
			}
			digest = hex.EncodeToString(sum.Sum(nil))
		case tar.TypeLink: // a hard link, which is a file in the copy
			if digest = digests[path.Clean(h.Linkname)]; digest == "" {
				return fmt.Errorf("a hard link to nothing")
			}
		default:
			continue
		}
		if names += len(name); names > mostNames || len(t.lines) == mostListed {
			return fmt.Errorf("too many files")
		}
		digests[name] = digest
		t.lines = append(t.lines, sumLine(digest, name))
	}
}

// sumLine is a line of sha256sum.
func sumLine(digest, name string) string {
	escaped := strings.NewReplacer("\\", "\\\\", "\n", "\\n", "\r", "\\r").Replace(name)
	if escaped != name {
		digest = "\\" + digest
	}
	return digest + "  ./" + escaped + "\n"
}

// end returns the digest and the number of files; "" = there is none. The stream may have
// been cut off.
func (t *treeSum) end() (sum string, files int) {
	_ = t.PipeWriter.Close() // always nil
	<-t.done
	if t.bad {
		return "", 0
	}
	slices.Sort(t.lines)
	all := sha256.New()
	for _, line := range t.lines {
		_, _ = io.WriteString(all, line) // documented never to fail
	}
	return hex.EncodeToString(all.Sum(nil)), len(t.lines)
}
