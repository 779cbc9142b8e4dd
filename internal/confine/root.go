// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// enterRoot changes the process's root to a read-only one that contains only the
// plan's files, each under its path on the host. On an error the process still has
// the host's root.
func (p Plan) enterRoot() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("own mounts: %w", err)
	}
	if err := unix.Mount("warren", p.Root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=1m"); err != nil {
		return fmt.Errorf("tmpfs on %s: %w", p.Root, err)
	}
	for _, set := range []struct {
		paths []string
		attr  uint64
	}{
		{p.Read, unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV},
		{p.Write, unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC},
		{p.Devices, unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC},
	} {
		for _, path := range set.paths {
			if err := show(p.Root, path, set.attr); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	if err := unix.MountSetattr(unix.AT_FDCWD, p.Root, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("read-only root: %w", err)
	}
	if err := unix.Chdir(p.Root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil { // pivot_root(2): the old root is now mounted on the new one
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the host's root: %w", err)
	}
	return unix.Chdir("/")
}

// show makes path, with the symbolic links in it, visible below root.
func show(root, path string, attr uint64) error {
	real, err := mirror(root, filepath.Clean(path), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	at := root + real
	st, err := os.Stat(real)
	if err != nil {
		return err
	}
	if st.IsDir() {
		err = os.MkdirAll(at, 0o755)
	} else {
		err = emptyFile(at)
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(real, at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	var flags uint
	if st.IsDir() {
		flags = unix.AT_RECURSIVE
	}
	return unix.MountSetattr(unix.AT_FDCWD, at, flags, &unix.MountAttr{Attr_set: attr})
}

// emptyFile makes the file over which another one is mounted. A directory that is
// visible already may contain it.
func emptyFile(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, nil, 0o600)
}

// mirror makes below root the symbolic links on the way to path, and returns the
// path without links.
func mirror(root, path string, depth int) (string, error) {
	if depth > 40 {
		return "", unix.ELOOP
	}
	way := "/"
	parts := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, part := range parts {
		way = filepath.Join(way, part)
		st, err := os.Lstat(way)
		if err != nil {
			return "", err
		}
		if st.Mode()&fs.ModeSymlink == 0 {
			continue
		}
		target, err := os.Readlink(way)
		if err != nil {
			return "", err
		}
		if err := os.MkdirAll(root+filepath.Dir(way), 0o755); err != nil {
			return "", err
		}
		if err := os.Symlink(target, root+way); err != nil && !errors.Is(err, fs.ErrExist) {
			return "", err
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(way), target)
		}
		return mirror(root, filepath.Join(append([]string{target}, parts[i+1:]...)...), depth+1)
	}
	return way, nil
}
