// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package scan

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/bzip2"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Limits of what an archive may unpack to.
const (
	maxUnpacked = 64 << 30  // bytes, with those of archives in it
	maxRatio    = 250       // bytes for each byte of the upload, above freeRatio
	freeRatio   = 128 << 20 // bytes that any upload may unpack to
	maxEntries  = 1_000_000
	maxDepth    = 3        // archives in archives
	maxNested   = 64 << 20 // of an archive that is held in memory, and of all that are held at once
	maxName     = 4096
	headBytes   = 512
)

// refusal is an error that refuses the upload.
type refusal string

func (r refusal) Error() string { return string(r) }

func refuse(format string, args ...any) error { return refusal(fmt.Sprintf(format, args...)) }

// scanner opens one upload.
type scanner struct {
	size     int64
	unpacked int64
	entries  int
	held     int64 // bytes of nested archives in memory
	note     string
}

// Whole judges an upload that Quick could not: it opens archives. An error is one of
// reading; what cannot be decoded is judged by what was read before.
func Whole(in Input, body io.ReaderAt) (Verdict, error) {
	if v := Quick(in); !v.More {
		return v, nil
	}
	s := &scanner{size: in.Size}
	reads := &watched{r: body}
	err := s.open(io.NewSectionReader(reads, 0, in.Size), in.Size, Detect(in.Head), 0)
	var why refusal
	switch {
	case reads.err != nil:
		return Verdict{}, reads.err
	case errors.As(err, &why):
		return Verdict{Refused: string(why)}, nil
	case err != nil:
		s.note = "it is a damaged archive: " + clip(err.Error(), 100)
	}
	return Verdict{Note: s.note}, nil
}

// watched remembers that the upload could not be read.
type watched struct {
	r   io.ReaderAt
	err error
}

// ReadAt reads the upload.
func (w *watched) ReadAt(p []byte, off int64) (int, error) {
	n, err := w.r.ReadAt(p, off)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}

func clip(s string, most int) string {
	s = strings.ToValidUTF8(s, "?")
	s = strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return '?'
		}
		return r
	}, s)
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// source is an archive: the upload itself, or one in it that was unpacked to memory.
type source interface {
	io.Reader
	io.ReaderAt
}

func (s *scanner) open(r source, size int64, is Type, depth int) error {
	if depth > maxDepth {
		return refuse("it has archives in archives, more than %d deep", maxDepth)
	}
	switch is {
	case Zip:
		return s.zip(r, size, depth)
	case Tar:
		return s.tar(s.counted(r), depth)
	}
	plain, err := unpack(bufio.NewReaderSize(r, 64<<10), is)
	if err != nil {
		return err
	}
	if c, ok := plain.(interface{ Close() }); ok {
		defer c.Close()
	}
	in := bufio.NewReaderSize(s.counted(plain), 64<<10)
	head, err := in.Peek(headBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if Detect(head) == Tar {
		return s.tar(in, depth)
	}
	return s.drain(in)
}

// unpack returns the plain bytes of compressed ones.
func unpack(r io.Reader, is Type) (io.Reader, error) {
	switch is {
	case Gzip:
		return gzip.NewReader(r)
	case Bzip2:
		return bzip2.NewReader(r), nil
	case Zstd:
		return zstd.NewReader(r, zstd.WithDecoderMaxMemory(64<<20), zstd.WithDecoderMaxWindow(32<<20), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	}
	return nil, refuse("%s is not opened", is)
}

// count refuses an upload that unpacks to too much.
func (s *scanner) count(n int64) error {
	s.unpacked += n
	switch {
	case s.unpacked > maxUnpacked:
		return refuse("it unpacks to more than %d GiB", maxUnpacked>>30)
	case s.unpacked > freeRatio && s.unpacked/max(s.size, 1) > maxRatio:
		return refuse("it unpacks to more than %d times its size", maxRatio)
	}
	return nil
}

// counted counts what is read of unpacked bytes.
func (s *scanner) counted(r io.Reader) io.Reader { return &counter{r, s} }

type counter struct {
	r io.Reader
	s *scanner
}

// Read counts.
func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if over := c.s.count(int64(n)); over != nil {
		return n, over
	}
	return n, err
}

func (s *scanner) drain(r io.Reader) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r}, make([]byte, 64<<10))
	return err
}

