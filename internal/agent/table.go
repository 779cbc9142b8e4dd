// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/vm"
)

const (
	keepLogged = 512 // ended processes whose logs are kept
	keepQuiet  = 64  // ended processes without a log that are kept
	idBlock    = 100 // ids reserved by one write
)

// table holds the processes of one guest. Their ids never repeat on a disk.
type table struct {
	dir  string
	boot string // identifies this run of the guest's kernel to later agents
	log  *slog.Logger

	mu       sync.Mutex
	procs    map[string]*process
	next     int // the next id's number
	reserved int // lower ids are reserved on disk
}

// record is a process as kept on disk.
type record struct {
	vm.Process
	Boot  string `json:"boot"`
	Start uint64 `json:"start"` // in clock ticks since the boot
	Base  int64  `json:"base"`  // offset of the log's first byte
}

func (t *table) path(id string) string { return filepath.Join(t.dir, id) }

// init reads the records of earlier agents. It only logs problems with the
// directory: a guest with a full or broken disk must still be reachable.
func (t *table) init(dir, runDir string, log *slog.Logger, before *heritage) {
	t.dir, t.log, t.procs = dir, log, make(map[string]*process)
	t.boot = bootMark(filepath.Join(runDir, "boot"))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		log.Error("no directory for process logs", "error", err)
		return
	}
	if before != nil {
		t.inherit(before)
	} else if b, err := os.ReadFile(t.path("next")); err == nil {
		t.next, _ = strconv.Atoi(strings.TrimSpace(string(b)))
	}
	names, _ := filepath.Glob(t.path("p*.json")) // the pattern is valid
	for _, n := range names {
		if t.procs[strings.TrimSuffix(filepath.Base(n), ".json")] != nil {
			continue // inherited
		}
		if p := t.load(n); p != nil {
			t.procs[p.info.ID] = p
			t.next = max(t.next, number(p.info.ID)+1)
		}
	}
	t.next = max(t.next, 1)
	t.reserved = max(t.next, t.reserved)
}

// bootMark returns the same string for every agent until the kernel reboots: runDir is in memory.
func bootMark(file string) string {
	if b, err := os.ReadFile(file); err == nil && len(b) > 0 {
		return string(b)
	}
	mark := vm.NewUUID()
	_ = writeSmall(file, mark, 0o600) // if it fails, running processes of a dead agent count as ended
	return mark
}

// load reads one record. If its process no longer exists, it counts as ended with its machine.
func (t *table) load(file string) *process {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	var r record
	if err := json.Unmarshal(b, &r); err != nil || number(r.ID) == 0 || filepath.Base(file) != r.ID+".json" {
		t.log.Warn("skipping a broken process record", "file", file)
		return nil
	}
	alive := r.ExitCode == nil && r.Boot == t.boot && r.PID > 0 && startTicks(r.PID) == r.Start
	p := newProcess(t, r.Process)
	p.started = r.Start
	if p.log, err = openLog(t.path(r.ID)+".log", r.Base, alive); err != nil {
		t.log.Warn("a process log cannot be read", "process", r.ID, "error", err)
	} else {
		_, p.total = p.log.bounds()
	}
	switch {
	case alive:
		t.adopt(p)
	case r.ExitCode == nil:
		code, now := 137, time.Now().UTC()
		if st, err := os.Stat(file); err == nil {
			now = st.ModTime().UTC()
		}
		p.info.ExitCode, p.info.Signal, p.info.EndedAt = &code, "KILL", &now
		p.save()
		fallthrough
	default:
		close(p.ended)
	}
	return p
}

// adopt watches a process that is not a child of this agent.
func (t *table) adopt(p *process) {
	f, err := pidfdOpen(p.info.PID)
	if err != nil {
		code, now := 137, time.Now().UTC()
		p.info.ExitCode, p.info.Signal, p.info.EndedAt = &code, "KILL", &now
		p.save()
		close(p.ended)
		return
	}
	p.pidfd, p.signalOK = f, true
	p.run()
}

func newProcess(t *table, info vm.Process) *process {
	return &process{table: t, info: info, changed: make(chan struct{}), ended: make(chan struct{})}
}

// number returns the number in an id, or 0 if there is none.
func number(id string) int {
	s, ok := strings.CutPrefix(id, "p")
	n, err := strconv.Atoi(s)
	if !ok || err != nil || n < 1 || "p"+strconv.Itoa(n) != id {
		return 0
	}
	return n
}

// newID reserves the next id.
func (t *table) newID() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.next
	t.next++
	if t.next > t.reserved {
		t.reserved = t.next + idBlock
		if err := writeSmall(t.path("next"), strconv.Itoa(t.reserved)+"\n", 0o644); err != nil {
			t.log.Warn("cannot reserve process ids", "error", err)
		}
	}
	return "p" + strconv.Itoa(n)
}

func (t *table) add(p *process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.procs[p.info.ID] = p
}

func (t *table) find(id string) (*process, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p, ok := t.procs[id]; ok {
		return p, nil
	}
	return nil, vm.Errorf(vm.NotFound, id, "the guest has no such process").
		WithHint("`warren ps NAME` lists them").WithCode("PROCESS_NOT_FOUND", "processId", id)
}

// list returns all processes, oldest first.
func (t *table) list() []*process {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]*process, 0, len(t.procs))
	for _, p := range t.procs {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *process) int { return number(a.info.ID) - number(b.info.ID) })
	return out
}

// trim removes the oldest ended processes beyond the limits.
func (t *table) trim() {
	if t.size() <= keepQuiet {
		return
	}
	list := t.list()
	logged, quiet := 0, 0
	for _, p := range slices.Backward(list) {
		if !p.over() {
			continue
		}
		if p.logged() {
			logged++
		} else {
			quiet++
		}
		if p.logged() && logged > keepLogged || !p.logged() && quiet > keepQuiet {
			t.forget(p)
		}
	}
}

func (t *table) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.procs)
}

// forget removes an ended process and its files.
func (t *table) forget(p *process) {
	t.mu.Lock()
	delete(t.procs, p.info.ID)
	t.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.log != nil {
		p.log.remove()
	}
	_ = os.Remove(t.path(p.info.ID) + ".json")
}

// over reports whether the process has ended and no process holds its output.
func (p *process) over() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.info.ExitCode != nil && p.outs[0] == nil && p.outs[1] == nil
}

func (p *process) logged() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log != nil
}

// save writes the record of a process that has a log. p.mu is held, or the
// process is not shared yet.
func (p *process) save() {
	r := record{Process: p.info, Boot: p.table.boot, Start: p.started}
	r.Background = true
	if p.log != nil {
		r.Base, _ = p.log.bounds()
	}
	if r.Start == 0 && r.ExitCode == nil {
		p.started = startTicks(p.info.PID)
		r.Start = p.started
	}
	b, err := json.Marshal(r)
	if err == nil {
		err = writeSmall(p.table.path(p.info.ID)+".json", string(b), 0o640)
	}
	if err != nil {
		p.table.log.Warn("cannot keep a process record", "process", p.info.ID, "error", err)
	}
}
