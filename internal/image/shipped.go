// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/warren-vm/warren/internal/interpreter"
	"github.com/warren-vm/warren/vm"
)

//go:embed recipes/*.yaml
var shipped embed.FS

// Names lists the shipped recipes.
func Names() []string {
	entries, err := shipped.ReadDir("recipes")
	if err != nil {
		panic(err) // embedded at compile time
	}
	var out []string
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(out)
	return out
}

// Shipped returns a shipped recipe. Kind NotFound for any other name.
func Shipped(name string) (Recipe, error) {
	if !slices.Contains(Names(), name) {
		return Recipe{}, vm.Errorf(vm.NotFound, name, "no shipped recipe has that name").
			WithHint("shipped recipes: %s; for one of your own name the directory of its %s", strings.Join(Names(), ", "), RecipeFile)
	}
	data, err := shipped.ReadFile("recipes/" + name + ".yaml")
	if err != nil {
		return Recipe{}, vm.Errorf(vm.Internal, name, "shipped recipe: %w", err)
	}
	r, err := Parse(name+".yaml", data)
	for i := range r.Files {
		f := &r.Files[i]
		if f.Source == "" {
			continue
		}
		content, ok := shippedFiles[f.Source]
		if !ok {
			return Recipe{}, vm.Errorf(vm.Internal, name, "shipped recipe: no file %s", f.Source)
		}
		f.Content, f.Source = content, ""
	}
	return r, err
}

// shippedFiles are the files that shipped recipes name as their sources.
var shippedFiles = map[string]string{"code-interpreter.py": interpreter.Server}

// FindRecipe returns the shipped recipe with that name. If the argument has a
// slash or a dot, it loads the recipe from that path.
func FindRecipe(arg string) (Recipe, error) {
	if IsPath(arg) {
		return Load(arg)
	}
	return Shipped(arg)
}

// IsPath reports whether an argument names a directory or file, and not a shipped recipe.
func IsPath(arg string) bool { return strings.ContainsAny(arg, "/.") }

// fromNothing is the value of `from` for a recipe without a base.
const fromNothing = "none"

// Resolve merges r with the recipes that it builds on into one complete
// recipe, whose From is "none".
func (r Recipe) Resolve() (Recipe, error) {
	below, err := r.below()
	if err != nil {
		return Recipe{}, err
	}
	for _, b := range below {
		r = r.over(b)
	}
	return r, nil
}

// below returns the shipped recipes that r builds on, nearest first.
func (r Recipe) below() (out []Recipe, err error) {
	chain := []string{r.Name}
	for from := r.From; from != fromNothing; {
		if from == "" {
			from = "base"
		}
		if slices.Contains(chain, from) && from != r.Name || len(chain) > 8 {
			return nil, vm.Errorf(vm.Invalid, r.Name, "builds on itself: %s", strings.Join(append(chain, from), " from "))
		}
		chain = append(chain, from)
		b, err := Shipped(from)
		if err != nil {
			e := vm.AsError(err)
			return nil, vm.Errorf(vm.Invalid, r.Name, "from %s: %s", from, e.Msg).WithHint("use one of %s, or none", strings.Join(Names(), ", "))
		}
		out, from = append(out, b), b.From
	}
	return out, nil
}

// over merges two recipes: the steps of below come first, then those of r.
func (r Recipe) over(below Recipe) Recipe {
	out := below
	out.Name = r.Name
	for _, p := range r.Packages {
		if !slices.Contains(out.Packages, p) {
			out.Packages = append(out.Packages, p)
		}
	}
	out.Downloads = append(out.Downloads, r.Downloads...)
	for _, f := range r.Files {
		out.Files = slices.DeleteFunc(out.Files, func(o RecipeEntry) bool { return o.Path == f.Path })
		out.Files = append(out.Files, f)
	}
	out.Users = append(out.Users, r.Users...)
	out.Services = append(out.Services, r.Services...)
	out.Run = append(out.Run, r.Run...)
	if len(r.Env) > 0 {
		env := maps.Clone(below.Env)
		if env == nil {
			env = map[string]string{}
		}
		maps.Copy(env, r.Env)
		out.Env = env
	}
	if r.Workdir != "" {
		out.Workdir = r.Workdir
	}
	if r.Memory != 0 {
		out.Memory = r.Memory
	}
	return out
}

// digestWith identifies a build: it hashes the resolved recipe and everything else
// that goes into the image.
func (r Recipe) digestWith(more ...string) (string, error) {
	data, err := json.Marshal(r) // maps are sorted
	if err != nil {
		return "", vm.Errorf(vm.Internal, r.Name, "recipe: %w", err)
	}
	h := sha256.New()
	for _, s := range append([]string{string(data)}, more...) {
		sum := sha256.Sum256([]byte(s))
		h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// yaml renders the recipe.
func (r Recipe) yaml() ([]byte, error) {
	out, err := yaml.Marshal(r)
	if err != nil {
		return nil, errors.Join(vm.Internal, err)
	}
	return out, nil
}
