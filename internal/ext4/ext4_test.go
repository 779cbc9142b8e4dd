// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ext4_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/ext4"
	"github.com/warren-vm/warren/vm"
)

// run runs a program of e2fsprogs and returns its output.
func run(t *testing.T, stdin, program string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("%s is not installed", program)
	}
	cmd := exec.Command(program, args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil && !(program == "e2fsck" && cmd.ProcessState.ExitCode() == 1) {
		t.Fatalf("%s %v failed: %v: %s", program, args, err, out)
	}
	return string(out)
}

// tree makes files of every kind that a user without rights can make.
func tree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(3, 4))
	put := func(name string, data []byte) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 300 {
		data := make([]byte, r.IntN(20000))
		for j := range data {
			data[j] = byte(r.Uint32())
		}
		put(fmt.Sprintf("many/%d/a file of number %d with a long name to fill blocks", i%3, i), data)
	}
	put("empty", nil)
	put("hostile\n\x1b[31m\xff", []byte("x"))
	put("attrs", []byte("y"))
	f, err := os.Create(filepath.Join(dir, "sparse"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range int64(20) { // more runs than an inode holds itself
		if _, err := f.WriteAt([]byte("island"), i*1<<20+7); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.Symlink("short", filepath.Join(dir, "link")),
		os.Symlink(strings.Repeat("long/", 50), filepath.Join(dir, "longlink")),
		os.Link(filepath.Join(dir, "attrs"), filepath.Join(dir, "hard")),
		unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// image makes a file system of a directory.
func image(t *testing.T, dir string, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fs")
	args = append([]string{"-q", "-t", "ext4", "-b", "4096", "-d", dir}, args...) // the last of two sizes counts
	run(t, "", "mke2fs", append(args, path, "64M")...)
	return path
}

func open(t *testing.T, path string) *ext4.FS {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	fs, err := ext4.Open(f, 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	return fs
}

// walk returns every file of a file system by its path, described in a line.
func walk(t *testing.T, fs *ext4.FS) map[string]string {
	t.Helper()
	out := map[string]string{}
	var visit func(n uint32, path string)
	visit = func(n uint32, path string) {
		in, err := fs.Inode(n)
		if err != nil {
			t.Fatalf("the inode of %q: %v", path, err)
		}
		out[path] = describe(t, fs, in)
		if in.Type != ext4.Directory {
			return
		}
		if err := fs.ReadDir(in, func(e ext4.Entry) error {
			if path+e.Name != "/lost+found" {
				visit(e.Inode, strings.TrimSuffix(path, "/")+"/"+e.Name)
			}
			return nil
		}); err != nil {
			t.Fatalf("the directory %q: %v", path, err)
		}
	}
	visit(ext4.RootInode, "/")
	return out
}

func describe(t *testing.T, fs *ext4.FS, in *ext4.Inode) string {
	t.Helper()
	said := fmt.Sprintf("%x %o %d:%d", in.Type, in.Mode, in.UID, in.GID)
	switch in.Type {
	case ext4.Regular:
		x, err := fs.OpenFile(in)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(io.NewSectionReader(x, 0, x.Size()))
		if err != nil {
			t.Fatal(err)
		}
		said += fmt.Sprintf(" %d %d %x", in.Links, len(data), hash(data))
	case ext4.Symlink:
		target, err := fs.Target(in)
		if err != nil {
			t.Fatal(err)
		}
		said += " " + target
	}
	return said
}

func hash(data []byte) (h uint64) {
	for _, b := range data {
		h = h*1099511628211 + uint64(b) + 1
	}
	return h
}

// here describes a directory of this host in the same way.
func here(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		said := fmt.Sprintf("%x %o %d:%d", st.Mode&0xf000, st.Mode&0xfff, st.Uid, st.Gid)
		switch info.Mode().Type() {
		case 0:
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			said += fmt.Sprintf(" %d %d %x", st.Nlink, len(data), hash(data))
		case os.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			said += " " + target
		}
		out["/"+strings.TrimPrefix(strings.TrimPrefix(path, dir), "/")] = said
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The reader sees every file as it was put there, on each layout of the file system.
func TestReads(t *testing.T) {
	dir := tree(t)
	want := here(t, dir)
	for name, args := range map[string][]string{
		"as Debian makes it": nil,
		"blocks of 1 KiB":    {"-b", "1024"},
		"no 64 bit":          {"-O", "^64bit"},
		"no extents":         {"-O", "^extents,^64bit"},
		"no checksums":       {"-O", "^metadata_csum"},
		"no flexible groups": {"-O", "^flex_bg"},
		"meta_bg":            {"-b", "1024", "-O", "meta_bg,^resize_inode"},
		"inodes of 128":      {"-I", "128"},
		"no file types":      {"-O", "^filetype"},
	} {
		t.Run(name, func(t *testing.T) {
			got := walk(t, open(t, image(t, dir, args...)))
			for path, said := range want {
				if got[path] != said {
					t.Errorf("%q is read as %q, want %q", path, got[path], said)
				}
			}
			if len(got) != len(want) {
				t.Errorf("%d files are read, want %d", len(got), len(want))
			}
		})
	}
}

// Extended attributes are read from the inode and from a block of their own.
func TestAttrs(t *testing.T) {
	path := image(t, tree(t))
	large := filepath.Join(t.TempDir(), "value")
	if err := os.WriteFile(large, bytes.Repeat([]byte("z"), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "ea_set attrs user.small v\nea_set attrs security.capability cap\nea_set -f "+large+" attrs user.large\n", "debugfs", "-w", path)
	fs := open(t, path)
	in, _ := find(t, fs, "/attrs")
	got, err := fs.Attrs(in)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"user.small": "v", "security.capability": "cap", "user.large": strings.Repeat("z", 1000)}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("the attribute %s has %d bytes, want %d", name, len(got[name]), len(value))
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d attributes are read, want %d", len(got), len(want))
	}
}

// What only the journal has is seen, and what was revoked or never committed is not.
// e2fsck, which replays the journal into the file system, is the judge.
func TestReplaysTheJournal(t *testing.T) {
	for name, flags := range map[string]string{"without checksums": "", "checksums of version 3": "-c"} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t)
			path := image(t, dir)
			fs := open(t, path)
			file, _ := find(t, fs, "/many/1/a file of number 1 with a long name to fill blocks")
			data := blockOf(t, fs, file)
			blocks := t.TempDir()
			put := func(name string, b byte) string {
				p := filepath.Join(blocks, name)
				if err := os.WriteFile(p, bytes.Repeat([]byte{b}, 4096), 0o600); err != nil {
					t.Fatal(err)
				}
				return p
			}
			escaped := filepath.Join(blocks, "escaped")
			if err := os.WriteFile(escaped, append([]byte{0xc0, 0x3b, 0x39, 0x98}, bytes.Repeat([]byte{7}, 4092)...), 0o600); err != nil {
				t.Fatal(err)
			}
			run(t, fmt.Sprintf("jo %s\njw -b %d %s\njw -b %d %s\njw -b %d %s\njw -r %d\njw -b %d %s\njc\n", flags,
				data, put("a", 1), data, put("b", 2), 9000, put("c", 3), 9000, 9001, escaped), "debugfs", "-w", path)
			after := open(t, path)
			got := make([]byte, 4096)
			checked := 0
			copied := filepath.Join(t.TempDir(), "replayed")
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(copied, raw, 0o600); err != nil {
				t.Fatal(err)
			}
			run(t, "", "e2fsck", "-E", "journal_only", "-fy", copied)
			judged, err := os.ReadFile(copied)
			if err != nil {
				t.Fatal(err)
			}
			for b := uint64(1); b < after.Blocks(); b++ {
				if err := after.Block(b, got); err != nil {
					t.Fatal(err)
				}
				want := judged[b*4096 : (b+1)*4096]
				if bytes.Equal(want, raw[b*4096:(b+1)*4096]) && !bytes.Equal(got, want) {
					t.Errorf("block %d changed by the replay of this reader and not by e2fsck's", b)
				}
				if !bytes.Equal(want, raw[b*4096:(b+1)*4096]) {
					checked++
					if !bytes.Equal(got, want) && b != journalBlock(t, after) {
						t.Errorf("block %d differs from what e2fsck replays", b)
					}
				}
			}
			if checked < 2 {
				t.Errorf("e2fsck changed %d blocks: the journal held nothing", checked)
			}
			if err := after.Block(data, got); err != nil || got[0] != 2 {
				t.Errorf("the block that was logged twice begins with %d (%v), want that of the second", got[0], err)
			}
			if err := after.Block(9001, got); err != nil || got[0] != 0xc0 || got[4] != 7 {
				t.Errorf("the escaped block begins with %x (%v)", got[:5], err)
			}
			if err := after.Block(9000, got); err != nil || got[0] == 3 {
				t.Errorf("the revoked block was replayed (%v)", err)
			}
		})
	}
}

