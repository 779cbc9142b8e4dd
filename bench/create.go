// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// create measures create → first result, compared with raw QEMU on the same
// generation and with the cold boot of the same VM.
func (b *bench) create(ctx context.Context) error {
	product := b.rep.series("create -> first exec result", "ms", bound{Max: 250})
	created := b.rep.series("create, until it answers", "ms", bound{})
	floor := b.floor("create")
	cold := b.rep.series("cold boot -> first exec result", "ms", bound{})

	id, err := timeCreate(ctx, b.server, "base", nil, nil) // the first one may build the warm generation
	if err != nil {
		return err
	}
	gen, dir, err := b.generation()
	if err != nil {
		return errors.Join(err, b.server.remove(ctx, id))
	}
	if err := b.rawRestore(ctx, gen, dir, nil); err != nil { // into the page cache
		return errors.Join(err, b.server.remove(ctx, id))
	}
	colds := max(3, b.n/5)
	for i := range b.n {
		one, err := timeCreate(ctx, b.server, "base", created, product)
		if err != nil {
			return err
		}
		if err := b.server.remove(ctx, one); err != nil {
			return err
		}
		if err := b.rawRestore(ctx, gen, dir, floor); err != nil {
			return err
		}
		if i*colds/b.n != (i+1)*colds/b.n {
			if err := b.coldBoot(ctx, id, cold); err != nil {
				return err
			}
		}
	}
	floor.beside("create", created, product)
	b.rep.ratio("cold boot / create -> first exec", cold, product, bound{Min: 8})
	return b.server.remove(ctx, id)
}

// timeCreate makes a VM from an image or a snapshot and runs a first command in it.
func timeCreate(ctx context.Context, on *server, of string, created, first *series) (string, error) {
	began := time.Now()
	id, err := on.createOf(ctx, of, vm.NetClosed)
	if err != nil {
		return "", err
	}
	answered := time.Since(began)
	if err := on.exec(ctx, id, "true"); err != nil {
		return "", errors.Join(err, on.remove(ctx, id))
	}
	created.took(answered)
	first.took(time.Since(began))
	return id, nil
}

// coldBoot stops the VM and boots it from its disk.
func (b *bench) coldBoot(ctx context.Context, id string, s *series) error {
	if err := b.server.call(ctx, "POST", "/v1/vms/"+id+"/stop", nil, nil); err != nil {
		return err
	}
	began := time.Now()
	if err := b.server.call(ctx, "POST", "/v1/vms/"+id+"/start", map[string]any{}, nil); err != nil {
		return err
	}
	if err := b.server.exec(ctx, id, "true"); err != nil {
		return err
	}
	s.took(time.Since(began))
	return nil
}

// generation finds the newest warm generation of the base image in the default
// size, which create uses.
func (b *bench) generation() (vm.Manifest, layout.GenerationDir, error) {
	var best vm.Manifest
	var at layout.GenerationDir
	images, err := filepath.Glob(filepath.Join(b.server.dir.Images(), "im-*"))
	if err != nil {
		return best, at, err
	}
	for _, image := range images {
		id := vm.ImageID(filepath.Base(image))
		var img vm.Image
		if err := layout.ReadJSON(b.server.dir.ImageManifest(id), &img); err != nil || img.Name != "base" {
			continue
		}
		keys, err := os.ReadDir(b.server.dir.WarmRoot(id))
		if err != nil {
			continue
		}
		for _, k := range keys {
			dir := layout.GenerationDir(b.server.dir.Warm(id, k.Name()))
			var g vm.Manifest
			if err := layout.ReadJSON(dir.Manifest(), &g); err == nil && g.Size == vm.DefaultSize && g.CreatedAt.After(best.CreatedAt) {
				best, at = g, dir
			}
		}
	}
	if at == "" {
		return best, at, errors.New("no warm generation of the image base in the default size")
	}
	return best, at, nil
}
