// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"path"
	"slices"
	"strings"

	"github.com/warren-vm/warren/internal/ext4"
)

// Group is the part of a machine that a path belongs to.
type Group string

// The groups, in the order in which they are shown.
const (
	Project Group = "project" // the working directory, and what images have for work
	Home    Group = "home"
	System  Group = "system"
	Caches  Group = "caches" // what a program makes again when it is missing
	Logs    Group = "logs"   // and other records that services write by themselves
)

// Groups are all groups in the order in which they are shown.
var Groups = []Group{Project, Home, System, Caches, Logs}

var (
	cacheDirs = []string{"/var/cache", "/var/lib/apt/lists", "/tmp", "/var/tmp", "/run"}
	// cacheNames are directories of this name anywhere.
	cacheNames = []string{"node_modules", "__pycache__", ".cache", ".npm", ".pnpm-store", ".venv", "venv", ".tox", ".mypy_cache", ".pytest_cache", ".gradle", ".cargo", "target"}
	workDirs   = []string{"/work", "/workspace"}
	logDirs    = []string{"/var/log", "/var/lib/systemd", "/var/backups"}
)

// GroupOf returns the group of a path. workdir is the machine's working directory.
func GroupOf(p, workdir string) Group {
	switch {
	case inNamed(p, cacheNames), below(p, cacheDirs...):
		return Caches
	case below(p, logDirs...):
		return Logs
	case workdir != "" && workdir != "/" && below(p, workdir), below(p, workDirs...):
		return Project
	case below(p, "/root", "/home"):
		return Home
	}
	return System
}

// below reports whether a path is one of some directories or beneath one.
func below(p string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/") })
}

// inNamed reports whether a path has a component of one of some names.
func inNamed(p string, names []string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if slices.Contains(names, part) {
			return true
		}
	}
	return false
}

// Concern is why a change is shown first: what it may do to whoever uses the machine
// or takes over its files.
type Concern string

// The concerns. Each is a reason to look, not a verdict.
const (
	RunsAtBoot    Concern = "starts programs by itself"
	RunsInGit     Concern = "runs when somebody uses git"
	RunsInShell   Concern = "runs in every shell"
	RunsInAll     Concern = "is loaded into every program"
	OpensAccess   Concern = "lets somebody in"
	GivesRights   Concern = "gives rights"
	RaisesRights  Concern = "runs with its owner's rights"
	MovesNames    Concern = "changes where names lead"
	MovesPackages Concern = "changes where packages come from"
	RunsOnOpen    Concern = "runs when somebody opens or builds the project"
	CalledByName  Concern = "is a program that others call by its name"
	ForEverybody  Concern = "may be written by everybody"
	LeavesWorkdir Concern = "is a link that leaves the working directory"
	OddName       Concern = "has a name that can mislead"
	LostContent   Concern = "lost most of its content"
	InvisibleText Concern = "has characters that are not seen as they are"
	HoldsSecret   Concern = "seems to hold a secret"
	Hidden        Concern = "was written below the file system"
)