// journalBlock is the journal's superblock, which a replay marks as empty.
func journalBlock(t *testing.T, fs *ext4.FS) uint64 {
	t.Helper()
	in, err := fs.Inode(8)
	if err != nil {
		t.Fatal(err)
	}
	return blockOf(t, fs, in)
}

func blockOf(t *testing.T, fs *ext4.FS, in *ext4.Inode) (block uint64) {
	t.Helper()
	if err := fs.Extents(in, func(e ext4.Extent) error {
		if block == 0 && !e.Tree {
			block = e.Physical
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return block
}

// find is the inode at a path.
func find(t *testing.T, fs *ext4.FS, path string) (in *ext4.Inode, number uint32) {
	t.Helper()
	number = ext4.RootInode
	for _, part := range strings.Split(strings.Trim(path, "/"), "/") {
		dir, err := fs.Inode(number)
		if err != nil {
			t.Fatal(err)
		}
		number = 0
		if err := fs.ReadDir(dir, func(e ext4.Entry) error {
			if e.Name == part {
				number = e.Inode
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if number == 0 {
			t.Fatalf("there is no %s of %s", part, path)
		}
	}
	in, err := fs.Inode(number)
	if err != nil {
		t.Fatal(err)
	}
	return in, number
}

// What the reader does not understand it names; it never shows an empty file system.
func TestRefuses(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		args []string
		kind vm.Kind
		says string
	}{
		"inline data": {[]string{"-O", "inline_data"}, vm.Unsupported, "inline_data"},
		"encryption":  {[]string{"-O", "encrypt"}, vm.Unsupported, "encrypt"},
		"bigalloc":    {[]string{"-O", "bigalloc"}, vm.Unsupported, "bigalloc"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := os.Open(image(t, dir, c.args...))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			_, err = ext4.Open(f, 64<<20)
			if vm.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) {
				t.Errorf("it is opened: %v, want kind %s and %q", err, c.kind, c.says)
			}
		})
	}
	if _, err := ext4.Open(bytes.NewReader(make([]byte, 1<<20)), 1<<20); vm.KindOf(err) != vm.Unsupported {
		t.Errorf("zeros are opened: %v, want kind unsupported", err)
	}
}

// FuzzOpen: whatever a disk holds, the reader ends, within its budget, without a panic.
func FuzzOpen(f *testing.F) {
	if _, err := exec.LookPath("mke2fs"); err != nil {
		f.Skip("mke2fs is not installed")
	}
	dir := f.TempDir()
	for i := range 40 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), make([]byte, i*1000), 0o600); err != nil {
			f.Fatal(err)
		}
	}
	path := filepath.Join(f.TempDir(), "fs")
	if out, err := exec.Command("mke2fs", "-q", "-t", "ext4", "-b", "1024", "-J", "size=1", "-d", dir, path, "4M").CombinedOutput(); err != nil {
		f.Fatalf("mke2fs failed: %v: %s", err, out)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	for seed := range uint64(200) {
		f.Add(seed, uint64(20))
	}
	f.Fuzz(func(t *testing.T, seed, n uint64) {
		r := rand.New(rand.NewPCG(seed, n))
		bad := bytes.Clone(good)
		for range n % 64 {
			at := r.IntN(len(bad))
			if r.IntN(2) == 0 {
				at = 1024 + r.IntN(300<<10) // superblock, descriptors, inodes, directories
			}
			bad[at] = byte(r.Uint32())
		}
		fs, err := ext4.Open(bytes.NewReader(bad), int64(len(bad)))
		if err != nil {
			return
		}
		for i := uint32(1); i <= fs.Inodes(); i++ {
			in, err := fs.Inode(i)
			if err != nil || !in.Used() {
				continue
			}
			_, _ = fs.Attrs(in)
			switch in.Type {
			case ext4.Directory:
				_ = fs.ReadDir(in, func(ext4.Entry) error { return nil })
			case ext4.Symlink:
				_, _ = fs.Target(in)
			case ext4.Regular:
				if x, err := fs.OpenFile(in); err == nil {
					_, _ = x.ReadAt(make([]byte, 1<<16), 0)
				}
			}
		}
	})
}
