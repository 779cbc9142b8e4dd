// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

const (
	maxCommands   = 10_000    // refs of one push
	maxListBytes  = 4 << 20   // of the list of refs
	maxDrained    = 256 << 20 // bytes of a refused push that are read so that the client reads the answer
	keepAlive     = 5 * time.Second
	packHead      = 12 // bytes: PACK, version, number of objects
	noObjects     = "\x00\x00\x00\x00"
	quotaMistaken = 1 << 20 // bytes that git may take for a pack of a smaller size
)

// update is one ref that a push would change, and why it is refused.
type update struct {
	refChange
	refused error
}

// push is what a client sends to git-receive-pack.
type push struct {
	updates []*update
	able    map[string]bool // what the client can, and what it asks for
	in      *bufio.Reader
	ends    bool // the client ends what it sends before it reads the answer
}

// drain reads the rest of what the client sends. A client reads the answer only when all
// was read.
func (p *push) drain() {
	rest := func() { _, _ = io.CopyN(io.Discard, p.in, maxDrained) }
	if p.ends {
		rest()
		return
	}
	go rest() // ends with the connection
}

// readPush reads the list of refs. An empty list is no push.
func readPush(from io.Reader, ends bool) (*push, error) {
	p := &push{able: map[string]bool{}, ends: ends, in: bufio.NewReaderSize(from, 64<<10)}
	total := 0
	for first := true; ; first = false {
		line, end, err := readPacket(p.in)
		switch {
		case first && errors.Is(err, io.EOF):
			return p, nil
		case err != nil:
			return nil, err
		case end:
			return p, nil
		}
		if total += len(line); total > maxListBytes || len(p.updates) > maxCommands {
			return nil, vm.Errorf(vm.Limit, "", "the push changes more than %d refs", maxCommands).WithCode("GIT_INVALID_REQUEST")
		}
		text, able, _ := strings.Cut(string(line), "\x00")
		for _, one := range strings.Fields(able) {
			p.able[one] = true
		}
		if strings.HasPrefix(text, "shallow ") { // what is missing then is found by the check of links
			continue
		}
		f := strings.SplitN(text, " ", 3)
		if len(f) != 3 || !objectID.MatchString(f[0]) || !objectID.MatchString(f[1]) {
			return nil, vm.Errorf(vm.Invalid, "", "the client does not speak git's protocol for a push").WithCode("GIT_INVALID_REQUEST")
		}
		p.updates = append(p.updates, &update{refChange: refChange{f[2], f[0], f[1]}})
	}
}

// sends reports whether the client sends a pack: it does unless it only deletes.
func (p *push) sends() bool {
	for _, u := range p.updates {
		if u.now != zeroID {
			return true
		}
	}
	return false
}

// taken are the updates that are not refused.
func (p *push) taken() (list []*update) {
	for _, u := range p.updates {
		if u.refused == nil {
			list = append(list, u)
		}
	}
	return list
}

// refuse refuses every update that is not refused yet.
func (p *push) refuse(err error) {
	for _, u := range p.taken() {
		u.refused = err
	}
}

