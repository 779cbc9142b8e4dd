// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/warren-vm/warren/internal/ext4"
	"github.com/warren-vm/warren/vm"
)

const (
	maxDigest    = 64 << 20 // bytes of a file whose digest is told
	maxAllDigest = 1 << 30  // bytes of all files that are hashed
	maxSearch    = 16 << 20 // bytes of a file that is searched for secrets without its lines
	maxAllSearch = 64 << 20
)

var typeNames = map[ext4.Type]string{
	ext4.Regular: "file", ext4.Directory: "dir", ext4.Symlink: "link", ext4.Pipe: "fifo", ext4.Socket: "socket", ext4.BlockDev: "block", ext4.CharDev: "char",
}

// detail describes one change.
func (r *report) detail(it *item) (vm.FileChange, error) {
	fc := vm.FileChange{
		Verb: vm.ChangeVerb(it.Verb), Path: vm.GuestPath(it.Path), From: vm.GuestPath(it.From), Group: string(it.group),
		Type: cmp.Or(typeNames[it.inode().Type], "file"), Git: it.git,
	}
	retyped := it.Was != nil && it.Now != nil && it.Was.Type != it.Now.Type
	for _, x := range []struct {
		is   bool
		word string
	}{{retyped, "type"}, {it.Content && !retyped, "content"}, {it.Mode, "mode"}, {it.Owner, "owner"}, {it.Attrs, "attrs"}, {it.Links, "links"}} {
		if x.is {
			fc.Changed = append(fc.Changed, x.word)
		}
	}
	var err error
	if fc.Was, err = r.state(r.was, it, it.Was); err != nil {
		return fc, err
	}
	if fc.Now, err = r.state(r.now, it, it.Now); err != nil {
		return fc, err
	}
	r.searchNames(it, &fc)
	if err := r.contents(it, &fc); err != nil {
		return fc, err
	}
	if r.o.Patch {
		if err := r.patch(it, &fc); err != nil {
			return fc, err
		}
	}
	return fc, nil
}

// state is one side of a change.
func (r *report) state(t *tree, it *item, in *ext4.Inode) (*vm.FileState, error) {
	if in == nil {
		return nil, nil
	}
	s := &vm.FileState{Mode: uint32(in.Mode), UID: in.UID, GID: in.GID, Links: uint32(in.Links), Inode: in.Number}
	if in.Type == ext4.Regular {
		s.Size = in.Size
	}
	if in.Type == ext4.Symlink {
		target, err := t.fs.Target(in)
		if err != nil {
			return nil, err
		}
		target, _, _ = strings.Cut(target, "\x00") // as the guest's kernel reads it
		s.Target = vm.GuestPath(target)
	}
	if !it.Attrs && (it.Was != nil && it.Now != nil || in.Type == ext4.Symlink) {
		return s, nil
	}
	attrs, err := t.fs.Attrs(in)
	if err != nil {
		return nil, err
	}
	for name, value := range attrs {
		if s.Attrs == nil {
			s.Attrs = map[string][]byte{}
		}
		s.Attrs[safe(name)] = []byte(value)
	}
	if in == it.Now && in.Type == ext4.Regular {
		_, capable := attrs["security.capability"]
		it.concern(RaisesRights, capable || in.Mode&setID != 0 && in.Mode&0o111 != 0)
	}
	return s, nil
}

// concern adds or removes a concern.
func (it *item) concern(c Concern, is bool) {
	at := slices.Index(it.concerns, c)
	switch {
	case is && at < 0:
		it.concerns = append(slices.Clip(it.concerns), c)
	case !is && at >= 0:
		it.concerns = slices.Delete(slices.Clone(it.concerns), at, at+1)
	}
}

// content is a regular file of one side that may be read.
type content struct {
	file *ext4.File // nil = there is none
	head []byte
	text []byte // all of it, if it is a short text
	kind string
}

func (c *content) size() int64 {
	if c.file == nil {
		return 0
	}
	return c.file.Size()
}

