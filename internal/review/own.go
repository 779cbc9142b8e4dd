// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/warren-vm/warren/internal/ext4"
	"github.com/warren-vm/warren/vm"
)

// ownReason says why a change is only counted.
const ownReason = "files that Warren or the system writes at every start"

var (
	hostnameForm  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]{0,62}\n?$`)
	machineIDForm = regexp.MustCompile(`^[0-9a-f]{32}\n?$`)
)

// dbusMachineID is a link that the first start makes.
const dbusMachineID = "/var/lib/dbus/machine-id"

// ownLinks are the links, with their targets, that the first start makes.
var ownLinks = func() map[string]string {
	links := map[string]string{dbusMachineID: "/etc/machine-id", vm.GuestCommand: vm.GuestProgram}
	for _, list := range [][2][2]string{vm.InsideCALinks(vm.InsideCAFile), vm.InterceptCALinks(vm.InterceptCAFile)} {
		for _, l := range list {
			links[vm.InsideCertDir+"/"+l[0]] = l[1]
		}
	}
	for _, dir := range vm.ChromiumPolicies() {
		links[dir+"/warren.json"] = vm.ChromiumPolicyFile
	}
	return links
}()

// ownLink reports whether a symbolic link is one of ownLinks.
func (t *tree) ownLink(p string, in *ext4.Inode) (bool, error) {
	want, known := ownLinks[p]
	if !known {
		return false, nil
	}
	target, err := t.fs.Target(in)
	return target == want, err
}

// ownWrites are files that Warren's agent, or systemd, writes whenever a machine
// starts, with a check that the content is what they write and no more.
var ownWrites = map[string]func(was, now []byte) bool{
	"/etc/hostname":                     func(_, now []byte) bool { return hostnameForm.Match(now) },
	"/etc/machine-id":                   func(_, now []byte) bool { return machineIDForm.Match(now) },
	dbusMachineID:                       func(_, now []byte) bool { return machineIDForm.Match(now) },
	"/etc/hosts":                        sameHosts,
	"/etc/.updated":                     nil,
	"/var/.updated":                     nil,
	"/var/lib/systemd/random-seed":      nil,
	"/etc/ssh/ssh_host_ed25519_key":     isHostKey,
	"/etc/ssh/ssh_host_ecdsa_key":       isHostKey,
	"/etc/ssh/ssh_host_rsa_key":         isHostKey,
	"/etc/ssh/ssh_host_ed25519_key.pub": isHostKey,
	"/etc/ssh/ssh_host_ecdsa_key.pub":   isHostKey,
	"/etc/ssh/ssh_host_rsa_key.pub":     isHostKey,
}

// sameHosts reports whether two hosts files differ in the machine's own name only.
func sameHosts(was, now []byte) bool {
	rest := func(text []byte) string {
		var out strings.Builder
		for line := range bytes.Lines(text) {
			if f := bytes.Fields(line); len(f) != 2 || string(f[0]) != "127.0.1.1" {
				out.Write(bytes.TrimSpace(line))
				out.WriteByte('\n')
			}
		}
		return out.String()
	}
	return rest(was) == rest(now)
}

func isHostKey(_, now []byte) bool {
	return len(now) == 0 || bytes.HasPrefix(now, []byte("-----BEGIN")) || bytes.HasPrefix(now, []byte("ssh-")) || bytes.HasPrefix(now, []byte("ecdsa-"))
}

// ownWrite reports whether a change is one that Warren or the system makes at every
// start. A changed mode, owner or type is none.
func (r *report) ownWrite(c *Change) (bool, error) {
	if c.Verb == Added && c.Now.Type == ext4.Symlink {
		return r.now.ownLink(c.Path, c.Now)
	}
	check, known := ownWrites[c.Path]
	if !known || c.Verb == Deleted || c.Now.Type != ext4.Regular || c.Silent || c.Now.Mode&(setID|0o022) != 0 || c.Now.UID != 0 || c.Attrs {
		return false, nil
	}
	if check == nil {
		return true, nil
	}
	now, err := r.now.read(c.Now, 64<<10)
	if err != nil {
		return false, err
	}
	var was []byte
	if c.Was != nil {
		if was, err = r.was.read(c.Was, 64<<10); err != nil {
			return false, err
		}
	}
	return now != nil && check(was, now), nil
}
