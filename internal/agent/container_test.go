// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

// containerEtc makes the /etc of a guest that was made of a container image.
func containerEtc(t *testing.T, user string, files map[string]string) *userDB {
	t.Helper()
	dir := t.TempDir()
	b, err := json.Marshal(vm.ContainerConfig{User: user, Env: []string{"A=1"}})
	if err != nil {
		t.Fatalf("no configuration: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "warren"), 0o700); err != nil {
		t.Fatalf("no directory: %v", err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatalf("%s is not written: %v", name, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "warren", "container.json"), b, 0o600); err != nil {
		t.Fatalf("the configuration is not written: %v", err)
	}
	return &userDB{etc: dir}
}

// TestContainerUsers: the user of a container image runs commands in all the forms that images use, also where
// there is no /etc/passwd.
func TestContainerUsers(t *testing.T) {
	passwd := map[string]string{"passwd": "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n", "group": "web:x:33:\n"}
	for _, c := range []struct {
		user     string
		files    map[string]string
		uid, gid uint32
		ok       bool
	}{
		{"1234:99", nil, 1234, 99, true},
		{"1234", nil, 1234, 0, true},
		{"root", nil, 0, 0, true},
		{"0", nil, 0, 0, true},
		{"ann", passwd, 1000, 1000, true},
		{"ann:web", passwd, 1000, 33, true},
		{"1000:7", passwd, 1000, 7, true},
		{"ann:none", passwd, 0, 0, false},
		{"bob", passwd, 0, 0, false},
		{"ann", nil, 0, 0, false},
	} {
		got, err := containerEtc(t, c.user, c.files).find(c.user)
		if c.ok != (err == nil) || c.ok && (got.uid != c.uid || got.gid != c.gid) {
			t.Errorf("%s: got %d:%d, %v; want %d:%d, %t", c.user, got.uid, got.gid, err, c.uid, c.gid, c.ok)
		}
	}
	if _, err := containerEtc(t, "1234", nil).find("4321"); vm.KindOf(err) != vm.NotFound {
		t.Errorf("a number that neither the image nor the guest names: %v", err)
	}
}

// TestServiceLog: the log of the service is what the host reads of systemd's journal: the last lines, those after
// a cursor, and long lines in parts.
func TestServiceLog(t *testing.T) {
	l := &serviceLogFile{path: filepath.Join(t.TempDir(), "log")}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatalf("no pipe: %v", err)
	}
	text := "one\n\xfftwo\n" + strings.Repeat("x", maxLogLine+10) + "\nlast"
	go func() {
		_, _ = w.WriteString(text)
		_ = w.Close()
	}()
	l.copy(r, 6)
	b, err := os.ReadFile(l.path)
	if err != nil {
		t.Fatalf("no log: %v", err)
	}
	var got []string
	cursor := ""
	for line := range bytes.Lines(b) {
		var e logLine
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("a line is no JSON: %v", err)
		}
		if e.Cursor <= cursor || e.Unit != "app.service" || e.Priority != "6" {
			t.Errorf("the line %+v follows the cursor %s", e, cursor)
		}
		cursor = e.Cursor
		got = append(got, e.Message[:min(len(e.Message), 5)])
	}
	if want := []string{"one", "�tw", "xxxxx", "xxxxx", "last"}; !slices.Equal(got, want) {
		t.Errorf("the lines are %q, want %q", got, want)
	}
}

// TestSinceTime: the points in time that the host sends.
func TestSinceTime(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"@100": time.Unix(100, 0), "10 min ago": now.Add(-10 * time.Minute), "-2h": now.Add(-2 * time.Hour), "today": now.Truncate(24 * time.Hour),
		"2026-05-01": time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC), "30s": now.Add(-30 * time.Second), "1 day ago": now.Add(-24 * time.Hour),
	} {
		if got, err := sinceTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "soon", "@x", "10 moons"} {
		if got, err := sinceTime(text, now); err == nil {
			t.Errorf("%q is taken as %v", text, got)
		}
	}
}

// TestSystemctlWithout: what the agent cannot do without systemd has an answer that says so, with the exit statuses
// that the host knows.
func TestSystemctlWithout(t *testing.T) {
	for _, c := range []struct {
		argv []string
		code int
		text string
	}{
		{[]string{"systemctl", "enable", "--quiet", "--", "x.service"}, exitNoSystemd, "no systemd"},
		{[]string{"systemctl", "daemon-reload"}, exitNoSystemd, "no systemd"},
		{[]string{"systemctl", "start", "--", "x.service"}, exitUnknown, "x.service not found"},
		{[]string{"systemctl", "show", "--property=LoadState", "--", "x.service"}, 0, "LoadState=not-found"},
		{[]string{"systemctl", "list-units", "--output=json"}, 0, "[]"},
		{[]string{"journalctl", "--unit=x.service"}, 0, ""},
	} {
		var out bytes.Buffer
		if code := Applet(c.argv, &out, &out); code != c.code || !strings.Contains(out.String(), c.text) {
			t.Errorf("%v: status %d and %q, want %d and %q", c.argv, code, out.String(), c.code, c.text)
		}
	}
}
