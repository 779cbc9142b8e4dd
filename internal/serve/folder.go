// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/internal/doctor"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/folder"
	"github.com/warren-vm/warren/vm"
)

// folders implements engine.Folders with this host's kernel.
type folders struct {
	backing doctor.Backing
	own     []string // Warren's directories, which hold its keys and every VM's disk
	users   string   // "/etc/passwd" outside tests
	home    string   // of the user that the server runs as; "" = not known
}

var _ engine.Folders = folders{}

// hostFolders are the directories of this host. own are Warren's.
func hostFolders(own ...string) folders {
	home, _ := os.UserHomeDir() // "" = not known
	return folders{backing: doctor.Host(), own: own, users: "/etc/passwd", home: home}
}

// kernels are the kernel's own file systems.
var kernels = []string{"/proc", "/sys", "/dev"}

// Check identifies the directory at a path and reports whether it is encrypted at rest.
func (f folders) Check(path string) (id vm.FolderID, sealed bool, why string, err error) {
	dir, err := folder.Open(path)
	if err != nil {
		return id, false, "", err
	}
	defer dir.Close()
	refuse := func(why, hint string) error {
		return vm.Errorf(vm.Denied, path, "%s", why).WithCode("HOST_PATH_INVALID", "path", path).WithHint("%s", hint)
	}
	if slices.ContainsFunc(kernels, func(k string) bool { return within(path, k) }) {
		return id, false, "", refuse("it is one of the kernel's own file systems", "give a directory with files")
	}
	for _, own := range f.own {
		if to := unlinked(own); within(path, to) || within(to, path) {
			return id, false, "", refuse("it contains Warren's own keys and disks, or is one of its directories", "give a directory that holds only what the VM needs")
		}
	}
	if id, err = folder.Identity(dir); err != nil {
		return id, false, "", err
	}
	if why, hint := f.sensitive(path, id); why != "" {
		return id, false, "", refuse(why, hint)
	}
	verdict, why := f.backing.Encrypted(path)
	if again, err := folder.Reopen(path, id); err != nil { // the result is about this directory
		return id, false, "", err
	} else {
		again.Close()
	}
	return id, verdict == doctor.Encrypted, why, nil
}

// system are directories that are not shown as a whole.
var system = []string{"/etc", "/root", "/var", "/boot", "/run", "/home"}

// secret are directories that hold keys and credentials, and those in a home.
var (
	secret     = []string{"/etc/ssh", "/etc/ssl/private"}
	homeSecret = []string{".ssh", ".aws", ".gnupg", ".config", ".kube", ".docker"}
)

// Hints of sensitive.
const (
	hintBelow = "show a directory below it that holds only what the VM needs"
	hintCopy  = "copy the one file that the VM needs: `warren cp FILE VM:/path`"
)

// sensitive says why a directory is not shown to a VM, and what to do instead. why "" =
// it may be shown. path contains no link, and is the directory id.
func (f folders) sensitive(path string, id vm.FolderID) (why, hint string) {
	homes := f.homes(path)
	hold := slices.Clone(secret)
	for _, home := range homes {
		for _, name := range homeSecret {
			hold = append(hold, filepath.Join(home, name))
		}
	}
	for _, dir := range hold {
		if is(dir, id) || within(path, unlinked(dir)) {
			return "it is in " + dir + ", where keys and credentials are kept", hintCopy
		}
	}
	for _, dir := range append([]string{"/"}, system...) {
		if is(dir, id) {
			return "it is " + dir + ", a directory of the system", hintBelow
		}
	}
	for _, home := range homes {
		if is(home, id) {
			return "it is a home directory, which holds keys and credentials", hintBelow
		}
	}
	for _, dir := range slices.Concat(system, homes, hold) {
		if within(unlinked(dir), path) {
			return "it contains " + dir, hintBelow
		}
	}
	return "", ""
}

// homes are the home directories of this host's users who log in, that of the server's
// user, and the one in /home that a path is in: not every user is in /etc/passwd.
func (f folders) homes(path string) (homes []string) {
	add := func(dir string) {
		if filepath.IsAbs(dir) && filepath.Clean(dir) != "/" && !slices.Contains(homes, filepath.Clean(dir)) {
			homes = append(homes, filepath.Clean(dir))
		}
	}
	add(f.home)
	if rest, ok := strings.CutPrefix(path, "/home/"); ok {
		name, _, _ := strings.Cut(rest, "/")
		add("/home/" + name)
	}
	data, _ := os.ReadFile(f.users) // without it the others count
	for line := range strings.Lines(string(data)) {
		user := strings.Split(strings.TrimSpace(line), ":")
		if len(user) == 7 && !slices.Contains([]string{"nologin", "false", "sync"}, filepath.Base(user[6])) {
			add(user[5])
		}
	}
	return homes
}

// is reports whether a path leads to a directory, under whatever name.
func is(path string, id vm.FolderID) bool {
	var st unix.Stat_t
	return unix.Stat(path, &st) == nil && id == vm.FolderID{Dev: st.Dev, Ino: st.Ino}
}

// unlinked is a path without links, or the path if nothing is there.
func unlinked(path string) string {
	if to, err := filepath.EvalSymlinks(path); err == nil {
		return to
	}
	return path
}

// within reports whether a path is dir or below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
