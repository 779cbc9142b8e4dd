// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ship

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"mime"
	"path"
	"slices"
	"strings"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/internal/reader"
	"github.com/warren-vm/warren/internal/review"
	"github.com/warren-vm/warren/vm"
)

// searched is how many bytes of each file are searched for secrets, as in commits.
const (
	searched    = 1 << 20
	mostSecrets = 100
)

// Publish stores a file or directory of a VM as a new version of an object, from a frozen
// state of its disk. The running guest takes no part. It blocks until the version is
// durable and scanned; after an error nothing is stored, but for a version that the scan has
// refused (code OBJECT_REFUSED).
//
// An identity needs the right to read every file of the VM, and to write the key.
//
// Kinds beside those of engine.FrozenDisk and objects.Put: NotFound for a path that is not
// on the disk; Invalid for what is neither a file nor a directory; Limit for more bytes
// than the request allows; Denied (code SECRETS_FOUND) when a file has a secret that the
// request does not allow.
func (s *Ship) Publish(ctx context.Context, c *vm.Call, ref string, r vm.PublishRequest) (out vm.Published, err error) {
	defer func() { err = vm.WithOp(vm.OpPublish, ref, err) }()
	rec, err := s.cfg.Engine.Find(c.Actor, ref)
	if err != nil {
		return out, err
	}
	p := &publishing{Ship: s, r: r, rec: rec}
	if err := p.prepare(ctx, c); err != nil {
		return out, err
	}
	// The capture has a record of its own. It comes first: what is approved is a state that cannot
	// change while the ask waits.
	frozen, release, err := s.cfg.Engine.FrozenDisk(ctx, again(c), ref, string(r.Generation))
	if err != nil {
		return out, err
	}
	defer release()
	if err := frozen.OwnedBy(c.Actor, rec); err != nil {
		return out, err
	}
	state := string(frozen.Side.Generation)
	act := access.Act{Verb: vm.OpPublish, What: "publish " + p.out.Path.String() + " to " + r.Bucket + "/" + r.Key, All: []any{r, state}, Details: map[string]string{
		"state": state, "files with secrets that are allowed": fmt.Sprint(r.AllowSecrets),
	}}
	if err := s.cfg.Access.Approve(ctx, c, rec, act); err != nil {
		return out, err
	}
	ctx, stop := context.WithCancel(ctx)
	src := p.open(ctx, frozen)
	defer src.close()
	defer stop()
	if err := src.begin(); err != nil {
		return out, p.explain(err)
	}
	if err := p.name(src.first); err != nil {
		return out, err
	}
	p.out.VM, p.out.Generation = rec.ID, frozen.Side.Generation
	return p.record(ctx, c, src)
}

// publishing is one publish.
type publishing struct {
	*Ship
	r       vm.PublishRequest
	rec     vm.VM
	limit   int64
	origin  vm.ObjectOrigin
	secrets []vm.FoundSecret // that the request does not allow
	out     vm.Published
}

// prepare refuses what can be refused before the disk is captured.
func (p *publishing) prepare(ctx context.Context, c *vm.Call) (err error) {
	if err := p.cfg.Access.May(c.Actor, p.rec.ID, vm.OpDiff, ""); err != nil { // any file may be in the object
		return err
	}
	if p.cfg.Reader == nil {
		return vm.Errorf(vm.Unsupported, "warren-reader", "this server cannot read disks").WithHint("build warren with `make build`")
	}
	if p.limit, err = limit(p.r.MaxBytes); err != nil {
		return err
	}
	if len(p.r.AllowSecrets) > mostSecrets {
		return vm.Errorf(vm.Invalid, "allowSecrets", "there are more than %d", mostSecrets).WithCode("INVALID_REQUEST")
	}
	at, err := resolve(p.rec, p.r.Path)
	if err != nil {
		return err
	}
	if p.out.Path = vm.GuestPath(at); at == "/" {
		return vm.Errorf(vm.Invalid, "/", "the whole disk is not one directory").WithHint("name a directory; `warren snapshot` keeps the whole disk")
	}
	if err := p.onDisk(ctx, c); err != nil {
		return err
	}
	key := p.r.Key
	if key == "" || strings.HasSuffix(key, "/") {
		key += path.Base(at)
	}
	return p.cfg.Objects.MayWrite(c, p.r.Bucket, key)
}

