// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package e2b

import (
	"cmp"
	"context"
	"io"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

// copyScript moves what was unpacked in $stage to $dest, as COPY of a Dockerfile does: a
// directory's content into $dest, one file ($one) to $dest or into it.
const copyScript = `set -e
made() { [ -d "$1" ] || { made "$(dirname "$1")"; mkdir "$1"; chown "$owner" "$1"; }; }
chown -R -h "$owner" "$stage"
[ -z "$mode" ] || for e in "$stage"/* "$stage"/.[!.]* "$stage"/..?*; do
    [ ! -e "$e" ] || chmod -R "$mode" "$e"
done
into=y
case "$dest" in
*/) ;;
*) [ -z "$one" ] || [ -d "$dest" ] || into= ;;
esac
if [ -n "$into" ]; then
    dir=${dest%/}
    made "${dir:-/}"
    for e in "$stage"/* "$stage"/.[!.]* "$stage"/..?*; do
        [ ! -e "$e" ] && [ ! -L "$e" ] || cp -a "$e" "$dir/"
    done
else
    made "$(dirname "$dest")"
    mv -f "$stage/$one" "$dest"
fi
rm -rf "$stage"
`

// copy unpacks the archive of a step beside its destination, and moves it there.
func (s *stepper) copy(one buildStep) error {
	f, err := s.d.files.open(fileKey{s.b.account, s.b.template, one.Files})
	if err != nil {
		return err
	}
	defer f.Close() // it was only read
	stage := "/var/tmp/warren-copy-" + s.b.id[:8] + "-" + s.step
	r, w := io.Pipe()
	type result struct {
		copied
		err error
	}
	packed := make(chan result, 1)
	go func() { // ends with the archive, or when the pipe is closed
		out, err := repack(w, f, one.arg(0), mostCopied)
		_ = w.CloseWithError(err) // documented to return nil
		packed <- result{out, err}
	}()
	err = s.d.Inside.TarUp(s.ctx, s.call, string(s.rec.ID), "", stage, r)
	_ = r.CloseWithError(cmp.Or(err, io.ErrClosedPipe)) // documented to return nil
	got := <-packed
	switch {
	case got.err != nil && (err == nil || vm.KindOf(got.err) == vm.Invalid || vm.KindOf(got.err) == vm.Limit):
		return got.err
	case err != nil:
		return err
	}
	return s.root(copyScript, map[string]string{
		"stage": stage, "dest": s.absolute(one.arg(1)), "owner": cmp.Or(one.arg(2), s.def.User), "mode": one.arg(3), "one": got.single,
	})
}

// start runs the start command, and waits until the ready command succeeds.
func (s *stepper) start(plan *buildPlan) error {
	if plan.Start == "" && plan.Ready == "" {
		return nil
	}
	var started vm.Process
	if plan.Start != "" {
		s.say("info", "running the start command")
		spec := s.spec(plan.Start, s.def.User)
		p, err := s.d.Inside.StartProcess(s.ctx, s.call, string(s.rec.ID), spec)
		if err != nil {
			return err
		}
		started = p
	}
	patience := readyTime
	if plan.Ready == "" {
		patience = startGrace
	}
	ctx, cancel := context.WithTimeoutCause(s.ctx, patience, vm.Errorf(vm.Timeout, "", "the ready command did not succeed within %v", patience))
	defer cancel()
	for {
		if plan.Ready != "" {
			err := s.ready(ctx, plan.Ready)
			if err == nil {
				return nil
			}
			if vm.KindOf(err) != vm.GuestFault && ctx.Err() == nil {
				return err
			}
		}
		if err := s.failed(started.ID); err != nil {
			return err
		}
		timer := time.NewTimer(readyEvery)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			if plan.Ready == "" && s.ctx.Err() == nil {
				return nil
			}
			return context.Cause(ctx)
		}
	}
}

// ready runs the ready command once.
func (s *stepper) ready(ctx context.Context, command string) error {
	one := *s
	one.ctx = ctx
	return one.exec(one.spec(command, s.def.User), io.Discard)
}

// failed returns an error if the start command ended with a failure.
func (s *stepper) failed(process string) error {
	if process == "" {
		return nil
	}
	p, err := s.d.Inside.Process(s.ctx, s.call, string(s.rec.ID), process)
	if err != nil {
		return err
	}
	if p.ExitCode == nil || *p.ExitCode == 0 {
		return nil
	}
	lines := &lineLog{say: func(text string) { s.say("info", text) }}
	if body, _, err := s.d.Inside.ProcessLog(s.ctx, s.call, string(s.rec.ID), "", process, 0, false); err == nil {
		_, _ = io.Copy(lines, io.LimitReader(body, maxLogBytes)) // the end is said in every case
		_ = body.Close()
		lines.flush()
	}
	return vm.Errorf(vm.GuestFault, "", "the start command failed with exit status %d: %s", *p.ExitCode, vm.Clip(lines.last, 500))
}

// publish makes a snapshot of the VM, which is the template from now on.
func (s *stepper) publish() error {
	s.say("info", "saving the template")
	t := &vm.Template{Name: s.b.name, Build: s.b.id, Defaults: s.def}
	now := time.Now()
	for _, tag := range s.b.tags {
		t.Tags = append(t.Tags, vm.TemplateTag{Name: tag, At: now})
	}
	taken, err := s.d.Engine.Snapshot(s.ctx, s.call, string(s.rec.ID), engine.SnapshotRequest{Note: "template " + s.b.name, Template: t})
	if err != nil {
		return err
	}
	// From here on sandboxes are made of it.
	builds, err := s.d.built(s.ctx, s.call, s.b.name)
	if err == nil {
		err = s.d.settle(s.ctx, s.call, builds, taken.Generation, t.Tags)
	}
	if err != nil {
		s.d.Log.Warn("an older build of a template was not removed: the new one is used", "template", s.b.name, "err", err)
	}
	return nil
}
