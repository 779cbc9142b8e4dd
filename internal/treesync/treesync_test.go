// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package treesync

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// pair is two directories and the state of their sync.
type pair struct {
	*testing.T
	here, there string
	state       string
	backup      string
	o           Options
	before      func(s Side) Side // wraps the VM's side; nil = not
}

func newPair(t *testing.T) *pair {
	t.Helper()
	dir := t.TempDir()
	p := &pair{T: t, here: filepath.Join(dir, "here"), there: filepath.Join(dir, "there"), state: filepath.Join(dir, "state"), backup: filepath.Join(dir, "backup")}
	for _, d := range []string{p.here, p.there} {
		p.must("mkdir", os.Mkdir(d, 0o755))
	}
	p.o = Options{Pair: "p", To: Both}
	return p
}

func (p *pair) must(what string, err error) {
	p.Helper()
	if err != nil {
		p.Fatalf("%s failed: %v", what, err)
	}
}

// write writes files: "path=content", "path/" is a directory, "path->target" a
// link, "-path" removes.
func (p *pair) write(dir string, list ...string) {
	p.Helper()
	for _, f := range list {
		name, content, isFile := strings.Cut(f, "=")
		at, target, isLink := strings.Cut(f, "->")
		switch {
		case strings.HasPrefix(f, "-"):
			p.must("remove", os.RemoveAll(filepath.Join(dir, f[1:])))
		case isLink:
			p.must("link", os.Symlink(target, filepath.Join(dir, at)))
		case isFile:
			p.must("mkdir", os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
			p.must("write", os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
		default:
			p.must("mkdir", os.MkdirAll(filepath.Join(dir, f), 0o755))
		}
	}
}

// tree describes a directory in the form of write.
func (p *pair) tree(dir string) string {
	p.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		rel := strings.TrimPrefix(name, dir+"/")
		switch d.Type() {
		case fs.ModeDir:
			out = append(out, rel+"/")
		case fs.ModeSymlink:
			target, err := os.Readlink(name)
			out = append(out, rel+"->"+target)
			return err
		default:
			b, err := os.ReadFile(name)
			out = append(out, rel+"="+string(b))
			return err
		}
		return nil
	})
	p.must("walk", err)
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (p *pair) try() (Report, error) {
	p.Helper()
	here, err := OpenLocal(p.here)
	p.must("open", err)
	defer here.Close()
	here.Backup = p.backup
	there, err := OpenLocal(p.there)
	p.must("open", err)
	defer there.Close()
	st, err := OpenState(p.state)
	p.must("open the state", err)
	defer st.Close()
	var side Side = there
	if p.before != nil {
		side = p.before(there)
	}
	return Run(p.Context(), here, side, st, p.o)
}

func (p *pair) run() Report {
	p.Helper()
	r, err := p.try()
	p.must("sync", err)
	return r
}

// alike requires both sides to be as described.
func (p *pair) alike(what, want string) {
	p.Helper()
	p.is(what+": here", p.here, want)
	p.is(what+": in the VM", p.there, want)
}

func (p *pair) is(what, dir, want string) {
	p.Helper()
	if got := p.tree(dir); got != want {
		p.Errorf("%s is %q, want %q", what, got, want)
	}
}

func said(list []Conflict) string {
	var out []string
	for _, c := range list {
		out = append(out, c.Path.String()+": "+c.Why)
	}
	return strings.Join(out, "; ")
}

// 001-56
// TestBothWays: what changed on one side since the last sync comes to the other
// one: files, links, directories, deletions, a changed type, an executable.
func TestBothWays(t *testing.T) {
	p := newPair(t)
	p.write(p.here, "a=1", "d/b=2", "gone=3", "e/", "l->a", "t=file")
	p.write(p.there, "v/w=4", "a=1")
	p.run()
	p.alike("after the first sync", "a=1 d/ d/b=2 e/ gone=3 l->a t=file v/ v/w=4")
	p.write(p.here, "a=11", "-gone", "new/x=5")
	p.write(p.there, "v/w=44", "-d", "-l", "l->v/w", "-t", "t/in=6")
	if r := p.run(); len(r.Conflicts) > 0 {
		t.Errorf("conflicts without a path that changed on both sides: %s", said(r.Conflicts))
	}
	p.alike("after changes of different paths", "a=11 e/ l->v/w new/ new/x=5 t/ t/in=6 v/ v/w=44")
	p.must("chmod", os.Chmod(filepath.Join(p.there, "a"), 0o700))
	r := p.run()
	if st, err := os.Stat(filepath.Join(p.here, "a")); err != nil || st.Mode().Perm() != 0o755 || r.Bytes != 0 {
		t.Errorf("a file that became executable in the VM: here %v, %v, %d bytes copied; want 0755 and no bytes", st.Mode(), err, r.Bytes)
	}
	if r := p.run(); len(r.Changes) > 0 {
		t.Errorf("a sync of equal sides made %d changes", len(r.Changes))
	}
}

// TestConflicts: a path that changed on both sides is listed and neither side is
// touched, until both are alike or a side is preferred; what was here is then in
// the backup.
func TestConflicts(t *testing.T) {
	p := newPair(t)
	p.write(p.here, "both=0", "del=0", "dir/a=0", "keep=0")
	p.run()
	p.write(p.here, "both=here", "-del", "new=here", "-dir", "dir=now a file")
	p.write(p.there, "both=there", "del=there", "new=there", "dir/a=there")
	r := p.run()
	if got, want := said(r.Conflicts), "both: here changed, in the VM changed; del: here deleted, in the VM changed; dir: a directory here and a file there, and the directory is not empty; dir/a: here deleted, in the VM changed; new: here added, in the VM added"; got != want {
		t.Errorf("the conflicts are\n%s, want\n%s", got, want)
	}
	p.is("here", p.here, "both=here dir=now a file keep=0 new=here")
	p.is("in the VM", p.there, "both=there del=there dir/ dir/a=there keep=0 new=there")
	p.write(p.here, "both=same", "-dir", "dir/a=there")
	p.write(p.there, "both=same")
	p.o.Prefer = VM
	p.run()
	p.alike("after the conflicts were solved", "both=same del=there dir/ dir/a=there keep=0 new=there")
	p.is("the backup", p.backup, "new=here")
}

// TestDirections: with a direction, changes of the other side stay where they are
// and are listed.
func TestDirections(t *testing.T) {
	for _, to := range []string{VM, Local} {
		p := newPair(t)
		p.o.To = to
		p.write(p.here, "h=1", "hd/x=1")
		p.write(p.there, "v=1", "vd/y=1")
		r := p.run()
		here, there := "h=1 hd/ hd/x=1", "h=1 hd/ hd/x=1 v=1 vd/ vd/y=1"
		if to == Local {
			here, there = there, "v=1 vd/ vd/y=1"
		}
		p.is("to "+to+": here", p.here, here)
		p.is("to "+to+": in the VM", p.there, there)
		if len(r.Held) != 3 {
			t.Errorf("to %s: %d changes of the other side are listed, want 3", to, len(r.Held))
		}
		p.o.To = Both
		p.run()
		p.alike("both ways after that", "h=1 hd/ hd/x=1 v=1 vd/ vd/y=1")
	}
}

// TestHiddenChange: a change that keeps the size and the time of a file is seen,
// and so are old files below a renamed directory.
func TestHiddenChange(t *testing.T) {
	p := newPair(t)
	p.write(p.here, "f=AAAA", "d1/x=1", "d2/x=2")
	p.run()
	p.run() // now all digests are known
	f := filepath.Join(p.there, "f")
	st, err := os.Stat(f)
	p.must("stat", err)
	p.write(p.there, "f=BBBB")
	p.must("chtimes", os.Chtimes(f, st.ModTime(), st.ModTime()))
	for _, mv := range []string{"d1 t", "d2 d1", "t d2"} {
		from, to, _ := strings.Cut(mv, " ")
		p.must("rename", os.Rename(filepath.Join(p.there, from), filepath.Join(p.there, to)))
	}
	p.run()
	p.alike("after hidden changes in the VM", "d1/ d1/x=2 d2/ d2/x=1 f=BBBB")
}

// TestRollback: after the VM was put back to an older state, its older files do
// not replace newer ones; --forget compares from the start.
func TestRollback(t *testing.T) {
	p := newPair(t)
	p.write(p.here, "f=1")
	p.run()
	p.must("copy", os.CopyFS(p.there+".old", os.DirFS(p.there)))
	old, err := os.OpenRoot(p.there + ".old")
	p.must("open", err)
	defer old.Close()
	now, err := os.OpenRoot(p.there)
	p.must("open", err)
	defer now.Close()
	mark, err := readMark(now, "p")
	p.must("read the mark", err)
	p.must("mark the copy", settle(old, Mark{"p", mark}))
	p.write(p.here, "f=2")
	p.run()
	p.alike("before the rollback", "f=2")
	p.must("rollback", errors.Join(os.RemoveAll(p.there), os.Rename(p.there+".old", p.there)))
	if _, err := p.try(); !errors.Is(err, vm.WrongState) || !strings.Contains(vm.AsError(err).Hint, "--forget") {
		t.Errorf("after a rollback: %v, want wrong-state with --forget in the hint", err)
	}
	p.is("here after the refusal", p.here, "f=2")
	p.o.Forget = true
	if r := p.run(); said(r.Conflicts) != "f: here added, in the VM added" {
		t.Errorf("with --forget the conflicts are %q, want f", said(r.Conflicts))
	}
	p.o.Forget, p.o.Prefer = false, Local
	p.run()
	p.alike("with the files here preferred", "f=2")
}

// TestManyDeletes: when most files are gone in the VM, nothing is deleted here
// without being asked for; then they are in the backup.
func TestManyDeletes(t *testing.T) {
	p := newPair(t)
	for i := range 50 {
		p.write(p.here, fmt.Sprintf("f%02d=%d", i, i))
	}
	p.run()
	all := p.tree(p.here)
	for i := range 50 {
		p.write(p.there, fmt.Sprintf("-f%02d", i))
	}
	if _, err := p.try(); !errors.Is(err, vm.WrongState) {
		t.Errorf("after rm -rf in the VM: %v, want wrong-state", err)
	}
	p.is("here", p.here, all)
	p.o.AllowDeletes = true
	p.run()
	p.alike("with --allow-deletes", "")
	p.is("the backup", p.backup, all)
}

// TestOddThings: what cannot be on this computer is left out or a conflict.
func TestOddThings(t *testing.T) {
	p := newPair(t)
	p.o.Folds = true
	p.o.Exclude = []string{"node_modules", "build/*.o"}
	p.write(p.there, "out->/etc/passwd", "up->../x", "in->a", "a=1", "README=1", "readme=2", ".git/config=x", "sub/.git=x", "node_modules/x=1", "build/a.o=1", "build/a.c=1")
	p.must("mkfifo", syscall.Mkfifo(filepath.Join(p.there, "pipe"), 0o600))
	r := p.run()
	p.is("here", p.here, "a=1 build/ build/a.c=1 in->a sub/")
	if got, want := said(r.LeftOut), "out: a link that leads outside, to /etc/passwd; pipe: neither a file, a directory nor a link; up: a link that leads outside, to ../x"; got != want {
		t.Errorf("left out: %q, want %q", got, want)
	}
	if len(r.Conflicts) != 2 || r.Conflicts[0].Path != "README" {
		t.Errorf("names that differ in case: %q, want two conflicts", said(r.Conflicts))
	}
}

// changing changes a file of a side when it is about to be read or replaced.
type changing struct {
	Side
	when func(verb string)
}

func (c changing) Pick(ctx context.Context, names []vm.GuestPath) (io.ReadCloser, error) {
	c.when("pick")
	return c.Side.Pick(ctx, names)
}

func (c changing) Place(ctx context.Context, r io.Reader, m Mark) (Placed, error) {
	c.when("place")
	return c.Side.Place(ctx, r, m)
}

// TestChangedMeanwhile: a file that changes on either side between the comparison
// and the copy is not overwritten; the next sync sees it.
func TestChangedMeanwhile(t *testing.T) {
	p := newPair(t)
	p.write(p.here, "a=1", "b=1", "c=1", "d=1")
	p.run()
	p.write(p.here, "a=2", "-d")
	p.write(p.there, "b=2", "c=2")
	done := map[string]bool{}
	p.before = func(s Side) Side {
		return changing{s, func(verb string) {
			if done[verb] {
				return
			}
			done[verb] = true
			if verb == "pick" {
				p.write(p.here, "b=mine") // about to be replaced here
				p.write(p.there, "c=longer")
			} else {
				p.write(p.there, "a=yours", "d=yours", "new=x")
			}
		}}
	}
	r := p.run()
	if got, want := said(r.Conflicts), "a: it was changed meanwhile; b: it was changed meanwhile; c: it was changed meanwhile; d: it was changed meanwhile"; got != want {
		t.Errorf("the conflicts are %q, want %q", got, want)
	}
	p.is("here", p.here, "a=2 b=mine c=1")
	p.is("in the VM", p.there, "a=yours b=2 c=longer d=yours new=x")
	p.before = nil
	if r := p.run(); len(r.Conflicts) != 3 {
		t.Errorf("the next sync has the conflicts %q, want a, b and d", said(r.Conflicts))
	}
	p.is("here then", p.here, "a=2 b=mine c=longer new=x")
}

// cut ends the stream of contents in the middle.
type cut struct {
	Side
	after int64
}

func (c cut) Pick(ctx context.Context, names []vm.GuestPath) (io.ReadCloser, error) {
	r, err := c.Side.Pick(ctx, names)
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(r, c.after), broken{}), r}, err
}

