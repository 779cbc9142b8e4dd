// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"slices"
	"testing"

	"github.com/warren-vm/warren/internal/ext4"
	"github.com/warren-vm/warren/internal/review"
)

func TestGroupOf(t *testing.T) {
	for p, want := range map[string]review.Group{
		"/work/app.go":                    review.Project,
		"/work":                           review.Project,
		"/workshop":                       review.System,
		"/work/node_modules/a/index.js":   review.Caches,
		"/work/pkg/__pycache__/x.pyc":     review.Caches,
		"/root/.bashrc":                   review.Home,
		"/home/ann/notes":                 review.Home,
		"/home/ann/.cache/pip/x":          review.Caches,
		"/etc/passwd":                     review.System,
		"/var/log/journal/1/system":       review.Logs,
		"/var/lib/apt/lists/deb.debian":   review.Caches,
		"/usr/bin/python3":                review.System,
		"/var/lib/systemd/timers/stamp-x": review.Logs,
	} {
		if got := review.GroupOf(p, "/work"); got != want {
			t.Errorf("%s is in the group %s, want %s", p, got, want)
		}
	}
}

// What may run by itself, let somebody in or raise rights is named; the rest is not.
func TestConcernsOf(t *testing.T) {
	regular := &ext4.Inode{Type: ext4.Regular, Mode: 0o644}
	for p, want := range map[string]review.Concern{
		"/etc/systemd/system/x.service":                         review.RunsAtBoot,
		"/etc/systemd/system/multi-user.target.wants/x.service": review.RunsAtBoot,
		"/etc/cron.d/x":                        review.RunsAtBoot,
		"/work/.git/config":                    review.RunsInGit,
		"/work/sub/.git/hooks/pre-commit":      review.RunsInGit,
		"/home/ann/.bashrc":                    review.RunsInShell,
		"/etc/ld.so.preload":                   review.RunsInAll,
		"/root/.ssh/authorized_keys":           review.OpensAccess,
		"/etc/shadow":                          review.GivesRights,
		"/etc/hosts":                           review.MovesNames,
		"/work/.npmrc":                         review.MovesPackages,
		"/usr/lib/python3/dist-packages/x.pth": review.RunsInAll,
		"/work/app.go":                         "",
		"/work/git/config":                     "",
		"/etc/motd":                            "",
	} {
		got := review.ConcernsOf(review.Change{Verb: review.Added, Path: p, Now: regular})
		if want == "" && len(got) > 0 {
			t.Errorf("%s concerns as %q, want nothing", p, got)
		}
		if want != "" && !slices.Contains(got, want) {
			t.Errorf("%s concerns as %q, want %q among them", p, got, want)
		}
	}
	raised := review.Change{Verb: review.Modified, Path: "/usr/bin/x", Mode: true, Was: regular, Now: &ext4.Inode{Type: ext4.Regular, Mode: 0o4755}}
	if got := review.ConcernsOf(raised); !slices.Contains(got, review.RaisesRights) {
		t.Errorf("a program that became set-user-id concerns as %q", got)
	}
	silent := review.Change{Verb: review.Modified, Path: "/work/x", Content: true, Silent: true, Was: regular, Now: regular}
	if got := review.ConcernsOf(silent); !slices.Contains(got, review.Hidden) {
		t.Errorf("a silent change concerns as %q", got)
	}
	moved := review.Change{Verb: review.Renamed, Path: "/tmp/x", From: "/etc/shadow", Was: regular, Now: regular}
	if got := review.ConcernsOf(moved); !slices.Contains(got, review.GivesRights) {
		t.Errorf("a renamed shadow file concerns as %q", got)
	}
}
