// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/qmp"
	"github.com/warren-vm/warren/vm"
)

// layered is a machine whose disk is moved again and again, as the engine does it:
// each disk has a second name in the directory of the generation that it was frozen
// into.
type layered struct {
	*Process
	t    *testing.T
	ctx  context.Context
	data string
	disk string // the file that it writes to
	n    int    // how often it was moved
}

// newLayered starts a machine in a data directory.
func newLayered(ctx context.Context, t *testing.T) *layered {
	t.Helper()
	spec := newSpec(t)
	data := layout.Dir(spec.Dir)
	image := filepath.Join(data.Images(), "im", "disk.qcow2")
	spec.Dir = data.VM(spec.ID)
	for _, dir := range []string{filepath.Dir(image), data.Generations(), spec.Dir} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(spec.Disk, image); err != nil {
		t.Fatal(err)
	}
	spec.Disk = data.Overlay(spec.ID)
	l := &layered{t: t, ctx: ctx, data: string(data), disk: spec.Disk}
	l.overlay(spec.Disk, image)
	l.Process = spawn(ctx, t, spec)
	return l
}

func (l *layered) overlay(path, on string) {
	l.t.Helper()
	rel, err := filepath.Rel(filepath.Dir(path), on)
	if err != nil {
		l.t.Fatal(err)
	}
	if err := CreateOverlay(path, rel, 1); err != nil {
		l.t.Fatal(err)
	}
}

// next makes the next disk.
func (l *layered) next() (string, vm.GenerationID) {
	l.t.Helper()
	id := vm.NewGenerationID()
	frozen := layout.GenerationDir(layout.Dir(l.data).Generation(id)).Disk()
	if err := os.Mkdir(filepath.Dir(frozen), 0o700); err != nil {
		l.t.Fatal(err)
	}
	if err := os.Link(l.disk, frozen); err != nil {
		l.t.Fatal(err)
	}
	over := layout.VMDir(l.Spec.Dir).NextOverlay(id)
	l.overlay(over, frozen)
	l.n++
	return over, id
}

// pattern is a place of the disk that only its n-th layer is written at.
func pattern(n int) string { return fmt.Sprintf("-P %d %d 4k", n, (n%15)<<16+(n/15)<<12) }

// move captures the disk, and then has its number written to it, as a guest would.
func (l *layered) move() vm.Captured {
	l.t.Helper()
	over, _ := l.next()
	c, err := l.Capture(l.ctx, vm.CaptureSpec{Overlay: over}, nil)
	if err != nil {
		l.t.Fatalf("capture %d: %v", l.n, err)
	}
	if got, err := l.ActiveDisk(l.ctx); err != nil || got != over {
		l.t.Fatalf("after capture %d the disk is %q, %v", l.n, got, err)
	}
	l.disk = over
	var said string
	if err := l.QMP.Execute(l.ctx, "human-monitor-command", map[string]any{"command-line": `qemu-io -d /machine/peripheral/vda/virtio-backend "write ` + pattern(l.n) + `"`}, &said); err != nil || said != "" {
		l.t.Fatalf("write %d: %v: %s", l.n, err, said)
	}
	return c
}

// depth is how many layers QEMU and the files have below the disk.
func (l *layered) depth() (int, int) {
	l.t.Helper()
	node, err := l.diskNode(l.ctx)
	if err != nil {
		l.t.Fatal(err)
	}
	nodes, err := l.backing(l.ctx, node)
	if err != nil {
		l.t.Fatal(err)
	}
	spec := l.Spec
	spec.Disk = l.disk
	files, err := layersBelow(spec)
	if err != nil {
		l.t.Fatal(err)
	}
	return len(nodes), len(files)
}