// onDisk refuses a path on a volume or a directory of the host, of which a frozen disk has
// nothing. Those below the path are left out.
func (p *publishing) onDisk(ctx context.Context, c *vm.Call) error {
	at := string(p.out.Path)
	mounted, err := p.cfg.Engine.Mounts(ctx, c, string(p.rec.ID))
	if err != nil {
		return err
	}
	for _, m := range mounted {
		if at == m.Path || strings.HasPrefix(at, m.Path+"/") {
			return vm.Errorf(vm.Invalid, p.out.Path.String(), "it is on a volume or a directory of the host, mounted at %s, and not on the VM's disk", vm.GuestPath(m.Path)).
				WithHint("copy it to the VM's disk first")
		}
		if strings.HasPrefix(m.Path, at+"/") {
			p.out.LeftOut, p.out.LeftOutCount = append(p.out.LeftOut, vm.GuestPath(m.Path)), p.out.LeftOutCount+1
		}
	}
	return nil
}

// name completes the key, which depends on the type of the file.
func (p *publishing) name(first *tar.Header) error {
	shown := p.out.Path.String()
	switch first.Typeflag {
	case tar.TypeReg:
	case tar.TypeDir:
		p.out.Tree = true
	case tar.TypeSymlink:
		return vm.Errorf(vm.Invalid, shown, "it is a link to %s", vm.GuestPath(vm.Clip(first.Linkname, mostName))).WithHint("publish what it leads to")
	default:
		return vm.Errorf(vm.Invalid, shown, "it is neither a file nor a directory")
	}
	if key := p.r.Key; key == "" || strings.HasSuffix(key, "/") {
		p.r.Key += path.Base(string(p.out.Path))
		if p.out.Tree {
			p.r.Key += ".tar.zst"
		}
	}
	return objects.CheckKey(p.r.Key)
}

// explain says in the words of this verb why the disk was not read.
func (p *publishing) explain(err error) error {
	e := vm.AsError(err)
	switch {
	case e == nil || e.Code != "": // of object storage
	case e.Kind == vm.NotFound:
		return vm.Errorf(vm.NotFound, p.out.Path.String(), "no such file or directory on the VM's disk").WithCode("FILE_NOT_FOUND", "path", p.out.Path.String()).
			WithHint("name the real path: links to directories are not followed, and /proc, /run and the like are not on the disk")
	case e.Kind == vm.Limit:
		return e.WithHint("allow more: --max-bytes; or name a smaller directory")
	}
	return err
}

// record stores the object, with the audit record of the publish.
func (p *publishing) record(ctx context.Context, c *vm.Call, src *source) (vm.Published, error) {
	to := vm.ObjectRef{Bucket: p.r.Bucket, Key: p.r.Key}
	detail := map[string]any{"to": to.String(), "generation": string(p.out.Generation)}
	if p.r.Command != "" {
		detail["command"] = vm.Clip(p.r.Command, 500)
	}
	if n := len(p.r.AllowSecrets); n > 0 {
		detail["allowedSecrets"] = n
	}
	rcpt, err := p.cfg.Journal.Begin(ctx, c, vm.AuditEntry{Op: vm.OpPublish, VM: p.rec.ID, Subject: vm.Clip(p.out.Path.String(), 1024), Detail: detail})
	if err != nil {
		return vm.Published{}, err
	}
	p.origin = vm.ObjectOrigin{
		VM: p.rec.ID, Name: p.rec.Name, Generation: p.out.Generation, Path: vm.Clip(string(p.out.Path), mostName), Command: vm.Clip(p.r.Command, 1000),
		Tree: p.out.Tree, Mode: uint32(src.first.Mode) & 0o777,
	}
	err = p.store(ctx, c, src)
	made := p.out.Object
	rcpt.End(err, map[string]any{"version": made.Version, "sha256": made.SHA256, "size": made.Size})
	if err != nil {
		return vm.Published{}, err
	}
	p.cfg.Journal.EmitVM(p.rec, "vm.published", map[string]any{"bucket": made.Bucket, "key": made.Key, "version": made.Version, "sha256": made.SHA256, "generation": string(p.out.Generation)})
	return p.out, nil
}