// concerns are the paths that are looked at first, by patterns of path.Match on the
// whole path or, without a leading slash, on its end.
var concerns = []struct {
	why      Concern
	patterns []string
}{
	{RunsAtBoot, []string{
		"/etc/systemd/system/*", "/etc/systemd/system/*/*", "/etc/systemd/user/*", "/usr/lib/systemd/system/*", "/lib/systemd/system/*", ".config/systemd/user/*",
		"/etc/cron*/*", "/etc/crontab", "/var/spool/cron/*", "/var/spool/cron/crontabs/*", "/etc/init.d/*", "/etc/rc.local", ".config/autostart/*", "/etc/udev/rules.d/*",
		"/var/spool/cron/atjobs/*", "/etc/systemd/system-generators/*", "/etc/xdg/autostart/*", "/etc/NetworkManager/dispatcher.d/*",
	}},
	{RunsInGit, []string{".git/config", ".git/hooks/*", ".git/info/attributes", ".gitattributes", ".gitmodules", ".gitconfig", ".config/git/config", "/etc/gitconfig", ".husky/*", ".git/modules/*/config", ".git/modules/*/hooks/*", ".git/config.worktree"}},
	{RunsInShell, []string{".bashrc", ".bash_profile", ".bash_login", ".profile", ".zshrc", ".zshenv", ".zprofile", "/etc/profile", "/etc/profile.d/*", "/etc/bash.bashrc", "/etc/environment", ".envrc"}},
	{RunsOnOpen, []string{
		".vscode/tasks.json", ".vscode/settings.json", ".vscode/launch.json", ".idea/*", ".idea/*/*", ".mcp.json", ".cursor/*", ".cursor/*/*", ".claude/*", ".claude/*/*", ".codex/*",
		".gemini/*", ".devcontainer/*", ".devcontainer.json", "conftest.py", ".pre-commit-config.yaml", ".github/workflows/*", ".gitlab-ci.yml",
	}},
	{CalledByName, []string{"/usr/local/bin/*", "/usr/local/sbin/*", "/usr/bin/*", "/usr/sbin/*", "/bin/*", "/sbin/*", ".local/bin/*", "/root/bin/*", "/home/*/bin/*"}},
	{RunsInAll, []string{"/etc/ld.so.preload", "/etc/ld.so.conf", "/etc/ld.so.conf.d/*", "sitecustomize.py", "usercustomize.py", "*.pth"}},
	{OpensAccess, []string{".ssh/authorized_keys", ".ssh/authorized_keys2", ".ssh/config", ".ssh/rc", "/etc/ssh/*", "/etc/ssh/*/*", "/etc/pam.d/*", "/etc/security/*"}},
	{GivesRights, []string{"/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d/*", "/etc/subuid", "/etc/subgid", "/etc/polkit-1/*/*"}},
	{MovesNames, []string{"/etc/hosts", "/etc/resolv.conf", "/etc/nsswitch.conf", "/usr/local/share/ca-certificates/*", "/etc/ssl/certs/*", "/etc/hosts.allow"}},
	{MovesPackages, []string{"/etc/apt/sources.list", "/etc/apt/sources.list.d/*", "/etc/apt/apt.conf.d/*", "/etc/apt/trusted.gpg.d/*", ".npmrc", ".pip/pip.conf", ".config/pip/pip.conf", "/etc/pip.conf", ".cargo/config.toml", ".yarnrc.yml"}},
}

// setID are the bits of a mode with which a program gets its owner's or group's rights.
const setID = 0o6000

// ConcernsOf returns why a change is shown first; none for most.
func ConcernsOf(c Change) (list []Concern) {
	for _, x := range concerns {
		if slices.ContainsFunc(x.patterns, func(pattern string) bool { return matches(pattern, c.Path) || c.From != "" && matches(pattern, c.From) }) {
			list = append(list, x.why)
		}
	}
	if strings.HasSuffix(c.Path, ".sample") || isDir(c.Now) || c.Now == nil && isDir(c.Was) {
		list = nil // git's examples of hooks do not run, and a directory's files speak for themselves
	}
	if c.Now != nil && (c.Now.Type == ext4.Regular || isDir(c.Now)) && c.Now.Mode&0o1002 == 0o002 && (c.Was == nil || c.Was.Mode&0o002 == 0) {
		list = append(list, ForEverybody)
	}
	if c.Now != nil && c.Now.Type == ext4.Regular && c.Now.Mode&setID != 0 && c.Now.Mode&0o111 != 0 && (c.Was == nil || c.Mode || c.Content || c.Owner) {
		list = append(list, RaisesRights)
	}
	if c.Attrs && c.Now != nil && c.Now.Type == ext4.Regular && c.Now.Mode&0o111 != 0 && !slices.Contains(list, RaisesRights) {
		list = append(list, RaisesRights) // a capability may have come
	}
	if c.Silent {
		list = append(list, Hidden)
	}
	return list
}

func isDir(in *ext4.Inode) bool { return in != nil && in.Type == ext4.Directory }

// matches reports whether a path fits a pattern of concerns.
func matches(pattern, p string) bool {
	if strings.HasPrefix(pattern, "/") {
		ok, err := path.Match(pattern, p)
		return err == nil && ok
	}
	// The end of the path that has as many parts as the pattern.
	end := len(p)
	for range strings.Count(pattern, "/") + 1 {
		if end = strings.LastIndexByte(p[:end], '/'); end < 0 {
			return false
		}
	}
	ok, err := path.Match(pattern, p[end+1:])
	return err == nil && ok
}
