// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package job_test

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/job"
	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/vm"
)

// TestStoppingIsNotErasing: what remains of a stopped VM is listed, each kind of it, and
// what remains of it once it is removed. An object that was removed is listed no more.
//
// 003-42
func TestStoppingIsNotErasing(t *testing.T) {
	_, e, c := site(t)
	ctx := t.Context()
	v := create(t, e, c, engine.CreateRequest{Name: "box"})
	sh(t, e, c, "box", "echo report > /work/report")
	snapshotOf(t, e, c, "box", "kept")
	if _, err := e.Fork(ctx, c, "box", engine.ForkRequest{Count: 1, Prefix: "try"}); err != nil {
		t.Fatal(err)
	}
	newVolume(t, e, c, "data")
	unlock(t, e, c, "data")
	mount(t, e, c, "box", "data", "/data")
	_, out, err := e.OpenFile(ctx, c, "box", "", "/work/report")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	_ = out.Close()
	store := e.Rooms.Objects
	if _, err := store.CreateBucket(ctx, c, "results"); err != nil {
		t.Fatal(err)
	}
	published, err := e.Rooms.Ship.Publish(ctx, c, "box", vm.PublishRequest{Path: "/work/report", Bucket: "results", Key: "report"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Grant(ctx, c, "results", vm.ObjectGrant{VM: v.ID, Access: vm.ObjectWrite}); err != nil {
		t.Fatal(err)
	}
	inside := &vm.Call{Actor: vm.Actor{Account: c.Actor.Account, VM: v.ID}, Request: vm.NewRequestID()}
	odd := "by the VM" + strings.Repeat("/long", 60)
	if _, err := store.Put(ctx, inside, objects.PutRequest{Bucket: "results", Key: odd, Size: 2}, strings.NewReader("ok")); err != nil {
		t.Fatal(err)
	}
	done(t, e, c, "box", job.DoneRequest{Retention: vm.RetainStop, Ship: &vm.ObjectRef{Bucket: "results", Key: "logs"}})

	left, err := e.Remains(ctx, c, "box")
	if err != nil {
		t.Fatal(err)
	}
	if left.State != vm.Stopped || left.DiskBytes == 0 || left.LogBytes == 0 {
		t.Errorf("of the stopped VM %+v remain, want its disk and its logs", left)
	}
	// What a fork needs has its size once it is durable, which takes a task of the engine.
	for end := time.Now().Add(10 * time.Second); left.OtherBytes == 0 && time.Now().Before(end); <-time.After(5 * time.Millisecond) {
		if left, err = e.Remains(ctx, c, "box"); err != nil {
			t.Fatal(err)
		}
	}
	if left.OtherBytes == 0 {
		t.Error("no captured generations are listed, though a fork needs one")
	}
	if len(left.Volumes) != 1 || left.Volumes[0].Name != "data" {
		t.Errorf("the volumes %+v are listed, want data", left.Volumes)
	}
	if len(left.Snapshots) != 1 || len(left.Forks) != 1 {
		t.Errorf("%d snapshots and %d forks are listed, want one each", len(left.Snapshots), len(left.Forks))
	}
	if !slices.ContainsFunc(left.Copies, func(o vm.Copy) bool { return o.Path == "/work/report" && o.To == "" }) {
		t.Errorf("the copies %+v are listed, want that of the report", left.Copies)
	}
	if len(left.Receipts) < 5 {
		t.Errorf("%d audit records are listed, want one for each action", len(left.Receipts))
	}
	stored := func(left vm.Remaining) (keys []string) {
		for _, o := range left.Artifacts {
			keys = append(keys, o.Key)
		}
		return keys
	}
	prefix := "logs/box-" + string(v.ID) + "/"
	for _, want := range []string{"report", odd, prefix + "logs/console.log", prefix + "record.json"} {
		if !slices.Contains(stored(left), want) {
			t.Errorf("the artifacts %q are listed, want %q", stored(left), want)
		}
	}
	i := slices.IndexFunc(left.Artifacts, func(o vm.Artifact) bool { return o.Key == "report" })
	if got := left.Artifacts[i]; got.Version != published.Object.Version || got.SHA256 != published.Object.SHA256 || got.Path != "/work/report" || got.Receipt == "" {
		t.Errorf("the published artifact is listed as %+v, want its version, digest, path and receipt", got)
	}

	i = slices.IndexFunc(left.Artifacts, func(o vm.Artifact) bool { return o.Key == odd })
	if _, err := store.Remove(ctx, c, objects.RemoveRequest{Bucket: "results", Key: odd, Version: left.Artifacts[i].Version}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Delete(ctx, c, "box"); err != nil {
		t.Fatal(err)
	}
	after, err := e.Remains(ctx, c, string(v.ID))
	if err != nil {
		t.Fatal(err)
	}
	if after.State != "" || len(after.Volumes) != 1 || len(after.Snapshots) != 1 || len(after.Forks) != 1 || len(after.Copies) != len(left.Copies) || len(after.Receipts) <= len(left.Receipts) {
		t.Errorf("of the removed VM %+v remain, want all that was listed but its disk and logs", after)
	}
	if !slices.Contains(stored(after), "report") {
		t.Errorf("of the removed VM the artifacts %q are listed, want the report", stored(after))
	}
	if slices.Contains(stored(after), odd) {
		t.Errorf("the artifacts %q are listed, also one that was removed", stored(after))
	}
}