// store sends the file or the packed tree to object storage, and notes the version in the
// generation's record.
func (p *publishing) store(ctx context.Context, c *vm.Call, src *source) (err error) {
	req := objects.PutRequest{
		Bucket: p.r.Bucket, Key: p.r.Key, Size: -1, ContentType: "application/zstd", Meta: p.meta(), Tags: p.r.Tags, Origin: &p.origin,
		Done: func(o *vm.Object) error { o.Meta["warren-sha256"] = o.SHA256; return nil },
	}
	if p.r.New {
		req.IfNoneMatch = "*"
	}
	var body io.ReadCloser
	if p.out.Tree {
		body = p.packed(src)
	} else {
		req.Size, req.ContentType = src.first.Size, cmp.Or(mime.TypeByExtension(path.Ext(p.r.Key)), "application/octet-stream")
		if body, err = p.file(src); err != nil {
			return p.explain(err)
		}
	}
	p.out.Object, err = p.cfg.Objects.Put(ctx, again(c), req, body)
	if cerr := body.Close(); cerr != nil && err != nil {
		err = cerr // why the body broke
	}
	if err != nil {
		return p.explain(err)
	}
	if err := p.scanned(ctx, c); err != nil {
		return err
	}
	made := p.out.Object
	return p.cfg.Engine.NotePublish(ctx, p.out.Generation, vm.PublishedAs{
		ObjectRef: vm.ObjectRef{Bucket: made.Bucket, Key: made.Key, Version: made.Version}, Path: p.out.Path, SHA256: made.SHA256,
	})
}

// scanned waits until the version is scanned, and refuses one that nobody may read.
func (p *publishing) scanned(ctx context.Context, c *vm.Call) error {
	made := p.out.Object
	at := vm.ObjectRef{Bucket: made.Bucket, Key: made.Key, Version: made.Version}
	content, err := p.cfg.Objects.Get(ctx, c, objects.Which{Bucket: at.Bucket, Key: at.Key, Version: at.Version})
	switch {
	case err == nil:
		p.out.Object = content.Object
		return nil
	case vm.AsError(err).Code == "OBJECT_UNSCANNED": // it is stored, and says so
		return nil
	case vm.AsError(err).Code == "OBJECT_REFUSED":
		return vm.AsError(err).WithHint("it is stored, and only the account's owner can read it: `warren artifact get --refused %s --version-id %s`", vm.ObjectRef{Bucket: at.Bucket, Key: at.Key}, at.Version)
	}
	return err
}

// meta is the metadata that S3 clients see. Of long texts it has the beginning.
func (p *publishing) meta() map[string]string {
	m := map[string]string{"warren-vm": string(p.rec.ID), "warren-path": ascii(string(p.out.Path), 400), "warren-sha256": ""}
	for name, v := range map[string]string{"warren-vm-name": p.rec.Name, "warren-generation": string(p.out.Generation), "warren-command": ascii(p.r.Command, 400)} {
		if v != "" {
			m[name] = v
		}
	}
	return m
}

// source is the tar of one path, as the confined reader sends it.
type source struct {
	pipe  *io.PipeReader
	in    *tar.Reader
	first *tar.Header
	ended chan struct{} // closed when the reader has ended
}

