// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"context"

	"github.com/warren-vm/warren/vm"
)

// putRecord is the audit record of a Put. It is on disk before anything else of the Put is: a
// large body gets its file after it, and a small one, which is in memory until the commit,
// waits for its record and for the commit at once.
type putRecord struct {
	o       *Objects
	ctx     context.Context
	c       *vm.Call
	subject string
	origin  *vm.ObjectOrigin

	written chan struct{} // closed when end and err are set; nil = not begun
	end     func(error, map[string]any)
	err     error
}

// write writes the record and waits for it.
func (r *putRecord) write() error {
	r.start()
	return r.wait()
}

// start begins to write the record, once.
func (r *putRecord) start() {
	if r.written != nil {
		return
	}
	r.written = make(chan struct{})
	go func() { // close waits for it
		defer close(r.written)
		r.end, r.err = r.o.begin(r.ctx, r.c, vm.OpObjectPut, r.subject, originDetail(r.origin))
	}()
}

// wait waits until the record is on disk.
func (r *putRecord) wait() error {
	<-r.written
	return r.err
}

// close writes the outcome. A Put that was refused before it began has no record.
func (r *putRecord) close(err error, detail map[string]any) {
	if r.written != nil && r.wait() == nil {
		r.end(err, detail)
	}
}