// receive serves a push to a repository: it checks the caller's right to each ref,
// takes the objects in quarantine, checks them, and moves the refs. Refusals go to the
// client in git's protocol; the error is about the client's side of it, or the host's.
// ends says that from ends after the push.
func (r *Repo) receive(ctx context.Context, c *vm.Call, rec vm.Repository, right right, from io.Reader, ends bool, to io.Writer) error {
	p, err := readPush(from, ends)
	if err != nil || len(p.updates) == 0 {
		return err
	}
	out := &bands{out: to, on: p.able["side-band-64k"]}
	r.admit(&rec, right, p)
	if len(p.taken()) == 0 || p.able["atomic"] && len(p.taken()) < len(p.updates) {
		p.refuse(vm.Errorf(vm.Denied, "", "another ref of this atomic push is refused"))
		if p.sends() {
			p.drain()
		}
		return p.report(out, nil)
	}
	changes := make([]refChange, 0, len(p.updates))
	for _, u := range p.taken() {
		changes = append(changes, u.refChange)
	}
	receipt, err := r.cfg.Journal.Begin(ctx, c, vm.AuditEntry{Op: vm.OpPush, VM: c.Actor.VM, Subject: rec.ID, Detail: map[string]any{"refs": shownChanges(changes)}})
	if err != nil {
		p.refuse(err)
		return p.report(out, err)
	}
	stop := out.stayAlive(ctx)
	failed := r.take(ctx, c, &rec, p)
	stop()
	var moved []refChange
	for _, u := range p.taken() {
		moved = append(moved, u.refChange)
	}
	outcome := failed
	if outcome == nil && len(moved) == 0 {
		outcome = p.updates[0].refused
	}
	receipt.End(outcome, map[string]any{"moved": len(moved)})
	if len(moved) > 0 {
		r.changed(ctx, c, &rec, moved)
	}
	return p.report(out, failed)
}

// stayAlive sends an empty packet every few seconds, until stop.
func (b *bands) stayAlive(ctx context.Context) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(keepAlive)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
				if b.on {
					_ = b.write(bandSaid, nil)
				}
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// admit refuses updates that can be judged before the objects are there.
func (r *Repo) admit(rec *vm.Repository, right right, p *push) {
	seen := map[string]bool{}
	for _, u := range p.updates {
		shown := vm.GuestPath(vm.Clip(u.name, maxRefName)).String()
		switch why := badFullRef(u.name); {
		case p.able["push-cert"]:
			u.refused = vm.Errorf(vm.Unsupported, shown, "signed pushes are not supported")
		case why != "":
			u.refused = vm.Errorf(vm.Invalid, shown, "%s", why)
		case seen[u.name]:
			u.refused = vm.Errorf(vm.Invalid, shown, "the push names it twice")
		case u.was == zeroID && u.now == zeroID:
			u.refused = vm.Errorf(vm.NotFound, shown, "it does not exist")
		default:
			u.refused = mayChange(rec, right, u.name, u.now == zeroID)
		}
		seen[u.name] = true
	}
}

// take takes a push's objects and moves its refs. An error concerns the whole push;
// refusals of single refs are noted in them.
func (r *Repo) take(ctx context.Context, c *vm.Call, rec *vm.Repository, p *push) error {
	in, err := r.incoming(rec)
	if err != nil {
		p.refuse(err)
		return err
	}
	defer in.remove()
	if p.sends() {
		if err := in.unpack(ctx, p); err != nil {
			p.refuse(err)
			return err
		}
	}
	for _, check := range []func(context.Context, []*update) error{in.linked, in.fitting} {
		if err := check(ctx, p.taken()); err != nil {
			p.refuse(err)
			return err
		}
	}
	if p.able["atomic"] && len(p.taken()) < len(p.updates) {
		p.refuse(vm.Errorf(vm.Denied, "", "another ref of this atomic push is refused"))
	}
	if len(p.taken()) == 0 {
		return nil
	}
	// The right may have ended while the objects came.
	now, right, err := r.find(c, rec.ID, Write)
	if err == nil {
		r.admit(&now, right, &push{updates: p.taken(), able: p.able})
	}
	if err == nil {
		err = in.reserve(ctx)
	}
	if err == nil {
		err = in.join()
	}
	if err != nil {
		p.refuse(err)
		return err
	}
	r.moveAll(ctx, c, rec, p)
	return nil
}

