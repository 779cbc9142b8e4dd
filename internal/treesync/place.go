// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package treesync

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/vm"
)

// Op is one change of a tree.
type Op struct {
	Path vm.GuestPath `json:"path"`
	Was  *Entry       `json:"was,omitempty"` // what must be there; nil = nothing
	New  *Entry       `json:"new,omitempty"` // what is there then; nil = nothing
	// Content says that New.Size bytes follow. Without it, a file keeps its content.
	Content bool `json:"content,omitempty"`
	Keep    bool `json:"keep,omitempty"` // what it replaces or deletes goes to the backup
	End     bool `json:"end,omitempty"`  // the last line: no change
}

// Placed says what Place did.
type Placed = vm.TreePlaced

// Failed is a change that was not made.
type Failed = vm.TreeFailed

// maxFailed is after how many failed changes Place stops: its answer is small.
const maxFailed = 256

// errChanged says that a path is not as it was when the trees were compared.
var errChanged = errors.New("it was changed meanwhile")

// Mark is what Place leaves at a directory: after a rollback of the machine, it is
// not the one that the state of the last run names.
type Mark struct{ Pair, Value string }

// placer changes one tree.
type placer struct {
	walker
	buf    []byte
	backup func(d *os.Root, name, p string) error // nil = none
}

// Guards are asked before changes; nil = none.
type Guards struct {
	Backup func(d *os.Root, name, p string) error // saves what is replaced or deleted
	May    func(p string) error                   // its error is why a change is not made
}

// Place makes the changes that r holds, in their order. Each is made only if the
// path is as the change says, which is checked before and again right before a
// file is replaced, and a file appears whole or not at all. What cannot be made is
// listed in the answer, and the others are made. At the end all is on disk, and
// then the mark is set. Kinds of an error, after which some changes may have been made: NoSpace,
// Invalid, Cancelled.
func Place(ctx context.Context, root *os.Root, r io.Reader, mark Mark, g Guards) (Placed, error) {
	out := Placed{Failed: []Failed{}}
	p := placer{walker: walker{root: root}, buf: make([]byte, 128<<10), backup: g.Backup}
	defer p.close()
	in := newLines(r)
	for ; ; out.Done++ {
		var op Op
		if err := errors.Join(ctx.Err(), in.next(&op)); err != nil {
			return out, err
		}
		if op.End {
			break
		}
		if err := checkPath(string(op.Path)); err != nil {
			return out, err
		}
		if op.New != nil && (op.New.Size < 0 || op.Content && op.New.Type != TypeFile) {
			return out, fault("a change of %s is malformed", op.Path)
		}
		content := &io.LimitedReader{R: in.in}
		if op.Content {
			content.N = op.New.Size
		}
		var err error
		if g.May != nil {
			err = g.May(string(op.Path))
		}
		if err == nil {
			err = p.change(&op, content)
		}
		if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, io.ErrUnexpectedEOF) {
			return out, err
		}
		if err != nil {
			out.Failed = append(out.Failed, Failed{Op: out.Done, Why: reason(err)})
			if len(out.Failed) == maxFailed {
				out.Done++
				return out, nil
			}
		}
		if _, err := io.CopyBuffer(io.Discard, onlyReader{content}, p.buf); err != nil {
			return out, err
		}
		if content.N > 0 {
			return out, io.ErrUnexpectedEOF
		}
	}
	return out, settle(root, mark)
}

// reason is why a change failed, without the path.
func reason(err error) string {
	var perr *fs.PathError
	var lerr *os.LinkError
	switch {
	case errors.As(err, &perr):
		err = perr.Err
	case errors.As(err, &lerr):
		err = lerr.Err
	}
	text := err.Error()
	return text[:min(len(text), 120)]
}

// change makes one change.
func (p *placer) change(op *Op, content *io.LimitedReader) error {
	d, err := p.dir(path.Dir(string(op.Path)))
	if err != nil {
		return err
	}
	name := path.Base(string(op.Path))
	var st fs.FileInfo
	if op.Was != nil || op.New == nil || op.New.Type != TypeFile { // install looks after a new file
		if st, err = p.check(d, name, op.Was, nil); err != nil {
			return err
		}
	}
	switch {
	case op.New == nil:
		return p.remove(d, name, op, st)
	case op.New.Type == TypeFile && !op.Content:
		return p.mode(d, name, op, st)
	case op.New.Type == TypeFile:
		return p.file(d, name, op, st, content)
	case op.New.Type == TypeLink && st == nil:
		return d.Symlink(string(op.New.Target), name)
	case op.New.Type == TypeLink:
		temp := TempPrefix + rand.Text()
		if err := d.Symlink(string(op.New.Target), temp); err != nil {
			return err
		}
		return p.install(d, temp, name, op, st)
	case op.New.Type == TypeDir:
		if op.Was != nil {
			if err := p.remove(d, name, op, st); err != nil {
				return err
			}
		}
		p.close() // the name may have been another directory
		d, err = p.dir(path.Dir(string(op.Path)))
		if err != nil {
			return err
		}
		return d.Mkdir(name, 0o755)
	}
	return vm.Errorf(vm.Invalid, "", "a change to an unknown type")
}

