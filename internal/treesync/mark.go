// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package treesync

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// markAttr is the extended attribute of a directory that holds a pair's mark.
const markAttr = "user.warren.sync."

// readMark returns the mark of a directory; "" = it has none, or its file system
// keeps none.
func readMark(root *os.Root, pair string) (string, error) {
	f, err := root.Open(".")
	if err != nil {
		return "", err
	}
	defer f.Close()
	buf := make([]byte, 64)
	n, err := unix.Fgetxattr(int(f.Fd()), markAttr+pair, buf)
	switch {
	case errors.Is(err, unix.ENODATA), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ERANGE):
		return "", nil
	case err != nil:
		return "", os.NewSyscallError("fgetxattr", err)
	}
	return string(buf[:n]), nil
}

// settle sets the mark of a tree and puts all changes of its file system on disk.
func settle(root *os.Root, mark Mark) error {
	f, err := root.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	if mark.Pair != "" {
		err := unix.Fsetxattr(int(f.Fd()), markAttr+mark.Pair, []byte(mark.Value), 0)
		if err != nil && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) {
			return os.NewSyscallError("fsetxattr", err)
		} // without one, a rollback is not noticed
	}
	return os.NewSyscallError("syncfs", unix.Syncfs(int(f.Fd())))
}
