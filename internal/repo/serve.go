// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// The services of git's protocols.
const (
	UploadPack  = "git-upload-pack"  // clone and fetch
	ReceivePack = "git-receive-pack" // push
)

const maxWants = 64 << 20 // bytes of a client's request to git-upload-pack

// protocols are the versions of git's protocol that clients ask for.
var protocols = vm.NewPattern(`^[a-z0-9=:.-]{0,100}$`)

// ServeGit answers git's smart HTTP protocol, after authentication: path is "info/refs",
// "git-upload-pack" or "git-receive-pack". A zero actor is anonymous: it reads public
// repositories, and is asked for credentials else. Refusals before the protocol begins
// are answered with their HTTP status and a text, which git shows; the error returned is
// that refusal, for the door's log.
func (r *Repo) ServeGit(w http.ResponseWriter, req *http.Request, c *vm.Call, ref, path string) error {
	service := path
	if path == "info/refs" {
		service = req.URL.Query().Get("service")
	}
	rec, right, err := r.serviceOf(c, ref, service)
	if err != nil {
		return refuse(w, c, err)
	}
	ctx, end := r.cfg.Access.RepoSession(req.Context(), c, rec.ID)
	defer end()
	leave, err := r.takePlace(ctx, c)
	if err != nil {
		return refuse(w, c, err)
	}
	defer leave()
	w.Header().Set("Cache-Control", "no-cache, max-age=0, must-revalidate")
	w.Header().Set("Expires", "Fri, 01 Jan 1980 00:00:00 GMT")
	w.Header().Set("Pragma", "no-cache")
	switch {
	case path == "info/refs" && req.Method == http.MethodGet:
		w.Header().Set("Content-Type", "application/x-"+service+"-advertisement")
		return r.advertiseHTTP(ctx, w, req, c, rec, service)
	case path != "info/refs" && req.Method == http.MethodPost && req.Header.Get("Content-Type") == "application/x-"+service+"-request":
	default:
		return refuse(w, c, vm.Errorf(vm.Invalid, "", "this is not a request of git's smart HTTP protocol").WithCode("GIT_INVALID_REQUEST"))
	}
	// Else Go's server closes the request's body with the head of the answer, which begins while a long push is
	// still being read, and may begin before the end of a fetch's request was read.
	_ = http.NewResponseController(w).EnableFullDuplex()
	body, err := bodyOf(req)
	if err != nil {
		return refuse(w, c, err)
	}
	w.Header().Set("Content-Type", "application/x-"+service+"-result")
	out := &flusher{w: w, rc: http.NewResponseController(w)}
	dir := r.cfg.Dir.Repo(rec.ID)
	if service == ReceivePack {
		err = r.receive(ctx, c, rec, right, body, true, out)
	} else {
		_, err = r.run(ctx, program{
			dir: dir, env: versionOf(req), args: []string{"upload-pack", "--strict", "--stateless-rpc", dir},
			in: io.LimitReader(body, maxWants), out: out,
		})
	}
	if err != nil && !out.begun {
		return refuse(w, c, err)
	}
	if err != nil && exitOf(err) <= 0 { // else git has told the client
		panic(http.ErrAbortHandler) // the client must not take the answer for whole
	}
	return err
}

// serviceOf finds the repository for a service, with the caller's right.
func (r *Repo) serviceOf(c *vm.Call, ref, service string) (vm.Repository, right, error) {
	need := Read
	switch service {
	case UploadPack:
	case ReceivePack:
		need = Write
	case "":
		return vm.Repository{}, right{}, vm.Errorf(vm.Denied, "", "only git's smart protocol is served: the request names no service").WithCode("EXPECTED_SERVICE")
	default:
		return vm.Repository{}, right{}, vm.Errorf(vm.Denied, "", "no such service").WithCode("INVALID_SERVICE")
	}
	rec, right, err := r.find(c, strings.TrimSuffix(ref, ".git"), need)
	if err != nil && c.Actor == (vm.Actor{}) { // whether it exists is not for everybody
		err = vm.Errorf(vm.Unauthenticated, "", "git needs credentials for this repository").WithCode("UNAUTHORIZED_ERROR").
			WithHint("use any user name, and an API key or an identity's token as the password")
	}
	return rec, right, err
}

// advertiseHTTP answers with the refs of a repository and what the server can.
func (r *Repo) advertiseHTTP(ctx context.Context, w http.ResponseWriter, req *http.Request, c *vm.Call, rec vm.Repository, service string) error {
	out := &flusher{w: w, rc: http.NewResponseController(w)}
	env := versionOf(req)
	if service == ReceivePack {
		env = nil // version 2 has no push
	}
	head := appendPacket(nil, "# service=%s\n", service)
	var refs keeper
	refs.limit = outputLimit
	dir := r.cfg.Dir.Repo(rec.ID)
	_, err := r.run(ctx, program{
		dir: dir, env: env, args: []string{strings.TrimPrefix(service, "git-"), "--stateless-rpc", "--http-backend-info-refs", dir}, out: &refs,
	})
	if err != nil {
		return refuse(w, c, err)
	}
	_, err = out.Write(append(append(head, "0000"...), refs.Bytes()...))
	return err
}