// check reports whether a path is as a change says: with seen, whether it is
// still what check returned before.
func (p *placer) check(d *os.Root, name string, was *Entry, seen fs.FileInfo) (fs.FileInfo, error) {
	st, err := d.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		if was == nil {
			return nil, nil
		}
		return nil, errChanged
	}
	if err != nil {
		return nil, err
	}
	if was == nil {
		return nil, errChanged
	}
	e, err := describe(d, name, "", st)
	if err != nil || e.Type != was.Type || e.Target != was.Target {
		return nil, errors.Join(err, errChanged)
	}
	if seen != nil {
		old, err := describe(d, name, "", seen)
		if err != nil || old.stamp() != e.stamp() {
			return nil, errors.Join(err, errChanged)
		}
		return st, nil
	}
	if e.Type != TypeFile || e.stamp() == was.stamp() {
		return st, nil
	}
	if e.Size != was.Size || e.Exec != was.Exec {
		return nil, errChanged
	}
	l := lister{buf: p.buf}
	if sum, err := l.digest(d, name, st); err != nil || sum != was.Digest {
		return nil, errors.Join(err, errChanged)
	}
	return st, nil
}

// remove removes a path. A directory must be empty.
func (p *placer) remove(d *os.Root, name string, op *Op, st fs.FileInfo) error {
	if st == nil {
		return errChanged
	}
	if err := p.save(d, name, op, st); err != nil {
		return err
	}
	if st.IsDir() {
		p.close() // it may be the one that is open
		var err error
		if d, err = p.dir(path.Dir(string(op.Path))); err != nil {
			return err
		}
	} else if _, err := p.check(d, name, op.Was, st); err != nil {
		return err
	}
	return d.Remove(name)
}

// save puts what is replaced into the backup.
func (p *placer) save(d *os.Root, name string, op *Op, st fs.FileInfo) error {
	if p.backup == nil || !op.Keep || st == nil || st.IsDir() {
		return nil
	}
	return p.backup(d, name, string(op.Path))
}

// mode changes whether a file may be executed.
func (p *placer) mode(d *os.Root, name string, op *Op, st fs.FileInfo) error {
	if st == nil || op.Was.Digest != op.New.Digest {
		return errChanged
	}
	f, err := openFile(d, name)
	if err != nil {
		return err
	}
	defer f.Close()
	if now, err := f.Stat(); err != nil || !os.SameFile(now, st) {
		return errors.Join(err, errChanged)
	}
	return f.Chmod(withExec(st.Mode().Perm(), op.New.Exec))
}

// withExec returns a mode in which those who may read may execute, or nobody may.
func withExec(m fs.FileMode, exec bool) fs.FileMode {
	m &^= 0o111
	if exec {
		m |= m >> 2 & 0o111
		m |= 0o100
	}
	return m
}

// file writes a file beside its place, and moves it there.
func (p *placer) file(d *os.Root, name string, op *Op, st fs.FileInfo, content io.Reader) (err error) {
	temp := TempPrefix + rand.Text()
	f, err := d.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, withExec(0o644, op.New.Exec)) // and the umask
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = d.Remove(temp) // it may have its name already
		}
	}()
	sum := sha256.New()
	n, err := io.CopyBuffer(onlyWriter{io.MultiWriter(f, sum)}, onlyReader{content}, p.buf)
	switch {
	case err != nil:
	case n < op.New.Size:
		err = io.ErrUnexpectedEOF
	case hex.EncodeToString(sum.Sum(nil)) != op.New.Digest:
		err = errChanged
	case st != nil && st.Mode().IsRegular():
		if sys, ok := st.Sys().(*syscall.Stat_t); ok {
			_ = f.Chown(int(sys.Uid), int(sys.Gid)) // the owner stays where that is permitted
		}
		err = f.Chmod(withExec(st.Mode().Perm(), op.New.Exec))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if dir, err := p.walker.file(d); err != nil {
		return err
	} else if err := setTime(dir, temp, op.New.MTime); err != nil {
		return err
	}
	return p.install(d, temp, name, op, st)
}

// setTime sets the time of a file's last change.
func setTime(dir *os.File, name string, mtime int64) error {
	ts := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(mtime)}
	return os.NewSyscallError("utimensat", unix.UtimesNanoAt(int(dir.Fd()), name, ts, unix.AT_SYMLINK_NOFOLLOW))
}

// install gives a new file or link its name. It removes temp if it fails.
func (p *placer) install(d *os.Root, temp, name string, op *Op, st fs.FileInfo) (err error) {
	defer func() {
		if err != nil {
			_ = d.Remove(temp)
		}
	}()
	if st == nil { // nothing may be there
		f, err := p.walker.file(d)
		if err != nil {
			return err
		}
		err = unix.Renameat2(int(f.Fd()), temp, int(f.Fd()), name, unix.RENAME_NOREPLACE)
		switch {
		case errors.Is(err, unix.EEXIST):
			return errChanged
		case !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS):
			return err
		}
		if _, err := p.check(d, name, nil, nil); err != nil { // a file system that cannot do that
			return err
		}
		return d.Rename(temp, name)
	}
	if st.IsDir() {
		if err := d.Remove(name); err != nil {
			return err
		}
		return d.Rename(temp, name)
	}
	if err := p.save(d, name, op, st); err != nil {
		return err
	}
	if _, err := p.check(d, name, op.Was, st); err != nil {
		return err
	}
	return d.Rename(temp, name)
}
