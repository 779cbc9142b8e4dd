//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/internal/generation"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/vm"
)

// look is what one answer of the server says of all workspaces and snapshots.
type look struct {
	vms   []api.VM
	snaps []api.Snapshot
}

// check wants all that must be true between two commands.
func (k *keeper) check() {
	k.t.Helper()
	l, ok := k.settle()
	if !ok {
		return
	}
	k.checkVMs(l)
	k.checkSnapshots(l)
	for _, v := range l.vms {
		if v.State == vm.Running {
			k.checkInside(v.ID)
		}
	}
	k.eventually("records, processes and directories agree", k.agree)
	k.eventually("generations are whole", k.generations)
}

// eventually is for what takes its time after a kill: why is "" once it holds.
func (k *keeper) eventually(what string, why func() string) {
	k.t.Helper()
	said := ""
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-time.After(100 * time.Millisecond) {
		if said = why(); said == "" {
			return
		}
	}
	k.broken("not within 30 s: %s: %s", what, said)
}

// look asks the server.
func (k *keeper) look() (l look, err error) {
	ctx, cancel := within()
	defer cancel()
	list, err := k.c.List(ctx, false)
	if err != nil {
		return l, err
	}
	snaps, err := k.c.Snapshots(ctx, false)
	l.vms = list.VMs
	for _, s := range snaps.Snapshots {
		if s.SourceVMID != "" {
			l.snaps = append(l.snaps, s)
		}
	}
	return l, err
}

// settle waits until no workspace is between two states.
func (k *keeper) settle() (l look, ok bool) {
	k.t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); ; <-time.After(100 * time.Millisecond) {
		var err error
		if l, err = k.look(); err != nil {
			k.broken("the list: %v", err)
			return l, false
		}
		i := slices.IndexFunc(l.vms, func(v api.VM) bool {
			return v.Operation != "" || !slices.Contains([]vm.State{vm.Running, vm.Stopped, vm.Suspended, vm.Lost}, v.State)
		})
		switch {
		case i < 0:
			return l, true
		case time.Now().After(deadline):
			k.broken("a workspace stays between two states: %+v", l.vms[i])
			return l, false
		}
	}
}

// checkVMs compares the list with what was answered.
func (k *keeper) checkVMs(l look) {
	k.t.Helper()
	k.mu.Lock()
	spaces := slices.Clone(k.spaces)
	k.mu.Unlock()
	for _, w := range spaces {
		i := slices.IndexFunc(l.vms, func(v api.VM) bool { return v.ID == w.id })
		switch {
		case i < 0 && !w.gone:
			k.broken("%s (%s) is not in the list, nobody deleted it", w.name, w.id)
		case i < 0:
			k.mu.Lock()
			k.spaces = slices.DeleteFunc(k.spaces, func(o *workspace) bool { return o == w })
			k.mu.Unlock()
		case l.vms[i].State == vm.Lost:
			k.broken("%s (%s) is lost: %s", w.name, w.id, l.vms[i].Reason)
		default:
			w.gone, w.state = false, l.vms[i].State // not deleted after all: it may be asked again
			if l.vms[i].State == vm.Stopped {
				k.stopped(w, l.vms[i])
			}
		}
	}
	for _, v := range l.vms {
		switch _, asked := k.maybe[v.Name]; {
		case asked:
			k.note("%s came to be, though its command had no answer", v.Name)
			k.adopt(v.Name, v.ID)
		case !slices.ContainsFunc(k.spaces, func(w *workspace) bool { return w.id == v.ID }):
			k.broken("%s (%s) is in the list, and was deleted or never asked for", v.Name, v.ID)
		}
	}
	k.dead = 0
	for _, v := range l.vms {
		if v.State == vm.Stopped {
			k.dead++
		}
	}
	k.maybe = map[string][]inside{} // what has not come by now does not
}

// stopped wants a workspace without a machine to have had a reason for that:
// nobody stopped it, or asked its guest to, and its QEMU was not killed while
// its memory is known.
func (k *keeper) stopped(w *workspace, v api.VM) {
	k.t.Helper()
	if !slices.ContainsFunc(w.may, func(in inside) bool { return in.tag == "" || in.ending }) {
		k.broken("%s is stopped (%s), nobody ended its machine", w.name, v.Reason)
	}
	w.loseMemory()
}

