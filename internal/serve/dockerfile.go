// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/warren-vm/warren/internal/cli"
	"github.com/warren-vm/warren/internal/devcontainer"
	"github.com/warren-vm/warren/internal/dockerfile"
	"github.com/warren-vm/warren/internal/image"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/oci"
	"github.com/warren-vm/warren/vm"
)

// builderRecipe is the shipped recipe of the VMs that build Dockerfiles.
const builderRecipe = "docker"

// dockerfileBuild builds the Dockerfile of a recipe in a VM, and makes an image of the result.
func dockerfileBuild(ctx context.Context, l *local, o cli.BuildOptions, r image.Recipe) (img vm.Image, err error) {
	dir, file, err := r.BuildContext()
	if err != nil {
		return vm.Image{}, err
	}
	if _, err := dockerfile.Read(dir, file, r.Args); err != nil { // before minutes of work
		return vm.Image{}, err
	}
	builder, err := builderImage(ctx, l.dir, o)
	if err != nil {
		return vm.Image{}, err
	}
	p, err := l.platform(ctx, builder)
	if err != nil {
		return vm.Image{}, err
	}
	machine, err := l.warmOptions(builder, vm.DefaultSize, p)
	if err != nil {
		return vm.Image{}, err
	}
	if err := os.MkdirAll(l.dir.Cache(), 0o700); err != nil {
		return vm.Image{}, layout.Error(l.dir.Cache(), err)
	}
	tmp, err := layout.Temp(l.dir.Cache())
	if err != nil {
		return vm.Image{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	out := filepath.Join(tmp, "built.tar")
	progress := func(step string) {
		if o.Progress != nil {
			o.Progress(step, 0, 0)
		}
	}
	report, err := dockerfile.Build(ctx, dockerfile.Options{
		Machine: machine, Progress: progress,
		Pull: func(ctx context.Context, ref string) (string, error) { return pullFor(ctx, l.dir, tmp, ref) },
	}, dockerfile.Spec{Dir: dir, File: file, Args: r.Args, Target: r.Target}, out)
	if err != nil {
		return vm.Image{}, err
	}
	if o.Say != nil {
		o.Say(fmt.Sprintf("%s: %d steps, %d of them from the cache", r.Dockerfile, report.Steps, report.Cached))
	}
	return image.Import(ctx, image.ImportOptions{
		Dir: l.dir, Source: oci.Source{Kind: oci.Archive, Place: out}, Origin: "dockerfile:" + r.Dockerfile, Name: r.Name, Progress: o.Progress,
		Warm: func(ctx context.Context, img vm.Image) error { return l.makeWarm(ctx, img, o.Progress) },
	})
}

// builderImage returns the newest image of the builder's recipe, and builds one if there is none. The builder
// boots it, so that it needs no warm generation.
func builderImage(ctx context.Context, dir layout.Dir, o cli.BuildOptions) (vm.Image, error) {
	img, err := image.Find(dir, builderRecipe)
	if !errors.Is(err, vm.NotFound) {
		return img, err
	}
	r, err := image.Shipped(builderRecipe)
	if err != nil {
		return vm.Image{}, err
	}
	return image.Build(ctx, image.BuildOptions{Dir: dir, Recipe: r, HostCAs: o.HostCAs, Progress: o.Progress})
}

// loadRecipe finds the recipe that an argument names: a shipped one, one in a directory, or the
// Dockerfile that the devcontainer.json of a directory builds.
func loadRecipe(arg string) (image.Recipe, error) {
	r, err := image.FindRecipe(arg)
	if !errors.Is(err, vm.NotFound) || !image.IsPath(arg) {
		return r, err
	}
	for _, place := range devcontainer.Places {
		text, rerr := readProject(arg, place)
		if rerr != nil {
			continue // the first error says what is missing
		}
		abs, aerr := filepath.Abs(arg)
		if aerr != nil {
			return image.Recipe{}, vm.Errorf(vm.Invalid, arg, "%w", aerr)
		}
		cfg, perr := devcontainer.Parse(filepath.Join(arg, place), filepath.Base(abs), text)
		if perr != nil || cfg.Build == nil {
			return image.Recipe{}, errors.Join(perr, err)
		}
		at := filepath.Dir(place)
		return image.DockerfileRecipe(image.Recipe{
			Name: recipeNameOf(abs), Dir: abs, Dockerfile: filepath.Join(at, cfg.Build.Dockerfile), Context: filepath.Join(at, cfg.Build.Context),
			Args: cfg.Build.Args, Target: cfg.Build.Target,
		})
	}
	return r, err
}

func readProject(dir, place string) (text []byte, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close() // read only
	f, err := root.Open(place)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	return io.ReadAll(io.LimitReader(f, 2<<20))
}

var notInRecipeName = regexp.MustCompile(`[^a-z0-9]+`)

// recipeNameOf makes the name of an image of the name of a directory.
func recipeNameOf(dir string) string {
	n := strings.Trim(notInRecipeName.ReplaceAllString(strings.ToLower(filepath.Base(dir)), "-"), "-")
	if n == "" || n[0] < 'a' {
		n = "project-" + n
	}
	return strings.Trim(n[:min(len(n), 40)], "-")
}

// pullFor downloads an image with the credentials of this user, and writes it to a file in tmp
// for `docker load`.
func pullFor(ctx context.Context, dir layout.Dir, tmp, ref string) (path string, err error) {
	tag, err := oci.Tag(ref)
	if err != nil {
		return "", err
	}
	img, err := oci.Get(ctx, oci.Source{Kind: oci.Registry, Place: ref}, oci.Options{Cache: dir.ContainerParts()})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(ref))
	path = filepath.Join(tmp, hex.EncodeToString(sum[:8])+".tar")
	return path, layout.WriteFunc(path, 0o600, func(w io.Writer) error { return img.Save(ctx, w, tag) })
}
