// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/warren-vm/warren/internal/cli"
	"github.com/warren-vm/warren/internal/image"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// maxTrusted bounds the file of trusted recipes; the oldest go first.
const maxTrusted = 1000

// readTrust reads the recipes that somebody trusts; no file = none.
func readTrust(dir layout.Dir) (list []cli.Trust, err error) {
	data, err := os.ReadFile(dir.Trust())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &list)
	}
	if err != nil {
		return nil, vm.Errorf(vm.Corrupt, dir.Trust(), "it cannot be read: %w", err).WithHint("remove the file; Warren then asks again")
	}
	return list, nil
}

// changeTrust replaces the trusted recipes.
func changeTrust(ctx context.Context, dir layout.Dir, f func([]cli.Trust) []cli.Trust) error {
	lock, err := layout.WaitLock(ctx, dir.TrustLock())
	if err != nil {
		return err
	}
	defer func() { _ = lock.Unlock() }()
	list, err := readTrust(dir)
	if err != nil {
		return err
	}
	list = f(list)
	list = list[max(len(list)-maxTrusted, 0):]
	for i := range list {
		list[i].Says = nil
	}
	data, err := json.MarshalIndent(list, "", "  ")
	if err != nil {
		return vm.Errorf(vm.Internal, dir.Trust(), "%w", err)
	}
	return layout.WriteFile(dir.Trust(), append(data, '\n'), 0o600)
}

// trustOf describes a recipe's directory for the one who is to trust it.
func trustOf(arg string, r image.Recipe) (cli.Trust, error) {
	digest, err := r.Digest()
	if err != nil {
		return cli.Trust{}, err
	}
	if abs, err := filepath.Abs(arg); err == nil {
		arg = abs
	}
	return cli.Trust{Dir: arg, Digest: digest, Says: r.Says()}, nil
}

// verifyTrust has a recipe of the user trusted before anything of it is used. What it judges
// is what is built: the recipe and its files have been read already.
func verifyTrust(ctx context.Context, dir layout.Dir, o cli.BuildOptions, r image.Recipe) error {
	if !image.IsPath(o.Recipe) {
		return nil // shipped with Warren
	}
	t, err := trustOf(o.Recipe, r)
	if err != nil {
		return err
	}
	list, err := readTrust(dir)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(list, func(old cli.Trust) bool { return old.Digest == t.Digest }) {
		return nil
	}
	switch {
	case o.Trust == t.Digest:
	case o.Trust != "":
		return vm.Errorf(vm.Denied, o.Recipe, "the recipe has the digest %s, and --trust names another one", t.Digest).
			WithCode("UNTRUSTED", "digest", t.Digest).WithHint("look at what changed, then use --trust %s", t.Digest)
	case o.AskTrust == nil:
		return vm.Errorf(vm.Denied, o.Recipe, "nobody has trusted this recipe").WithCode("UNTRUSTED", "digest", t.Digest).WithHint("`warren trust add %s`", o.Recipe)
	default:
		if err := o.AskTrust(t); err != nil {
			return err
		}
	}
	return addTrust(ctx, dir, t)
}

func addTrust(ctx context.Context, dir layout.Dir, t cli.Trust) error {
	t.Since = time.Now().UTC().Truncate(time.Second)
	return changeTrust(ctx, dir, func(list []cli.Trust) []cli.Trust {
		list = slices.DeleteFunc(list, func(old cli.Trust) bool { return old.Digest == t.Digest })
		return append(list, t)
	})
}

// trusts are the functions of the command line for trusted recipes.
func (c commands) trusts() cli.Trusts {
	return cli.Trusts{
		Look: func(_ context.Context, recipe string) (cli.Trust, error) {
			r, err := loadRecipe(recipe)
			if err != nil {
				return cli.Trust{}, err
			}
			return trustOf(recipe, r)
		},
		Add: func(ctx context.Context, data string, t cli.Trust) error {
			dir, err := c.dir(data)
			if err != nil {
				return err
			}
			return addTrust(ctx, dir, t)
		},
		List: func(_ context.Context, data string) ([]cli.Trust, error) {
			dir, err := c.dir(data)
			if err != nil {
				return nil, err
			}
			return readTrust(dir)
		},
		Remove: func(ctx context.Context, data, ref string) error {
			dir, err := c.dir(data)
			if err != nil {
				return err
			}
			abs, _ := filepath.Abs(ref) // "" matches nothing
			found := false
			err = changeTrust(ctx, dir, func(list []cli.Trust) []cli.Trust {
				return slices.DeleteFunc(list, func(t cli.Trust) bool {
					is := t.Digest == ref || t.Dir == abs
					found = found || is
					return is
				})
			})
			if err == nil && !found {
				err = vm.Errorf(vm.NotFound, ref, "it is not trusted").WithHint("`warren trust ls` lists what is")
			}
			return err
		},
	}
}
