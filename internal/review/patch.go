// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"path"
	"strings"

	"github.com/warren-vm/warren/internal/ext4"
	"github.com/warren-vm/warren/vm"
)

const (
	maxPatchFile = 8 << 20  // bytes of a file that a patch takes
	maxAllPatch  = 24 << 20 // bytes of all patches
	maxMoved     = 10_000   // files of a directory that moved as a whole
)

// patchBase decides to which directory the paths of patches are relative: the one
// directory that was asked for, else the working directory.
func (r *report) patchBase(paths []string) {
	base := r.o.Workdir
	if len(paths) == 1 {
		base = paths[0]
		for _, t := range []*tree{r.now, r.was} {
			if in, err := t.find(base); err == nil && in != nil && in.Type != ext4.Directory {
				base = path.Dir(base)
				break
			}
		}
	}
	if base == "" {
		base = "/"
	}
	r.base = base
	if r.o.Patch {
		r.out.PatchBase = vm.GuestPath(base)
	}
}

// patchSide is one side of a patch.
type patchSide struct {
	name string // relative to the base; "" = it is not there, or not below the base
	mode string
	in   *ext4.Inode
	data []byte
}

// patch writes a change as git does, or says why it is left out. contents has left
// the hunks of a text.
func (r *report) patch(it *item, fc *vm.FileChange) error {
	hunks := fc.Patch
	fc.Patch = nil
	if !below(it.Path, r.base) && (it.From == "" || !below(it.From, r.base)) {
		return nil
	}
	leave := func(why string) error {
		fc.Cut = strings.Join(nonEmpty(fc.Cut, why), "; ")
		return nil
	}
	switch {
	case isDir(it.inode()) && it.Verb == Renamed:
		return r.patchMoved(it, fc)
	case isDir(it.inode()) && (it.Was == nil || isDir(it.Was)):
		return nil // git keeps no directories
	case it.gitOwn:
		return leave("it is a repository's own file")
	case it.git == "ignored" && !r.o.All:
		return leave("git ignores it")
	case len(fc.Secrets) > 0 || r.masked[it.Path]:
		return leave("it seems to hold a secret")
	}
	was, why, err := r.patchSide(r.was, it.Was, it.from())
	if err != nil {
		return err
	}
	now, whyNow, err := r.patchSide(r.now, it.Now, it.Path)
	if err != nil {
		return err
	}
	if why += whyNow; why != "" {
		return leave(why)
	}
	out := writePatch(was, now, hunks)
	if len(out) == 0 && was.name != "" && now.name != "" {
		return leave("git keeps neither owners nor attributes nor these permissions")
	}
	if len(out) > r.left.patch {
		return leave("the patch of all files together would be too large")
	}
	r.left.patch -= len(out)
	fc.Patch = out
	return nil
}

