// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/layout"
)

// TestRealBuild builds an image with the host's own tools. It takes a minute,
// so it runs only when WARREN_TEST_BUILD names a recipe.
func TestRealBuild(t *testing.T) {
	name := os.Getenv("WARREN_TEST_BUILD")
	if name == "" {
		t.Skip("WARREN_TEST_BUILD names no recipe; the system test builds base")
	}
	path := os.Getenv("WARREN_DATA")
	if path == "" {
		path = t.TempDir()
	}
	dir, err := layout.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := FindRecipe(name)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	img, err := Build(t.Context(), BuildOptions{
		Dir: dir, Recipe: r, HostCAs: true, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Progress: func(step string, done, total int) {
			t.Logf("%6.1f s %3d/%d %s", time.Since(began).Seconds(), done, total, step)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := verify(t.Context(), dir, img); err != nil {
		t.Error(err)
	}
	t.Logf("%+v", img)
}
