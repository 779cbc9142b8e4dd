// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

var updateProfiles = flag.Bool("update-profiles", false, "rewrite the table of docs/profiles.md")

// TestProfiles: the page, the command and the program's table agree.
func TestProfiles(t *testing.T) {
	const file = "../../docs/profiles.md"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, row := range profileRows() {
		want.WriteString("| " + strings.Join(row, " | ") + " |\n")
	}
	before, rest, _ := strings.Cut(string(page), "|---|---|---|---|---|\n")
	got, after, _ := strings.Cut(rest, "\n\n")
	if *updateProfiles {
		if err := os.WriteFile(file, []byte(before+"|---|---|---|---|---|\n"+want.String()+"\n"+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if got+"\n" != want.String() {
		t.Errorf("docs/profiles.md is not current (go test ./internal/cli -run TestProfiles -update-profiles):\n%s", got)
	}
	r := run(t, newFake(t), Local{}, "", "profile", "ls")
	for _, p := range vm.Profiles {
		if r.code != 0 || !strings.Contains(r.out, p.Name) || !strings.Contains(r.out, p.For) {
			t.Errorf("profile ls lacks %s or its purpose: %+v", p.Name, r)
		}
	}
}

// TestRunProfile: a run has the least trusted profile that has what it asks for.
//
// 003-22
func TestRunProfile(t *testing.T) {
	for _, tc := range []struct {
		o       runOptions
		profile string
		ttl     vm.Seconds
	}{
		{runOptions{}, vm.ProfileUntrusted, 0},
		{runOptions{net: "closed"}, vm.ProfileUntrusted, 0},
		{runOptions{net: "packages"}, vm.ProfileAgent, 0},
		{runOptions{volumes: []string{"a:/data"}}, vm.ProfileAgent, 0},
		{runOptions{profile: vm.ProfileDev}, vm.ProfileDev, 0},
		{runOptions{exec: execOptions{timeout: "10m"}}, vm.ProfileUntrusted, 0},
		{runOptions{exec: execOptions{timeout: "2h"}}, vm.ProfileUntrusted, vm.Seconds(130 * time.Minute)},
		{runOptions{exec: execOptions{timeout: "2h"}, net: "open"}, vm.ProfileAgent, 0},
	} {
		r, err := tc.o.request()
		if err != nil || r.Profile != tc.profile || r.TTL.Value != tc.ttl {
			t.Errorf("%+v asks for %s with %s s (%v), want %s with %s s", tc.o, r.Profile, r.TTL.Value, err, tc.profile, tc.ttl)
		}
	}
	f := newFake(t)
	for _, line := range []string{"run --profile untrusted --volume a:/data -- true", "run --profile admin -- true"} {
		if r := run(t, f, Local{}, "", strings.Fields(line)...); r.code != 125 || !strings.Contains(r.stderr, "agent") {
			t.Errorf("%s: %+v, want status 125 and the profile agent named", line, r)
		}
	}
}
