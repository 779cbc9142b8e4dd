// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package e2b

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/warren-vm/warren/vm"
)

// Messages of filesystem.Filesystem.
type (
	pathMessage struct {
		Path string `json:"path"`
	}
	moveMessage struct {
		Source      string `json:"source"`
		Destination string `json:"destination"`
	}
	listMessage struct {
		Path  string `json:"path"`
		Depth int    `json:"depth"`
	}
	entryAnswer struct {
		Entry *entry `json:"entry"`
	}
	listAnswer struct {
		Entries []*entry `json:"entries"`
	}
	entry struct {
		Name        string    `json:"name"`
		Type        string    `json:"type"`
		Path        string    `json:"path"`
		Size        string    `json:"size"` // int64
		Mode        uint32    `json:"mode"`
		Permissions string    `json:"permissions"`
		Owner       string    `json:"owner"`
		Group       string    `json:"group"`
		Modified    time.Time `json:"modifiedTime"`
		Target      string    `json:"symlinkTarget,omitempty"`

		Metadata map[string]string `json:"metadata,omitempty"`
	}
)

// maxLinks bounds how many links are followed.
const maxLinks = 40

// maxEntries bounds a listing.
const maxEntries = 50000

// owners are the names of Linux users and groups, read when the first is needed.
type owners struct {
	c             *visitor
	users, groups map[int]string
}

func (o *owners) name(list *map[int]string, file string, id int) string {
	if id == 0 {
		return "root"
	}
	if *list == nil {
		*list = map[int]string{}
		lines, err := o.c.colons(file, 3)
		for i := len(lines) - 1; err == nil && i >= 0; i-- { // the first line of an id wins
			if n, err := strconv.Atoi(lines[i][2]); err == nil {
				(*list)[n] = lines[i][0]
			}
		}
	}
	return cmp.Or((*list)[id], strconv.Itoa(id))
}

// entry describes a path as envd does: of a link, type and mode are those of its target.
func (o *owners) entry(i vm.FileInfo, at string) *entry {
	e := &entry{
		Name: path.Base(at), Path: at, Size: strconv.FormatInt(i.Size, 10), Modified: i.ModTime.UTC(),
		Owner: o.name(&o.users, "/etc/passwd", i.UID), Group: o.name(&o.groups, "/etc/group", i.GID),
	}
	link := i.Kind == vm.FileSymlink
	from := at
	for n := 0; i.Kind == vm.FileSymlink; n++ {
		from = target(from, i.Target)
		next, err := o.c.d.Inside.Stat(o.c.ctx, o.c.call, o.c.ref(), "", from)
		if err != nil || n >= maxLinks {
			break
		}
		i = next
	}
	e.Type, e.Mode, e.Metadata = kinds[i.Kind], i.Mode&0o777, fileMetadata(i)
	if link {
		e.Target = from
	}
	e.Permissions = permissions(i)
	return e
}

// target is where a link at a path leads.
func target(at, to string) string {
	if path.IsAbs(to) {
		return path.Clean(to)
	}
	return path.Join(path.Dir(at), to)
}

var kinds = map[vm.FileKind]string{
	vm.FileRegular: "FILE_TYPE_FILE", vm.FileDirectory: "FILE_TYPE_DIRECTORY", vm.FileSymlink: "FILE_TYPE_SYMLINK", vm.FileOther: "FILE_TYPE_UNSPECIFIED",
}

// permissions is the mode as ls writes it.
func permissions(i vm.FileInfo) string {
	out := []byte("-rwxrwxrwx")
	if i.Kind == vm.FileDirectory {
		out[0] = 'd'
	}
	for n := range 9 {
		if i.Mode&(1<<(8-n)) == 0 {
			out[n+1] = '-'
		}
	}
	return string(out)
}

// look describes a path.
func (c *visitor) look(p string) (*entry, error) {
	at, err := c.path(p)
	if err != nil {
		return nil, err
	}
	at = path.Clean(at)
	i, err := c.d.Inside.Stat(c.ctx, c.call, c.ref(), "", at)
	if err != nil {
		return nil, err
	}
	return (&owners{c: c}).entry(i, at), nil
}

// directory makes a path absolute and refuses what is no directory.
func (c *visitor) directory(p string) (string, error) {
	at, err := c.path(p)
	if err != nil {
		return "", err
	}
	at = path.Clean(at)
	e, err := c.look(at)
	if err != nil {
		return "", err
	}
	if e.Type != kinds[vm.FileDirectory] {
		return "", invalid(vm.Clip(at, 200), "is no directory")
	}
	return at, nil
}

