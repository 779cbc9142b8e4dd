// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/warren-vm/warren/internal/oci"
	"github.com/warren-vm/warren/vm"
)

// containerSource returns the container image that a recipe builds on, if it is one in a registry.
func (r Recipe) containerSource() (oci.Source, bool) {
	if !strings.HasPrefix(r.From, string(oci.Registry)+":") {
		return oci.Source{}, false
	}
	s, err := oci.Parse(r.From)
	return s, err == nil
}

// configure lets the recipe change what the image says of its commands.
func (c *container) configure() {
	cfg := &c.image.Config
	for _, k := range slices.Sorted(maps.Keys(c.recipe.Env)) {
		cfg.Env = append(slices.DeleteFunc(slices.Clone(cfg.Env), func(e string) bool { return strings.HasPrefix(e, k+"=") }), k+"="+c.recipe.Env[k])
	}
	if c.recipe.Workdir != "" {
		cfg.Workdir = c.recipe.Workdir
	}
}

// addRecipe puts the recipe's own files above the image's.
func (b *builder) addRecipe(ctx context.Context) error {
	c := b.container
	r := c.recipe
	if len(r.Services) > 0 && !c.systemd {
		return vm.Errorf(vm.Invalid, r.Name, "the container image has no systemd, so the recipe cannot add services").
			WithHint("start them from the image's entrypoint, or build on an image with systemd")
	}
	if len(r.Files)+len(r.Downloads)+len(r.Services) == 0 {
		return nil
	}
	if b.fetch == nil {
		b.fetch = newDownloader(b.Dir, func(from string) { b.progress("download "+from, 33) }).get
	}
	var body bytes.Buffer
	t := &treeWriter{tw: tar.NewWriter(&body), made: map[string]bool{}}
	for _, d := range r.Downloads {
		path, err := b.fetch(ctx, d)
		if err != nil {
			return err
		}
		t.archive(d, path)
	}
	for _, s := range r.Services {
		if s.Unit != "" {
			t.file("etc/systemd/system/"+s.Name, 0o644, s.Unit)
		}
	}
	for _, f := range r.Files {
		mode := int64(0o644)
		if f.Mode != "" {
			mode, _ = strconv.ParseInt(f.Mode, 8, 32) // checked when parsed
		}
		t.file(strings.TrimPrefix(f.Path, "/"), mode, f.Content)
	}
	if err := errors.Join(t.err, t.tw.Close()); err != nil {
		return fmt.Errorf("files of the recipe: %w", err)
	}
	return c.tree.Add(ctx, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body.Bytes())), nil })
}

// steps writes the tar of what the recipe does in the image; nil = nothing that needs a program of it.
func (c *container) steps(path string) (*os.File, error) {
	r := c.recipe
	owned := slices.ContainsFunc(r.Files, func(f RecipeEntry) bool { return f.Owner != "" })
	if len(r.Packages)+len(r.Users)+len(r.Run)+len(r.Services) == 0 && !owned {
		return nil, nil
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fileError(path, err)
	}
	lists := plan{recipe: r}.lists()
	t := &treeWriter{tw: tar.NewWriter(f), made: map[string]bool{}}
	t.file("run.sh", 0o755, guestFile("container-steps.sh"))
	t.file("packages", 0o644, strings.Join(r.Packages, "\n"))
	t.file("enable", 0o644, strings.ReplaceAll(lists["enable"], "warren-booted.service\n", ""))
	for _, name := range []string{"users", "owners", "disable"} {
		t.file(name, 0o644, lists[name])
	}
	t.file("env", 0o644, environment(r.Env, "'"))
	for name, text := range lists {
		if strings.HasPrefix(name, "run/") {
			t.file(name, 0o644, text)
		}
	}
	err = errors.Join(t.err, t.tw.Close())
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(fileError(path, err), f.Close())
	}
	return f, nil
}