func nonEmpty(list ...string) (out []string) {
	for _, s := range list {
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}

// from is the path of the older side.
func (it *item) from() string {
	if it.From != "" {
		return it.From
	}
	return it.Path
}

// patchSide reads one side. why = it cannot be in a patch.
func (r *report) patchSide(t *tree, in *ext4.Inode, p string) (s patchSide, why string, err error) {
	if in == nil || !below(p, r.base) || p == r.base || in.Type == ext4.Directory {
		return s, "", nil
	}
	s.in, s.name = in, strings.TrimPrefix(strings.TrimPrefix(p, r.base), "/")
	for part := range strings.SplitSeq(s.name, "/") {
		if strings.EqualFold(part, ".git") {
			return s, "git takes no file of this name", nil
		}
	}
	switch in.Type {
	case ext4.Symlink:
		target, err := t.fs.Target(in)
		s.mode, s.data = "120000", []byte(target)
		return s, "", err
	case ext4.Regular:
		s.mode = "100644"
		if in.Mode&0o100 != 0 {
			s.mode = "100755"
		}
		if in.Size > maxPatchFile {
			return s, "it is larger than " + size(maxPatchFile), nil
		}
		s.data, err = t.read(in, maxPatchFile)
		return s, "", err
	}
	return s, "git keeps no " + typeNames[in.Type], nil
}

// writePatch writes the difference of two sides; nil = git sees none.
func writePatch(was, now patchSide, hunks []byte) []byte {
	var out bytes.Buffer
	switch {
	case was.name == "" && now.name == "":
		return nil
	case was.name != "" && now.name != "" && was.mode[:3] != now.mode[:3]: // another type
		out.Write(writePatch(was, patchSide{}, nil))
		out.Write(writePatch(patchSide{}, now, nil))
		return out.Bytes()
	}
	a, b := was.name, now.name
	if a == "" {
		a = b
	}
	if b == "" {
		b = a
	}
	head := fmt.Sprintf("diff --git %s %s\n", gitQuote("a/"+a), gitQuote("b/"+b))
	out.WriteString(head)
	switch {
	case was.name == "":
		fmt.Fprintf(&out, "new file mode %s\n", now.mode)
	case now.name == "":
		fmt.Fprintf(&out, "deleted file mode %s\n", was.mode)
	default:
		if was.mode != now.mode {
			fmt.Fprintf(&out, "old mode %s\nnew mode %s\n", was.mode, now.mode)
		}
		if a != b {
			if bytes.Equal(was.data, now.data) {
				out.WriteString("similarity index 100%\n")
			}
			fmt.Fprintf(&out, "rename from %s\nrename to %s\n", gitQuote(a), gitQuote(b))
		}
	}
	same := was.name != "" && now.name != "" && bytes.Equal(was.data, now.data)
	if same && out.Len() == len(head) {
		return nil
	}
	if same {
		return out.Bytes()
	}
	fmt.Fprintf(&out, "index %s..%s\n", blobID(was), blobID(now))
	if len(was.data) == 0 && len(now.data) == 0 {
		return out.Bytes()
	}
	if kindOf(was.data) != "" || kindOf(now.data) != "" {
		out.WriteString("GIT binary patch\n")
		literal(&out, now.data)
		literal(&out, was.data)
		return out.Bytes()
	}
	if hunks == nil {
		hunks = diffLines(was.data, now.data).hunks
	}
	from, to := gitQuote("a/"+a), gitQuote("b/"+b)
	if was.name == "" {
		from = "/dev/null"
	}
	if now.name == "" {
		to = "/dev/null"
	}
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", from, to)
	out.Write(hunks)
	return out.Bytes()
}

// blobID is the name that git gives to a content.
func blobID(s patchSide) string {
	if s.name == "" {
		return strings.Repeat("0", 40)
	}
	h := vm.NewBlobHash(int64(len(s.data)))
	h.Write(s.data)
	return hex.EncodeToString(h.Sum(nil))
}

// gitQuote quotes a path as git does in patches.
func gitQuote(p string) string {
	plain := true
	var out strings.Builder
	out.WriteByte('"')
	for i := range len(p) {
		switch c := p[i]; {
		case c == '"' || c == '\\':
			out.WriteByte('\\')
			out.WriteByte(c)
			plain = false
		case c <= ' ' || c >= 0x7f:
			fmt.Fprintf(&out, "\\%03o", c)
			plain = false
		default:
			out.WriteByte(c)
		}
	}
	if plain {
		return p
	}
	return out.String() + `"`
}

const base85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

// literal writes a content as git does in binary patches.
func literal(out *bytes.Buffer, data []byte) {
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	z.Write(data) //nolint:errcheck // a buffer takes everything
	z.Close()     //nolint:errcheck // a buffer takes everything
	fmt.Fprintf(out, "literal %d\n", len(data))
	for rest := packed.Bytes(); len(rest) > 0; {
		n := min(52, len(rest))
		if n <= 26 {
			out.WriteByte(byte('A' + n - 1))
		} else {
			out.WriteByte(byte('a' + n - 27))
		}
		for i := 0; i < n; i += 4 {
			var four [4]byte
			copy(four[:], rest[i:n])
			v := binary.BigEndian.Uint32(four[:])
			var five [5]byte
			for j := 4; j >= 0; j-- {
				five[j] = base85[v%85]
				v /= 85
			}
			out.Write(five[:])
		}
		out.WriteByte('\n')
		rest = rest[n:]
	}
	out.WriteByte('\n')
}

// patchMoved writes the files of a directory that moved as a whole. Those that
// changed, too, are changes of their own.
func (r *report) patchMoved(it *item, fc *vm.FileChange) error {
	var out bytes.Buffer
	files := 0
	var walk func(dir *ext4.Inode, from, to string) error
	walk = func(dir *ext4.Inode, from, to string) error {
		var entries []ext4.Entry
		if err := r.now.list(dir, func(e ext4.Entry) error {
			entries = append(entries, e)
			return nil
		}); err != nil {
			return err
		}
		for _, e := range entries {
			a, b := from+"/"+e.Name, to+"/"+e.Name
			in, err := r.now.fs.Inode(e.Inode)
			if err != nil {
				return err
			}
			if in.Type == ext4.Directory {
				if !r.selected(b) { // else it is a change of its own
					if err := walk(in, a, b); err != nil {
						return err
					}
				}
				continue
			}
			if r.selected(b) || in.Type != ext4.Regular && in.Type != ext4.Symlink {
				continue
			}
			if files++; files > maxMoved || out.Len() > r.left.patch {
				return vm.Errorf(vm.Limit, "", "more than %d files moved with %s", maxMoved, safe(it.From)).WithHint("name a path, or ask for no patch")
			}
			was, why, err := r.patchSide(r.was, in, a)
			if err != nil {
				return err
			}
			now, whyNow, err := r.patchSide(r.now, in, b)
			if err != nil {
				return err
			}
			if why+whyNow == "" {
				out.Write(writePatch(was, now, nil))
			}
		}
		return nil
	}
	if err := walk(it.Now, it.From, it.Path); err != nil {
		return err
	}
	r.left.patch -= out.Len()
	fc.Patch = out.Bytes()
	return nil
}
