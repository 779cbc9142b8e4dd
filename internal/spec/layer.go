// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path"
	"regexp"
	"strings"
	"unicode"

	"github.com/warren-vm/warren/vm"
)

// Layer is one step of a VM's setup. The zero value does nothing.
type Layer struct {
	Run     []string // shell commands of a Dockerfile, run first, in /
	Groups  []Group
	Users   []User
	Apt     []string // Debian packages
	Files   []File   // sorted by path
	GitUser GitUser
	Repos   []Repo
	Units   []vm.Unit
	Patches []vm.Unit
	Workdir string

	Size          vm.Size // zero = not given
	Discriminator string  // distinguishes otherwise equal layers
	SkipCache     bool    `json:"-"` // build it even if it exists
}

// Group is a Linux group.
type Group struct {
	Name   string
	GID    *int
	System bool
}

// User is a Linux user. Home defaults to /home/NAME ("/" for a system user),
// Shell to /bin/bash (/usr/sbin/nologin).
type User struct {
	Name   string
	UID    *int
	Gecos  string
	Groups []string
	Home   string
	Shell  string
	System bool
}

// File is a file with its content.
type File struct {
	Path       string // absolute
	Content    []byte
	Executable bool
}

// GitUser is the author of git commits.
type GitUser struct {
	Name       string
	Email      string
	SigningKey string
}

// Repo is a repository to clone.
type Repo struct {
	URL  string // or the id or name of a repository of this server
	Path string // absolute; "" = the repository's name, in the working directory
	Rev  string // "" = its default branch
}

var hostedRef = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// Hosted returns the id or name of a repository of this server; ok is false for one of
// another server.
func (r Repo) Hosted() (ref string, ok bool) {
	ref = r.URL
	for _, scheme := range []string{"https://", "http://"} {
		if rest, found := strings.CutPrefix(ref, scheme+vm.GitHost+"/"); found {
			ref = strings.TrimSuffix(rest, "/")
			break
		}
	}
	ref = strings.TrimSuffix(ref, ".git")
	return ref, hostedRef.MatchString(ref)
}

// Empty reports whether the layer does nothing.
func (l Layer) Empty() bool {
	return len(l.Run)+len(l.Groups)+len(l.Users)+len(l.Apt)+len(l.Files)+len(l.Repos)+len(l.Units)+len(l.Patches) == 0 && l.GitUser == GitUser{}
}

// Check refuses a layer that cannot be built, with the contract's codes.
func (l Layer) Check() error {
	for _, check := range []func(Layer) error{checkGroups, checkUsers, checkFiles, checkApt, checkRepos, checkUnits} {
		if err := check(l); err != nil {
			return err
		}
	}
	return nil
}

func checkFiles(l Layer) error {
	for _, f := range l.Files {
		if !path.IsAbs(f.Path) || strings.ContainsRune(f.Path, 0) || strings.HasSuffix(f.Path, "/") {
			return bad(f.Path, "not the absolute path of a file")
		}
	}
	return nil
}

var debianPackage = regexp.MustCompile(`^[a-z0-9][a-z0-9+.-]*(:[a-z0-9]+)?([=/][A-Za-z0-9.+:~-]+)?$`)

func checkApt(l Layer) error {
	for _, p := range l.Apt {
		if !debianPackage.MatchString(p) {
			return bad(p, "not the name of a Debian package")
		}
	}
	return nil
}

func checkRepos(l Layer) error {
	for _, r := range l.Repos {
		_, ours := r.Hosted()
		switch {
		case !ours && !strings.Contains(r.URL, "://") && !strings.Contains(r.URL, "@"):
			return bad(r.URL, "neither a repository of this server nor a URL").WithHint("`warren repo ls` lists repositories")
		case strings.HasPrefix(r.URL, "-") || strings.HasPrefix(r.Rev, "-") || strings.ContainsFunc(r.URL+r.Rev+r.Path, unicode.IsControl):
			return bad(r.URL, "not a repository to clone")
		case r.Path != "" && !path.IsAbs(r.Path):
			return bad(r.Path, "a repository's path is not absolute")
		}
	}
	for _, s := range []string{l.GitUser.Name, l.GitUser.Email, l.GitUser.SigningKey} {
		if strings.ContainsFunc(s, unicode.IsControl) {
			return bad("git", "a member of config.user holds a control character")
		}
	}
	return nil
}

func checkUnits(l Layer) error {
	seen := map[string]bool{}
	for _, u := range l.Units {
		if err := CheckUnit(u, false); err != nil {
			return err
		}
		if name := UnitName(u.Name); seen[name] {
			return refuse("SERVICE_ALREADY_EXISTS", u.Name, "the service is named twice").WithCode("SERVICE_ALREADY_EXISTS", "serviceName", name)
		}
		seen[UnitName(u.Name)] = true
	}
	for _, u := range l.Patches {
		if err := CheckUnit(u, true); err != nil {
			return err
		}
	}
	_, err := inOrder(l.Units)
	return err
}

// bad is a refusal of a create request.
func bad(subject, format string, args ...any) *vm.Error {
	return refuse("CREATE_VM_BAD_REQUEST", subject, format, args...)
}

// Key is the digest of a layer's content on its source: the key of the layer
// below it, or the id of an image or generation.
func (l Layer) Key(source string) string {
	h := sha256.New()
	enc := json.NewEncoder(h) // a hash takes every write, and JSON can encode these types
	_ = enc.Encode(struct {
		Format int
		Source string
		Layer  Layer
	}{1, source, l})
	return hex.EncodeToString(h.Sum(nil))
}
