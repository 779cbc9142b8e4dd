// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/warren-vm/warren/internal/pathrule"
	"github.com/warren-vm/warren/vm"
)

// The host sends the VM's path rules with each request about files, below the path /ruled: an
// agent that does not know rules refuses such a request. The rules bind the callers of the API.
// They do not bind programs of the guest, which can use its disk without the agent.

// ruledPrefix begins the paths of requests with rules.
const ruledPrefix = "/ruled"

// ruledVerbs are the verbs that keep rules.
var ruledVerbs = map[string]bool{
	"/stat": true, "/readdir": true, "/file": true, "/mkdir": true, "/rename": true, "/remove": true, "/chmod": true, "/symlink": true,
	"/tar": true, "/tree": true, "/pick": true, "/place": true, "/restore": true, "/watch": true, "/handle": true, "/setattr": true, "/link": true,
}

// unruled removes the prefix of a request with rules.
func (r *request) unruled() {
	p, ok := strings.CutPrefix(r.path, ruledPrefix)
	switch {
	case ok && ruledVerbs[p] && r.query.Get("rules") != "":
		r.path = p
	case r.query.Has("rules"):
		r.path = "/?" // no verb
	}
}

// use is what an operation does with a path.
type use int

const (
	toSee use = iota
	toRead
	toWrite
)

// judge reports whether the rules allow a use of a real path.
func (a *linuxUser) judge(real string, u use) error {
	v := a.rules.Judge(real)
	switch {
	case v.Hidden() && u != toWrite:
		return &fs.PathError{Op: "open", Path: real, Err: fs.ErrNotExist}
	case u == toSee && v.Shown(), u == toRead && v.Reads(), u == toWrite && v.Writes():
		return nil
	}
	code, why := "PATH_DENIED", "a path rule denies it"
	switch {
	case v.Action == vm.PathReadOnly:
		code, why = "PATH_READ_ONLY", "a path rule makes it read-only"
	case v.Action == vm.PathAsk && !v.Below:
		code, why = "PATH_ASK", "a path rule asks for an approval"
	}
	return vm.Errorf(vm.Denied, real, "%s", why).WithCode(code, "path", real, "rule", v.Rule).WithHint("`warren path show` lists the VM's rules")
}

// real is a path without symbolic links, as far as it exists. With follow its last name may be
// a link, too.
func real(path string, follow bool) (string, error) {
	path = filepath.Clean(path)
	st, err := os.Lstat(path)
	switch {
	case err == nil && (follow || st.Mode().Type() != fs.ModeSymlink):
		return filepath.EvalSymlinks(path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	case path == "/":
		return path, nil
	}
	dir, err := real(filepath.Dir(path), true)
	return filepath.Join(dir, filepath.Base(path)), err
}

// may reports whether the rules allow a use of a path, within do. It returns the real path, which
// the caller uses from then on.
func (a *linuxUser) may(path string, u use, follow bool) (string, error) {
	if a.rules == nil {
		return path, nil
	}
	at, err := real(path, follow)
	if err != nil {
		return "", err
	}
	return at, a.judge(at, u)
}

// mayFile is may for an open file: whatever led there, it is the file that counts.
func (a *linuxUser) mayFile(f *os.File, u use) error {
	if a.rules == nil {
		return nil
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var name string
	_ = raw.Control(func(fd uintptr) { name, err = os.Readlink("/proc/self/fd/" + strconv.Itoa(int(fd))) })
	if err != nil {
		return err
	}
	return a.judge(name, u)
}

// makeDirs makes a directory at a real path, with its parents, if the rules allow to make each
// that is missing.
func (a *linuxUser) makeDirs(at string) error {
	for dir := at; a.rules != nil; dir = filepath.Dir(dir) {
		_, err := os.Lstat(dir)
		if err == nil {
			break
		}
		if errors.Is(err, fs.ErrNotExist) {
			err = a.judge(dir, toWrite)
		}
		if err != nil {
			return err
		}
	}
	return os.MkdirAll(at, 0o755)
}

// mayRemove reports whether the rules allow to remove a path, with all that is below it. It
// returns the real path.
func (a *linuxUser) mayRemove(path string, all bool) (string, error) {
	root, err := a.may(path, toWrite, false)
	if err != nil || a.rules == nil || !all || !a.rules.Restricts(root) {
		return root, err
	}
	return root, filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return a.judge(name, toWrite)
	})
}

// mayRename reports whether the rules allow to rename a path. It returns both real paths.
func (a *linuxUser) mayRename(from, to string) (old, name string, err error) {
	if old, err = a.may(from, toWrite, false); err != nil {
		return "", "", err
	}
	if name, err = a.may(to, toWrite, false); err != nil || a.rules == nil {
		return old, name, err
	}
	if st, err := os.Lstat(old); err == nil && st.IsDir() && !a.rules.Alike(old, name) {
		return "", "", vm.Errorf(vm.Denied, old, "path rules say other things of what is below its new name").WithCode("PATH_DENIED", "path", old).
			WithHint("copy what is allowed, then remove it")
	}
	return old, name, nil
}

// mayPlace reports whether the rules allow to replace a path and all that is below it.
func (a *linuxUser) mayPlace(path string) error {
	at, err := a.may(path, toWrite, false)
	if err == nil && a.rules != nil && a.rules.Restricts(at) {
		err = vm.Errorf(vm.Denied, at, "path rules restrict what is below it").WithCode("PATH_DENIED", "path", at).WithHint("restore what is not restricted, path by path")
	}
	return err
}

// below returns the real path of a directory, and a function that judges names below it, within
// do; nil without rules.
func (a *linuxUser) below(dir string, u use) (at string, may func(name string) error, err error) {
	at, err = a.may(dir, toRead, true)
	if err != nil || a.rules == nil {
		return at, nil, err
	}
	return at, func(name string) error { return a.judge(filepath.Join(at, name), u) }, nil
}

// mayTree reports whether the rules allow to read a directory with all that is below it, but
// for what is hidden. at is a real path.
func (a *linuxUser) mayTree(at string) error {
	if !a.rules.Restricts(at) {
		return nil
	}
	return filepath.WalkDir(at, func(name string, d fs.DirEntry, err error) error {
		bad := a.judge(name, toRead)
		switch {
		case errors.Is(bad, fs.ErrNotExist) && d != nil && d.IsDir():
			return fs.SkipDir
		case bad != nil && !errors.Is(bad, fs.ErrNotExist):
			return bad
		case errors.Is(err, fs.ErrNotExist):
			return nil // removed meanwhile
		}
		return err
	})
}

// shown leaves out of a directory's entries those that rules hide.
func (a *linuxUser) shown(dir string, list []fs.DirEntry) []fs.DirEntry {
	if a.rules == nil {
		return list
	}
	var out []fs.DirEntry
	for _, e := range list {
		if a.judge(filepath.Join(dir, e.Name()), toSee) == nil {
			out = append(out, e)
		}
	}
	return out
}

// decodeRules reads the rules of a request; nil = none.
func decodeRules(text string) (*pathrule.Set, error) {
	if text == "" {
		return nil, nil
	}
	return pathrule.Decode(text)
}