// TestManyCaptures: a running machine is captured as often as one likes, also by a
// monitor that has come again, and what its disk holds stays when its layers are
// merged, in part and all.
func TestManyCaptures(t *testing.T) {
	ctx := deadline(t)
	l := newLayered(ctx, t)
	images := layout.Dir(l.data).Images()
	for range 36 {
		l.move()
	}
	l.QMP.Close()
	adopted, err := Adopt(ctx, l.Spec)
	if err != nil {
		t.Fatal(err)
	}
	defer adopted.Abandon()
	l.Process = adopted
	for range 4 {
		l.move()
	}
	if n, files := l.depth(); n != 41 || files != 41 {
		t.Errorf("%d layers, %d files", n, files)
	}
	if err := l.Flatten(ctx, images, true); err != nil {
		t.Fatal(err)
	}
	if n, files := l.depth(); n > 2+keptLayers || files != n {
		t.Errorf("after a merge in part: %d layers, %d files", n, files)
	}
	for range 3 {
		l.move()
	}
	if err := l.Flatten(ctx, images, false); err != nil {
		t.Fatal(err)
	}
	if n, files := l.depth(); n != 1 || files != 1 {
		t.Errorf("after a merge of all: %d layers, %d files", n, files)
	}
	l.move()
	if err := l.Quit(ctx); err != nil {
		t.Fatal(err)
	}
	qemuImg(t, "check", "-q", l.disk)
	for n := 1; n <= l.n; n++ {
		out, err := exec.CommandContext(ctx, "qemu-io", "-c", "read "+pattern(n), l.disk).CombinedOutput()
		if err != nil || strings.Contains(string(out), "verification failed") {
			t.Errorf("what layer %d held: %v: %s", n, err, out)
		}
	}
}

// TestStartOnDeepDisk: a machine starts on a disk that lies as deep as the engine
// lets one lie (mostLayers), also in a directory with a long name.
func TestStartOnDeepDisk(t *testing.T) {
	ctx := deadline(t)
	spec := newSpec(t)
	data := layout.Dir(filepath.Join(spec.Dir, strings.Repeat("long/", 100)))
	l := &layered{t: t, ctx: ctx}
	disk := filepath.Join(data.Images(), "im", "disk.qcow2")
	place := func(path string) string {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if err := os.Rename(spec.Disk, place(disk)); err != nil {
		t.Fatal(err)
	}
	spec.Dir, spec.Disk = data.VM(spec.ID), place(data.Overlay(spec.ID))
	for range 65 { // each was a VM's disk, and has the name of what it lies on from there
		l.overlay(spec.Disk, disk)
		disk = layout.GenerationDir(data.Generation(vm.NewGenerationID())).Disk()
		if err := os.Rename(spec.Disk, place(disk)); err != nil {
			t.Fatal(err)
		}
	}
	l.overlay(spec.Disk, disk)
	spawn(ctx, t, spec)
}

// TestMergeInPart: few layers stay, and none is copied that holds more than all
// above it.
func TestMergeInPart(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		kib  []int // of the layers, the next one first
		want int
	}{
		{nil, 0},
		{[]int{64, 64, 64, 64}, 0},
		{[]int{64, 64, 64, 64, 64, 64}, 6},
		{[]int{64, 64, 64, 1024, 1024, 64}, 3},
		{[]int{64, 64, 2048, 512, 1024, 64}, 2},
		{[]int{4096, 64, 64, 64, 64, 64}, 6},
	} {
		var layers []string
		for i, n := range c.kib {
			path := filepath.Join(dir, fmt.Sprint(i))
			if err := os.WriteFile(path, make([]byte, n<<10), 0o600); err != nil {
				t.Fatal(err)
			}
			layers = append(layers, path)
		}
		if got := mergeTo(layers); got != c.want {
			t.Errorf("%v: merged to %d, want %d", c.kib, got, c.want)
		}
	}
}

