// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/vm"
)

func newImage(a *app) *cobra.Command {
	return group("image", "Build, list, move and remove images on this host", "  warren image build base\n  warren image ls",
		newImageBuild(a), newImageLs(a), newImageInspect(a), newImageRm(a), newImageExport(a), newImageImport(a))
}

type imageBuildOptions struct {
	recipe    string
	ifMissing bool
	noHostCA  bool
	noWarm    bool
	json      bool
}

func newImageBuild(a *app) *cobra.Command {
	o := &imageBuildOptions{recipe: "base"}
	cmd := &cobra.Command{
		Use:   "build [RECIPE]",
		Short: "Build an image",
		Long: `Build an image from a recipe: one that is shipped (base, the default,
agents, dev, go, node, python) or a directory with a warren.yaml. It needs no root. An
interrupted build continues where it stopped; an image appears whole or not at all. The image trusts the CAs that
were added to this host, because company networks need it; --no-host-ca turns that off. Before a directory is used for
the first time, and after each change of it, it prints what the recipe does and asks whether you trust it.`,
		Example: "  warren image build\n  warren image build base --if-missing\n  warren image build ./agent-image --no-host-ca",
		Args:    args(0, 1, ""),
		RunE: func(cmd *cobra.Command, list []string) error {
			if len(list) == 1 {
				o.recipe = list[0]
			}
			return a.imageBuild(cmd.Context(), o)
		},
	}
	cmd.ValidArgsFunction = a.completeImages
	cmd.Flags().BoolVar(&o.ifMissing, "if-missing", false, "keep an existing image of that name; make only its missing parts")
	a.trustFlag(cmd)
	cmd.Flags().BoolVar(&o.noWarm, "no-warm", false, "do not boot it, as for an export: its first VM here takes longer")
	cmd.Flags().BoolVar(&o.noHostCA, "no-host-ca", false, "do not install this host's own CAs")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) imageBuild(ctx context.Context, o *imageBuildOptions) error {
	img, err := a.buildWith(ctx, BuildOptions{Data: a.data, Recipe: o.recipe, HostCAs: !o.noHostCA, IfMissing: o.ifMissing, NoWarm: o.noWarm})
	if err != nil {
		return err
	}
	if o.json {
		return a.io.json(img)
	}
	a.io.printf("%s %s: %s on disk, kernel %s, %d packages\n", printable(img.Name), img.ID, human(img.DiskBytes), img.Kernel, img.Packages)
	return nil
}

// build builds an image for a VM that is about to be made.
func (a *app) build(ctx context.Context, recipe string, ifMissing bool) (vm.Image, error) {
	return a.buildWith(ctx, BuildOptions{Data: a.data, Recipe: recipe, HostCAs: true, IfMissing: ifMissing})
}

func (a *app) buildWith(ctx context.Context, o BuildOptions) (vm.Image, error) {
	if a.local.ImageBuild == nil {
		return vm.Image{}, notHere("image build")
	}
	var mu sync.Mutex
	step, done, total := "preparing", 0, 0
	o.Progress = func(s string, d, t int) {
		mu.Lock()
		defer mu.Unlock()
		step, done, total = s, d, t
	}
	o.Trust = a.trust
	var p *progress
	o.AskTrust = func(t Trust) error {
		p.done() // the question needs the line
		return a.askTrust(t)
	}
	var notes []string
	o.Say = func(line string) { notes = append(notes, line) }
	p = a.io.progress(func() string {
		mu.Lock()
		defer mu.Unlock()
		text := "image " + o.Recipe + ": " + step
		if total > 0 {
			text += fmt.Sprintf(" %d%%", 100*done/total)
		}
		return text
	})
	img, err := a.local.ImageBuild(ctx, o)
	p.done()
	for _, line := range notes {
		a.io.notef("%s", printable(line))
	}
	return img, err
}

