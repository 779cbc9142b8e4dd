// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package link

import "github.com/warren-vm/warren/vm"

// EncodeUser renders a Linux user for the wire.
func EncodeUser(u vm.LinuxUser) []byte {
	var f fields
	f.put("name", u.Name)
	f.num("uid", int64(u.UID))
	f.num("gid", int64(u.GID))
	f.opt("home", u.Home)
	f.opt("shell", u.Shell)
	return f
}

// DecodeUser reads what EncodeUser wrote.
func DecodeUser(b []byte) (vm.LinuxUser, error) {
	var u vm.LinuxUser
	err := each(b, func(name, value string) error {
		switch name {
		case "name":
			u.Name = value
		case "uid":
			return number(&u.UID, value)
		case "gid":
			return number(&u.GID, value)
		case "home":
			u.Home = value
		case "shell":
			u.Shell = value
		}
		return nil
	})
	return u, err
}