func (d *Door) stat(c *visitor, in *pathMessage) (*entryAnswer, error) {
	if _, err := c.linux(c.user); err != nil {
		return nil, err
	}
	e, err := c.look(in.Path)
	return &entryAnswer{e}, err
}

func (d *Door) makeDir(c *visitor, in *pathMessage) (*entryAnswer, error) {
	u, err := c.linux(c.user)
	if err != nil {
		return nil, err
	}
	at, err := c.path(in.Path)
	if err != nil {
		return nil, err
	}
	at = path.Clean(at)
	if e, err := c.look(at); err == nil {
		if e.Type == kinds[vm.FileDirectory] {
			return nil, vm.Errorf(vm.Exists, vm.Clip(at, 200), "the directory exists")
		}
		return nil, invalid(vm.Clip(at, 200), "the path exists and is no directory")
	}
	as := c.linuxName()
	if !own(u, at) {
		as = ""
	}
	made, err := c.missing(at)
	if err != nil {
		return nil, err
	}
	if err := d.Inside.Mkdir(c.ctx, c.call, c.ref(), as, at, 0o755, true); err != nil {
		return nil, err
	}
	if as == "" && u.UID != 0 {
		for _, p := range made {
			if err := c.give(u, p); err != nil {
				return nil, err
			}
		}
	}
	e, err := c.look(at)
	return &entryAnswer{e}, err
}

// missing lists a path and those above it that do not exist, the topmost first.
func (c *visitor) missing(at string) (list []string, err error) {
	for p := at; p != "/" && len(list) < 256; p = path.Dir(p) {
		_, err := c.d.Inside.Stat(c.ctx, c.call, c.ref(), "", p)
		if err == nil {
			break
		}
		if vm.KindOf(err) != vm.NotFound {
			return nil, err
		}
		list = append([]string{p}, list...)
	}
	return list, nil
}

func (d *Door) move(c *visitor, in *moveMessage) (*entryAnswer, error) {
	u, err := c.linux(c.user)
	if err != nil {
		return nil, err
	}
	from, err := c.path(in.Source)
	if err != nil {
		return nil, err
	}
	to, err := c.path(in.Destination)
	if err != nil {
		return nil, err
	}
	to = path.Clean(to)
	made, err := c.missing(path.Dir(to))
	if err != nil {
		return nil, err
	}
	if len(made) > 0 {
		if _, err := d.makeDir(c, &pathMessage{path.Dir(to)}); err != nil {
			return nil, err
		}
	}
	as := c.linuxName()
	if !own(u, to) || !own(u, from) {
		as = ""
	}
	if err := d.Inside.Rename(c.ctx, c.call, c.ref(), as, from, to); err != nil {
		return nil, err
	}
	e, err := c.look(to)
	return &entryAnswer{e}, err
}

func (d *Door) remove(c *visitor, in *pathMessage) (*empty, error) {
	if _, err := c.linux(c.user); err != nil {
		return nil, err
	}
	at, err := c.path(in.Path)
	if err != nil {
		return nil, err
	}
	err = d.Inside.Remove(c.ctx, c.call, c.ref(), "", at, true)
	if vm.KindOf(err) == vm.NotFound {
		err = nil
	}
	return &empty{}, err
}

// listDir lists a directory and, with a depth, those below it; links are not followed there.
func (d *Door) listDir(c *visitor, in *listMessage) (*listAnswer, error) {
	if _, err := c.linux(c.user); err != nil {
		return nil, err
	}
	at, err := c.directory(in.Path)
	if err != nil {
		return nil, err
	}
	out := &listAnswer{Entries: []*entry{}}
	return out, c.walk(&owners{c: c}, at, max(in.Depth, 1), out)
}

func (c *visitor) walk(o *owners, dir string, depth int, out *listAnswer) error {
	list, err := c.d.Inside.ReadDir(c.ctx, c.call, c.ref(), "", dir)
	if err != nil {
		return err
	}
	slices.SortFunc(list, func(a, b vm.FileInfo) int { return cmp.Compare(a.Name, b.Name) })
	for _, i := range list {
		if len(out.Entries) >= maxEntries {
			return vm.Errorf(vm.Limit, vm.Clip(dir, 200), "more than %d entries", maxEntries).WithHint("list with a smaller depth")
		}
		at := path.Join(dir, i.Name)
		out.Entries = append(out.Entries, o.entry(i, at))
		if i.Kind == vm.FileDirectory && depth > 1 {
			if err := c.walk(o, at, depth-1, out); err != nil && vm.KindOf(err) != vm.NotFound {
				return err
			}
		}
	}
	return nil
}
