// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package job_test

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/job"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

func done(t *testing.T, e *vmtest.House, c *vm.Call, ref string, r job.DoneRequest) vm.Job {
	t.Helper()
	j, err := e.Done(t.Context(), c, ref, r)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// steps renders a job's steps: name=state.
func steps(j vm.Job) string {
	var out []string
	for _, s := range j.Steps {
		out = append(out, s.Step+"="+string(s.State))
	}
	return strings.Join(out, " ")
}

// TestDone goes through the list in two parts: what the first leaves open the
// second closes, and what people have seen to stays so.
//
// 003-32, 003-35, 003-38, 003-39, 003-40, 003-41
func TestDone(t *testing.T) {
	s, e, c := site(t)
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	sh(t, e, c, "box", "echo hi > /work/result")
	_, out, err := e.OpenFile(t.Context(), c, "box", "", "/work/result")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	_ = out.Close()
	first, second := snapshotOf(t, e, c, "box", "first"), snapshotOf(t, e, c, "box", "second")
	i, err := e.CreateIdentity(t.Context(), c, "ci")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.GrantVM(t.Context(), c, string(i.ID), "box", nil); err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.CreateToken(t.Context(), c, string(i.ID), access.TokenRequest{}); err != nil {
		t.Fatal(err)
	}
	j := done(t, e, c, "box", job.DoneRequest{})
	if want := "compute=open volumes=none mounts=none snapshots=open credentials=open receipts=done logs=open remains=done"; steps(j) != want || j.Complete {
		t.Errorf("nothing decided: %s", steps(j))
	}
	if stateOf(t, e, c, "box") != vm.Running {
		t.Error("it did what nobody had decided")
	}
	j = done(t, e, c, "box", job.DoneRequest{Label: "TICKET-7", Retention: vm.RetainSuspend, DropSnapshots: []vm.SnapshotID{first}, RevokeTokens: true, LogsReviewed: true})
	if want := "compute=done volumes=none mounts=none snapshots=open credentials=open receipts=done logs=done remains=done"; steps(j) != want {
		t.Errorf("half of it: %s", steps(j))
	}
	if l, err := e.Tokens(t.Context(), c, "ci"); err != nil || len(l) != 0 {
		t.Errorf("tokens: %v %v", l, err)
	}
	if l := j.Remains.Snapshots; len(l) != 1 || l[0].ID != second {
		t.Errorf("the snapshots %+v remain, want %s", l, second)
	}
	if j.Remains.MemoryBytes == 0 {
		t.Error("no memory remains of a suspended VM")
	}
	if l := j.Remains.Copies; len(l) != 1 || l[0].Path != "/work/result" || l[0].SHA256 != "98ea6e4f216f2fb4b69fff9b3a44842c38686ca685f3f55dc48c5d3fb1107be4" {
		t.Errorf("the copies %+v remain, want that of /work/result with the digest of hi", l)
	}
	j = done(t, e, c, "box", job.DoneRequest{KeepSnapshots: true, Rotated: true})
	if !j.Complete || j.Label != "TICKET-7" || j.Retention != vm.RetainSuspend {
		t.Errorf("all of it: %s, %+v", steps(j), j)
	}
	for _, r := range records(t, s) {
		if r.VM == v.ID && !slices.Contains(j.Remains.Receipts, r.ID) {
			t.Errorf("the record %s of %s is not in the job's", r.ID, r.Op)
		}
	}
	if _, err := e.Start(t.Context(), c, "box", engine.StartRequest{}); err != nil {
		t.Fatal(err)
	}
	if j = done(t, e, c, "box", job.DoneRequest{}); j.Complete || !strings.Contains(steps(j), "logs=open") || !strings.Contains(steps(j), "credentials=open") {
		t.Errorf("used again: %s", steps(j))
	}
	j = done(t, e, c, "box", job.DoneRequest{Retention: vm.RetainNothing, DropSnapshots: []vm.SnapshotID{second}})
	if !strings.HasPrefix(steps(j), "compute=done") || !strings.Contains(steps(j), "logs=none") || j.Remains.State != "" || len(j.Remains.Snapshots) != 0 {
		t.Errorf("destroyed: %s %+v", steps(j), j.Remains)
	}
	closeEngine(t, e)
	e, c = open(t, s)
	if j = done(t, e, c, string(v.ID), job.DoneRequest{Rotated: true}); !j.Complete || j.Name != "box" {
		t.Errorf("by the id of what is gone: %s %+v", steps(j), j)
	}
	if l, err := e.Jobs(t.Context(), c); err != nil || len(l) != 1 || l[0].VM != v.ID || !l[0].Complete {
		t.Errorf("the jobs are %+v (%v), want the VM's, complete", l, err)
	}
}

// TestDoneStopsWhatSleeps: a VM whose job ends in a stop has no memory left,
// also where it was suspended.
//
// 003-32
func TestDoneStopsWhatSleeps(t *testing.T) {
	_, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	if _, err := e.Suspend(t.Context(), c, "box", engine.SuspendRequest{}); err != nil {
		t.Fatal(err)
	}
	if j := done(t, e, c, "box", job.DoneRequest{Retention: vm.RetainStop}); j.Remains.State != vm.Stopped {
		t.Errorf("it is %s", j.Remains.State)
	}
}

// TestDoneRefused: what cannot be done is refused before anything is.
func TestDoneRefused(t *testing.T) {
	_, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "box"})
	create(t, e, c, engine.CreateRequest{Name: "other"})
	theirs := snapshotOf(t, e, c, "other", "theirs")
	for name, r := range map[string]job.DoneRequest{
		"retention": {Retention: "burn"},
		"label":     {Label: strings.Repeat("x", 300), Retention: vm.RetainNothing},
		"another's": {DropSnapshots: []vm.SnapshotID{theirs}, Retention: vm.RetainNothing},
	} {
		if _, err := e.Done(t.Context(), c, "box", r); vm.KindOf(err) != vm.Invalid {
			t.Errorf("the request %q gives %v, want it invalid", name, err)
		}
	}
	if _, err := e.Done(t.Context(), c, "box", job.DoneRequest{DropSnapshots: []vm.SnapshotID{"sc-nothing"}}); vm.KindOf(err) != vm.NotFound {
		t.Errorf("no such snapshot: %v", err)
	}
	if _, err := e.Done(t.Context(), c, "nobody", job.DoneRequest{}); vm.KindOf(err) != vm.NotFound {
		t.Errorf("no such VM: %v", err)
	}
	identity := &vm.Call{Actor: vm.Actor{Account: c.Actor.Account, Identity: "i"}}
	if _, err := e.Done(t.Context(), identity, "box", job.DoneRequest{}); vm.KindOf(err) != vm.Denied {
		t.Errorf("an identity: %v", err)
	}
	if stateOf(t, e, c, "box") != vm.Running {
		t.Error("a refused request did something")
	}
}

