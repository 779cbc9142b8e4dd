// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// export writes an image of this host into a file, by the program that was just built, and returns the fingerprint of
// the key that signed it.
func (r release) export(ctx context.Context, image, file string) (signer string, err error) {
	cmd := exec.CommandContext(ctx, filepath.Join(r.work, runtime.GOARCH, "warren"), "image", "export", image, file, "--json")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("warren image export %s: %w", image, err)
	}
	var made struct{ Signer string }
	if err := json.Unmarshal(out, &made); err != nil || made.Signer == "" {
		return "", fmt.Errorf("warren image export %s says no signer: %s", image, out)
	}
	return made.Signer, nil
}

// readme says how a host without a network is installed from a bundle.
const readme = `Warren %s, for hosts without a network.

    sha256sum -c SHA256SUMS
    sudo apt install ./%s
    warren image import file:%s --trust %s
    warren up --name first

The second line takes the packages of Debian that Warren needs from this site's
own mirror, or from Debian's DVD: %s.
The third adds the image as it was built, and boots it once. It trusts the key
of the server that built the image; compare its fingerprint with the one that
"warren bundle signer" prints there.
`

// bundle writes one tar with the package, an image that is built already, their digests and what to do with them.
func (r release) bundle(deb, image, signer string) (string, error) {
	depends, err := r.depends()
	if err != nil {
		return "", err
	}
	name := "warren_" + r.version + "_amd64_offline"
	dir := filepath.Join(r.work, "bundle")
	text := fmt.Sprintf(readme, r.version, filepath.Base(deb), filepath.Base(image), signer, depends)
	if err := r.put(dir, "README", 0o644, []byte(text)); err != nil {
		return "", err
	}
	if err := sums(filepath.Join(dir, "SHA256SUMS"), []string{deb, image}); err != nil {
		return "", err
	}
	out := filepath.Join(r.out, name+".tar")
	return out, written(out, func(w io.Writer) error {
		tw := tar.NewWriter(w)
		for _, file := range []string{filepath.Join(dir, "README"), filepath.Join(dir, "SHA256SUMS"), deb, image} {
			if err := r.add(tw, file, name+"/"+filepath.Base(file)); err != nil {
				return errors.Join(err, tw.Close())
			}
		}
		return tw.Close()
	})
}

// add adds one file, which everybody may read.
func (r release) add(tw *tar.Writer, file, name string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: st.Size(), ModTime: r.made, Uname: "root", Gname: "root", Format: tar.FormatGNU}
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.Copy(tw, f)
	return err
}

// offline makes the bundle of a package with an image of this host.
func (r release) offline(ctx context.Context, files []string, image string) (string, error) {
	for _, deb := range files {
		if !strings.HasSuffix(deb, "_amd64.deb") {
			continue
		}
		file := filepath.Join(r.work, image+".tar.zst")
		signer, err := r.export(ctx, image, file)
		if err != nil {
			return "", err
		}
		return r.bundle(deb, file, signer)
	}
	return "", errors.New("a bundle needs the package for amd64: machines start on amd64 only")
}
