// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package engine_test

import (
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// A VM whose size is not given has the memory that its image asks for.
func TestMemoryOfTheImage(t *testing.T) {
	s, e, c := site(t)
	img := vmtest.NewImage("large")
	img.MemoryMiB = 2048
	s.World.AddImage(img)
	for want, r := range map[int]engine.CreateRequest{
		2048: {Image: "large"},
		1024: {Image: "large", Size: vm.Size{MemoryMiB: 1024}},
		512:  {Image: "base"},
	} {
		if v := create(t, e, c, r); v.Size.MemoryMiB != want {
			t.Errorf("a VM of %s that wants %d MiB has %d, not %d", r.Image, r.Size.MemoryMiB, v.Size.MemoryMiB, want)
		}
	}
}