// moveAll moves the refs: together, and one by one if that fails and the push is not
// atomic.
func (r *Repo) moveAll(ctx context.Context, c *vm.Call, rec *vm.Repository, p *push) {
	dir, why := r.cfg.Dir.Repo(rec.ID), "push by "+actorName(c.Actor)
	list := p.taken()
	if len(list) == 0 {
		return
	}
	var changes []refChange
	for _, u := range list {
		changes = append(changes, u.refChange)
	}
	err := r.move(ctx, dir, why, changes)
	if err == nil {
		return
	}
	refusal := func(err error) error {
		if errors.Is(err, errMoved) {
			return vm.Errorf(vm.Exists, "", "the ref has moved, or its name conflicts with another; fetch first").WithCode("CONFLICTING_PARENT")
		}
		return err
	}
	if p.able["atomic"] || len(list) == 1 {
		p.refuse(refusal(err))
		return
	}
	for _, u := range list {
		if err := r.move(ctx, dir, why, []refChange{u.refChange}); err != nil {
			u.refused = refusal(err)
		}
	}
}

// unpack takes the pack that a client sends and checks its objects.
func (in *incoming) unpack(ctx context.Context, p *push) error {
	head, err := p.in.Peek(packHead)
	if err != nil || !bytes.HasPrefix(head, []byte("PACK")) {
		return vm.Errorf(vm.Invalid, "", "the client sent no pack").WithCode("GIT_INVALID_REQUEST")
	}
	left, err := in.r.left(ctx, in.rec.Account)
	if err != nil {
		return err
	}
	args := []string{"index-pack", "--stdin", "--fix-thin", "--strict"}
	if left >= 0 {
		args = append(args, "--max-input-size="+strconv.FormatInt(left+quotaMistaken, 10))
	}
	empty := string(head[8:]) == noObjects
	err = in.r.feed(ctx, program{dir: in.r.cfg.Dir.Repo(in.rec.ID), env: in.env(), args: args}, p)
	said := saidBy(err)
	switch {
	case err == nil && empty:
		return in.clear()
	case err == nil:
		return nil
	case strings.Contains(said, "maximum allowed size"):
		return overQuota(left)
	case strings.Contains(said, "did not receive expected object"), strings.Contains(said, "unresolved delta"):
		return missingObjects(said)
	case exitOf(err) > 0:
		return vm.Errorf(vm.Invalid, "", "the objects are refused: %s", said).WithCode("GIT_INVALID_REQUEST").
			WithHint("`git fsck` in your repository finds the damaged or dangerous object")
	}
	return err
}

// clear removes the pack without objects that a push of known commits makes.
func (in *incoming) clear() error {
	dir := filepath.Join(in.dir, "objects", "pack")
	if err := os.RemoveAll(dir); err != nil {
		return layout.Error(dir, err)
	}
	return layout.Error(dir, os.Mkdir(dir, 0o700))
}

// linked refuses updates whose new commit is not there with all that it needs.
func (in *incoming) linked(ctx context.Context, list []*update) error {
	var ids strings.Builder
	for _, u := range list {
		if u.now != zeroID {
			ids.WriteString(u.now + "\n")
		}
	}
	if ids.Len() == 0 {
		return nil
	}
	_, err := in.r.run(ctx, program{
		dir: in.r.cfg.Dir.Repo(in.rec.ID), env: in.env(), args: []string{"rev-list", "--objects", "--stdin", "--not", "--all", "--quiet", "--alternate-refs"},
		in: strings.NewReader(ids.String()),
	})
	if exitOf(err) > 0 {
		return missingObjects(saidBy(err))
	}
	return err
}

// missingObjects says that neither the push nor the repository has all that a commit needs.
func missingObjects(said string) error {
	return vm.Errorf(vm.Invalid, "", "objects are missing: %s", said).WithCode("GIT_INVALID_REQUEST").
		WithHint("the clone may be shallow: run `git fetch --unshallow`, then push again")
}

