// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// depends are the packages in deploy/install-deps.sh that Warren needs on a host, without those of the tests.
func (r release) depends() (string, error) {
	data, err := os.ReadFile(filepath.Join(r.root, "deploy/install-deps.sh"))
	if err != nil {
		return "", err
	}
	names := []string{"passwd"} // useradd, for the package itself
	for _, m := range regexp.MustCompile(`(?m)^need \S+ (\S+)$`).FindAllStringSubmatch(string(data), -1) {
		names = append(names, m[1])
	}
	if len(names) == 1 {
		return "", errors.New("deploy/install-deps.sh names no package")
	}
	return strings.Join(names, ", "), nil
}

// tree lays out the files of a package below a directory.
func (r release) tree(dir, program string, more texts) error {
	bin, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	if err := r.put(dir, "usr/bin/warren", 0o755, bin); err != nil {
		return err
	}
	if err := os.Symlink("warren", filepath.Join(dir, "usr/bin/mvmctl")); err != nil {
		return err
	}
	for from, to := range map[string]string{"LICENSE": "usr/share/doc/warren/copyright", "README.md": "usr/share/doc/warren/README.md"} {
		text, err := os.ReadFile(filepath.Join(r.root, from))
		if err != nil {
			return err
		}
		if err := r.put(dir, to, 0o644, text); err != nil {
			return err
		}
	}
	for to, text := range more {
		if err := r.put(dir, to, 0o644, text); err != nil {
			return err
		}
	}
	return nil
}

// units writes systemd's units for a program at a path. Their comments on the installation are for other ways.
func (r release) units(dir, program string) error {
	for from, to := range map[string]string{"deploy": "usr/lib/systemd/system", "deploy/user": "usr/lib/systemd/user"} {
		for _, name := range []string{"warren.service", "warren-drain.service"} {
			text, err := os.ReadFile(filepath.Join(r.root, from, name))
			if err != nil {
				return err
			}
			_, rest, found := strings.Cut(string(text), "[Unit]")
			if !found {
				return fmt.Errorf("%s/%s has no [Unit]", from, name)
			}
			rest = strings.NewReplacer("/usr/local/bin/warren", program, "%h/.local/bin/warren", program).Replace(rest)
			if err := r.put(dir, filepath.Join(to, name), 0o644, []byte("[Unit]"+rest)); err != nil {
				return err
			}
		}
	}
	return nil
}

// put writes a file of a package. The modes do not follow the caller's umask.
func (r release) put(dir, name string, mode fs.FileMode, data []byte) error {
	name = filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil { //nolint:gosec // as a package has it
		return err
	}
	if err := os.WriteFile(name, data, mode); err != nil {
		return err
	}
	return os.Chmod(name, mode)
}

// deb makes a Debian package of a tree.
func (r release) deb(ctx context.Context, tree, arch, out string) error {
	depends, err := r.depends()
	if err != nil {
		return err
	}
	var size int64
	err = filepath.WalkDir(tree, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() {
			return os.Chmod(path, 0o755) //nolint:gosec // as a package has it
		}
		info, err := e.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	if err != nil {
		return err
	}
	control := fmt.Sprintf(`Package: warren
Version: %s
Architecture: %s
Maintainer: The Warren Authors <authors@warren-vm.invalid>
Installed-Size: %d
Depends: %s
Recommends: dbus-user-session, ca-certificates
Section: admin
Priority: optional
Homepage: https://%s
Description: Linux virtual machines for AI agents, on hardware that you own
 Warren gives each agent a Linux virtual machine with its own kernel, disk,
 processes, users and ports. A machine starts from a warm image in a fraction
 of a second. It can be forked while it runs, suspended and rolled back.
`, r.version, arch, (size+1023)/1024, depends, module)
	if err := r.put(tree, "DEBIAN/control", 0o644, []byte(control)); err != nil {
		return err
	}
	for _, name := range []string{"preinst", "postinst", "prerm", "postrm"} {
		script, err := os.ReadFile(filepath.Join(r.root, "deploy/deb", name))
		if err != nil {
			return err
		}
		if err := r.put(tree, "DEBIAN/"+name, 0o755, script); err != nil {
			return err
		}
	}
	defer os.RemoveAll(filepath.Join(tree, "DEBIAN")) // it is no file of the tar.gz
	if err := os.Chmod(filepath.Join(tree, "DEBIAN"), 0o755); err != nil {
		return err
	}
	// dpkg-deb sorts the files, and takes no time from them that is after the commit's. It makes the rest the same.
	cmd := exec.CommandContext(ctx, "dpkg-deb", "--root-owner-group", "-Zxz", "-z6", "--build", tree, out)
	cmd.Env = append(os.Environ(), fmt.Sprintf("SOURCE_DATE_EPOCH=%d", r.made.Unix()), "LC_ALL=C", "TZ=UTC")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("dpkg-deb: %w: %s", err, said)
	}
	return nil
}

// tarball writes a tree as a tar.gz whose one directory is named like itself.
func (r release) tarball(tree, out string) error {
	top := strings.TrimSuffix(filepath.Base(out), ".tar.gz")
	return written(out, func(w io.Writer) error {
		zw, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}
		tw := tar.NewWriter(zw)
		err = filepath.WalkDir(tree, func(path string, e fs.DirEntry, err error) error { // in the order of names
			if err != nil {
				return err
			}
			name, err := filepath.Rel(tree, path)
			if err != nil {
				return err
			}
			return r.entry(tw, path, filepath.ToSlash(filepath.Join(top, strings.TrimPrefix(name, "usr/"))), e)
		})
		return errors.Join(err, tw.Close(), zw.Close())
	})
}

// entry adds one file, with the commit's time and no owner of this machine.
func (r release) entry(tw *tar.Writer, path, name string, e fs.DirEntry) error {
	info, err := e.Info()
	if err != nil {
		return err
	}
	if e.IsDir() { // made by what is in it
		return nil
	}
	link := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if link, err = os.Readlink(path); err != nil {
			return err
		}
	}
	h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: int64(info.Mode().Perm()), Size: info.Size(), ModTime: r.made, Uname: "root", Gname: "root", Format: tar.FormatUSTAR}
	if link != "" {
		h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, link, 0
	}
	if err := tw.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(tw, f)
	return err
}

// written writes a file as a whole or not at all.
func written(name string, do func(io.Writer) error) error {
	f, err := os.Create(name + ".tmp")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // if it was not renamed
	if err := errors.Join(do(f), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// gzipped compresses a text; the result depends on nothing else.
func gzipped(text []byte) ([]byte, error) {
	var b bytes.Buffer
	zw, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := zw.Write(text); err != nil {
		return nil, err
	}
	if err := zw.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
