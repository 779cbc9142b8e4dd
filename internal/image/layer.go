// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/layout"
)

// A layer is the system with the packages of a shipped recipe and of the recipes
// below it, but without their other parts. A build starts from the highest layer
// that an earlier build saved, which saves most of its time. Debian's updates since
// then are installed on top, so that the image is the same as without a layer.
type layer struct {
	recipe   string
	packages []string // with those of lower layers
	path     string
}

// findLayers returns the layers of a recipe, lowest first. Base is always a layer, because most
// recipes build on it; other recipes are saved when a recipe that builds on them is built.
func (b *builder) findLayers() (out []layer, err error) {
	below, err := b.Recipe.below()
	if err != nil {
		return nil, err
	}
	if base, err := Shipped("base"); err != nil {
		return nil, err
	} else if len(below) == 0 && slices.Equal(b.recipe.Packages, base.Packages) {
		below = []Recipe{base}
	}
	slices.Reverse(below)
	var packages []string
	for i, r := range below {
		if i > 0 && len(r.Packages) == 0 {
			continue // its layer would be the one below
		}
		packages = slices.Concat(packages, r.Packages)
		parts := slices.Concat([]string{buildVersion, kernelPackage, b.sources.String()}, dpkgOptions, packages)
		sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
		out = append(out, layer{recipe: r.Name, packages: packages, path: b.Dir.Layer(r.Name, hex.EncodeToString(sum[:8]))})
	}
	return out, nil
}

// openLayers are the layers of one run of mmdebstrap: the one that it starts
// from and the one that it saves, if any.
type openLayers struct {
	restored, saved *os.File
	to              layer
	first           []string // packages that mmdebstrap installs itself
	below, above    []string // packages below the saved layer that are not restored; packages of the recipe
}

func (b *builder) openLayers() (*openLayers, error) {
	o := &openLayers{first: b.recipe.Packages}
	if len(b.layers) == 0 {
		return o, nil
	}
	have := -1
	for i, l := range slices.Backward(b.layers) {
		f, err := os.Open(l.path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fileError(l.path, err)
		}
		o.restored, have = f, i
		now := time.Now()
		if err := os.Chtimes(l.path, now, now); err != nil { // recently used layers are kept
			return nil, errors.Join(fileError(l.path, err), f.Close())
		}
		break
	}
	top := len(b.layers) - 1
	o.to, o.first = b.layers[top], b.layers[top].packages
	o.above = without(b.recipe.Packages, o.to.packages)
	if have == top {
		return o, nil
	}
	if have >= 0 {
		o.below = without(o.to.packages, b.layers[have].packages)
	}
	dir := b.Dir.Layers()
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		o.saved, err = os.CreateTemp(dir, ".tmp-")
	}
	if err != nil {
		return nil, errors.Join(fileError(dir, err), o.close(false))
	}
	return o, nil
}

// without returns the elements of all that are not in some.
func without(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(s string) bool { return slices.Contains(some, s) })
}

// env returns the variables that tell customize.sh about layers.
func (o *openLayers) env() []string {
	flag := map[bool]string{true: "1", false: "0"}
	return []string{
		"WARREN_RESTORED=" + flag[o.restored != nil], "WARREN_SAVE=" + flag[o.saved != nil],
		"WARREN_BELOW=" + strings.Join(o.below, " "), "WARREN_PACKAGES=" + strings.Join(o.above, " "),
	}
}

// close renames a complete saved layer to its final name, and removes older
// layers of that recipe.
func (o *openLayers) close(whole bool) error {
	var errs []error
	if o.restored != nil {
		errs = append(errs, o.restored.Close())
	}
	if o.saved == nil {
		return errors.Join(errs...)
	}
	if !whole {
		return errors.Join(append(errs, o.saved.Close(), os.Remove(o.saved.Name()))...)
	}
	errs = append(errs, o.saved.Sync(), o.saved.Close())
	if err := errors.Join(errs...); err != nil {
		return errors.Join(fileError(o.to.path, err), os.Remove(o.saved.Name()))
	}
	dir := filepath.Dir(o.to.path)
	if err := errors.Join(os.Rename(o.saved.Name(), o.to.path), layout.SyncDir(dir)); err != nil {
		return fileError(o.to.path, err)
	}
	old, err := filepath.Glob(filepath.Join(dir, o.to.recipe+"-*.tar"))
	for _, path := range old {
		if path != o.to.path {
			err = errors.Join(err, removeFile(path))
		}
	}
	return err
}

// removeFile removes a file that another build may have removed.
func removeFile(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

const (
	keepUnused     = 30 * 24 * time.Hour // for files that a build may use again
	keepUnfinished = 24 * time.Hour      // for files of a build that died
)

// prune removes files from a directory of the cache that no build has used for long.
func prune(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		info, ierr := e.Info()
		if ierr != nil {
			continue // another build has removed it
		}
		keep := keepUnused
		if strings.HasPrefix(e.Name(), ".tmp-") {
			keep = keepUnfinished
		}
		if time.Since(info.ModTime()) > keep {
			err = errors.Join(err, removeFile(filepath.Join(dir, e.Name())))
		}
	}
	if err != nil {
		return fmt.Errorf("cleaning %s: %w", dir, err)
	}
	return nil
}
