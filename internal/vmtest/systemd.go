// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

const unitDir = "/etc/systemd/system"

// unit is a service in the simulated systemd; its files are on the disk.
type unit struct {
	active, sub string
	enabled     bool
	log         []byte
}

// unitOf returns a service that has a file or still runs.
func (sh *shell) unitOf(name string) *unit {
	_, err := sh.read(path.Join(unitDir, name))
	sh.disk.mu.Lock()
	defer sh.disk.mu.Unlock()
	u := sh.disk.units[name]
	if u == nil && err == nil {
		u = &unit{active: "inactive", sub: "dead"}
		sh.disk.units[name] = u
	}
	return u
}

func (sh *shell) systemctl(args []string) int {
	var names []string
	for _, a := range args[1:] {
		if !strings.HasPrefix(a, "-") {
			names = append(names, a)
		}
	}
	switch args[0] {
	case "list-units":
		if slices.Contains(args, "--output=json") {
			return sh.listUnits()
		}
		_, _ = io.WriteString(sh.stdout, "cron.service loaded active running Jobs\napp.service loaded failed failed My app\nnone.service not-found inactive dead none.service\n")
		return 0
	case "show":
		for i, n := range names {
			if i > 0 {
				_, _ = io.WriteString(sh.stdout, "\n")
			}
			sh.showUnit(n)
		}
		return 0
	}
	for _, n := range names {
		if code := sh.unitVerb(args[0], n, slices.Contains(args, "--now")); code != 0 {
			return code
		}
	}
	return 0
}

func (sh *shell) listUnits() int {
	type row struct {
		Unit   string `json:"unit"`
		Load   string `json:"load"`
		Active string `json:"active"`
		Sub    string `json:"sub"`
	}
	rows := []row{}
	sh.disk.mu.Lock()
	for n, u := range sh.disk.units {
		rows = append(rows, row{n, "loaded", u.active, u.sub})
	}
	sh.disk.mu.Unlock()
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(a.Unit, b.Unit) })
	if json.NewEncoder(sh.stdout).Encode(rows) != nil {
		return 1
	}
	return 0
}

func (sh *shell) showUnit(name string) {
	u, load := sh.unitOf(name), "loaded"
	if u == nil {
		u, load = &unit{active: "inactive", sub: "dead"}, "not-found"
	}
	_, _ = fmt.Fprintf(sh.stdout, "Id=%s\nLoadState=%s\nActiveState=%s\nSubState=%s\nDescription=%s\n", name, load, u.active, u.sub, strings.TrimSuffix(name, ".service"))
}

func (sh *shell) unitVerb(verb, name string, now bool) int {
	u := sh.unitOf(name)
	if u == nil {
		_, _ = fmt.Fprintf(sh.stderr, "Failed to %s %s: Unit %s not found.\n", verb, name, name)
		return 5
	}
	set := func(active, sub string) {
		sh.disk.mu.Lock()
		u.active, u.sub = active, sub
		sh.disk.mu.Unlock()
	}
	switch verb {
	case "enable":
		u.enabled = true
	case "disable":
		u.enabled = false
		if now {
			set("inactive", "dead")
		}
	case "stop":
		set("inactive", "dead")
	case "reset-failed":
		sh.disk.mu.Lock()
		delete(sh.disk.units, name)
		sh.disk.mu.Unlock()
	case "start", "restart":
		if verb == "start" && u.active == "active" {
			return 0
		}
		return sh.startUnit(name, u, set)
	}
	return 0
}

// startUnit runs a oneshot's commands to their end. For a service it only checks the
// file.
func (sh *shell) startUnit(name string, u *unit, set func(active, sub string)) int {
	data, err := sh.read(path.Join(unitDir, name))
	if err != nil {
		return 5
	}
	oneshot := strings.Contains(string(data), "\nType=oneshot\n")
	log := unitLog{sh.disk, u}
	for line := range strings.SplitSeq(string(data), "\n") {
		key, command, _ := strings.Cut(line, "=")
		if !oneshot || key != "ExecStart" && key != "ExecStartPost" {
			continue
		}
		if code := sh.on(log).execLine(strings.TrimPrefix(command, "+")); code != 0 {
			set("failed", "failed")
			_, _ = fmt.Fprintf(sh.stderr, "Job for %s failed because the control process exited with error code.\n", name)
			return 1
		}
	}
	if oneshot {
		set("active", "exited")
	} else {
		set("active", "running")
	}
	return 0
}

// execLine runs a unit's command line; a script is given to bash.
func (sh *shell) execLine(line string) int {
	words := strings.Fields(line)
	if len(words) == 2 && path.Base(words[0]) == "bash" {
		script, err := sh.read(words[1])
		if err != nil {
			return 127
		}
		line = string(script)
	}
	return sh.script(line)
}

// unitLog writes to a unit's journal.
type unitLog struct {
	disk *disk
	unit *unit
}

func (l unitLog) Write(p []byte) (int, error) {
	l.disk.mu.Lock()
	defer l.disk.mu.Unlock()
	l.unit.log = append(l.unit.log, p...)
	return len(p), nil
}

func (sh *shell) journalctl(args []string) int {
	var name string
	lines := 100
	for _, a := range args {
		if v, ok := strings.CutPrefix(a, "--unit="); ok {
			name = v
		}
		if v, ok := strings.CutPrefix(a, "--lines="); ok {
			lines, _ = strconv.Atoi(v) // not a number: none
		}
	}
	u := sh.unitOf(name)
	if u == nil {
		return 0
	}
	sh.disk.mu.Lock()
	log := slices.Collect(strings.Lines(string(u.log)))
	sh.disk.mu.Unlock()
	for i, l := range log[max(0, len(log)-lines):] {
		entry := map[string]string{
			"MESSAGE": strings.TrimSuffix(l, "\n"), "PRIORITY": "6", "_SYSTEMD_UNIT": name,
			"__REALTIME_TIMESTAMP": strconv.FormatInt(time.Now().UnixMicro()+int64(i), 10),
		}
		if json.NewEncoder(sh.stdout).Encode(entry) != nil {
			return 1
		}
	}
	return 0
}

// fetch simulates programs that need the network: they write a file, and fail when the
// network policy is closed, except for names inside the VM.
func (sh *shell) fetch(name string, args []string) int {
	inside := strings.Contains(strings.Join(args, " "), "https://"+vm.GitHost+"/")
	if sh.net != nil && sh.net() == vm.NetClosed && !inside {
		_, _ = fmt.Fprintf(sh.stderr, "%s: the network is unreachable\n", name)
		return 100
	}
	if _, err := sh.disk.put("", "/var/lib/"+name, []byte(strings.Join(args, " ")), 0, true); err != nil {
		return 1
	}
	return 0
}
