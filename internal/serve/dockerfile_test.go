// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// A directory whose devcontainer.json builds a Dockerfile is a recipe.
func TestLoadRecipeOfDevcontainer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "My Shop")
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal("the directory is not made:", err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal("the file is not written:", err)
		}
	}
	write(".devcontainer/Dockerfile", "FROM debian:12\n")
	write(".devcontainer/devcontainer.json", `{"build": {"dockerfile": "Dockerfile", "context": "..", "args": {"A": "1"}, "target": "dev"}}`)
	r, err := loadRecipe(dir)
	if err != nil {
		t.Fatal("the directory is refused:", err)
	}
	if r.Name != "my-shop" {
		t.Errorf("the image's name is %q", r.Name)
	}
	if r.Instructions != "FROM debian:12\n" {
		t.Errorf("the Dockerfile is %q", r.Instructions)
	}
	at, file, err := r.BuildContext()
	if err != nil {
		t.Fatal("it has no build context:", err)
	}
	if at != dir {
		t.Errorf("the build context is %s, not %s", at, dir)
	}
	if file != ".devcontainer/Dockerfile" {
		t.Errorf("the Dockerfile is %s", file)
	}
	if r.Target != "dev" || r.Args["A"] != "1" {
		t.Errorf("the target is %q and the arguments are %v", r.Target, r.Args)
	}
	write(".devcontainer/devcontainer.json", `{"build": {"dockerfile": "../../Dockerfile"}}`)
	if _, err := loadRecipe(dir); vm.KindOf(err) != vm.Invalid {
		t.Errorf("a Dockerfile outside of the project: the error is %v", err)
	}
	write(".devcontainer/devcontainer.json", `{"image": "debian"}`)
	if _, err := loadRecipe(dir); vm.KindOf(err) != vm.NotFound {
		t.Errorf("a project without a Dockerfile: the error is %v", err)
	}
}