func (k *keeper) checkSnapshots(l look) {
	k.t.Helper()
	ctx, cancel := within()
	defer cancel()
	var keep []*savepoint
	for _, s := range k.snaps {
		i := slices.IndexFunc(l.snaps, func(a api.Snapshot) bool { return a.Name == s.name && !a.Deleted })
		answered := s.id != "" && !s.gone
		switch {
		case i < 0 && answered:
			k.broken("the snapshot %s (%s) is gone, nobody deleted it", s.name, s.id)
		case i < 0:
		case l.snaps[i].Failed || l.snaps[i].Lost:
			if answered {
				k.broken("the snapshot %s was answered and is %s: %s", s.name, l.snaps[i].State, l.snaps[i].FailureReason)
			}
			if err := k.c.DeleteSnapshot(ctx, string(l.snaps[i].SnapshotID)); err != nil {
				k.broken("deleting the failed snapshot %s: %v", s.name, err)
			}
		default:
			s.id, s.gone = l.snaps[i].SnapshotID, false
			keep = append(keep, s)
		}
	}
	k.snaps = keep
}

// reading prints the memory's tag and the ledger, once nobody writes it.
const reading = `exec 9>/root/lock; flock 9; echo "tag=$(cat /run/tag 2>/dev/null)"; cat /root/ledger 2>/dev/null || true`

// checkInside wants a running workspace to answer and to hold what it should.
func (k *keeper) checkInside(id vm.ID) {
	k.t.Helper()
	i := slices.IndexFunc(k.spaces, func(w *workspace) bool { return w.id == id })
	if i < 0 {
		return
	}
	w := k.spaces[i]
	var text strings.Builder
	var err error
	for deadline := time.Now().Add(4 * time.Minute); time.Now().Before(deadline); <-time.After(200 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
		text.Reset()
		err = k.sh(ctx, w, reading, func(line string) { text.WriteString(line + "\n") })
		cancel()
		if err == nil {
			break
		}
	}
	if err != nil {
		k.broken("%s (%s) does not answer: %v", w.name, id, err)
		return
	}
	s, err := parseSeen(text.String())
	if err == nil {
		err = w.judge(s)
	}
	if err != nil {
		k.broken("%v\nwhat it holds: %+v\nwhat it may hold: %+v", err, s, w.may)
		return
	}
	k.checkTerminal(w)
}

// checkTerminal wants a terminal to be there as long as its memory lives.
func (k *keeper) checkTerminal(w *workspace) {
	k.t.Helper()
	in := w.may[0]
	if in.term == "" {
		return
	}
	ctx, cancel := within()
	defer cancel()
	list, err := k.c.Terminals(ctx, string(w.id))
	if err != nil {
		k.broken("%s: its terminals: %v", w.name, err)
		return
	}
	if !slices.ContainsFunc(list, func(p api.PtySession) bool { return p.SessionID == in.term && p.Running }) {
		k.broken("%s: its terminal %s is not among %+v", w.name, in.term, list)
	}
}

// agree compares the records with processes and directories.
func (k *keeper) agree() string {
	l, err := k.look()
	if err != nil {
		return err.Error()
	}
	run, err := layout.Dir(k.h.data).Run()
	if err != nil {
		return err.Error()
	}
	running := map[string]bool{}
	known := map[string]bool{}
	for _, v := range l.vms {
		known[string(v.ID)] = true
		running[string(v.ID)] = v.State == vm.Running
	}
	has := map[string]int{} // processes by "<id> <program>"
	for pid, cmd := range k.h.processes() {
		id := k.ownerOf(cmd, l)
		for program, word := range map[string]string{"qemu": "qemu-system", "monitor": "warren-monitor"} {
			if strings.Contains(cmd, word) {
				if id == "" && k.ofPool(cmd) {
					continue
				}
				if id == "" {
					return fmt.Sprintf("process %d is of no workspace: %s", pid, cmd)
				}
				has[id+" "+program]++
			}
		}
	}
	for id, want := range running {
		for _, program := range []string{"qemu", "monitor"} {
			if n := has[id+" "+program]; want && n != 1 || !want && n != 0 {
				return fmt.Sprintf("%s: running is %v, and it has %d processes of its %s", id, want, n, program)
			}
		}
	}
	members := k.h.members()
	for id := range members {
		known[id], running[id] = true, true
	}
	if why := only(filepath.Join(k.h.data, "vms"), known); why != "" {
		return why
	}
	for _, path := range []string{run.Etcd(), run.Inside(), run.InsideCert(), run.S3()} {
		running[filepath.Base(path)] = true
	}
	return only(string(run), running)
}