// versionOf passes on the version of the protocol that a client asks for.
func versionOf(req *http.Request) []string { return protocolEnv(req.Header.Get("Git-Protocol")) }

func protocolEnv(protocol string) []string {
	if protocol == "" || !protocols.MatchString(protocol) {
		return nil
	}
	return []string{"GIT_PROTOCOL=" + protocol}
}

// bodyOf is a request's body, unpacked.
func bodyOf(req *http.Request) (io.Reader, error) {
	switch req.Header.Get("Content-Encoding") {
	case "", "identity":
		return req.Body, nil
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(req.Body)
		if err != nil {
			return nil, vm.Errorf(vm.Invalid, "", "the request is not compressed as it says").WithCode("GIT_INVALID_REQUEST")
		}
		return z, nil
	}
	return nil, vm.Errorf(vm.Invalid, "", "the request is compressed in an unknown way").WithCode("GIT_INVALID_REQUEST")
}

// takePlace waits for a place among the clients of the caller's account that are served
// at once, so that no account takes all of the host. Call leave.
func (r *Repo) takePlace(ctx context.Context, c *vm.Call) (leave func(), err error) {
	r.mu.Lock()
	places := r.places[c.Actor.Account]
	if places == nil {
		places = make(chan struct{}, 8*runtime.GOMAXPROCS(0))
		r.places[c.Actor.Account] = places
	}
	r.mu.Unlock()
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, vm.WithOp("", "", context.Cause(ctx))
	}
}

// ServeStream runs "git-upload-pack" or "git-receive-pack" for a client that is
// connected by streams, as over SSH. protocol is the client's GIT_PROTOCOL, "" = none.
// It blocks until the client is served or ctx ends. The door closes in when it returns.
// A refusal comes back as the error and was not yet shown to the client.
func (r *Repo) ServeStream(ctx context.Context, c *vm.Call, ref, service, protocol string, in io.Reader, out, errs io.Writer) error {
	rec, right, err := r.serviceOf(c, ref, service)
	if err != nil {
		return vm.WithOp(opOf(service), ref, err)
	}
	ctx, end := r.cfg.Access.RepoSession(ctx, c, rec.ID)
	defer end()
	leave, err := r.takePlace(ctx, c)
	if err != nil {
		return vm.WithOp(opOf(service), ref, err)
	}
	defer leave()
	dir := r.cfg.Dir.Repo(rec.ID)
	if service == ReceivePack {
		_, err = r.run(ctx, program{dir: dir, args: []string{"receive-pack", "--http-backend-info-refs", dir}, out: out})
		if err == nil {
			err = r.receive(ctx, c, rec, right, in, false, out)
		}
		return vm.WithOp(vm.OpPush, ref, err)
	}
	err = r.stream(ctx, program{dir: dir, env: protocolEnv(protocol), args: []string{"upload-pack", "--strict", dir}, in: in, out: out, errs: errs})
	return vm.WithOp(vm.OpFetch, ref, err)
}

func opOf(service string) vm.Op {
	if service == ReceivePack {
		return vm.OpPush
	}
	return vm.OpFetch
}

// stream runs a git process for a client whose input need not end.
func (r *Repo) stream(ctx context.Context, p program) error {
	ctx, release, err := r.enter(ctx)
	if err != nil {
		return err
	}
	defer release()
	cmd := r.command(ctx, p.dir, p.env, p.args...)
	said := keeper{limit: errorLimit, drop: true}
	cmd.Stdout, cmd.Stderr = p.out, &said
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return r.failed(p, "", err)
	}
	go func() { // ends when the input or git does, at the latest with the connection
		_, _ = io.Copy(in, p.in)
		_ = in.Close()
	}()
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return vm.WithOp("", "", context.Cause(ctx))
	case err == nil:
		return nil
	}
	return r.failed(p, said.String(), err)
}

// flusher sends each write to the client at once.
type flusher struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	begun bool
}

func (f *flusher) Write(p []byte) (int, error) {
	f.begun = true
	n, err := f.w.Write(p)
	if err == nil {
		err = f.rc.Flush()
	}
	if errors.Is(err, http.ErrNotSupported) {
		err = nil
	}
	return n, err
}

// refuse answers a request before git's protocol begins.
func refuse(w http.ResponseWriter, c *vm.Call, err error) error {
	e := vm.AsError(err)
	status := http.StatusInternalServerError
	switch e.Kind {
	case vm.Unauthenticated:
		w.Header().Set("WWW-Authenticate", `Basic realm="Warren"`)
		status = http.StatusUnauthorized
	case vm.Denied:
		status = http.StatusForbidden
	case vm.NotFound:
		status = http.StatusNotFound
	case vm.Invalid, vm.Unsupported:
		status = http.StatusBadRequest
	case vm.Unavailable, vm.NoSpace:
		status = http.StatusServiceUnavailable
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if c.Receipt != "" {
		w.Header().Set("Warren-Receipt", c.Receipt)
	}
	w.WriteHeader(status)
	text := reason(err)
	if e.Hint != "" {
		text += "\n" + oneLine(e.Hint)
	}
	_, _ = io.WriteString(w, text+"\n")
	return err
}
