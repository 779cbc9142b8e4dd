// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/internal/spec"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

func yes() *bool { b := true; return &b }

// command is a layer as the SDK's runCommands makes it.
func command(name, script string) spec.Layer {
	file := "/opt/scripts/" + name + ".sh"
	return spec.Layer{
		Files: []spec.File{{Path: file, Content: []byte("#!/bin/bash\n" + script)}},
		Units: []vm.Unit{{Name: name, Mode: vm.UnitOneshot, DeleteAfterSuccess: yes(), Exec: []string{"/bin/bash " + file}}},
	}
}

func content(t *testing.T, e *vmtest.House, c *vm.Call, ref, path string) string {
	t.Helper()
	_, r, err := e.OpenFile(t.Context(), c, ref, "", path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var b strings.Builder
	buf := make([]byte, 1024)
	for {
		n, err := r.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			return b.String()
		}
	}
}

// layersOf are the generations of layers, oldest first.
func layersOf(t *testing.T, e *vmtest.House, c *vm.Call) []vm.Generation {
	t.Helper()
	all, err := e.Snapshots(t.Context(), c, true)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(g vm.Generation) bool { return g.Why != vm.WhyLayer })
}

// TestLayersAreMadeOnce: inner layers become generations on which the next VM of the same
// spec starts. The outermost layer is carried out in each VM.
func TestLayersAreMadeOnce(t *testing.T) {
	s, e, c := site(t)
	layers := []spec.Layer{command("one", "echo 1 >> /root/log"), command("two", "echo 2 >> /root/log"), command("three", "echo 3 >> /root/log")}
	a := create(t, e, c, engine.CreateRequest{Name: "a", Layers: layers})
	if got := content(t, e, c, "a", "/root/log"); got != "1\n2\n3\n" {
		t.Errorf("the layers left %q", got)
	}
	if made := layersOf(t, e, c); len(made) != 2 || !made[0].Durable || made[0].Key == "" || made[1].Parent != made[0].ID {
		t.Fatalf("layers %+v", made)
	}
	if len(s.World.Running()) != 1 {
		t.Errorf("VMs that run: %v", s.World.Running())
	}
	launched := s.World.Launches()
	b := create(t, e, c, engine.CreateRequest{Name: "b", Layers: layers})
	if got := content(t, e, c, "b", "/root/log"); got != "1\n2\n3\n" {
		t.Errorf("the second VM has %q", got)
	}
	if n := s.World.Launches() - launched; n != 1 {
		t.Errorf("%d machines were started for the second VM, not one", n)
	}
	if a.Build == "" || b.Build == a.Build || b.Generation != layersOf(t, e, c)[1].ID || b.Parent != "" {
		t.Errorf("builds %q and %q, the second VM on %q", a.Build, b.Build, b.Generation)
	}
	first, err := e.BuildOf(t.Context(), c, "a")
	if err != nil || first.State != vm.BuildSucceeded || first.VM != a.ID || first.EndedAt.IsZero() {
		t.Errorf("build %+v, %v", first, err)
	}
	var names []string
	second, err := e.Build(t.Context(), c, b.Build)
	for _, p := range second.Phases {
		names = append(names, p.Name)
	}
	if err != nil || !slices.Equal(names, []string{"layer-2", "start", "setup"}) || !second.Phases[0].Cached || second.Key != first.Key {
		t.Errorf("phases %v of %+v, %v", names, second, err)
	}
	if !slices.Equal(first.Planned, []string{"layer-1", "layer-2", "start", "setup"}) {
		t.Errorf("planned %v", first.Planned)
	}
	// A changed inner layer and the layers above it are made again; the layers below are
	// reused.
	layers[1] = command("two", "echo two >> /root/log")
	create(t, e, c, engine.CreateRequest{Name: "c", Layers: layers})
	if got := content(t, e, c, "c", "/root/log"); got != "1\ntwo\n3\n" || len(layersOf(t, e, c)) != 3 {
		t.Errorf("after a change: %q, %d layers", got, len(layersOf(t, e, c)))
	}
	layers[1].SkipCache = true
	create(t, e, c, engine.CreateRequest{Name: "d", Layers: layers})
	if n := len(layersOf(t, e, c)); n != 4 {
		t.Errorf("skipCache: %d layers", n)
	}
	vms, _, _, err := e.List(t.Context(), c, engine.Filter{})
	if err != nil || len(vms) != 4 {
		t.Errorf("%d VMs are listed: %v", len(vms), err)
	}
}

