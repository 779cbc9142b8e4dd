// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Where there is no systemd, the agent answers the commands with which the host asks it: systemctl and
// journalctl, for the one service of the guest.

// applets are the commands that the agent itself is, where the guest has no such program.
var applets = []string{"systemctl", "journalctl"}

// Exit statuses of systemd's commands.
const (
	exitDenied    = 4
	exitUnknown   = 5
	exitNoSystemd = 127 // as a shell for a missing program
)

// IsApplet reports whether a program's name is that of an applet.
func IsApplet(argv0 string) bool { return slices.Contains(applets, filepath.Base(argv0)) }

// ownProgram returns the agent's program for a command that the guest lacks; "" = none.
func ownProgram(name string) string {
	if !slices.Contains(applets, name) || !isContainer() || Initial() == "systemd" {
		return ""
	}
	return program
}

// Applet runs an applet and returns its exit status.
func Applet(argv []string, stdout, stderr io.Writer) int {
	var flags, words []string
	for _, a := range argv[1:] {
		if strings.HasPrefix(a, "-") && a != "--" {
			flags = append(flags, a)
		} else if a != "--" {
			words = append(words, a)
		}
	}
	if filepath.Base(argv[0]) == "journalctl" {
		return journalctl(flags, stdout, stderr)
	}
	return systemctl(flags, words, stdout, stderr)
}

// flag returns the value of --name=value.
func flagOf(flags []string, name string) (string, bool) {
	for _, f := range flags {
		if f == "--"+name {
			return "", true
		}
		if v, ok := strings.CutPrefix(f, "--"+name+"="); ok {
			return v, true
		}
	}
	return "", false
}

// systemctl does what the host asks of systemctl.
func systemctl(flags, words []string, stdout, stderr io.Writer) int {
	verb := ""
	if len(words) > 0 {
		verb, words = words[0], words[1:]
	}
	switch verb {
	case "list-units":
		return listUnits(flags, stdout, stderr)
	case "show":
		return showUnits(flags, words, stdout, stderr)
	case "start", "stop", "restart":
		for _, w := range words {
			if w != serviceUnit && w != strings.TrimSuffix(serviceUnit, ".service") {
				fmt.Fprintf(stderr, "Unit %s not found.\n", w)
				return exitUnknown
			}
		}
		if _, err := askService(verb); err != nil {
			return cannotAsk(err, stderr)
		}
		return 0
	}
	fmt.Fprintf(stderr, "this image has no systemd: its service %s can be listed, started, stopped and restarted\n", strings.TrimSuffix(serviceUnit, ".service"))
	return exitNoSystemd
}

var errNoService = errors.New("the container image names no program to run")

// askService sends a word to the process that runs the service.
func askService(word string) (serviceStatus, error) {
	c, err := net.Dial("unix", serviceSocket)
	if err != nil {
		if errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNREFUSED) {
			return serviceStatus{}, errNoService
		}
		return serviceStatus{}, err
	}
	defer c.Close()
	if _, err := io.WriteString(c, word+"\n"); err != nil {
		return serviceStatus{}, err
	}
	var st serviceStatus
	return st, json.NewDecoder(c).Decode(&st)
}

func cannotAsk(err error, stderr io.Writer) int {
	switch {
	case errors.Is(err, errNoService):
		fmt.Fprintf(stderr, "Unit %s not found: %v\n", serviceUnit, err)
		return exitUnknown
	case errors.Is(err, os.ErrPermission):
		fmt.Fprintln(stderr, "Access denied: only root may do that")
		return exitDenied
	}
	fmt.Fprintln(stderr, err)
	return 1
}

const serviceText = "The program of the container image"

func listUnits(flags []string, stdout, stderr io.Writer) int {
	st, err := askService("status")
	none := errors.Is(err, errNoService)
	if err != nil && !none {
		return cannotAsk(err, stderr)
	}
	active, sub, _ := strings.Cut(st.State, " ")
	if v, _ := flagOf(flags, "output"); v == "json" {
		list := []map[string]string{}
		if !none {
			list = append(list, map[string]string{"unit": serviceUnit, "load": "loaded", "active": active, "sub": sub, "description": serviceText})
		}
		_ = json.NewEncoder(stdout).Encode(list) // the reader may have left
	} else if !none {
		fmt.Fprintf(stdout, "%s loaded %s %s %s\n", serviceUnit, active, sub, serviceText)
	}
	return 0
}

