// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/vm"
)

// ImageExport says which image is written into which file.
type ImageExport struct {
	Data    string // data directory; "" = as the environment says
	Image   string
	Path    string
	Written func(int64) // is called with the bytes of the file so far
}

// ExportedImage is a file with an image.
type ExportedImage struct {
	Path   string   `json:"path"`
	Bytes  int64    `json:"bytes"`
	Image  vm.Image `json:"image"`
	Digest string   `json:"digest"` // of the image
	Signer string   `json:"signer"` // fingerprint of the key that signed the file
}

func newImageExport(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "export IMAGE FILE",
		Short: "Write an image into a file for another server",
		Long: `Write an image into a signed file: its disk, its kernel and its modules. On another server, "warren image import
file:FILE" adds it, with the same id and digest, and boots it once. Each of its files is compared with the image's
manifest, so that a damaged image is not passed on. FILE must not exist yet.`,
		Example: "  warren image export dev dev.tar.zst\n  warren image export im-0123456789abcdef image.tar.zst --json",
		Args:    args(2, 2, "which image, and into which file? warren image export IMAGE FILE"),
		RunE: func(cmd *cobra.Command, list []string) error {
			return a.imageExport(cmd.Context(), list[0], list[1], asJSON)
		},
		ValidArgsFunction: func(cmd *cobra.Command, list []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(list) == 1 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return a.completeImages(cmd, list, prefix)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func (a *app) imageExport(ctx context.Context, name, path string, asJSON bool) error {
	if a.local.ImageExport == nil {
		return notHere("image export")
	}
	if err := mustBeNew(path); err != nil {
		return vm.Errorf(vm.Exists, path, "there is such a file already").WithHint("choose another name")
	}
	var n atomic.Int64
	p := a.io.progress(func() string { return fmt.Sprintf("image %s: %s written", printable(name), human(n.Load())) })
	out, err := a.local.ImageExport(ctx, ImageExport{Data: a.data, Image: name, Path: path, Written: n.Store})
	p.done()
	switch {
	case err != nil:
		return err
	case asJSON:
		return a.io.json(out)
	}
	a.io.printf("%s: %s %s, %s\ndigest %s\nsigned by %s\n", out.Path, printable(out.Image.Name), out.Image.ID, human(out.Bytes), out.Digest, out.Signer)
	return nil
}
