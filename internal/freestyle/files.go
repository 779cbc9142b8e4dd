// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package freestyle

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/warren-vm/warren/vm"
)

// Limits of files.
const (
	maxPath     = 4096
	maxFile     = 16 << 30
	maxJSONFile = 32 << 20
	copyBytes   = 256 << 10
)

// checkPath refuses a path that is not absolute, or leads upwards.
func checkPath(p string) (string, error) {
	switch {
	case len(p) > maxPath || !utf8.ValidString(p) || strings.ContainsRune(p, 0):
		return "", invalid("path", "is longer than %d bytes, or is no text", maxPath)
	case !path.IsAbs(p):
		return "", invalid(vm.Clip(p, 200), "not an absolute path").WithHint("begin it with /")
	}
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." {
			return "", invalid(vm.Clip(p, 200), "a path must not contain ..")
		}
	}
	return path.Clean(p), nil
}

// at finds the VM and the path of a request.
func (c *caller) at(given string) (id, p string, err error) {
	if p, err = checkPath(given); err != nil {
		return "", "", err
	}
	rec, err := c.find()
	return string(rec.ID), p, err
}

func (c *caller) queried() (id, p string, err error) { return c.at(c.URL.Query().Get("path")) }

type entry struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
}

// kindOf is the kind of an entry in the SDK's words; what is none of its kinds has its own.
func kindOf(k vm.FileKind) string {
	switch k {
	case vm.FileDirectory:
		return "directory"
	case vm.FileSymlink:
		return "symlink"
	}
	return string(k)
}

func (c *caller) dir() (answer, error) {
	id, p, err := c.queried()
	if err != nil {
		return answer{}, err
	}
	list, err := c.d.Inside.ReadDir(c.ctx, c.call, id, "", p)
	if err != nil {
		return answer{}, err
	}
	out := []entry{}
	for _, i := range list {
		out = append(out, entry{i.Name, kindOf(i.Kind)})
	}
	return ok(map[string]any{"entries": out})
}

type statAnswer struct {
	Size        int64  `json:"size"`
	File        bool   `json:"isFile"`
	Dir         bool   `json:"isDirectory"`
	Link        bool   `json:"isSymlink"`
	Permissions string `json:"permissions"`
	Owner       string `json:"owner"`
	Group       string `json:"group"`
	Modified    string `json:"modified"`
}

func (c *caller) stat() (answer, error) {
	id, p, err := c.queried()
	if err != nil {
		return answer{}, err
	}
	i, err := c.d.Inside.Stat(c.ctx, c.call, id, "", p)
	if err != nil {
		return answer{}, err
	}
	out := statAnswer{
		Size: i.Size, File: i.Kind == vm.FileRegular, Dir: i.Kind == vm.FileDirectory, Link: i.Kind == vm.FileSymlink,
		Permissions: fmt.Sprintf("%04o", i.Mode&0o7777), Owner: strconv.Itoa(i.UID), Group: strconv.Itoa(i.GID),
		Modified: strconv.FormatInt(i.ModTime.Unix(), 10),
	}
	if u, err := c.d.Inside.LinuxUser(c.ctx, c.call, id, out.Owner); i.UID != 0 && err == nil {
		out.Owner = u.Name
	} else if i.UID == 0 {
		out.Owner = "root"
	}
	if i.GID == 0 {
		out.Group = "root"
	}
	return ok(out)
}

func (c *caller) exists() (answer, error) {
	id, p, err := c.queried()
	if err != nil {
		return answer{}, err
	}
	_, err = c.d.Inside.Stat(c.ctx, c.call, id, "", p)
	if err != nil && (vm.KindOf(err) != vm.NotFound || vm.AsError(err).Code != "FILE_NOT_FOUND") {
		return answer{}, err
	}
	return ok(map[string]bool{"exists": err == nil})
}

func (c *caller) mkdir() (answer, error) {
	var in struct {
		Path string `json:"path"`
	}
	if err := c.decode(&in); err != nil {
		return answer{}, err
	}
	id, p, err := c.at(in.Path)
	if err != nil {
		return answer{}, err
	}
	return done, c.d.Inside.Mkdir(c.ctx, c.call, id, "", p, 0o755, true)
}

