// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// Exec starts a command and attaches to it. When ctx ends, the command keeps running in
// the background, and its output goes to a log. The caller calls Run, or Detach.
func (in *Inside) Exec(ctx context.Context, c *vm.Call, ref string, spec vm.ExecSpec) (engine.Exec, error) {
	if err := checkExec(spec); err != nil {
		return nil, vm.WithOp(vm.OpExec, ref, err)
	}
	if err := in.approved(ctx, c, ref, execAct(spec)); err != nil {
		return nil, err
	}
	v, err := in.visit(ctx, c, ref, vm.OpExec, spec.User)
	if err != nil {
		return nil, err
	}
	asked := spec.Cwd
	spec.Cwd, spec.User = v.path(asked), cmp.Or(spec.User, v.rec.User)
	if err := v.Begin(ctx, in.execEntry(spec)); err != nil {
		err = v.Fail(ctx, err)
		v.End(err, nil)
		return nil, err
	}
	x, err := open(v, func(ctx context.Context) (engine.Exec, error) {
		x, err := v.guest.Exec(ctx, spec)
		return x, v.started(asked, err)
	})
	if err != nil {
		return nil, err
	}
	a := &attachment{Exec: x, v: v, moved: v.guard(), began: in.now()}
	// This ends the visit of a caller that goes away without Run or Detach.
	a.stop = context.AfterFunc(v.ctx, func() { a.end(vm.ExitStatus{}, v.Fail(v.ctx, context.Cause(v.ctx))) })
	return a, nil
}

// checkExec refuses an invalid specification.
func checkExec(s vm.ExecSpec) error {
	bad := func(msg string) error {
		return (&vm.Error{Kind: vm.Invalid, Msg: msg}).WithCode("INVALID_REQUEST")
	}
	switch {
	case len(s.Argv) == 0 && s.Command == "":
		return bad("no command is given")
	case len(s.Argv) > 0 && s.Command != "":
		return bad("both argv and command are given")
	case len(s.Argv) > 0 && s.Argv[0] == "":
		return bad("the program's name is empty")
	case s.Timeout < 0 || s.Timeout > vm.Millis(vm.MaxDuration):
		return bad("the timeout is out of range")
	}
	for _, a := range append([]string{s.Command, s.Cwd, s.User}, s.Argv...) {
		if strings.ContainsRune(a, 0) {
			return bad("an argument contains a NUL byte")
		}
	}
	for k, val := range s.Env {
		switch {
		case k == "":
			return (&vm.Error{Kind: vm.Invalid, Msg: "a variable has no name"}).WithCode("ENV_KEY_EMPTY")
		case strings.ContainsRune(k, '='):
			return (&vm.Error{Kind: vm.Invalid, Subject: k, Msg: "a variable's name contains ="}).WithCode("ENV_KEY_CONTAINS_EQUALS")
		case strings.ContainsRune(k, 0) || strings.ContainsRune(val, 0):
			return bad("a variable contains a NUL byte")
		}
	}
	return nil
}

// started explains why a program did not start although the caller named no directory:
// the VM's own is missing.
func (v *visit) started(cwd string, err error) error {
	if cwd != "" || v.rec.Workdir == "" || vm.AsError(err).Code != "FILE_NOT_FOUND" {
		return err
	}
	return vm.Errorf(vm.NotFound, v.rec.Workdir, "the VM's working directory does not exist").
		WithCode("FILE_NOT_FOUND", "path", v.rec.Workdir).
		WithHint("make it: `warren fs mkdir -p %s:%s`; or name another: `warren exec %s --cwd / -- CMD`", label(v.rec), v.rec.Workdir, label(v.rec))
}

// execEntry is the record of a command. Which of its arguments are in it is a setting.
func (in *Inside) execEntry(s vm.ExecSpec) vm.AuditEntry {
	e := vm.AuditEntry{Subject: command(s), Detail: execDetail(s)}
	whole := s.Command
	if len(s.Argv) > 0 {
		whole = strings.Join(s.Argv, "\x00")
	}
	in.digest(e.Detail, whole)
	if !in.showsArgs() {
		e.Subject = "a shell command"
		if len(s.Argv) > 0 {
			e.Subject = clip(s.Argv[0])
		}
	}
	return e
}

// showsArgs reports whether audit records have the arguments of commands.
func (in *Inside) showsArgs() bool {
	return in.cfg.AuditArgs != vm.ArgsDigest && in.cfg.AuditArgs != vm.ArgsNone
}

// digest adds the digest of a whole command, unless records have none.
func (in *Inside) digest(detail map[string]any, whole string) {
	if in.cfg.AuditArgs != vm.ArgsNone {
		sum := sha256.Sum256([]byte(whole))
		detail["argsSha256"] = hex.EncodeToString(sum[:])
	}
}

// command is a command as the audit record shows it.
func command(s vm.ExecSpec) string {
	text := s.Command
	if len(s.Argv) > 0 {
		text = strings.Join(s.Argv, " ")
	}
	return clip(text)
}

// execDetail lists the names of the environment variables, never their values, which may
// be secrets.
func execDetail(s vm.ExecSpec) map[string]any {
	d := map[string]any{"background": s.Background, "user": "root"}
	if s.User != "" {
		d["user"] = s.User
	}
	if s.Cwd != "" {
		d["cwd"] = clip(s.Cwd)
	}
	if len(s.Env) > 0 {
		names := make([]string, 0, len(s.Env))
		for k := range s.Env {
			names = append(names, k)
		}
		slices.Sort(names)
		d["env"] = names
	}
	return d
}

// attachment is an attached command. It holds the visit until it ends.
type attachment struct {
	engine.Exec
	v     *visit
	moved *atomic.Int64
	stop  func() bool
	began time.Time
	sums  map[string]any // digests of the output, once it has ended
}

func (a *attachment) Write(p []byte) (int, error) {
	n, err := a.Exec.Write(p)
	a.moved.Add(int64(n))
	return n, a.v.Fail(a.v.ctx, err)
}

func (a *attachment) Detach() error {
	a.stop()
	err := a.v.Fail(a.v.ctx, a.Exec.Detach())
	a.v.End(err, map[string]any{"process": a.Process().ID, "detached": true})
	return err
}

func (a *attachment) Run(stdout, stderr io.Writer) (vm.ExitStatus, error) {
	out, errs := sha256.New(), sha256.New()
	st, err := a.Exec.Run(progress{stdout, a.moved, out}, progress{stderr, a.moved, errs})
	a.stop()
	err = a.v.Fail(a.v.ctx, err)
	if err == nil {
		a.sums = map[string]any{"stdoutSha256": hex.EncodeToString(out.Sum(nil)), "stderrSha256": hex.EncodeToString(errs.Sum(nil))}
	}
	a.end(st, err)
	return st, err
}

func (a *attachment) end(st vm.ExitStatus, err error) {
	d := map[string]any{"process": a.Process().ID, "durationMs": a.v.in.now().Sub(a.began).Milliseconds()}
	if err == nil {
		d["exitCode"] = st.Code
		maps.Copy(d, a.sums)
	}
	if st.TimedOut {
		d["timedOut"] = true
	}
	a.v.End(err, d)
}

// progress counts the bytes written, and adds them to a digest.
type progress struct {
	w     io.Writer
	moved *atomic.Int64
	sum   hash.Hash
}

func (p progress) Write(b []byte) (int, error) {
	p.moved.Add(int64(len(b)))
	_, _ = p.sum.Write(b) // documented never to fail
	if p.w == nil {
		return len(b), nil
	}
	return p.w.Write(b)
}