// TestLayerIsMadeOnceForAll: concurrent creates of one spec share a layer being made. One
// that goes away does not end it for the others.
func TestLayerIsMadeOnceForAll(t *testing.T) {
	s, e, c := site(t)
	layers := []spec.Layer{command("slow", "sleep 0.3\necho 1 > /root/f"), {}}
	gone, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		call := *c
		_, err := e.Create(gone, &call, engine.CreateRequest{Name: "gone", Layers: layers})
		if vm.KindOf(err) != vm.Cancelled {
			t.Errorf("the one that went away: %v", err)
		}
	})
	time.Sleep(50 * time.Millisecond)
	for _, name := range []string{"a", "b", "c"} {
		wg.Go(func() {
			call := *c
			if _, err := e.Create(t.Context(), &call, engine.CreateRequest{Name: name, Layers: layers}); err != nil {
				t.Error(err)
			}
		})
	}
	time.Sleep(50 * time.Millisecond)
	cancel()
	wg.Wait()
	if n := s.World.Launches(); n != 4 {
		t.Errorf("%d machines for one layer and three VMs", n)
	}
	if n := len(layersOf(t, e, c)); n != 1 {
		t.Errorf("%d layers", n)
	}
}

// TestSetupFailure: a failing unit fails the create with the unit's log. No VM and no
// layer is left, and the build's record has the reason.
func TestSetupFailure(t *testing.T) {
	for name, layers := range map[string][]spec.Layer{
		"outermost": {command("bad", "echo it is broken\nexit 3")},
		"inner":     {command("bad", "echo it is broken\nexit 3"), {}},
	} {
		t.Run(name, func(t *testing.T) {
			s, e, c := site(t)
			_, err := e.Create(t.Context(), c, engine.CreateRequest{Name: "box", Layers: layers})
			wantCode(t, err, vm.GuestFault, "VM_SETUP_FAILED")
			var ve *vm.Error
			if !errors.As(err, &ve) {
				t.Fatalf("the create failed with %v, want a *vm.Error", err)
			}
			d, ok := ve.Fields["diagnostics"].(spec.Diagnostics)
			if !ok || len(d.ServiceStates) != 1 || d.ServiceStates[0].ActiveState != "failed" || len(d.FailedServiceLogs) != 1 ||
				d.FailedServiceLogs[0].UnitName != "bad.service" || d.FailedServiceLogs[0].Log != "it is broken" {
				t.Errorf("diagnostics %+v", ve.Fields["diagnostics"])
			}
			if reason, _ := ve.Fields["failedReason"].(string); !strings.Contains(reason, "bad.service") {
				t.Errorf("failedReason %q", reason)
			}
			if running, made := s.World.Running(), layersOf(t, e, c); len(running) != 0 || len(made) != 0 {
				t.Errorf("left: VMs %v, layers %+v", running, made)
			}
		})
	}
}

// TestBuildSnapshot: a snapshot is made from a spec. Making it again reuses all layers,
// and VMs start on it.
func TestBuildSnapshot(t *testing.T) {
	s, e, c := site(t)
	from := engine.CreateRequest{Layers: []spec.Layer{command("one", "echo 1 > /root/f")}}
	g, err := e.BuildSnapshot(t.Context(), c, from, engine.SnapshotRequest{Name: "base-env"})
	if err != nil || g.Snapshot == "" || g.Name != "base-env" || g.State != vm.GenReady {
		t.Fatalf("the built snapshot is %+v (%v), want base-env, ready", g, err)
	}
	create(t, e, c, engine.CreateRequest{Name: "box", Image: string(g.Snapshot)})
	if got := content(t, e, c, "box", "/root/f"); got != "1\n" {
		t.Errorf("a VM of it has %q", got)
	}
	n := s.World.Launches()
	again, err := e.BuildSnapshot(t.Context(), c, from, engine.SnapshotRequest{Name: "again"})
	if err != nil || again.ID == g.ID || s.World.Launches() != n {
		t.Errorf("again: %+v, %v, %d machines", again, err, s.World.Launches()-n)
	}
	_, err = e.BuildSnapshot(t.Context(), c, from, engine.SnapshotRequest{Name: "again"})
	wantCode(t, err, vm.Exists, "SNAPSHOT_VM_BAD_REQUEST")
}

