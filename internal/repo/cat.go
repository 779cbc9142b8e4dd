// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/vm"
)

const (
	catsIdle   = 2                // idle readers of one repository
	catsAll    = 32               // idle readers of all
	catFor     = 30 * time.Second // how long a reader stays idle
	maxSkip    = 1 << 20          // bytes of an object that are read only to get past them
	maxParsed  = 32 << 20         // bytes of a tree, commit or tag
	maxContent = 64 << 20         // bytes of a file that is returned whole
)

// object is what git says of an object.
type object struct {
	id   string
	kind string // blob, tree, commit or tag; "" = there is none
	size int64
}

// cat is a running `git cat-file --batch-command`. One caller at a time uses it.
type cat struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	used time.Time // last
	bad  bool      // it cannot be used again

	leave func() // of the room; see Repo.enter
	once  sync.Once
}

// close ends the process and waits for it.
func (k *cat) close() {
	k.once.Do(func() {
		_ = k.in.Close()
		if k.bad {
			_ = k.cmd.Process.Kill()
		}
		_ = k.cmd.Wait()
		k.leave()
	})
}

// reader returns an idle reader of a repository's objects, or starts one. Call done
// with it.
func (r *Repo) reader(ctx context.Context, id string) (*cat, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	r.mu.Lock()
	if list := r.cats[id]; len(list) > 0 {
		k := list[len(list)-1]
		r.cats[id] = list[:len(list)-1]
		r.mu.Unlock()
		return k, nil
	}
	r.mu.Unlock()
	life, leave, err := r.enter(context.WithoutCancel(ctx)) // it outlives the caller
	if err != nil {
		return nil, err
	}
	k := &cat{cmd: r.command(life, r.cfg.Dir.Repo(id), nil, "cat-file", "--batch-command"), leave: leave}
	k.in, err = k.cmd.StdinPipe()
	var out io.ReadCloser
	if err == nil {
		out, err = k.cmd.StdoutPipe()
	}
	if err == nil {
		err = k.cmd.Start()
	}
	if err != nil {
		leave()
		return nil, r.failed(program{args: []string{"cat-file"}}, "", err)
	}
	k.out = bufio.NewReaderSize(out, 64<<10)
	return k, nil
}

// done keeps a reader for the next caller, or ends it.
func (r *Repo) done(id string, k *cat) {
	k.used = r.cfg.Now()
	r.mu.Lock()
	total := 0
	for _, list := range r.cats {
		total += len(list)
	}
	keep := !k.bad && r.life != nil && r.life.Err() == nil && len(r.cats[id]) < catsIdle && total < catsAll
	if keep {
		r.cats[id] = append(r.cats[id], k)
	}
	r.mu.Unlock()
	if !keep {
		k.close()
	}
}

// dropCats ends the idle readers of a repository.
func (r *Repo) dropCats(id string) {
	r.mu.Lock()
	list := r.cats[id]
	delete(r.cats, id)
	r.mu.Unlock()
	for _, k := range list {
		k.close()
	}
}

// closeIdle ends the readers that nobody has used for a while.
func (r *Repo) closeIdle() {
	now := r.cfg.Now()
	var old []*cat
	r.mu.Lock()
	for id, list := range r.cats {
		var kept []*cat
		for _, k := range list {
			if now.Sub(k.used) > catFor {
				old = append(old, k)
			} else {
				kept = append(kept, k)
			}
		}
		if r.cats[id] = kept; len(kept) == 0 {
			delete(r.cats, id)
		}
	}
	r.mu.Unlock()
	for _, k := range old {
		k.close()
	}
}

// objects reads a repository's objects with one reader. Use it in one goroutine and
// close it.
type objects struct {
	r    *Repo
	id   string
	ctx  context.Context
	k    *cat
	stop func() bool
}

// readable finds a repository that the caller may read, and opens its objects.
func (r *Repo) readable(ctx context.Context, c *vm.Call, ref string) (vm.Repository, *objects, error) {
	rec, _, _, err := r.reach(c, ref, Read)
	if err != nil {
		return rec, nil, err
	}
	o, err := r.objectsOf(ctx, rec.ID)
	return rec, o, err
}

