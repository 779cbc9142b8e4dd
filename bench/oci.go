// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	ociregistry "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/warren-vm/warren/internal/image"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/oci"
)

// byHand is what somebody does without Warren: download, check, unpack, make a disk.
const byHand = `set -eu -o pipefail; cd "$1"
curl -sS -o layer "$2"; echo "$3  layer" | sha256sum -c --quiet
mkdir tree; tar -C tree --numeric-owner --xattrs --xattrs-include='*' -xzpf layer
PATH=$PATH:/usr/sbin mke2fs -q -F -t ext4 -m 0 -E lazy_itable_init=1,lazy_journal_init=1,nodiscard -d tree disk.raw 1024M
qemu-img convert -q -f raw -O qcow2 disk.raw disk.qcow2; sync -f disk.qcow2`

// oci compares the import of a container image of 100 MB, from a registry on loopback and without the warm
// generation, with the same done by hand, and starts of an imported image with those of the base image.
func (b *bench) oci(ctx context.Context) error {
	dir, err := os.MkdirTemp(filepath.Dir(filepath.Dir(b.images)), "bench-oci-") // their file system
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir) // what is left disturbs nobody
	srv := httptest.NewServer(ociregistry.New(ociregistry.Logger(log.New(io.Discard, "", 0))))
	defer srv.Close()
	ref, blob, err := pushSample(srv.URL)
	if err != nil {
		return err
	}
	product := b.rep.series("import of a container image of 100 MB, without the warm generation", "ms", bound{})
	hand := b.rep.series("the same by hand: curl, tar, mke2fs -d, qemu-img", "ms", bound{})
	for i := range max(3, b.n/10) {
		data := filepath.Join(dir, fmt.Sprint("data", i))
		at, err := layout.Open(data)
		if err != nil {
			return err
		}
		if err := borrow(at, b.images); err != nil {
			return err
		}
		began := time.Now()
		_, err = image.Import(ctx, image.ImportOptions{Dir: at, Source: oci.Source{Kind: oci.Registry, Place: ref}, Name: "sample"})
		if err != nil {
			return err
		}
		product.took(time.Since(began))
		work := filepath.Join(dir, fmt.Sprint("hand", i))
		if err := os.Mkdir(work, 0o700); err != nil {
			return err
		}
		began = time.Now()
		cmd := exec.CommandContext(ctx, "bash", "-c", byHand, "bash", work, srv.URL+"/v2/sample/blobs/sha256:"+blob, blob)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("by hand: %w: %s", err, out)
		}
		hand.took(time.Since(began))
		if err := errors.Join(os.RemoveAll(work), os.RemoveAll(data)); err != nil {
			return err
		}
	}
	b.rep.ratio("import of a container image / by hand", product, hand, bound{Max: 1.5})
	return b.importedStarts(ctx, srv.URL)
}

// importedStarts compares creates of VMs from an imported Debian with systemd with those from the base image, in turns.
func (b *bench) importedStarts(ctx context.Context, registry string) error {
	files := filepath.Join(filepath.Dir(filepath.Dir(b.images)), "oci", "debian.tar") // of scripts/test-image.sh
	layer, err := tarball.LayerFromFile(files)
	if err != nil {
		return err
	}
	ref, err := pushImage(registry, "debian:1", layer)
	if err != nil {
		return err
	}
	if err := finish(b.server.cli(ctx, "image", "import", "oci:"+ref, "--name", "imported")); err != nil {
		return err
	}
	first := map[string]*series{
		"imported": b.rep.series("create -> first exec result, an imported Debian", "ms", bound{}),
		"base":     b.rep.series("create -> first exec result, base beside it", "ms", bound{}),
	}
	for i := range b.n + 1 {
		for name, s := range first {
			if i == 0 { // files into the page cache
				s = &series{}
			}
			id, err := timeCreate(ctx, b.server, name, &series{}, s)
			if err != nil {
				return err
			}
			if err := b.server.remove(ctx, id); err != nil {
				return err
			}
		}
	}
	b.rep.ratio("create -> first exec, an imported image / base", first["imported"], first["base"], bound{Max: 1.1})
	return nil
}

// pushSample pushes an image of 100 MB in 4,000 files, which compress by half. It returns its name and the
// digest of its layer.
func pushSample(url string) (ref, blob string, err error) {
	const files, size = 4000, 25 << 10
	random := rand.New(rand.NewPCG(1, 2))
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	body := make([]byte, size)
	for i := range files {
		for j := 0; j < size/2; j++ {
			body[j] = byte(random.Uint32())
		}
		err = errors.Join(err, w.WriteHeader(&tar.Header{Name: fmt.Sprintf("usr/d%d/f%d", i%50, i), Mode: 0o644, Size: size, Typeflag: tar.TypeReg}))
		if _, werr := w.Write(body); werr != nil {
			err = errors.Join(err, werr)
		}
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return "", "", err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil })
	if err != nil {
		return "", "", err
	}
	digest, err := layer.Digest()
	if err != nil {
		return "", "", err
	}
	ref, err = pushImage(url, "sample:1", layer)
	return ref, digest.Hex, err
}

// pushImage pushes an image of one layer for linux/amd64 to a registry, and returns its name there.
func pushImage(registry, as string, layer v1.Layer) (ref string, err error) {
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return "", err
	}
	cfg, err := img.ConfigFile()
	if err != nil {
		return "", err
	}
	cfg = cfg.DeepCopy()
	cfg.OS, cfg.Architecture = "linux", "amd64"
	if img, err = mutate.ConfigFile(img, cfg); err != nil {
		return "", err
	}
	ref = strings.TrimPrefix(registry, "http://") + "/" + as
	at, err := name.ParseReference(ref)
	if err != nil {
		return "", err
	}
	return ref, remote.Write(at, img)
}