// TestDiskOfAnEarlierMonitor: a disk that an earlier version has moved, and named
// otherwise, is known and moved on.
func TestDiskOfAnEarlierMonitor(t *testing.T) {
	ctx := deadline(t)
	l := newLayered(ctx, t)
	for _, node := range []string{"disk1", "disk2"} {
		over, _ := l.next()
		name, err := l.Lend(over)
		if err != nil {
			t.Fatal(err)
		}
		before, err := l.diskNode(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.QMP.Execute(ctx, "blockdev-snapshot-sync", map[string]any{
			"node-name": before, "snapshot-node-name": node, "snapshot-file": name, "format": "qcow2", "mode": "existing",
		}, nil); err != nil {
			t.Fatal(err)
		}
		if got, err := l.ActiveDisk(ctx); err != nil || got != over {
			t.Errorf("the disk of %s is %q (%v), want %q", node, got, err, over)
		}
		l.disk = over
	}
	l.takeBackDisks(l.lentName(l.disk))
	l.move()
	if err := l.Flatten(ctx, layout.Dir(l.data).Images(), false); err != nil {
		t.Error(err)
	}
}

// slow stands between a Process and its QEMU: it holds a command back, once, until
// the next one comes, and calls late meanwhile.
func (l *layered) slow(command string, late func()) {
	l.t.Helper()
	l.QMP.Close()
	far, err := net.Dial("unix", layout.RunVM(l.Spec.RunDir).QMP())
	if err != nil {
		l.t.Fatal(err)
	}
	path := filepath.Join(l.Spec.RunDir, "slow.sock")
	os.Remove(path)
	listener, err := net.Listen("unix", path)
	if err != nil {
		l.t.Fatal(err)
	}
	defer listener.Close()
	conn, err := net.Dial("unix", path)
	if err != nil {
		l.t.Fatal(err)
	}
	near, err := listener.Accept()
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		near.Close()
		far.Close()
	})
	go func() {
		defer far.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := far.Read(buf)
			if err != nil {
				return
			}
			if _, err := near.Write(buf[:n]); err != nil {
				return
			}
		}
	}()
	go func() {
		defer far.Close() // QEMU takes one monitor at a time
		in := bufio.NewReader(near)
		held := ""
		for {
			line, err := in.ReadString('\n')
			if err != nil {
				return
			}
			if late != nil && strings.Contains(line, command) {
				held = line
				late()
				late = nil
				continue
			}
			if _, err := far.Write([]byte(held + line)); err != nil {
				return
			}
			held = ""
		}
	}()
	if l.QMP, err = qmp.New(l.ctx, conn); err != nil {
		l.t.Fatal(err)
	}
}

