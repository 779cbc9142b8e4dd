// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Command dist makes what a release has: for each architecture a Debian package and a static tar.gz, and
// SHA256SUMS. The same commit, built by the same Go and the same dpkg-deb, gives the same bytes: no file has a time
// but the commit's, and no path of the build is in any of them.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// maxDeb is the most that a Debian package may take.
const maxDeb = 60 << 20

func main() {
	out := flag.String("out", "dist", "directory of what is made")
	arches := flag.String("arch", "amd64,arm64", "architectures, with commas between")
	version := flag.String("version", "", "version of the programs (default from the commit)")
	image := flag.String("image", "", "an image of this host: makes a bundle with it for hosts without a network, too")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *out, strings.Split(*arches, ","), *version, *image); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1) //nolint:gocritic // nothing is deferred that matters
	}
}

// release is what all architectures of one release have in common.
type release struct {
	root    string // of the repository
	program string // the version that the programs say
	version string // the version of the packages, by Debian's rules
	made    time.Time
	work    string // temporary files
	out     string
}

func run(ctx context.Context, out string, arches []string, version, image string) (err error) {
	r := release{}
	if r.root, err = os.Getwd(); err != nil {
		return err
	}
	if r.out, err = filepath.Abs(out); err != nil {
		return err
	}
	if r.program, r.version, r.made, err = versions(ctx, version); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil { //nolint:gosec // for everybody
		return err
	}
	if r.work, err = os.MkdirTemp(r.out, ".tmp-"); err != nil {
		return err
	}
	defer os.RemoveAll(r.work)
	var files []string
	for _, arch := range arches {
		made, err := r.architecture(ctx, arch)
		if err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
		files = append(files, made...)
	}
	if image != "" {
		file, err := r.offline(ctx, files, image)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	return sums(filepath.Join(r.out, "SHA256SUMS"), files)
}

// versions returns the version of the programs, that of the packages, and the time of the commit.
func versions(ctx context.Context, program string) (_, deb string, made time.Time, err error) {
	said := func(args ...string) string {
		var out []byte
		if err == nil {
			if out, err = exec.CommandContext(ctx, "git", args...).Output(); err != nil {
				err = fmt.Errorf("git %s: %w", args[0], err)
			}
		}
		return strings.TrimSpace(string(out))
	}
	if program == "" {
		program = said("describe", "--always", "--dirty")
	}
	seconds := said("log", "-1", "--format=%ct")
	if err != nil {
		return "", "", made, err
	}
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return "", "", made, fmt.Errorf("the commit's time %q: %w", seconds, err)
	}
	made = time.Unix(unix, 0).UTC()
	return program, debVersion(program, made), made, nil
}

var released = regexp.MustCompile(`^v?([0-9]+\.[0-9]+[0-9A-Za-z.+~]*)(?:-([0-9]+)-g([0-9a-f]+))?(-dirty)?$`)

// debVersion is the version of a package. dpkg orders those of releases by their numbers, and those between by their
// commits' times.
func debVersion(program string, made time.Time) string {
	at := made.Format("20060102150405")
	if m := released.FindStringSubmatch(program); m != nil {
		v := m[1]
		if m[2] != "" {
			v += "+git" + at + "." + m[3]
		}
		return v + strings.ReplaceAll(m[4], "-", "+")
	}
	return "0.0~git" + at + "." + strings.ReplaceAll(program, "-", "+")
}

// architecture makes the files of one architecture and returns their names.
func (r release) architecture(ctx context.Context, arch string) ([]string, error) {
	fmt.Printf("building %s for %s\n", r.version, arch)
	program := filepath.Join(r.work, arch, "warren")
	if err := r.compile(ctx, arch, program); err != nil {
		return nil, err
	}
	texts, err := r.texts(ctx)
	if err != nil {
		return nil, err
	}
	tree := filepath.Join(r.work, arch, "root")
	if err := r.tree(tree, program, texts); err != nil {
		return nil, err
	}
	if err := r.units(tree, "/usr/bin/warren"); err != nil {
		return nil, err
	}
	deb := filepath.Join(r.out, "warren_"+r.version+"_"+arch+".deb")
	if err := r.deb(ctx, tree, arch, deb); err != nil {
		return nil, err
	}
	st, err := os.Stat(deb)
	if err != nil {
		return nil, err
	}
	if st.Size() > maxDeb {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", deb, st.Size(), maxDeb)
	}
	if err := r.units(tree, "/usr/local/bin/warren"); err != nil { // where people unpack it
		return nil, err
	}
	tgz := filepath.Join(r.out, "warren_"+r.version+"_linux_"+arch+".tar.gz")
	if err := r.tarball(tree, tgz); err != nil {
		return nil, err
	}
	for _, name := range []string{deb, tgz} {
		st, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		fmt.Printf("%s  %.1f MB\n", filepath.Base(name), float64(st.Size())/1e6)
	}
	return []string{deb, tgz}, nil
}

// sums writes the digests of files as sha256sum does.
func sums(name string, files []string) error {
	var b strings.Builder
	for _, file := range slices.Sorted(slices.Values(files)) {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		h := sha256.New()
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s  %s\n", hex.EncodeToString(h.Sum(nil)), filepath.Base(file))
	}
	return os.WriteFile(name, []byte(b.String()), 0o644) //nolint:gosec // for everybody
}