func (c *caller) remove() (answer, error) {
	id, p, err := c.queried()
	if err != nil {
		return answer{}, err
	}
	if p == "/" {
		return answer{}, invalid("/", "the root of the file system stays").WithHint("delete the VM")
	}
	return done, c.d.Inside.Remove(c.ctx, c.call, id, "", p, true)
}

// byteRange is a part of a file.
type byteRange struct{ first, last int64 } // last -1 = to the end

// rangeOf reads the header; nil = there is none.
func rangeOf(h http.Header) (*byteRange, error) {
	text := h.Get("Range")
	if text == "" {
		return nil, nil
	}
	unit, span, _ := strings.Cut(text, "=")
	from, to, ok := strings.Cut(span, "-")
	r := &byteRange{last: -1}
	var err error
	if r.first, err = strconv.ParseInt(from, 10, 64); err == nil && to != "" {
		r.last, err = strconv.ParseInt(to, 10, 64)
	}
	if err != nil || !ok || unit != "bytes" || r.last >= 0 && r.last < r.first {
		return nil, &vm.Error{Kind: vm.Invalid, Subject: vm.Clip(text, 80), Msg: "not a range of bytes", Hint: "write bytes=0-99, or bytes=100- for the rest", Code: badRange}
	}
	return r, nil
}

// readFile sends a file, or a part of it.
func (c *caller) readFile() error {
	id, p, err := c.queried()
	if err != nil {
		return err
	}
	part, err := rangeOf(c.Header)
	if err != nil {
		return err
	}
	if part != nil {
		return c.readPart(id, p, *part)
	}
	_, body, err := c.d.Inside.OpenFile(c.ctx, c.call, id, "", p)
	if err != nil {
		return err
	}
	defer body.Close()
	return c.copyOut(http.StatusOK, body)
}