// TestMoveUnheard: whoever goes away while the disk is moved does not take the file
// away that QEMU is about to use. What became of the move is asked.
func TestMoveUnheard(t *testing.T) {
	ctx := deadline(t)
	l := newLayered(ctx, t)
	l.move()
	t.Run("it moved", func(t *testing.T) {
		cctx, cancel := context.WithCancel(ctx)
		l.slow("blockdev-snapshot-sync", cancel)
		over, _ := l.next()
		if _, err := l.Capture(cctx, vm.CaptureSpec{Overlay: over}, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("the capture: %v", err)
		}
		if got, err := l.ActiveDisk(ctx); err != nil || got != over {
			t.Fatalf("the disk is %q, %v", got, err)
		}
		if !fileExists(l.lentName(over)) || fileExists(l.lentName(l.disk)) {
			t.Error("what is lent is not the disk")
		}
		l.disk = over
		l.move()
	})
	t.Run("it did not", func(t *testing.T) {
		cctx, cancel := context.WithCancel(ctx)
		l.slow("blockdev-snapshot-sync", cancel)
		over, _ := l.next()
		if err := os.WriteFile(over, []byte("not a disk"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Capture(cctx, vm.CaptureSpec{Overlay: over}, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("the capture: %v", err)
		}
		if got, err := l.ActiveDisk(ctx); err != nil || got != l.disk {
			t.Errorf("the disk is %q, %v", got, err)
		}
		if fileExists(l.lentName(over)) || !fileExists(l.lentName(l.disk)) {
			t.Error("what is lent is not the disk")
		}
	})
	if state, err := l.RunState(ctx); err != nil || state != "running" {
		t.Errorf("the machine is %q, %v", state, err)
	}
}

// liar is a QMP server that answers as it is told; an answer that is a function is
// called, and then not given.
func liar(ctx context.Context, t *testing.T, answers map[string]any) *qmp.Client {
	t.Helper()
	near, conn := net.Pipe()
	t.Cleanup(func() { near.Close() })
	go func() {
		fmt.Fprintln(near, `{"QMP": {"version": {"qemu": {"major": 7, "minor": 2, "micro": 0}}}}`)
		in := bufio.NewReader(near)
		for {
			line, err := in.ReadBytes('\n') // all of it is read, and written, then
			var q struct{ Execute, ID string }
			if err != nil || json.Unmarshal(line, &q) != nil {
				return
			}
			answer, ok := answers[q.Execute]
			if !ok {
				answer = struct{}{}
			}
			if f, ok := answer.(func()); ok {
				f()
				continue
			}
			data, _ := json.Marshal(map[string]any{"return": answer, "id": q.ID})
			fmt.Fprintf(near, "%s\n", data)
		}
	}()
	c, err := qmp.New(ctx, conn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestNamesOfATakenQEMU: a QEMU that its guest has taken over names a file of
// another as its disk. None is opened but one of the machine's own directory.
func TestNamesOfATakenQEMU(t *testing.T) {
	ctx := deadline(t)
	foreign := filepath.Join(t.TempDir(), "overlay-sl-0123456789abcdef.qcow2")
	if err := os.WriteFile(foreign, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, node := range []string{"disk1", "disk-" + foreign, "disk-sl-../../../../etc", "disk-sl-0123456789abcdef", ""} {
		spec := vm.MachineSpec{ID: vm.NewID(), Dir: t.TempDir(), RunDir: t.TempDir()}
		spec.Disk = layout.VMDir(spec.Dir).Overlay()
		// A name of the machine's own that leads elsewhere.
		if err := os.Symlink(foreign, filepath.Join(spec.Dir, filepath.Base(foreign))); err != nil {
			t.Fatal(err)
		}
		p := &Process{Spec: spec, exited: make(chan struct{}), QMP: liar(ctx, t, map[string]any{
			"qom-get":                 node,
			"query-block-jobs":        []any{},
			"query-named-block-nodes": []any{map[string]any{"drv": "file", "ro": false, "file": foreign}},
			"query-block":             []any{map[string]any{"inserted": map[string]any{"node-name": node + "x", "image": map[string]any{"filename": foreign}}}},
		})}
		if path, err := p.ActiveDisk(ctx); err == nil && filepath.Dir(path) != spec.Dir {
			t.Errorf("%q: the disk is %s", node, path)
		}
		if err := p.writeBack(ctx, vm.CaptureSpec{Overlay: "x"}); err == nil {
			t.Errorf("%q: another's file was opened", node)
		}
	}
}

// TestPlugUnheard: whoever goes away while a volume is plugged in leaves none of it:
// what QEMU may have done of a command that it has not answered is undone.
func TestPlugUnheard(t *testing.T) {
	for command, undone := range map[string]string{"blockdev-add": "blockdev-del", "device_add": "device_del"} {
		t.Run(command, func(t *testing.T) {
			ctx, cancel := context.WithCancel(deadline(t))
			defer cancel()
			settled := make(chan struct{}, 1)
			spec := vm.MachineSpec{ID: vm.NewID(), Dir: t.TempDir()}
			p := &Process{Spec: spec, exited: make(chan struct{}), QMP: liar(t.Context(), t, map[string]any{
				command: func() { cancel() },
				undone:  func() { settled <- struct{}{} },
			})}
			done := make(chan error, 1)
			go func() {
				done <- p.PlugVolume(ctx, vm.PluggedVolume{ID: vm.NewVolumeID(), SizeMiB: 1, Port: 1, Cut: true}, nil)
			}()
			select {
			case <-settled:
				p.QMP.Close()
				<-done
			case err := <-done:
				t.Errorf("nothing was undone: %v", err)
			}
		})
	}
}
