// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"sync"

	"github.com/warren-vm/warren/vm"
)

// ImageImportFile says which file's image is added.
type ImageImportFile struct {
	Data  string // data directory; "" = as the environment says
	Path  string
	Trust []string // fingerprints of signers, in addition to this server's own
	// Progress is called with the current step and its progress.
	Progress func(step string, done, total int)
}

// importFile adds the image of a file.
func (a *app) importFile(ctx context.Context, path string, trust []string) (vm.Image, error) {
	if a.local.ImageImportFile == nil {
		return vm.Image{}, notHere("image import")
	}
	if path == "" {
		return vm.Image{}, usage("file: names no file").WithHint("write file:FILE")
	}
	var mu sync.Mutex
	step, done, total := "reading", 0, 0
	p := a.io.progress(func() string {
		mu.Lock()
		defer mu.Unlock()
		text := "image of " + printable(path) + ": " + step
		if total > 0 {
			text += fmt.Sprintf(" %d%%", 100*done/total)
		}
		return text
	})
	defer p.done()
	return a.local.ImageImportFile(ctx, ImageImportFile{Data: a.data, Path: path, Trust: trust, Progress: func(s string, d, t int) {
		mu.Lock()
		defer mu.Unlock()
		step, done, total = s, d, t
	}})
}