// open starts to read the path. The caller closes the source after it has ended ctx.
func (p *publishing) open(ctx context.Context, f engine.Frozen) *source {
	r, w := io.Pipe()
	src := &source{pipe: r, in: tar.NewReader(r), ended: make(chan struct{})}
	go func() { // ends with ctx, or when close has closed the pipe
		err := p.cfg.Reader.Tar(ctx, f.Layers, []vm.GuestPath{p.out.Path}, reader.TarOptions{Entries: mostEntries, Bytes: p.limit}, w)
		w.CloseWithError(err)
		close(src.ended)
	}()
	return src
}

// begin reads the first entry, which is the path itself.
func (s *source) begin() (err error) {
	s.first, err = s.in.Next()
	return wholly(err, "warren-reader")
}

// finish reads the end: an error of the reader comes last.
func (s *source) finish() error {
	if _, err := s.in.Next(); err == nil {
		return vm.Errorf(vm.Corrupt, "warren-reader", "the reader sent more than was asked for")
	} else if err != io.EOF {
		return wholly(err, "warren-reader")
	}
	_, err := io.Copy(io.Discard, io.LimitReader(s.pipe, 1<<20))
	return wholly(err, "warren-reader")
}

// close waits until the reader has ended.
func (s *source) close() {
	_ = s.pipe.CloseWithError(context.Canceled) // always nil
	<-s.ended
}

// file is the content of one file. It is searched for secrets before anything is stored.
func (p *publishing) file(src *source) (io.ReadCloser, error) {
	p.out.Files = 1
	if err := p.count(src.first.Size); err != nil {
		return nil, err
	}
	head := make([]byte, min(src.first.Size, searched))
	if _, err := io.ReadFull(src.in, head); err != nil {
		return nil, wholly(err, "warren-reader")
	}
	p.search(string(p.out.Path), head)
	if err := p.refuse(); err != nil {
		return nil, err
	}
	return io.NopCloser(&fileBody{r: io.MultiReader(bytes.NewReader(head), src.in), src: src}), nil
}

// count counts the content of a file, with its holes. The reader keeps the limit, too.
func (p *publishing) count(n int64) error {
	if p.out.Bytes += n; p.out.Bytes > p.limit || n < 0 {
		return vm.Errorf(vm.Limit, p.out.Path.String(), "its files have more than %d bytes, with their holes", p.limit)
	}
	return nil
}

// fileBody is a content that ends only if the reader has ended well.
type fileBody struct {
	r   io.Reader
	src *source
}

func (f *fileBody) Read(b []byte) (int, error) {
	n, err := f.r.Read(b)
	if err == io.EOF {
		return n, cmp.Or(f.src.finish(), io.EOF)
	}
	return n, wholly(err, "warren-reader")
}

// search looks for secrets in the beginning of a file.
func (p *publishing) search(at string, text []byte) {
	for _, found := range review.Secrets(at, text) {
		found.Path = vm.GuestPath(at)
		allowed := slices.ContainsFunc(p.r.AllowSecrets, func(a vm.GuestPath) bool {
			return string(a) == at || path.Join(string(p.out.Path), string(a)) == at
		})
		if !allowed && len(p.secrets) < mostSecrets {
			p.secrets = append(p.secrets, found)
		}
	}
}

// refuse refuses files with secrets.
func (p *publishing) refuse() error {
	if len(p.secrets) == 0 {
		return nil
	}
	var found []string
	for _, s := range p.secrets {
		found = append(found, fmt.Sprintf("%s:%d: %s", s.Path, s.Line, s.Kind))
	}
	first := p.secrets[0]
	return vm.Errorf(vm.Denied, first.Path.String(), "%d secrets were found, the first is a %s in line %d", len(p.secrets), first.Kind, first.Line).
		WithCode("SECRETS_FOUND", "secrets", found).
		WithHint("remove them in the VM; or, if they are no secrets, name each file: --allow-secret %s", first.Path)
}