func newImageLs(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "ls",
		Aliases: []string{"list"},
		Short:   "List images",
		Long: `List images, the oldest first. DISK is the size of the disk that a VM gets at least. OWN is what the image takes on
the host and is freed when it is removed, SHARED is also used by other images: most have the same kernel. Both
include what makes a start fast, the memory of a machine that has booted.`,
		Example: "  warren image ls\n  warren image ls --json",
		Args:    args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.imageLs(cmd.Context(), asJSON)
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func (a *app) imageLs(ctx context.Context, asJSON bool) error {
	if a.local.ImageList == nil {
		return notHere("image ls")
	}
	l, err := a.local.ImageList(ctx, a.data)
	if err != nil {
		return err
	}
	use := map[vm.ImageID]vm.Bytes{}
	if a.local.ImageUse != nil && len(l) > 0 {
		if use, err = a.local.ImageUse(ctx, a.data); err != nil {
			return err
		}
	}
	rows := make([]imageRow, 0, len(l))
	for _, i := range l {
		rows = append(rows, imageRow{Image: i, Digest: i.Digest(), Own: use[i.ID].Unique, Shared: use[i.ID].Shared})
	}
	switch {
	case asJSON:
		return list(a.io, rows)
	case len(l) == 0:
		a.io.notef("no images; `warren image build base` builds one")
		return nil
	}
	t := &table{head: []string{"NAME", "ID", "DIGEST", "DISK", "OWN", "SHARED", "KERNEL", "AGE"}}
	for _, i := range rows {
		t.add(printable(i.Name), string(i.ID), shortDigest(i.Digest), mib(i.DiskMiB), human(i.Own), human(i.Shared), printable(i.Kernel), age(i.CreatedAt))
	}
	a.io.print(t)
	return nil
}

// imageRow is an image as `image ls` and `image inspect` show it.
type imageRow struct {
	vm.Image
	Digest string `json:"digest"`
	// Own is freed when the image is removed; Shared is also used by other images. Both
	// include the warm generations.
	Own    int64 `json:"ownBytes"`
	Shared int64 `json:"sharedBytes"`
}

// shortDigest is a digest as tables show it.
func shortDigest(digest string) string { return vm.Clip(digest, len("sha256:")+12) }

func newImageInspect(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "inspect IMAGE",
		Short:   "Show all details of an image",
		Example: "  warren image inspect base\n  warren image inspect base --json",
		Args:    args(1, 1, "which image? warren image inspect IMAGE"),
		RunE: func(cmd *cobra.Command, list []string) error {
			return a.imageInspect(cmd.Context(), list[0], asJSON)
		},
		ValidArgsFunction: a.completeImages,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func (a *app) imageInspect(ctx context.Context, name string, asJSON bool) error {
	if a.local.ImageInspect == nil {
		return notHere("image inspect")
	}
	i, err := a.local.ImageInspect(ctx, a.data, name)
	if err != nil {
		return err
	}
	var use vm.Bytes
	if a.local.ImageUse != nil {
		all, err := a.local.ImageUse(ctx, a.data)
		if err != nil {
			return err
		}
		use = all[i.ID]
	}
	if asJSON {
		return a.io.json(imageRow{Image: i, Digest: i.Digest(), Own: use.Unique, Shared: use.Shared})
	}
	row := func(name, value string) { a.io.printf("%-12s%s\n", name, value) }
	row("id", string(i.ID))
	row("name", printable(i.Name))
	row("digest", i.Digest())
	row("snapshot", string(i.Snapshot))
	row("made", i.CreatedAt.Local().Format(time.DateTime)+" in "+span(time.Duration(i.BuildTook*float64(time.Second))))
	row("disk", mib(i.DiskMiB)+", "+human(i.DiskBytes)+" on the host")
	row("takes", human(use.Unique)+" of its own, "+human(use.Shared)+" shared with other images")
	row("kernel", printable(i.Kernel))
	row("packages", itoa(i.Packages))
	row("workdir", printable(or(i.Workdir, "/root")))
	if c := i.Container; c != nil {
		row("container", printable(c.Source))
		row("digest", printable(c.Digest))
		row("user", printable(or(c.User, "root")))
	}
	for _, r := range i.Registries {
		row("registry", fmt.Sprintf("%s %s:%d", plain(r.Manager), plain(r.Host), r.Port))
	}
	if len(i.HostCAs) > 0 {
		row("host CAs", plain(strings.Join(i.HostCAs, ", ")))
	}
	return nil
}

type imageRmOptions struct {
	images []string
	force  bool
}

func newImageRm(a *app) *cobra.Command {
	o := &imageRmOptions{}
	cmd := &cobra.Command{
		Use:     "rm IMAGE...",
		Short:   "Remove images",
		Long:    "Remove images from this host. An image that a VM is based on is refused.",
		Example: "  warren image rm dev\n  warren image rm --force base",
		Args:    args(1, -1, "which image? warren image rm IMAGE..."),
		RunE: func(cmd *cobra.Command, list []string) error {
			o.images = list
			return a.imageRm(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeImages,
	}
	cmd.Flags().BoolVar(&o.force, "force", false, "remove also the image that \"warren up\" uses by default")
	return a.changing(cmd)
}

func (a *app) imageRm(ctx context.Context, o *imageRmOptions) error {
	if a.local.ImageRemove == nil {
		return notHere("image rm")
	}
	return a.each(o.images, func(name string) error {
		i, err := a.local.ImageRemove(ctx, a.data, name, o.force)
		if err == nil {
			a.changed(change{Name: name, Result: "removed", text: i.Name + " " + string(i.ID) + " is removed"})
		}
		return err
	})
}