// only wants a directory to hold those names alone.
func only(dir string, names map[string]bool) string {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err.Error()
	}
	for _, e := range entries {
		if !names[e.Name()] {
			return filepath.Join(dir, e.Name()) + " belongs to nothing"
		}
	}
	return ""
}

// ofPool says whether a process is of a machine of the pool.
func (k *keeper) ofPool(cmd string) bool {
	for id := range k.h.members() {
		if strings.Contains(cmd, id) {
			return true
		}
	}
	return false
}

// ownerOf says whose process that is, "" when it is nobody's.
func (k *keeper) ownerOf(cmd string, l look) string {
	for _, v := range l.vms {
		if strings.Contains(cmd, string(v.ID)) {
			return string(v.ID)
		}
	}
	return ""
}

// generations wants each to be complete, with the sums of its manifest, and
// nothing half made.
func (k *keeper) generations() string {
	if left := k.h.halfMade(); len(left) > 0 {
		return fmt.Sprintf("half-made: %v", left)
	}
	store := generation.Store{Dir: layout.Dir(k.h.data)}
	ids, err := store.List()
	if err != nil {
		return err.Error()
	}
	for _, id := range ids {
		if k.checked[id] {
			continue
		}
		g, err := store.Load(id)
		switch {
		case vm.KindOf(err) == vm.NotFound:
			continue // only its disk is still needed
		case err != nil:
			return err.Error()
		}
		source := store.Source(id)
		if err := errors.Join(verifySum(source.RAM, g.RAM), verifySum(source.Device, g.Device)); err != nil {
			return err.Error()
		}
		k.checked[id] = true
	}
	return ""
}

// verifySum compares a file with its sum. One that went meanwhile is no error.
func verifySum(path string, want vm.File) error {
	ctx, cancel := within()
	defer cancel()
	err := qemu.Verify(ctx, path, want)
	if _, gone := os.Stat(path); gone != nil || want.Name == "" {
		return nil
	}
	return err
}

// end starts what does not run, looks at all of it, deletes it, and wants
// nothing to be left.
func (k *keeper) end() {
	k.t.Helper()
	clear(k.checked) // all once more
	k.check()
	for _, w := range slices.Clone(k.spaces) {
		ctx, cancel := within()
		if _, err := k.c.Start(ctx, string(w.id), api.StartVM{}); err != nil && vm.KindOf(err) != vm.WrongState {
			k.broken("%s does not start: %v", w.name, err)
		}
		cancel()
		k.checkInside(w.id)
	}
	k.check()
	ctx, cancel := within()
	defer cancel()
	report, err := k.c.AuditVerify(ctx, nil)
	if err != nil || !report.OK {
		k.broken("the audit chain: %+v %v", report, err)
	}
	for _, w := range slices.Clone(k.spaces) {
		if err := k.remove(ctx, w); err != nil {
			k.broken("rm %s: %v", w.name, err)
		}
	}
	for _, s := range k.snaps {
		if err := k.c.DeleteSnapshot(ctx, string(s.id)); err != nil {
			k.broken("snapshot rm %s: %v", s.name, err)
		}
	}
	k.eventually("nothing is left", func() string {
		if why := only(filepath.Join(k.h.data, "generations"), nil); why != "" {
			return why
		}
		return k.agree()
	})
}