// entry checks the name of an entry, and where a link leads.
func (s *scanner) entry(name, link string) error {
	if s.entries++; s.entries > maxEntries {
		return refuse("it has more than %d entries", maxEntries)
	}
	shown := clip(name, 80)
	unix := strings.ReplaceAll(name, `\`, "/")
	switch {
	case len(name) > maxName:
		return refuse("the name of an entry has more than %d bytes", maxName)
	case strings.ContainsRune(name, 0):
		return refuse("the name of its entry %q has a zero byte", shown)
	case strings.HasPrefix(unix, "/") || len(unix) > 1 && unix[1] == ':':
		return refuse("its entry %q would be unpacked to an absolute path", shown)
	case outside(unix):
		return refuse("its entry %q would be unpacked outside its directory", shown)
	case badName(name) != "":
		return refuse("an entry: %s", badName(name))
	}
	if link == "" {
		return nil
	}
	to := strings.ReplaceAll(link, `\`, "/")
	if strings.HasPrefix(to, "/") || outside(path.Join(path.Dir(unix), to)) {
		return refuse("its link %q leads outside its directory", shown)
	}
	return nil
}

// outside reports whether a relative path leaves its directory.
func outside(name string) bool {
	clean := path.Clean(name)
	return clean == ".." || strings.HasPrefix(clean, "../")
}

// tar looks at the entries of a tar archive, whose bytes the caller counts: those of a
// compressed one were counted when they were decompressed.
func (s *scanner) tar(r io.Reader, depth int) error {
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		link := ""
		switch h.Typeflag {
		case tar.TypeSymlink:
			link = h.Linkname
		case tar.TypeLink: // relative to the archive
			if outside(h.Linkname) || strings.HasPrefix(h.Linkname, "/") {
				return refuse("its link %q leads outside its directory", clip(h.Name, 80))
			}
		case tar.TypeBlock, tar.TypeChar:
			return refuse("its entry %q is a device", clip(h.Name, 80))
		}
		if err := s.entry(h.Name, link); err != nil {
			return err
		}
		if h.Typeflag == tar.TypeReg {
			if err := s.nested(t, h.Size, depth); err != nil {
				return err
			}
		}
	}
}

// nested looks into an entry that is an archive, if it is small enough to be held. A larger
// one is noted.
func (s *scanner) nested(r io.Reader, size int64, depth int) error {
	in := bufio.NewReaderSize(r, headBytes*2)
	head, err := in.Peek(headBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	is := Detect(head)
	if !slices.Contains(archives, is) {
		return s.drain(in)
	}
	if size > maxNested-s.held {
		s.note = "archives in it of more than 64 MiB were not opened"
		return s.drain(in)
	}
	s.held += size
	defer func() { s.held -= size }()
	data := make([]byte, size)
	n, err := io.ReadFull(in, data)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	err = s.open(bytes.NewReader(data[:n]), int64(n), is, depth+1)
	if drained := s.drain(in); err == nil { // what its header did not announce
		err = drained
	}
	var why refusal
	if err != nil && !errors.As(err, &why) {
		s.note = "an archive in it is damaged"
		return nil
	}
	return err
}

func (s *scanner) zip(r source, size int64, depth int) error {
	z, err := zip.NewReader(r, size)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return err
	}
	if len(z.File) > maxEntries {
		return refuse("it has more than %d entries", maxEntries)
	}
	if err := overlaps(z); err != nil {
		return err
	}
	z.RegisterDecompressor(zip.Deflate, func(r io.Reader) io.ReadCloser { return flate.NewReader(r) })
	for _, f := range z.File {
		link := ""
		if f.Mode()&fs.ModeSymlink != 0 {
			if link, err = linkOf(f); err != nil {
				return err
			}
		}
		if err := s.entry(f.Name, link); err != nil {
			return err
		}
		if f.UncompressedSize64 > maxUnpacked {
			return refuse("its entry %q says that it unpacks to more than %d GiB", clip(f.Name, 80), maxUnpacked>>30)
		}
		if f.Flags&1 != 0 {
			s.note = "entries that are encrypted were not opened"
			continue
		}
		if err := s.member(f, depth); err != nil {
			return err
		}
	}
	return nil
}

// member reads one entry of a zip.
func (s *scanner) member(f *zip.File, depth int) error {
	r, err := f.Open()
	if errors.Is(err, zip.ErrAlgorithm) {
		s.note = "entries with an unknown compression were not opened"
		return nil
	}
	if err != nil {
		return err
	}
	defer r.Close()
	err = s.nested(s.counted(r), int64(min(f.UncompressedSize64, maxUnpacked)), depth)
	if errors.Is(err, zip.ErrChecksum) || errors.Is(err, io.ErrUnexpectedEOF) {
		s.note = "an entry of it is damaged"
		return nil
	}
	return err
}

func linkOf(f *zip.File) (string, error) {
	r, err := f.Open()
	if err != nil {
		return "", err
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, maxName+1))
	return string(text), err
}

// overlaps refuses a zip whose entries share compressed bytes: each of them unpacks to the
// same bytes, as often as the writer liked.
func overlaps(z *zip.Reader) error {
	type span struct{ from, to int64 }
	list := make([]span, 0, len(z.File))
	for _, f := range z.File {
		from, err := f.DataOffset()
		if err != nil {
			return err
		}
		if f.CompressedSize64 > 0 {
			list = append(list, span{from, from + int64(min(f.CompressedSize64, 1<<60))})
		}
	}
	slices.SortFunc(list, func(a, b span) int { return int(max(-1, min(1, a.from-b.from))) })
	for i := 1; i < len(list); i++ {
		if list[i].from < list[i-1].to {
			return refuse("its entries share their bytes, as in an archive that unpacks without end")
		}
	}
	return nil
}