// content opens a side of a change.
func (r *report) content(t *tree, in *ext4.Inode) (c content, err error) {
	if in == nil || in.Type != ext4.Regular {
		return c, nil
	}
	if c.file, err = t.open(in); err != nil {
		return c, err
	}
	c.head = make([]byte, min(headBytes, c.file.Size()))
	if _, err := c.file.ReadAt(c.head, 0); err != nil && err != io.EOF { //nolint:errorlint // ReadAt returns it bare
		return c, err
	}
	c.kind = kindOf(c.head)
	return c, nil
}

// contents says what differs in the content of a regular file.
func (r *report) contents(it *item, fc *vm.FileChange) error {
	if it.Was != nil && it.Now != nil && !it.Content {
		return nil
	}
	was, err := r.content(r.was, it.Was)
	if err != nil {
		return err
	}
	now, err := r.content(r.now, it.Now)
	if err != nil {
		return err
	}
	if was.file == nil && now.file == nil {
		return nil
	}
	r.lost(it)
	fc.Binary = now.kind
	if now.file == nil {
		fc.Binary = was.kind
	}
	for _, x := range []struct {
		c *content
		s *vm.FileState
	}{{&was, fc.Was}, {&now, fc.Now}} {
		if x.c.file == nil {
			continue
		}
		if x.c.kind == "" && x.c.size() <= maxText && r.left.text >= x.c.size() {
			r.left.text -= x.c.size()
			if x.c.text, err = readAll(x.c.file); err != nil {
				return err
			}
		}
		if x.s.Digest, err = r.digest(x.c); err != nil {
			return err
		}
	}
	if now.file != nil {
		if err := r.hashFile(it, now.file, fc.Now.Digest); err != nil {
			return err
		}
	}
	isText := (was.file == nil || was.text != nil) && (now.file == nil || now.text != nil)
	switch {
	case isText:
		r.lines(it, fc, &was, &now)
		return nil
	case was.kind == "" && now.kind == "" && max(was.size(), now.size()) > maxText:
		fc.Cut = fmt.Sprintf("larger than %s: its lines are not compared", size(maxText))
	case was.kind == "" && now.kind == "":
		fc.Cut = "too many files differ: its lines are not compared"
	}
	return r.searchWhole(it, fc, &was, &now)
}

// lost notes a file that lost most of its content.
func (r *report) lost(it *item) {
	if it.Verb == Modified && it.group != Caches && it.group != Logs && it.Was.Type == ext4.Regular && it.Now.Type == ext4.Regular && !it.gitOwn {
		it.concern(LostContent, it.Was.Size >= 64 && it.Now.Size == 0 || it.Was.Size >= 512 && it.Now.Size*4 <= it.Was.Size)
	}
}

