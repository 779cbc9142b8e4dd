// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/vm"
)

type imageImportOptions struct {
	source    string
	name      string
	ifMissing bool
	trust     []string
	user      string // at the registry
	password  string // the file that has it
	json      bool
}

func newImageImport(a *app) *cobra.Command {
	o := &imageImportOptions{}
	cmd := &cobra.Command{
		Use:   "import REF|layout:DIR|archive:FILE|file:FILE",
		Short: "Make an image of a container image, or add one of another server",
		Long: `Make an image of a container image for linux/amd64. REF is oci:NAME, oci:NAME:TAG or
oci:NAME@DIGEST in a registry; without a host's name it is Docker Hub. layout:DIR is a directory in the OCI
layout, and archive:FILE what "docker save" writes, or such a directory as a tar; #TAG behind them chooses one
of several images.

The image keeps its digest. Its environment, user and working directory apply to commands, and its entrypoint
becomes the service "app". A private registry gets the login of "docker login", or --user and the password of
--password-file or standard input. No program of the image runs on this host.

file:FILE is what "warren image export" wrote: the image is added as it was. A file that another server has signed
is refused unless --trust names that server's key: ask its operator for the output of "warren bundle signer". The
whole file is checked before the image appears.`,
		Example: "  warren image import oci:nginx:1.29 --name web\n  warren image import oci:ghcr.io/me/app:2 --user me --password-file token.txt\n  warren image import layout:./build/image\n  warren image import archive:app.tar --json\n  warren image import file:dev.tar.zst --trust SHA256:...",
		Args:    args(1, 1, "which image? warren image import REF|layout:DIR|archive:FILE"),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.source = list[0]
			img, err := a.importAny(cmd.Context(), o)
			if err != nil {
				return err
			}
			if o.json {
				return a.io.json(imageRow{Image: img, Digest: img.Digest()})
			}
			a.describeImport(img)
			return nil
		},
	}
	cmd.Flags().StringVar(&o.name, "name", "", "name of the image (default the last part of its own name)")
	cmd.Flags().BoolVar(&o.ifMissing, "if-missing", false, "keep an image that was imported by the same words")
	cmd.Flags().StringSliceVar(&o.trust, "trust", nil, "with file: trust the key with this fingerprint")
	cmd.Flags().StringVar(&o.user, "user", "", "log in to the registry as this user")
	cmd.Flags().StringVar(&o.password, "password-file", "", "file with the password or token of --user (default standard input)")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

// importAny adds an image by the kind of its source.
func (a *app) importAny(ctx context.Context, o *imageImportOptions) (vm.Image, error) {
	if path, ok := strings.CutPrefix(o.source, "file:"); ok {
		return a.importFile(ctx, path, o.trust)
	}
	return a.importImage(ctx, o)
}

// login returns the password of the registry's user, if one is given.
func (o *imageImportOptions) login(a *app) (password string, err error) {
	switch {
	case o.user == "" && o.password != "":
		return "", usage("--password-file is for a login with --user")
	case o.user == "":
		return "", nil
	case isContainer(o.source) && !strings.HasPrefix(o.source, "oci:"):
		return "", usage("--user is for a registry, and %s is not in one", printable(o.source))
	}
	return a.secretValue("Password: ", "--password-file", o.password)
}

// describeImport prints what an import made.
func (a *app) describeImport(img vm.Image) {
	a.io.printf("%s %s: %s on disk, kernel %s\n", printable(img.Name), img.ID, human(img.DiskBytes), img.Kernel)
	c := img.Container
	if c == nil {
		a.io.printf("%s\n", img.Digest())
		return
	}
	a.io.printf("%s\n", printable(c.Digest))
	if c.Service != "" {
		a.io.notef("its program is the service %s: `warren logs NAME --service %s` shows what it prints", c.Service, c.Service)
	}
}

// isContainer reports whether an argument names a container image by oci:, layout: or archive:.
func isContainer(source string) bool {
	kind, _, ok := strings.Cut(source, ":")
	return ok && (kind == "oci" || kind == "layout" || kind == "archive")
}

// importImage imports a container image and shows the progress.
func (a *app) importImage(ctx context.Context, o *imageImportOptions) (vm.Image, error) {
	if a.local.ImageImport == nil {
		return vm.Image{}, notHere("image import")
	}
	password, err := o.login(a)
	if err != nil {
		return vm.Image{}, err
	}
	var mu sync.Mutex
	step, done, total := "preparing", 0, 0
	p := a.io.progress(func() string {
		mu.Lock()
		defer mu.Unlock()
		text := "import " + printable(o.source) + ": " + step
		if total > 0 {
			text += fmt.Sprintf(" %d%%", 100*done/total)
		}
		return text
	})
	defer p.done()
	return a.local.ImageImport(ctx, ImportOptions{
		Data: a.data, Source: o.source, Name: o.name, IfMissing: o.ifMissing, User: o.user, Password: password,
		Progress: func(s string, d, t int) {
			mu.Lock()
			defer mu.Unlock()
			step, done, total = s, d, t
		},
	})
}
