// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestHelpNamesSections(t *testing.T) {
	var help bytes.Buffer
	if _, err := parse([]string{"-h"}, &help); err == nil {
		t.Fatal("-h is no error")
	}
	for _, s := range sections {
		for _, name := range append([]string{s.name}, s.parts...) {
			chosen, err := choose("^" + name + "$")
			listed := slices.Contains(sectionNames(), name)
			if listed != (err == nil) {
				t.Errorf("%s is in the list: %v, may be chosen: %v", name, listed, err)
			}
			if listed && (len(chosen) != 1 || chosen[0].name != s.name || !strings.Contains(help.String(), name)) {
				t.Errorf("%s chooses %v; help:\n%s", name, chosen, help.String())
			}
		}
	}
	if all, err := choose(""); err != nil || len(all) != len(sections) {
		t.Errorf("%d of %d sections without -only, %v", len(all), len(sections), err)
	}
	if _, err := choose("nonsense"); err == nil || !strings.Contains(err.Error(), "worlds.fork") {
		t.Errorf("-only with a name that does not exist: %v", err)
	}
}

// TestFailedSection wants the others' results and times in both reports, and the
// failed one's name in the error.
func TestFailedSection(t *testing.T) {
	measure := func(name string) func(*bench, context.Context) error {
		return func(b *bench, _ context.Context) error {
			b.rep.series(name, "ms", bound{}).add(7)
			return nil
		}
	}
	tidied := 0
	dir := t.TempDir()
	server := &server{log: filepath.Join(dir, "log")}
	say := func(line string) error {
		f, err := os.OpenFile(server.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = f.WriteString(line)
		return errors.Join(err, f.Close())
	}
	if err := say("before\n"); err != nil {
		t.Fatal(err)
	}
	b := &bench{rep: newReport(), log: &bytes.Buffer{}, server: server, options: options{out: filepath.Join(dir, "bench.json")}}
	err := b.runSections(t.Context(), []section{
		{"good", measure("good"), nil},
		{"bad", func(*bench, context.Context) error {
			if err := say("a reason\n"); err != nil {
				return err
			}
			return errors.New("no such thing")
		}, nil},
		{"later", measure("later"), nil},
	}, func(context.Context) error { tidied++; return nil })
	if err == nil || err.Error() != "1 of 3 sections failed: bad" {
		t.Errorf("the error is %v", err)
	}
	if tidied != 3 {
		t.Errorf("tidied %d times, want after each of 3", tidied)
	}
	data, err := os.ReadFile(b.out)
	if err != nil {
		t.Fatal(err)
	}
	var got report
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if got.find("good") == nil || got.find("later") == nil {
		t.Errorf("a result is lost: %s", data)
	}
	if len(got.Sections) != 3 || got.Sections[1].Error != "no such thing" || got.Sections[1].Log != "a reason\n" || got.Sections[2].Error != "" {
		t.Errorf("sections: %+v", got.Sections)
	}
	var text bytes.Buffer
	b.rep.print(&text)
	if !strings.Contains(text.String(), "failed: bad: no such thing") || !strings.Contains(text.String(), "STEAL") {
		t.Errorf("the report does not say what failed:\n%s", text.String())
	}
}

func TestParseHost(t *testing.T) {
	before, err := parseHost("0.50 1.00 2.00 1/100 42\n", "cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1\n")
	if err != nil || before.load != 0.5 || before.total != 1000 || before.idle != 800 {
		t.Fatalf("host counters are read as %+v (%v), want load 0.5 and 800 of 1000 ticks idle", before, err)
	}
	after, err := parseHost("1.00 1.00 2.00 1/100 42\n", "cpu  150 0 150 750 100 0 0 50 40 0\ncpu0 1\n")
	if err != nil || after.stealSince(before) != 25 || after.idleSince(before) != 25 {
		t.Errorf("%+v, %v: steal %v %%, idle %v %%", after, err, after.stealSince(before), after.idleSince(before))
	}
	for _, bad := range [][2]string{{"", "cpu 1 2 3 4 5 6 7 8"}, {"1 2 3", "cpu 1 2 3"}, {"1 2 3", "cpu 1 2 3 x 5 6 7 8"}} {
		if _, err := parseHost(bad[0], bad[1]); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestTwoAtATime(t *testing.T) {
	var calls atomic.Int64
	count := func() error { calls.Add(1); return nil }
	if err := twoAtATime(7, time.Now().Add(time.Hour), count); err != nil || calls.Load() != 7 {
		t.Errorf("%d calls, want 7; %v", calls.Load(), err)
	}
	calls.Store(0)
	if err := twoAtATime(7, time.Now(), count); err != nil || calls.Load() != 0 {
		t.Errorf("%d calls after the end of the time; %v", calls.Load(), err)
	}
	calls.Store(0)
	err := twoAtATime(1000, time.Now().Add(time.Hour), func() error { calls.Add(1); return os.ErrInvalid })
	if !errors.Is(err, os.ErrInvalid) || calls.Load() > 2 {
		t.Errorf("%d calls, each of which fails; %v", calls.Load(), err)
	}
	calls.Store(0)
	err = twoAtATime(1000, time.Now().Add(time.Hour), func() error {
		if calls.Add(1) == 1 {
			return os.ErrInvalid
		}
		time.Sleep(time.Millisecond) // a while, in which the failure is seen
		return nil
	})
	if !errors.Is(err, os.ErrInvalid) || calls.Load() > 100 {
		t.Errorf("%d calls, the first of which fails; %v", calls.Load(), err)
	}
}