// TestSetupNetwork: packages come from the registries although the VM's policy blocks
// them before and after. The error for a blocked repository names it.
func TestSetupNetwork(t *testing.T) {
	s, e, c := site(t)
	v := create(t, e, c, engine.CreateRequest{Name: "box", Network: "closed", Layers: []spec.Layer{{Apt: []string{"jq"}}}})
	if got := content(t, e, c, "box", "/var/lib/apt-get"); !strings.HasSuffix(got, " jq") {
		t.Errorf("apt-get was run with %q", got)
	}
	if p := s.World.Policy(v.ID); p.Mode != vm.NetClosed {
		t.Errorf("afterwards the policy is %s", p.Mode)
	}
	_, err := e.Create(t.Context(), c, engine.CreateRequest{Network: "closed", Layers: []spec.Layer{{Repos: []spec.Repo{{URL: "https://me:secret@git.example/r", Path: "/r"}}}}})
	wantCode(t, err, vm.GuestFault, "VM_SETUP_FAILED")
	text := err.Error()
	if !strings.Contains(text, "git.example is not reachable") {
		t.Errorf("the failure does not name the host that is out of reach: %s", text)
	}
	if strings.Contains(text, "secret") {
		t.Errorf("the failure shows the password: %s", text)
	}
}

// TestCreateRepos: a create grants the VM the repositories of the server that it clones,
// which needs no open network, and a fork has its parent's.
func TestCreateRepos(t *testing.T) {
	_, e, c := site(t)
	app, err := e.Repo.Create(t.Context(), c, repo.CreateRequest{Name: "app"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = e.Create(t.Context(), c, engine.CreateRequest{Layers: []spec.Layer{{Repos: []spec.Repo{{URL: "nope"}}}}})
	wantCode(t, err, vm.NotFound, "CREATE_VM_BAD_REQUEST")
	for _, url := range []string{"app", app.ID, "https://git.warren.internal/app", "https://git.warren.internal/app.git"} {
		v := create(t, e, c, engine.CreateRequest{Network: "closed", Layers: []spec.Layer{{Repos: []spec.Repo{{URL: url, Path: "/work/app"}, {URL: "app", Path: "/again"}}}}})
		if len(v.Repos) != 1 || v.Repos[0].Repo != app.ID || v.Repos[0].Access != vm.GitWrite {
			t.Errorf("a create that clones %s twice grants %+v, want to write to %s once", url, v.Repos, app.ID)
		}
		forked, err := e.Fork(t.Context(), c, string(v.ID), engine.ForkRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if got := forked.Children[0].Repos; len(got) != 1 || got[0].Repo != app.ID {
			t.Errorf("a fork has the repositories %+v, want its parent's", got)
		}
	}
}

// TestSetUpTurn: a VM that its spec set up has a turn of that state, which a review starts
// from; a plain VM and a one-shot run have none.
func TestSetUpTurn(t *testing.T) {
	_, e, c := site(t)
	layers := []spec.Layer{{Files: []spec.File{{Path: "/etc/one", Content: []byte("1")}}}}
	create(t, e, c, engine.CreateRequest{Name: "box", Layers: layers})
	list := turns(t, e, c)
	if len(list) != 1 || list[0].Turn != 1 || list[0].Note != "set up" || list[0].Memory {
		t.Errorf("the turns of a VM that was set up are %+v, want number 1 without memory", list)
	}
	if next := mark(t, e, c, "the first try"); next.Number != 2 {
		t.Errorf("the next turn has number %d, want 2", next.Number)
	}
	for what, r := range map[string]engine.CreateRequest{"a VM that was not set up": {}, "a one-shot run": {Layers: layers, OneShot: true}} {
		v := create(t, e, c, r)
		_, list, err := e.TurnGenerations(t.Context(), c, string(v.ID))
		if err != nil || len(list) != 0 {
			t.Errorf("the turns of %s are %+v (%v), want none", what, list, err)
		}
	}
}

// TestReadySignal: a service that does not become ready in time fails the create, unless
// the request does not wait.
func TestReadySignal(t *testing.T) {
	_, e, c := site(t)
	layer := command("slow", "sleep 5")
	layer.Units[0].ReadySignal = yes()
	begun := time.Now()
	_, err := e.Create(t.Context(), c, engine.CreateRequest{Layers: []spec.Layer{layer}, Deadline: 200 * time.Millisecond})
	wantCode(t, err, vm.Timeout, "VM_START_TIMEOUT")
	if d := time.Since(begun); d > 3*time.Second {
		t.Errorf("it took %v", d)
	}
}

// TestBuildOfADeadServer: a build that the server did not finish counts as failed for the
// next server.
func TestBuildOfADeadServer(t *testing.T) {
	s, e, c := site(t)
	v := create(t, e, c, engine.CreateRequest{Name: "box", Layers: []spec.Layer{command("one", "true")}})
	b, err := e.Build(t.Context(), c, v.Build)
	if err != nil {
		t.Fatal(err)
	}
	b.State = vm.BuildRunning
	if err := e.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := vmtest.Put(s.Backend, "builds", string(b.ID), b); err != nil {
		t.Fatal(err)
	}
	e, err = s.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	if b, err = e.Build(t.Context(), c, v.Build); err != nil || b.State != vm.BuildFailed || b.Failure == "" {
		t.Errorf("the build that the engine's end cut short is %+v (%v), want it failed, with why", b, err)
	}
	_, err = e.Build(t.Context(), c, "bld-none")
	wantCode(t, err, vm.NotFound, "BUILD_NOT_FOUND")
}

// TestLayersAreForgotten: a layer that was unused for a month, or was replaced, is
// removed; a used one stays.
func TestLayersAreForgotten(t *testing.T) {
	_, e, c, clock := clocked(t)
	layers := []spec.Layer{command("one", "true"), {}}
	made := func(skip bool) {
		t.Helper()
		layers[0].SkipCache = skip
		v := create(t, e, c, engine.CreateRequest{Layers: layers})
		if _, err := e.Delete(t.Context(), c, string(v.ID)); err != nil {
			t.Fatal(err)
		}
	}
	left := func() int {
		t.Helper()
		return len(slices.DeleteFunc(layersOf(t, e, c), func(g vm.Generation) bool { return g.Gone }))
	}
	made(false)
	clock.Advance(time.Hour)
	made(true)
	eventually(t, "the older of two layers goes", func() bool { return left() == 1 })
	clock.Advance(20 * 24 * time.Hour)
	made(false)
	clock.Advance(20 * 24 * time.Hour)
	if other := create(t, e, c, engine.CreateRequest{}); other.ID == "" || left() != 1 {
		t.Errorf("a layer that was used 20 days ago is gone")
	}
	clock.Advance(20 * 24 * time.Hour)
	eventually(t, "a layer that nobody uses goes", func() bool {
		v := create(t, e, c, engine.CreateRequest{})
		if _, err := e.Delete(t.Context(), c, string(v.ID)); err != nil {
			t.Fatal(err)
		}
		return left() == 0
	})
}

// TestDeathWhileALayerIsMade dies at each step of making a layer. The next engine has no
// VM and no partial layer left, makes the spec, and reuses complete layers. While it does
// other work, it completes a layer whose capture was committed.
func TestDeathWhileALayerIsMade(t *testing.T) {
	at := []string{
		"create:audit", "create:record", "create:launch", "create:setup", "create:commit", "create:done", "capture:audit", "capture:record", "capture:files",
		"capture:machine", "capture:commit", "capture:advance", "capture:publish", "delete:audit", "delete:record", "delete:machine", "delete:dir", "delete:forget",
	}
	for _, label := range at {
		t.Run(label, func(t *testing.T) {
			s, err := vmtest.NewSite(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			clock := vmtest.NewClock()
			s.Clock = clock
			hit := false
			s.Fault = faultAt(label, engine.ErrDied, &hit)
			e, c := open(t, s)
			layers := []spec.Layer{command("one", "echo 1 >> /root/f"), {}}
			if _, err := e.Create(t.Context(), c, engine.CreateRequest{Name: "box", Layers: layers}); err == nil || !hit {
				t.Fatalf("no death: %v", err)
			}
			closeEngine(t, e)
			s.Fault = nil
			e, c = open(t, s)
			eventually(t, "the layer's VM goes", func() bool { clock.Advance(time.Minute); return len(s.World.Running()) == 0 })
			eventually(t, "a captured layer is complete", func() bool {
				return !slices.ContainsFunc(layersOf(t, e, c), func(g vm.Generation) bool { return g.State == vm.GenReady && !g.Durable })
			})
			before := s.World.Launches()
			create(t, e, c, engine.CreateRequest{Name: "box", Layers: layers})
			if got := content(t, e, c, "box", "/root/f"); got != "1\n" {
				t.Errorf("the VM has %q", got)
			}
			want := 2
			if label == "capture:publish" || strings.HasPrefix(label, "delete:") {
				want = 1
			}
			if n := s.World.Launches() - before; n != want {
				t.Errorf("%d machines were started, not %d", n, want)
			}
			consistent(t, s)
		})
	}
}
