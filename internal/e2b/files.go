// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package e2b

import (
	"compress/gzip"
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

// writtenFile is the answer for one file of an upload.
type writtenFile struct {
	Path string `json:"path"`
	Name string `json:"name"`
	Type string `json:"type"`

	Metadata map[string]string `json:"metadata,omitempty"`
}

// download sends a file. envd reads as root, whatever the user.
func (d *Door) download(w http.ResponseWriter, r *http.Request, c *visitor) {
	p, err := c.path(r.URL.Query().Get("path"))
	if err == nil {
		_, err = c.linux(c.user)
	}
	if err != nil {
		d.failFile(w, r, err)
		return
	}
	_, body, err := d.Inside.OpenFile(c.ctx, c.call, c.ref(), "", p)
	if err != nil {
		if vm.KindOf(err) == vm.NotFound {
			err = vm.Errorf(vm.NotFound, "", "path '%s' does not exist", vm.Clip(p, 1024))
		}
		d.failFile(w, r, err)
		return
	}
	defer body.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.WriteHeader(http.StatusOK)
	if _, err := io.Copy(w, body); err != nil {
		panic(http.ErrAbortHandler) // nobody may take a part for the whole
	}
}

// failFile answers with an error of /files.
func (d *Door) failFile(w http.ResponseWriter, r *http.Request, err error) {
	code := status(err)
	switch e := vm.AsError(err); {
	case e.Code == "USER_NOT_FOUND":
		code = http.StatusUnauthorized
	case vm.KindOf(err) == vm.WrongState || vm.KindOf(err) == vm.GuestFault:
		code = http.StatusBadGateway
	}
	d.refuse(w, code, d.text(err))
}

// upload writes the files of a request: its body, or each part of a form.
func (d *Door) upload(w http.ResponseWriter, r *http.Request, c *visitor) {
	var list []writtenFile
	attrs, err := attrsOf(r.Header)
	if err == nil {
		c.attrs = attrs
		list, err = c.receive(r)
	}
	if err != nil {
		d.failFile(w, r, err)
		return
	}
	send(w, http.StatusOK, list)
}

func (c *visitor) receive(r *http.Request) ([]writtenFile, error) {
	named := r.URL.Query().Get("path")
	body := r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(body)
		if err != nil {
			return nil, invalid("body", "is not gzip")
		}
		r.Body = io.NopCloser(z)
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err == nil && kind == "multipart/form-data" {
		return c.receiveForm(r, named)
	}
	if named == "" {
		return nil, invalid("path", "no path is given")
	}
	size := r.ContentLength
	if r.Header.Get("Content-Encoding") != "" {
		size = -1
	}
	one, err := c.write(named, r.Body, size)
	return []writtenFile{one}, err
}

// maxParts bounds the files of one request.
const maxParts = 10000

func (c *visitor) receiveForm(r *http.Request, named string) ([]writtenFile, error) {
	form, err := r.MultipartReader()
	if err != nil {
		return nil, invalid("body", "is not a form")
	}
	list := []writtenFile{}
	for {
		part, err := form.NextRawPart()
		if errors.Is(err, io.EOF) {
			if len(list) == 0 {
				return nil, invalid("body", "the form has no part named file")
			}
			return list, nil
		}
		if err != nil {
			return nil, invalid("body", "the form is malformed or cut off")
		}
		_, how, err := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
		if err != nil || how["name"] != "file" {
			continue
		}
		to := how["filename"] // whole: Part.FileName would drop its directories
		if named != "" {
			if to = named; len(list) > 0 {
				return nil, invalid("path", "a request with a path takes one file")
			}
		}
		if to == "" {
			return nil, invalid("filename", "a part names no file")
		}
		if len(list) >= maxParts {
			return nil, invalid("body", "the form has more than %d files", maxParts)
		}
		one, err := c.write(to, part, -1)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
}

// own reports whether a path is where every Linux user may write. Elsewhere the door writes as
// root and gives the file to the user, as envd does.
func own(u vm.LinuxUser, p string) bool {
	p = path.Clean(p)
	for _, dir := range []string{u.Home, "/tmp", "/var/tmp", "/dev/shm"} {
		if dir != "/" && (p == dir || strings.HasPrefix(p, dir+"/")) {
			return true
		}
	}
	return u.UID == 0
}

// write writes one file.
func (c *visitor) write(name string, body io.Reader, size int64) (writtenFile, error) {
	u, err := c.linux(c.user)
	if err != nil {
		return writtenFile{}, err
	}
	p, err := c.path(name)
	if err != nil {
		return writtenFile{}, err
	}
	p = path.Clean(p)
	as := c.linuxName()
	if !own(u, p) {
		as = ""
	}
	var made []string
	if as == "" && u.UID != 0 {
		if made, err = c.missing(path.Dir(p)); err != nil {
			return writtenFile{}, err
		}
	}
	c.d.noteUpload(c.rec.ID, p, true)
	info, err := c.d.Inside.WriteFile(c.ctx, c.call, c.ref(), as, p, vm.WriteOptions{Mode: 0o644, Parents: true, Size: size, Attrs: c.attrs}, body)
	if as == "" && u.UID != 0 {
		for _, at := range append(made, p) {
			if err == nil {
				err = c.give(u, at)
			}
		}
	}
	if err != nil {
		c.d.noteUpload(c.rec.ID, p, false)
		return writtenFile{}, err
	}
	return writtenFile{p, info.Name, "file", fileMetadata(info)}, nil
}

// give makes a user the owner of a path.
func (c *visitor) give(u vm.LinuxUser, p string) error {
	return c.d.Inside.SetAttr(c.ctx, c.call, c.ref(), "", p, vm.FileAttr{UID: &u.UID, GID: &u.GID})
}

// An upload of Warren appears in one step, by a rename. envd opens, changes and writes the file,
// and clients of a watch count three events, which the door says for its own uploads.
type uploadKey struct {
	vm   vm.ID
	path string
}

const (
	uploadsKept = 10 * time.Second
	maxUploads  = 4096
)

// noteUpload remembers that an upload is about to appear, or forgets one that failed.
func (d *Door) noteUpload(id vm.ID, p string, coming bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !coming {
		delete(d.uploads, uploadKey{id, p})
		return
	}
	now := time.Now()
	if len(d.uploads) >= maxUploads {
		for k, t := range d.uploads {
			if now.Sub(t) > uploadsKept {
				delete(d.uploads, k)
			}
		}
		if len(d.uploads) >= maxUploads {
			clear(d.uploads)
		}
	}
	d.uploads[uploadKey{id, p}] = now
}

// uploaded reports whether a file that appeared is an upload of the door.
func (d *Door) uploaded(id vm.ID, p string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	t, ok := d.uploads[uploadKey{id, p}]
	return ok && time.Since(t) < uploadsKept
}