// TestRemains: forks, their forks and snapshots outlive the VM that they come
// from, and are found by its id.
func TestRemains(t *testing.T) {
	_, e, c := site(t)
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	snapshotOf(t, e, c, "box", "kept")
	for from, name := range map[string]string{"box": "a"} {
		if _, err := e.Fork(t.Context(), c, from, engine.ForkRequest{Prefix: name}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Fork(t.Context(), c, "a-1", engine.ForkRequest{Prefix: "b"}); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"box", string(v.ID)} {
		r, err := e.Remains(t.Context(), c, ref)
		if err != nil || len(r.Snapshots) != 1 {
			t.Errorf("the snapshots %+v of %s remain (%v), want one", r.Snapshots, ref, err)
		}
		if len(r.Forks) != 2 || r.Forks[0].Name != "a-1" || r.Forks[1].Name != "b-1" {
			t.Errorf("the forks %+v of %s remain, want a-1 and b-1", r.Forks, ref)
		}
		if len(r.Receipts) < 3 {
			t.Errorf("the receipts %v of %s remain, want 3 or more", r.Receipts, ref)
		}
		if _, err := e.Delete(t.Context(), c, "box"); ref == "box" && err != nil {
			t.Fatal(err)
		}
	}
	if _, err := e.Remains(t.Context(), c, string(vm.NewID())); vm.KindOf(err) != vm.NotFound {
		t.Errorf("a VM that never was: %v", err)
	}
	other := &vm.Call{Actor: vm.Actor{Account: "another"}}
	if _, err := e.Remains(t.Context(), other, string(v.ID)); vm.KindOf(err) != vm.NotFound {
		t.Errorf("another's: %v", err)
	}
}

// TestDoneVolumes: the volumes and folders that a VM worked in are closed with
// its job, one that another VM works in stays open and is named.
//
// 003-36, 003-37
func TestDoneVolumes(t *testing.T) {
	s, e, c := site(t)
	s.Folders.Put("/srv/plain", false)
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	create(t, e, c, engine.CreateRequest{Name: "other"})
	for _, name := range []string{"work", "left", "shared"} {
		newVolume(t, e, c, name)
		unlock(t, e, c, name)
		mount(t, e, c, "box", name, "/"+name)
	}
	if err := e.Unmount(t.Context(), c, "box", "/left", false); err != nil {
		t.Fatal(err)
	}
	if err := e.Unmount(t.Context(), c, "box", "/shared", false); err != nil {
		t.Fatal(err)
	}
	mount(t, e, c, "other", "shared", "/data")
	if _, err := e.MountFolder(t.Context(), c, "box", engine.FolderRequest{Host: "/srv/plain", Path: "/fixture", Fixture: true}); err != nil {
		t.Fatal(err)
	}
	j := done(t, e, c, "box", job.DoneRequest{})
	if got := steps(j); !strings.Contains(got, "volumes=open mounts=open") || len(j.Remains.Volumes) != 3 || len(j.Remains.Folders) != 1 {
		t.Errorf("nothing decided: %s %+v", got, j.Remains.Volumes)
	}
	j = done(t, e, c, "box", job.DoneRequest{LockVolumes: true})
	if got := steps(j); !strings.Contains(got, "volumes=open mounts=done") || len(j.Remains.Folders) != 0 {
		t.Errorf("unmounted: %s %+v", got, j.Remains.Folders)
	}
	j = done(t, e, c, "box", job.DoneRequest{LockVolumes: true, Retention: vm.RetainNothing})
	if got := steps(j); !strings.Contains(got, "volumes=open mounts=done") || !strings.Contains(fmt.Sprint(j.Steps), "default/shared (in use by other)") {
		t.Errorf("one is in use: %+v", j.Steps)
	}
	volumeIs(t, e, c, "work", false, 0)
	volumeIs(t, e, c, "left", false, 0)
	volumeIs(t, e, c, "shared", true, 1)
	if _, err := e.Delete(t.Context(), c, "other"); err != nil {
		t.Fatal(err)
	}
	if j = done(t, e, c, string(v.ID), job.DoneRequest{LockVolumes: true}); !strings.Contains(steps(j), "volumes=done mounts=done") {
		t.Errorf("of a VM that is gone: %+v", j.Steps)
	}
}

// TestLargeJob: a job's record has an ordinary size, however much was copied out of its
// VM, and says what was left out.
func TestLargeJob(t *testing.T) {
	s, e, c := site(t)
	ctx := t.Context()
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	for i := range 400 {
		id, err := s.Audit.Begin(ctx, vm.AuditEntry{Op: vm.OpRead, VM: v.ID, Actor: c.Actor, Subject: fmt.Sprintf("/%d/%s", i, strings.Repeat("\x01", 900))})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Audit.End(id, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	j, err := e.Done(ctx, c, "box", job.DoneRequest{Label: "LARGE"})
	if err != nil {
		t.Fatal(err)
	}
	stored, err := vmtest.Stored[vm.Job](s.Backend, "jobs")
	if err != nil || len(stored) != 1 {
		t.Fatalf("%d jobs are stored, %v", len(stored), err)
	}
	data, err := json.Marshal(stored[0])
	if err != nil {
		t.Fatal(err)
	}
	if len(data) > ledger.MaxRecord {
		t.Errorf("the record has %d bytes", len(data))
	}
	left := j.Remains
	if len(left.Copies) == 0 || left.Omitted["copies"] != 400-len(left.Copies) || !strings.HasPrefix(left.Copies[0].Path, "/399/") {
		t.Errorf("%d copies, omitted %v, the first %.20q", len(left.Copies), left.Omitted, left.Copies[0].Path)
	}
	if now, err := e.Remains(ctx, c, "box"); err != nil || len(now.Copies) != 400 {
		t.Errorf("what remains itself: %d, %v", len(now.Copies), err)
	}
	if j.Ended.After(time.Now()) {
		t.Errorf("the job ended at %v, which is to come", j.Ended)
	}
}

// TestDoneShips: done stores the console's log, the logs of commands, the record and the
// audit records before the VM goes, and lists them with their digests.
//
// 001-21
func TestDoneShips(t *testing.T) {
	_, e, c := site(t)
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	to := &vm.ObjectRef{Bucket: "archive", Key: "jobs"}
	if _, err := e.Done(t.Context(), c, "box", job.DoneRequest{Ship: to, Retention: vm.RetainNothing}); vm.KindOf(err) != vm.NotFound {
		t.Fatalf("done into no bucket ends with %v, want kind %s", err, vm.NotFound)
	}
	if stateOf(t, e, c, "box") != vm.Running {
		t.Fatal("done into no bucket has ended the VM")
	}
	if _, err := e.Rooms.Objects.CreateBucket(t.Context(), c, "archive"); err != nil {
		t.Fatal(err)
	}
	p, err := e.StartProcess(t.Context(), c, "box", vm.ExecSpec{Command: "echo step one"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.WaitProcess(t.Context(), c, "box", p.ID); err != nil {
		t.Fatal(err)
	}
	j := done(t, e, c, "box", job.DoneRequest{Ship: to, Retention: vm.RetainNothing, Rotated: true, LogsReviewed: true, RevokeTokens: true})
	if !strings.Contains(steps(j), "logs=done shipped=done") || !j.Complete {
		t.Errorf("the steps are %s, want logs and record stored", steps(j))
	}
	texts := map[string]string{}
	for _, s := range j.Shipped {
		content, err := e.Rooms.Objects.Get(t.Context(), c, objects.Which{Bucket: s.Bucket, Key: s.Key, Version: s.Version})
		if err != nil {
			t.Fatal(err)
		}
		if content.SHA256 != s.SHA256 || content.Size != s.Size || s.Key != "jobs/box-"+string(v.ID)+"/"+s.What {
			t.Errorf("%+v is stored as %+v", s, content.Object)
		}
		r, err := content.Range(t.Context(), 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Close()
		texts[s.What] = string(data)
	}
	if len(j.Shipped) != 4 || texts["logs/"+p.ID+".log"] != "step one\n" || !strings.Contains(texts["receipts.jsonl"], `"delete"`) {
		t.Errorf("stored are %+v: %q, want console, the command's log, record and audit records up to the deletion", j.Shipped, texts)
	}
	var record vm.Job
	if err := json.Unmarshal([]byte(texts["record.json"]), &record); err != nil || record.Retention != vm.RetainNothing || len(record.Steps) == 0 {
		t.Errorf("the stored record is %+v (%v), want what was decided", record, err)
	}
	if again := done(t, e, c, string(v.ID), job.DoneRequest{}); !strings.Contains(steps(again), "shipped=done") || len(again.Shipped) != 4 {
		t.Errorf("a later request has the steps %s, want the stored objects still named", steps(again))
	}
}
