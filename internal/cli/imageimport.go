// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/vm"
)

type imageImportOptions struct {
	from  string
	trust []string
	json  bool
}

func newImageImport(a *app) *cobra.Command {
	o := &imageImportOptions{}
	cmd := &cobra.Command{
		Use:   "import file:FILE",
		Short: "Add an image from elsewhere",
		Long: `Add the image of a file that "warren image export" wrote, and boot it once, so that VMs start fast. A file that
another server has signed is refused unless --trust names that server's key: ask its operator for the output of
"warren bundle signer". The whole file is checked before the image appears. An image that is there already is kept.`,
		Example: "  warren image import file:dev.tar.zst\n  warren image import file:dev.tar.zst --trust SHA256:...",
		Args:    args(1, 1, "which image? warren image import file:FILE"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.from = list[0]
			return a.imageImport(cmd.Context(), o)
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.trust, "trust", nil, "with file: trust the key with this fingerprint")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

// imageImport adds an image by the kind of its source.
func (a *app) imageImport(ctx context.Context, o *imageImportOptions) error {
	var img vm.Image
	var err error
	switch kind, rest, _ := strings.Cut(o.from, ":"); kind {
	case "file":
		img, err = a.importFile(ctx, o, rest)
	default:
		err = usage("%s names no image", printable(o.from)).WithHint("write file:FILE for a file of `warren image export`")
	}
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(imageRow{Image: img, Digest: img.Digest()})
	}
	a.io.printf("%s %s: %s on disk, kernel %s\ndigest %s\n", printable(img.Name), img.ID, human(img.DiskBytes), printable(img.Kernel), img.Digest())
	return nil
}