// copyOut sends bytes. If they end early the connection is cut: nobody may take a part for the
// whole.
func (c *caller) copyOut(status int, r io.Reader) error {
	c.w.Header().Set("Content-Type", "application/octet-stream")
	c.w.WriteHeader(status)
	if _, err := io.CopyBuffer(struct{ io.Writer }{c.w}, struct{ io.Reader }{r}, make([]byte, copyBytes)); err != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

func (c *caller) readPart(id, p string, part byteRange) error {
	info, err := c.d.Inside.StatFollow(c.ctx, c.call, id, "", p)
	if err != nil {
		return err
	}
	if info.Kind != vm.FileRegular {
		return invalid(vm.Clip(p, 200), "not a file")
	}
	if part.first >= info.Size {
		c.w.Header().Set("Content-Range", fmt.Sprintf("bytes */%d", info.Size))
		return &vm.Error{Kind: vm.Invalid, Subject: vm.Clip(p, 200), Msg: fmt.Sprintf("the file has %d bytes", info.Size), Code: badRange}
	}
	last := info.Size - 1
	if part.last >= 0 {
		last = min(last, part.last)
	}
	f, err := c.d.Inside.OpenHandle(c.ctx, c.call, id, "", p, vm.OpenOptions{Read: true})
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	n := last - part.first + 1
	c.w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", part.first, last, info.Size))
	c.w.Header().Set("Content-Length", strconv.FormatInt(n, 10)) // if the file shrinks, the client sees that bytes are missing
	return c.copyOut(http.StatusPartialContent, io.NewSectionReader(f, part.first, n))
}

// checked reads a stream and fails at its end if its digest is not the wanted one.
type checked struct {
	r    io.Reader
	sum  hash.Hash
	want string
}

func (k *checked) Read(p []byte) (int, error) {
	n, err := k.r.Read(p)
	_, _ = k.sum.Write(p[:n]) // documented never to fail
	if errors.Is(err, io.EOF) && hex.EncodeToString(k.sum.Sum(nil)) != k.want {
		return n, wrongDigest()
	}
	return n, err
}

func wrongDigest() error {
	return invalid("sha256", "what arrived has another digest, so nothing was written").WithHint("send it again")
}

// checkDigest reads a digest; "" = none is given.
func checkDigest(text string) (string, error) {
	if raw, err := hex.DecodeString(text); err != nil || text != "" && len(raw) != sha256.Size {
		return "", invalid("sha256", "is not 64 hexadecimal digits")
	}
	return strings.ToLower(text), nil
}

// modeOf reads a mode, which the SDK sends in decimal digits.
func modeOf(text string) (*uint32, error) {
	if text == "" {
		return nil, nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n > 0o7777 {
		return nil, invalid("mode", "%q is not a mode in decimal digits", vm.Clip(text, 40)).WithHint("0o644 is 420")
	}
	m := uint32(n)
	return &m, nil
}

// newMode is the mode of a file that no request names.
const newMode = 0o600

// writeFile replaces a file in one step.
func (c *caller) writeFile() error {
	q := c.URL.Query()
	kind, _, err := mime.ParseMediaType(c.Header.Get("Content-Type"))
	if err == nil && kind == "application/json" {
		return c.writeJSON()
	}
	id, p, err := c.queried()
	if err != nil {
		return err
	}
	mode, err := modeOf(q.Get("mode"))
	if err != nil {
		return err
	}
	digest, err := checkDigest(q.Get("sha256"))
	if err != nil {
		return err
	}
	if err := c.replace(id, p, mode, digest, c.Body, c.ContentLength); err != nil {
		return err
	}
	send(c.w, encode(done))
	return nil
}

// writeJSON is writeFile for a body of JSON.
func (c *caller) writeJSON() error {
	var in struct {
		Path     string  `json:"path"`
		Content  string  `json:"content"`
		Encoding string  `json:"encoding"`
		Mode     *uint32 `json:"mode"`
		SHA256   string  `json:"sha256"`
	}
	data, err := io.ReadAll(http.MaxBytesReader(c.w, c.Body, maxJSONFile))
	if err != nil {
		return &vm.Error{Kind: vm.Limit, Msg: "the body is cut off, or larger than 32 MiB", Hint: "send the bytes as application/octet-stream", Code: largeBody}
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return invalid("body", "the body is not what this route takes: %s", jsonFault(err))
	}
	content := []byte(in.Content)
	switch in.Encoding {
	case "", "utf8", "utf-8":
	case "base64":
		if content, err = base64.StdEncoding.DecodeString(in.Content); err != nil {
			return invalid("content", "is not base64")
		}
	default:
		return invalid("encoding", "%q is neither utf8 nor base64", vm.Clip(in.Encoding, 40))
	}
	if in.Mode != nil && *in.Mode > 0o7777 {
		return invalid("mode", "%d is not a mode", *in.Mode)
	}
	digest, err := checkDigest(in.SHA256)
	if err != nil {
		return err
	}
	id, p, err := c.at(in.Path)
	if err != nil {
		return err
	}
	if err := c.replace(id, p, in.Mode, digest, bytes.NewReader(content), int64(len(content))); err != nil {
		return err
	}
	send(c.w, encode(done))
	return nil
}

// replace writes a file. One that exists keeps its mode unless another is given; what the new
// mode forbids is forbidden before the new content is there.
func (c *caller) replace(id, p string, mode *uint32, digest string, r io.Reader, size int64) error {
	if size > maxFile {
		return &vm.Error{Kind: vm.Limit, Subject: vm.Clip(p, 200), Msg: "a file has at most 16 GiB", Code: largeBody}
	}
	o := vm.WriteOptions{Parents: true, Size: size, Mode: newMode}
	if mode != nil {
		o.Mode = *mode
	}
	old, err := c.d.Inside.StatFollow(c.ctx, c.call, id, "", p)
	exists := err == nil
	if !exists && vm.AsError(err).Code != "FILE_NOT_FOUND" {
		return err
	}
	change := func(to uint32) error {
		if !exists || mode == nil || to == old.Mode&0o7777 {
			return nil
		}
		old.Mode = to
		return c.d.Inside.SetAttr(c.ctx, c.again(), id, "", p, vm.FileAttr{Mode: &to})
	}
	if err := change(old.Mode & o.Mode); err != nil {
		return err
	}
	if digest != "" {
		r, o.Size = &checked{r, sha256.New(), digest}, -1
	}
	if _, err := c.d.Inside.WriteFile(c.ctx, c.again(), id, "", p, o, r); err != nil {
		return err
	}
	return change(o.Mode)
}