// digest is the SHA-256 of a content; "" = it is too large.
func (r *report) digest(c *content) (string, error) {
	if c.text != nil {
		sum := sha256.Sum256(c.text)
		return hex.EncodeToString(sum[:]), nil
	}
	if c.size() > maxDigest || c.size() > r.left.digest {
		return "", nil
	}
	r.left.digest -= c.size()
	h := sha256.New()
	if _, err := io.CopyBuffer(struct{ io.Writer }{h}, io.NewSectionReader(c.file, 0, c.size()), r.copyBuffer()); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// copyBuffer is a buffer for one copy at a time.
func (r *report) copyBuffer() []byte {
	if r.buffer == nil {
		r.buffer = make([]byte, 64<<10)
	}
	return r.buffer
}

// hash finds the digest of a file that the manifest needs. Those that no commit takes
// count by their times and places.
func (r *report) hash(it *item) error {
	if !r.inManifest(it) {
		return nil
	}
	f, err := r.now.open(it.Now)
	if err != nil {
		return err
	}
	return r.hashFile(it, f, "")
}

// inManifest reports whether the manifest has the content of a change.
func (r *report) inManifest(it *item) bool {
	return it.Now != nil && it.Now.Type == ext4.Regular && (it.Was == nil || it.Content) && it.group != Caches && it.group != Logs &&
		!it.gitOwn && it.git != "ignored" && !r.packaged[it.Path] && it.hide.reason != ownReason
}

// hashFile is hash for an open file. known is the digest of its content, if somebody
// found it. Holes are not read.
func (r *report) hashFile(it *item, f *ext4.File, known string) error {
	if !r.inManifest(it) {
		return nil
	}
	block, total, next := r.now.fs.BlockSize(), int64(0), uint64(0)
	holes := false
	for _, run := range f.Runs() {
		total += int64(run.Length) * block
		holes, next = holes || run.Logical != next, run.Logical+run.Length
	}
	if total > r.left.manifest {
		r.notCompared("the content of all changed files: they have more than %s, so that the manifest counts some by their times", size(maxAllDigest))
		return nil
	}
	r.left.manifest -= total
	holes = holes || int64(next)*block < f.Size()
	if known != "" && !holes {
		it.digest = known
		return nil
	}
	h := sha256.New()
	if err := r.hashRuns(h, f, block); err != nil {
		return err
	}
	it.digest = hex.EncodeToString(h.Sum(nil))
	if holes {
		it.digest = "sparse " + it.digest
	}
	return nil
}

// hashRuns hashes the parts of a file that are no holes. Without holes the hash is
// that of the content.
func (r *report) hashRuns(h hash.Hash, f *ext4.File, block int64) error {
	next := int64(0)
	for _, run := range f.Runs() {
		from, to := int64(run.Logical)*block, min(int64(run.Logical+run.Length)*block, f.Size())
		if from != next {
			fmt.Fprintf(h, "hole %d-%d", next, from)
		}
		next = to
		if from >= to {
			continue
		}
		if _, err := io.CopyBuffer(struct{ io.Writer }{h}, io.NewSectionReader(f, from, to-from), r.copyBuffer()); err != nil {
			return err
		}
	}
	return nil
}

// lines compares two texts line by line.
func (r *report) lines(it *item, fc *vm.FileChange, was, now *content) {
	ends := it.Was != nil && it.Now != nil && sameButEnds(was.text, now.text)
	if it.Was != nil && it.Now != nil && now.file != nil && !utf8.Valid(now.text) && utf8.Valid(was.text) && was.file != nil {
		fc.Changed = append(fc.Changed, "encoding")
	}
	var d lineDiff
	switch {
	case was.file == nil && !r.o.Hunks && !r.o.Patch:
		d.added = countLines(now.text)
	case now.file == nil && !r.o.Hunks && !r.o.Patch:
		d.removed = countLines(was.text)
	default:
		d = diffLines(was.text, now.text)
	}
	fc.LinesAdded, fc.LinesRemoved = d.added, d.removed
	found, full := findSecrets(it.Path, now.text)
	r.noteFinds(it, fc, found, func(line int) bool {
		if was.file == nil {
			return true
		}
		_, came := slices.BinarySearch(d.came, line)
		return came
	})
	r.searchLines(it, was, now, d)
	var before masks
	if r.o.Hunks || r.o.Patch {
		old, all := findSecrets(it.Path, was.text)
		before, full = masksOf(was.text, old), full && all
	}
	if !full {
		fc.Cut = "its lines are not shown: it has too much that looks like secrets to be searched whole"
	}
	switch {
	case ends:
		fc.Changed = append(fc.Changed, "line-ends")
		fc.Cut = "only the ends of its lines changed"
	case r.o.Hunks && full:
		text, cut := show(d.hunks, before, masksOf(now.text, found), r.left.hunks)
		r.left.hunks -= len(text)
		fc.Hunks = text
		if cut != "" {
			fc.Cut = cut
		}
	}
	if r.o.Patch {
		fc.Patch = d.hunks // patch makes it whole
		if !full || anyMasked(d.hunks, before, masksOf(now.text, found)) {
			r.masked[it.Path] = true
		}
	}
}

// sameButEnds reports whether two texts differ in the ends of their lines only.
func sameButEnds(was, now []byte) bool {
	if bytes.Contains(was, []byte("\r\n")) == bytes.Contains(now, []byte("\r\n")) {
		return false
	}
	return bytes.Equal(bytes.ReplaceAll(was, []byte("\r\n"), []byte("\n")), bytes.ReplaceAll(now, []byte("\r\n"), []byte("\n")))
}

// installScript are keys of a package.json whose commands npm runs by itself.
var installScript = [][]byte{[]byte(`"preinstall"`), []byte(`"install"`), []byte(`"postinstall"`), []byte(`"prepare"`)}

// searchLines looks at the lines that came for what a reader does not see.
func (r *report) searchLines(it *item, was, now *content, d lineDiff) {
	invisible, installs := false, false
	look := func(line []byte) {
		invisible = invisible || hasInvisible(line)
		installs = installs || slices.ContainsFunc(installScript, func(key []byte) bool { return bytes.Contains(line, key) })
	}
	if was.file == nil {
		look(bytes.TrimPrefix(now.text, []byte("\xef\xbb\xbf")))
	} else {
		eachHunkLine(d.hunks, func(l hunkLine) {
			if l.sign == '+' {
				look(l.text)
			}
		})
	}
	if invisible && it.group != Caches && it.group != Logs {
		it.concern(InvisibleText, true)
	}
	if installs && path.Base(it.Path) == "package.json" && it.group != Caches {
		it.concern(RunsOnOpen, true)
	}
}

// hasInvisible reports whether a text has characters that turn its direction, that are
// not seen within a word, or that a terminal obeys.
func hasInvisible(text []byte) bool {
	if bytes.IndexByte(text, 0x1b) >= 0 {
		return true
	}
	if !bytes.ContainsAny(text, "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200b\u200c\u200d\u2060\ufeff") {
		return false
	}
	before := rune(0)
	word := func(c rune) bool {
		return c < utf8.RuneSelf && (c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z')
	}
	for i, c := range string(text) {
		switch c {
		case '\u202a', '\u202b', '\u202c', '\u202d', '\u202e', '\u2066', '\u2067', '\u2068', '\u2069':
			return true
		case '\u200b', '\u200c', '\u200d', '\u2060', '\ufeff':
			next, _ := utf8.DecodeRune(text[i+utf8.RuneLen(c):])
			if word(before) || word(next) {
				return true
			}
		}
		before = c
	}
	return false
}

// noteFinds notes the secrets of a text that are in lines that came.
func (r *report) noteFinds(it *item, fc *vm.FileChange, found []find, came func(line int) bool) {
	if it.Now == nil {
		return
	}
	for _, f := range found {
		if f.kind != hashKind && came(f.line) {
			r.secret(it, fc, vm.FoundSecret{Kind: f.kind, Path: fc.Path, Line: f.line})
		}
	}
}

// secret notes one secret.
func (r *report) secret(it *item, fc *vm.FileChange, s vm.FoundSecret) {
	const maxSecrets = 100 // that are listed of one file
	if len(fc.Secrets) < maxSecrets {
		fc.Secrets = append(fc.Secrets, s)
	}
	r.secrets++
	it.concern(HoldsSecret, true)
}

// searchNames searches a name, a link's target and attributes.
func (r *report) searchNames(it *item, fc *vm.FileChange) {
	if it.Now == nil {
		return
	}
	look := func(text, where string) {
		found, _ := findSecrets("", []byte(text))
		for _, f := range found {
			if f.kind != named.kind && f.kind != hashKind {
				r.secret(it, fc, vm.FoundSecret{Kind: f.kind + where, Path: fc.Path})
			}
		}
	}
	if it.Verb == Added || it.Verb == Renamed {
		look(path.Base(it.Path), ", in the name")
	}
	if fc.Now.Target != "" && it.Verb != Renamed {
		look(string(fc.Now.Target), ", in the link")
	}
	for name, value := range fc.Now.Attrs {
		if strings.HasPrefix(name, "user.") {
			look(string(value), ", in the attribute "+name)
		}
	}
}