type broken struct{}

func (broken) Read([]byte) (int, error) {
	return 0, vm.Errorf(vm.Unavailable, "", "the connection broke")
}

// TestInterrupted: a sync that ends in the middle leaves whole files only, and the
// next one completes it.
func TestInterrupted(t *testing.T) {
	p := newPair(t)
	big := strings.Repeat("x", 300<<10)
	p.write(p.there, "a=1", "b="+big, "c=3")
	p.before = func(s Side) Side { return cut{s, 200 << 10} }
	if _, err := p.try(); !errors.Is(err, vm.Unavailable) {
		t.Errorf("a broken connection: %v, want unavailable", err)
	}
	p.is("here after it", p.here, "a=1")
	p.before = nil
	if r := p.run(); len(r.Conflicts) > 0 {
		t.Errorf("the next sync has the conflicts %q", said(r.Conflicts))
	}
	p.alike("after the next sync", "a=1 b="+big+" c=3")
}

// TestHostileListing: a listing that leads out of the directory, or that cannot be
// one, is refused whole.
func TestHostileListing(t *testing.T) {
	for name, list := range map[string]string{
		"climbs":            `{"path":"../x","type":"file"}`,
		"absolute":          `{"path":"/etc/x","type":"file"}`,
		"dots":              `{"path":"a/../b","type":"file"}`,
		"nul":               `{"path":"a\u0000b","type":"file"}`,
		"below a link":      `{"path":"l","type":"link","target":"/etc"}` + "\n" + `{"path":"l/x","type":"file"}`,
		"twice":             `{"path":"a","type":"file"}` + "\n" + `{"path":"a","type":"file"}`,
		"a temporary name":  `{"path":".warren-tmp-x","type":"file"}`,
		"a negative size":   `{"path":"a","type":"file","size":-1}`,
		"an unknown type":   `{"path":"a","type":"door"}`,
		"no line of JSON":   `hello`,
		"a long line":       `{"path":"` + strings.Repeat("x", maxLine) + `"}`,
		"an empty line":     `{}`,
		"more than the end": `{"end":{}}` + "\n" + `{"path":"a","type":"file"}`,
	} {
		if _, err := ReadListing(strings.NewReader(list + "\n")); !errors.Is(err, vm.GuestFault) {
			t.Errorf("%s: %v, want guest-fault", name, err)
		}
	}
	if _, err := ReadListing(strings.NewReader(`{"path":"a","type":"file"}` + "\n")); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a listing without an end: %v, want unexpected EOF", err)
	}
}

// TestPlaceStaysInside: changes that lead out of the directory, through names or
// links, touch nothing outside it.
func TestPlaceStaysInside(t *testing.T) {
	dir := t.TempDir()
	in, outside := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	for _, d := range []string{in, outside} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"l": outside, "r": "../out"} {
		if err := os.Symlink(target, filepath.Join(in, name)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(in)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, p := range []string{"../out/x", "/x", "l/x", "r/x", "a/../../out/x"} {
		var b bytes.Buffer
		e := &Entry{Type: TypeDir}
		if err := errors.Join(writeLine(&b, Op{Path: vm.GuestPath(p), New: e}), writeLine(&b, Op{End: true})); err != nil {
			t.Fatal(err)
		}
		out, err := Place(t.Context(), root, &b, Mark{}, Guards{})
		if err == nil && len(out.Failed) == 0 {
			t.Errorf("a change of %s was made", p)
		}
	}
	if list, err := os.ReadDir(outside); err != nil || len(list) > 0 {
		t.Errorf("outside the directory there are %d entries (%v), want none", len(list), err)
	}
}
