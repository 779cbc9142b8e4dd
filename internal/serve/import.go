// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/warren-vm/warren/internal/cli"
	"github.com/warren-vm/warren/internal/image"
	"github.com/warren-vm/warren/internal/oci"
	"github.com/warren-vm/warren/vm"
)

// imageImport makes an image of a container image. This is a command of the host's operator, who may
// reach whatever this host reaches, also a registry on loopback. A missing base image, which has the kernel, is
// built first.
func (c commands) imageImport(ctx context.Context, o cli.ImportOptions) (vm.Image, error) {
	dir, err := c.dir(o.Data)
	if err != nil {
		return vm.Image{}, err
	}
	source, err := oci.Parse(o.Source)
	if err != nil {
		return vm.Image{}, err
	}
	l, err := openLocal(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return vm.Image{}, err
	}
	warmUp := func(ctx context.Context, img vm.Image) error { return l.makeWarm(ctx, img, o.Progress) }
	if o.IfMissing {
		list, _ := image.List(dir) // those that can be read
		for _, img := range slices.Backward(list) {
			if img.Container != nil && img.Container.Source == source.String() && (o.Name == "" || o.Name == img.Name) {
				return img, warmUp(ctx, img)
			}
		}
	}
	if _, err := image.Find(dir, image.DefaultName); errors.Is(err, vm.NotFound) {
		base := cli.BuildOptions{Data: o.Data, Recipe: image.DefaultName, HostCAs: true, Progress: o.Progress}
		if _, err := c.imageBuild(ctx, base); err != nil {
			return vm.Image{}, err
		}
	}
	in := image.ImportOptions{Dir: dir, Source: source, Name: o.Name, Progress: o.Progress, Warm: warmUp}
	if o.User != "" {
		in.OCI.Keychain = oci.Login(source, o.User, o.Password)
	}
	return image.Import(ctx, in)
}