// fitting refuses updates of branches to what is no commit, and of protected branches to
// what does not continue them.
func (in *incoming) fitting(ctx context.Context, list []*update) error {
	dir := in.r.cfg.Dir.Repo(in.rec.ID)
	for _, u := range list {
		branch, is := strings.CutPrefix(u.name, "refs/heads/")
		if !is || u.now == zeroID {
			continue
		}
		kind, err := in.r.run(ctx, program{dir: dir, env: in.env(), args: []string{"cat-file", "-t", u.now}})
		if err != nil {
			return err
		}
		if strings.TrimSpace(string(kind)) != "commit" {
			u.refused = vm.Errorf(vm.Invalid, branch, "a branch names a commit, and this is a %s", strings.TrimSpace(string(kind)))
			continue
		}
		if u.was == zeroID || !in.rec.Protects(branch) {
			continue
		}
		if u.refused, err = in.r.continues(ctx, dir, in.env(), branch, u.was, u.now); err != nil {
			return err
		}
	}
	return nil
}

// continues refuses a commit that does not descend from the one that a protected branch
// has.
func (r *Repo) continues(ctx context.Context, dir string, env []string, branch, was, now string) (refused, err error) {
	_, err = r.run(ctx, program{dir: dir, env: env, args: []string{"merge-base", "--is-ancestor", was, now}})
	switch exitOf(err) {
	case 1:
		return vm.Errorf(vm.Denied, branch, "the branch is protected and cannot be rewound: the push is no fast-forward").
			WithCode("REPOSITORY_ACCESS_DENIED", "branch", branch).WithHint("merge or rebase on the branch's tip, then push without --force"), nil
	case 128: // the client named a commit that is not there: it is not the tip
		return vm.Errorf(vm.Exists, branch, "the branch has moved; fetch first"), nil
	}
	return nil, err
}

// report tells the client what became of its push. unpacked is why the objects were not
// taken.
func (p *push) report(out *bands, unpacked error) error {
	hints := map[string]bool{}
	for _, u := range p.updates {
		if e := vm.AsError(u.refused); u.refused != nil && e.Hint != "" && !hints[e.Hint] {
			hints[e.Hint] = true
			out.say("warren: %s", oneLine(e.Hint))
		}
	}
	if p.able["report-status"] || p.able["report-status-v2"] {
		var lines []byte
		if unpacked != nil {
			lines = appendPacket(lines, "unpack %s\n", reason(unpacked))
		} else {
			lines = appendPacket(lines, "unpack ok\n")
		}
		for _, u := range p.updates {
			if u.refused != nil {
				lines = appendPacket(lines, "ng %s %s\n", u.name, reason(u.refused))
			} else {
				lines = appendPacket(lines, "ok %s\n", u.name)
			}
		}
		lines = append(lines, "0000"...)
		if err := out.write(bandData, lines); err != nil {
			return err
		}
	}
	return out.end()
}

// reason is an error in one line, without paths of the host.
func reason(err error) string {
	e := vm.AsError(err)
	text := e.Msg
	if e.Kind == vm.Internal || text == "" {
		text = "the server failed: " + string(e.Kind)
	}
	return vm.Clip(oneLine(text), 500)
}

// feed runs git with what a client sends as its input. Unlike run, it does not wait for
// the input to end: a client that is connected by a stream keeps it open for the answer.
func (r *Repo) feed(ctx context.Context, p program, from *push) error {
	ctx, release, err := r.enter(ctx)
	if err != nil {
		return err
	}
	defer release()
	cmd := r.command(ctx, p.dir, p.env, p.args...)
	said := keeper{limit: errorLimit, drop: true}
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return r.failed(p, "", err)
	}
	read := make(chan struct{})
	go func() { // ends when git or the input does, at the latest with the connection
		defer close(read)
		_, err := io.Copy(in, from.in)
		_ = in.Close()
		if err != nil {
			_, _ = io.CopyN(io.Discard, from.in, maxDrained) // as drain does
		}
	}()
	if err = cmd.Wait(); err != nil && from.ends {
		select {
		case <-read:
		case <-ctx.Done():
		}
	}
	switch {
	case ctx.Err() != nil:
		return vm.WithOp("", "", context.Cause(ctx))
	case err == nil:
		return nil
	}
	return r.failed(p, strings.ReplaceAll(said.String(), filepath.Dir(p.dir), ""), err)
}