func showUnits(flags, words []string, stdout, stderr io.Writer) int {
	st, err := askService("status")
	none := errors.Is(err, errNoService)
	if err != nil && !none {
		return cannotAsk(err, stderr)
	}
	active, sub, _ := strings.Cut(st.State, " ")
	for i, w := range words {
		all := map[string]string{
			"Id": serviceUnit, "ActiveState": active, "SubState": sub, "LoadState": "loaded", "Description": serviceText,
			"UnitFileState": "enabled", "MainPID": strconv.Itoa(st.PID), "NRestarts": strconv.Itoa(max(st.Runs-1, 0)), "ExecStart": strings.Join(st.Argv, " "),
		}
		if none || w != serviceUnit {
			all = map[string]string{"Id": w, "ActiveState": "inactive", "SubState": "dead", "LoadState": "not-found", "Description": w, "UnitFileState": ""}
		}
		names := slices.Sorted(maps.Keys(all))
		if v, ok := flagOf(flags, "property"); ok {
			names = strings.Split(v, ",")
		}
		if i > 0 {
			fmt.Fprintln(stdout)
		}
		for _, n := range names {
			if _, bare := flagOf(flags, "value"); bare {
				fmt.Fprintln(stdout, all[n])
			} else if v, ok := all[n]; ok {
				fmt.Fprintf(stdout, "%s=%s\n", n, v)
			}
		}
	}
	return 0
}

// journalctl prints the log of the service.
func journalctl(flags []string, stdout, stderr io.Writer) int {
	if unit, ok := flagOf(flags, "unit"); ok && unit != serviceUnit {
		return 0
	}
	want := journalWant{lines: -1}
	if n, ok := flagOf(flags, "lines"); ok {
		want.lines, _ = strconv.Atoi(n) // 0 for what is no number
	}
	if c, ok := flagOf(flags, "after-cursor"); ok {
		want.after, _ = strconv.ParseInt(c, 10, 64)
	}
	if s, ok := flagOf(flags, "since"); ok {
		at, err := sinceTime(s, time.Now())
		if err != nil {
			fmt.Fprintln(stderr, err)
			return 1
		}
		want.after = max(want.after, at.UnixMicro()-1)
	}
	if err := syscall.Access(serviceLog, 4); err != nil && !errors.Is(err, syscall.ENOENT) {
		return cannotAsk(os.ErrPermission, stderr)
	}
	last, err := want.print(stdout)
	if _, follow := flagOf(flags, "follow"); !follow {
		return 0
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for err == nil { // until the reader has left
		<-tick.C
		last, err = journalWant{lines: -1, after: last}.print(stdout)
	}
	return 0
}

// journalWant says which lines of the log are wanted.
type journalWant struct {
	lines int   // the last ones; -1 = all
	after int64 // cursor
}

// print prints the lines and returns the cursor of the last one of the log.
func (w journalWant) print(out io.Writer) (int64, error) {
	last := w.after
	var found [][]byte
	for _, name := range []string{serviceLog + ".1", serviceLog} {
		st, err := os.Stat(name)
		if err != nil || w.after > 0 && st.ModTime().UnixMicro() < w.after-int64(time.Second/time.Microsecond) {
			continue
		}
		b, _ := os.ReadFile(name) // absent = no lines
		sc := bufio.NewScanner(bytes.NewReader(b))
		sc.Buffer(nil, 8*maxLogLine)
		for sc.Scan() {
			var l logLine
			if json.Unmarshal(sc.Bytes(), &l) != nil {
				continue // being written
			}
			if c, _ := strconv.ParseInt(l.Cursor, 10, 64); c > w.after {
				last = max(last, c)
				found = append(found, bytes.Clone(sc.Bytes()))
			}
		}
	}
	if w.lines >= 0 && len(found) > w.lines {
		found = found[len(found)-w.lines:]
	}
	for _, l := range found {
		if _, err := fmt.Fprintf(out, "%s\n", l); err != nil {
			return last, err
		}
	}
	return last, nil
}

// sinceTime reads the forms of a time that the host sends.
func sinceTime(s string, now time.Time) (time.Time, error) {
	if n, err := strconv.ParseInt(strings.TrimPrefix(s, "@"), 10, 64); err == nil && strings.HasPrefix(s, "@") {
		return time.Unix(n, 0), nil
	}
	for _, form := range []string{time.DateTime, "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(form, s, time.UTC); err == nil {
			return t, nil
		}
	}
	day := now.UTC().Truncate(24 * time.Hour)
	switch s {
	case "now":
		return now, nil
	case "today":
		return day, nil
	case "yesterday":
		return day.Add(-24 * time.Hour), nil
	}
	digits := strings.TrimLeft(strings.TrimPrefix(s, "-"), "0123456789")
	n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(s, "-"), digits))
	unit := strings.TrimSuffix(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(digits), "ago")), "s")
	each := map[string]time.Duration{
		"u": time.Microsecond, "m": time.Minute, "": time.Second, "sec": time.Second, "second": time.Second, "min": time.Minute, "minute": time.Minute,
		"h": time.Hour, "hour": time.Hour, "d": 24 * time.Hour, "day": 24 * time.Hour, "w": 7 * 24 * time.Hour, "week": 7 * 24 * time.Hour,
	}[unit]
	if err != nil || each == 0 {
		return time.Time{}, fmt.Errorf("%q is no time that is known here", s)
	}
	return now.Add(-time.Duration(n) * each), nil
}