// objectsOf opens a repository's objects. When ctx ends, reading fails.
func (r *Repo) objectsOf(ctx context.Context, id string) (*objects, error) {
	k, err := r.reader(ctx, id)
	if err != nil {
		return nil, err
	}
	o := &objects{r: r, id: id, ctx: ctx, k: k}
	o.stop = context.AfterFunc(ctx, func() { _ = k.cmd.Process.Kill() })
	return o, nil
}

// close returns the reader.
func (o *objects) close() {
	if !o.stop() { // it was killed, or is about to be
		o.k.bad = true
	}
	o.r.done(o.id, o.k)
}

// fail notes that the reader cannot be used again.
func (o *objects) fail(err error) error {
	o.k.bad = true
	if o.ctx.Err() != nil {
		return context.Cause(o.ctx)
	}
	return vm.Errorf(vm.Internal, o.id, "git cat-file: %w", err).WithCode("GIT_ERROR")
}

var errAmbiguous = errors.New("ambiguous")

// head reads the line with which git begins an answer. A kind of "" says that there is
// no such object.
func (o *objects) head() (object, error) {
	line, err := o.k.out.ReadString('\n')
	if err != nil {
		return object{}, o.fail(err)
	}
	line = strings.TrimSuffix(line, "\n")
	if strings.HasSuffix(line, " missing") {
		return object{}, nil
	}
	if strings.HasSuffix(line, " ambiguous") {
		return object{}, errAmbiguous
	}
	var out object
	fields := strings.Split(line, " ")
	if len(fields) == 3 && objectID.MatchString(fields[0]) {
		out.id, out.kind = fields[0], fields[1]
		out.size, err = strconv.ParseInt(fields[2], 10, 64)
	}
	if out.kind == "" || err != nil || out.size < 0 {
		return object{}, o.fail(fmt.Errorf("it answers %q", vm.Clip(line, 200)))
	}
	return out, nil
}

func (o *objects) ask(verb, name string) error {
	if strings.ContainsAny(name, "\n\x00") {
		return vm.Errorf(vm.Internal, "", "a name for git has a line break")
	}
	if _, err := io.WriteString(o.k.in, verb+" "+name+"\n"); err != nil {
		return o.fail(err)
	}
	return nil
}

// info returns what name, without a line break, refers to. A kind of "" = nothing.
func (o *objects) info(name string) (object, error) {
	if err := o.ask("info", name); err != nil {
		return object{}, err
	}
	return o.head()
}

// infos is info for many ids at once.
func (o *objects) infos(ids []string) ([]object, error) {
	sent := make(chan error, 1)
	go func() { // ends when git has read all, or was killed
		w := bufio.NewWriterSize(o.k.in, 32<<10)
		for _, id := range ids {
			_, _ = w.WriteString("info " + id + "\n")
		}
		sent <- w.Flush()
	}()
	out := make([]object, 0, len(ids))
	var err error
	for range ids {
		var one object
		if one, err = o.head(); err != nil {
			break
		}
		out = append(out, one)
	}
	if err != nil && o.k.bad {
		_ = o.k.cmd.Process.Kill() // so that the writer ends
	}
	if lost := <-sent; err == nil && lost != nil {
		err = o.fail(lost)
	}
	return out, err
}

// read returns a whole object that has at most limit bytes. kind "" of the object =
// there is none.
func (o *objects) read(name string, limit int64) (object, []byte, error) {
	var data []byte
	got, err := o.stream(name, func(got object, content io.Reader) error {
		if got.size > limit {
			return vm.Errorf(vm.Limit, got.id, "the %s has %d bytes, at most %d are read", got.kind, got.size, limit).
				WithCode("GIT_INVALID_REQUEST").WithHint("clone the repository instead")
		}
		data = make([]byte, got.size)
		_, err := io.ReadFull(content, data)
		return err
	})
	return got, data, err
}

// stream gives an object's content to f, which may read less than all. f is not called
// where there is no object.
func (o *objects) stream(name string, f func(object, io.Reader) error) (object, error) {
	if err := o.ask("contents", name); err != nil {
		return object{}, err
	}
	got, err := o.head()
	if err != nil || got.kind == "" {
		return got, err
	}
	content := &io.LimitedReader{R: o.k.out, N: got.size}
	err = f(got, content)
	if content.N > maxSkip {
		o.k.bad = true
		return got, err
	}
	if _, lost := io.CopyN(io.Discard, o.k.out, content.N+1); lost != nil { // and the line break
		return got, o.fail(lost)
	}
	return got, err
}
