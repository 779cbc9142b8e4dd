// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package ship

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/vm"
)

const (
	mostLogs = 100 // of commands in the guest
	mostLog  = 1 << 30
)

// MayStore refuses a caller that may not store what is left of a VM below a prefix.
func (s *Ship) MayStore(c *vm.Call, of vm.Job, to vm.ObjectRef) error {
	return s.cfg.Objects.MayWrite(c, to.Bucket, keyOf(of, to, "record.json"))
}

// keyOf is the key of a part of what is left of a VM: each VM has a prefix of its own.
func keyOf(of vm.Job, to vm.ObjectRef, part string) string {
	prefix := to.Key
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	id := string(of.VM)
	if of.Name != "" {
		id = of.Name + "-" + id
	}
	return prefix + id + "/" + part
}

// StoreLogs stores the console's log of a VM, and if it runs the logs of its commands.
func (s *Ship) StoreLogs(ctx context.Context, c *vm.Call, of vm.Job, to vm.ObjectRef) (list []vm.Shipped, err error) {
	defer func() { err = vm.WithOp(vm.OpDone, string(of.VM), err) }()
	ref := string(of.VM)
	rec, err := s.cfg.Engine.Find(c.Actor, ref)
	if err != nil {
		return nil, err
	}
	log, _, err := s.guests.ConsoleLog(ctx, c, ref, 0, false)
	if err != nil {
		return nil, err
	}
	if list, err = s.storeLog(ctx, c, of, to, "logs/console.log", log, list); err != nil || rec.State != vm.Running {
		return list, err
	}
	all, err := s.guests.Processes(ctx, c, ref)
	if err != nil {
		return list, err
	}
	for _, p := range all[max(0, len(all)-mostLogs):] {
		if p.LogBytes == p.LogStart || !plainID(p.ID) {
			continue
		}
		log, _, err := s.guests.ProcessLog(ctx, again(c), ref, "", p.ID, 0, false)
		if err != nil {
			return list, err
		}
		if list, err = s.storeLog(ctx, c, of, to, "logs/"+p.ID+".log", log, list); err != nil {
			return list, err
		}
	}
	return list, nil
}

// plainID reports whether the id of a command, which the guest's agent says, is a name.
func plainID(id string) bool {
	return id != "" && len(id) < 40 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
}

// storeLog stores the bytes that a log has now, and closes it.
func (s *Ship) storeLog(ctx context.Context, c *vm.Call, of vm.Job, to vm.ObjectRef, part string, log io.ReadCloser, list []vm.Shipped) ([]vm.Shipped, error) {
	one, err := s.Store(ctx, c, of, to, part, "text/plain; charset=utf-8", &wholeReader{io.LimitReader(log, mostLog), part})
	if err = errors.Join(err, log.Close()); err != nil {
		return list, err
	}
	return append(list, one), nil
}

// wholeReader turns a cut stream into an error.
type wholeReader struct {
	io.Reader
	name string
}

func (r *wholeReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err == io.EOF {
		return n, err
	}
	return n, wholly(err, r.name)
}

// StoreBytes is Store for bytes in memory.
func (s *Ship) StoreBytes(ctx context.Context, c *vm.Call, of vm.Job, to vm.ObjectRef, part, contentType string, data []byte) (vm.Shipped, error) {
	return s.Store(ctx, c, of, to, part, contentType, bytes.NewReader(data))
}

// Store stores a part of what is left of a VM as a new version of an object. After an
// error nothing of the part is stored.
func (s *Ship) Store(ctx context.Context, c *vm.Call, of vm.Job, to vm.ObjectRef, part, contentType string, body io.Reader) (out vm.Shipped, err error) {
	o, err := s.cfg.Objects.Put(ctx, again(c), objects.PutRequest{
		Bucket: to.Bucket, Key: keyOf(of, to, part), Size: -1, ContentType: contentType,
		Meta:   map[string]string{"warren-vm": string(of.VM), "warren-vm-name": cmp.Or(of.Name, string(of.VM)), "warren-sha256": ""},
		Origin: &vm.ObjectOrigin{VM: of.VM, Name: of.Name, Command: "warren done --ship"},
		Done:   func(o *vm.Object) error { o.Meta["warren-sha256"] = o.SHA256; return nil },
	}, body)
	if err != nil {
		return out, err
	}
	return vm.Shipped{ObjectRef: vm.ObjectRef{Bucket: o.Bucket, Key: o.Key, Version: o.Version}, What: part, Size: o.Size, SHA256: o.SHA256}, nil
}
