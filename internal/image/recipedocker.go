// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// maxInstructions is the most bytes that a Dockerfile may have.
const maxInstructions = 1 << 20

// checkDockerfile checks the keys that say how a Dockerfile is built.
func (r *Recipe) checkDockerfile() (badValue, bool) {
	bad := func(key, msg string) (badValue, bool) { return badValue{path: []any{key}, msg: msg}, true }
	if r.Dockerfile == "" {
		for key, set := range map[string]bool{"context": r.Context != "", "args": len(r.Args) > 0, "target": r.Target != ""} {
			if set {
				return bad(key, fmt.Sprintf("%s is for a recipe with a dockerfile", key))
			}
		}
		return badValue{}, false
	}
	for _, c := range []struct {
		key string
		set bool
	}{
		{"from", r.From != ""},
		{"packages", len(r.Packages) > 0},
		{"downloads", len(r.Downloads) > 0},
		{"files", len(r.Files) > 0},
		{"users", len(r.Users) > 0},
		{"services", len(r.Services) > 0},
		{"run", len(r.Run) > 0},
		{"env", len(r.Env) > 0},
		{"workdir", r.Workdir != ""},
	} {
		if c.set {
			return bad(c.key, fmt.Sprintf("a recipe with a dockerfile has no %s: the Dockerfile says it", c.key))
		}
	}
	switch {
	case !filepath.IsLocal(filepath.Clean(r.Dockerfile)):
		return bad("dockerfile", fmt.Sprintf("dockerfile %q is not inside the recipe's directory", r.Dockerfile))
	case r.Context != "" && !filepath.IsLocal(filepath.Clean(r.Context)):
		return bad("context", fmt.Sprintf("context %q is not inside the recipe's directory", r.Context))
	case strings.ContainsAny(r.Target, " \n\x00") || strings.HasPrefix(r.Target, "-"):
		return bad("target", fmt.Sprintf("target %q is not the name of a stage", r.Target))
	}
	for name, value := range r.Args {
		if !envName.MatchString(name) || strings.ContainsRune(value, 0) {
			return bad("args", fmt.Sprintf("args %q: a name has letters, digits and _", name))
		}
	}
	return badValue{}, false
}

// DockerfileRecipe makes a recipe of a Dockerfile that no warren.yaml names. r has Name, Dir and the
// keys of a Dockerfile; paths are relative to Dir. Kind Invalid.
func DockerfileRecipe(r Recipe) (Recipe, error) {
	if b, wrong := r.check(); wrong {
		return Recipe{}, vm.Errorf(vm.Invalid, r.Dir, "%s", b.msg)
	}
	root, err := os.OpenRoot(r.Dir)
	if err != nil {
		return Recipe{}, vm.Errorf(vm.Invalid, r.Dir, "directory not readable: %w", err)
	}
	defer root.Close() // read only
	err = r.loadDockerfile(root)
	return r, err
}

// loadDockerfile reads the Dockerfile's text, so that the recipe's digest changes with it.
func (r *Recipe) loadDockerfile(root *os.Root) (err error) {
	if r.Dir, err = filepath.Abs(root.Name()); err != nil {
		return vm.Errorf(vm.Invalid, root.Name(), "%w", err)
	}
	text, err := readSource(root, filepath.Clean(r.Dockerfile), maxInstructions)
	r.Instructions = string(text)
	return err
}

// BuildContext is the directory whose files the Dockerfile may use, and the Dockerfile's path
// relative to it.
func (r Recipe) BuildContext() (dir, file string, err error) {
	root, err := os.OpenRoot(r.Dir)
	if err != nil {
		return "", "", vm.Errorf(vm.Invalid, r.Dir, "directory not readable: %w", err)
	}
	defer root.Close() // read only
	// A link could lead to any files of this host, and the build can send them anywhere.
	if st, err := root.Stat(filepath.Clean(orDefault(r.Context, "."))); err != nil || !st.IsDir() {
		return "", "", vm.Errorf(vm.Invalid, r.Context, "is no directory inside %s", r.Dir).
			WithHint("the context must be a directory of the recipe, and not a link out of it")
	}
	dir = filepath.Join(r.Dir, r.Context)
	file, err = filepath.Rel(dir, filepath.Join(r.Dir, r.Dockerfile))
	if err != nil || !filepath.IsLocal(file) {
		return "", "", vm.Errorf(vm.Invalid, r.Dockerfile, "is not inside its build context %s", dir).
			WithHint("move the Dockerfile into the context, or leave out context")
	}
	return dir, file, nil
}
