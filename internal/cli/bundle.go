// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

// BundleInfo is what a bundle contains.
type BundleInfo struct {
	Path         string    `json:"path"`
	Made         time.Time `json:"made"`
	Server       string    `json:"server"`
	Warren       string    `json:"warren"` // version of the program
	Signer       string    `json:"signer"` // fingerprint
	Trusted      bool      `json:"trusted"`
	VM           vm.ID     `json:"vm"`
	Name         string    `json:"name"`
	State        vm.State  `json:"state"`
	Machine      bool      `json:"machine"`
	Memory       bool      `json:"memory"`
	Image        string    `json:"image"`
	HasImage     bool      `json:"hasImage"`
	Repositories []string  `json:"repositories"`
	Receipts     int       `json:"receipts"`
	Bytes        int64     `json:"bytes"`

	Objects     []BundleObject `json:"objects"`
	ObjectsLeft int            `json:"objectsLeft"` // published versions that are beyond its limits

	Entries []BundleEntry `json:"entries"`
}

// BundleObject is one version of an object in a bundle.
type BundleObject struct {
	Entry   string `json:"entry"` // path of its bytes
	Bucket  string `json:"bucket"`
	Key     string `json:"key"`
	Version string `json:"version"`
	Size    int64  `json:"size"`
}

// BundleEntry is one file of a bundle.
type BundleEntry struct {
	Path   string `json:"path"`
	Kind   string `json:"kind"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

func newBundle(a *app) *cobra.Command {
	return group("bundle", "Hand a VM over to another server", "  warren bundle create box --machine\n  warren bundle open box.tar.zst --trust SHA256:...",
		newBundleCreate(a), newBundleInspect(a), newBundleOpen(a), newBundleSigner(a))
}

type bundleOptions struct {
	out      string
	machine  bool
	image    bool
	maxBytes string
	name     string
	trust    []string
	json     bool
}

func newBundleCreate(a *app) *cobra.Command {
	o := &bundleOptions{}
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Pack a VM into a signed file",
		Long: `Pack a VM into a signed file: the repositories that it uses or has committed into, the objects that were published
from it (the newest 1,000 versions), its record, and its receipts. --machine adds its disk and, unless it is
stopped, its memory: on another server it continues. A running VM keeps running. --image adds the image that its
disk stands on, for a server that lacks it. The file may contain secrets that are in the VM: it has mode 0600.`,
		Example: "  warren bundle create box -o box.tar.zst\n  warren bundle create box --machine\n  warren bundle create box --machine --image",
		Args:    args(1, 1, "NAME is missing"),
		RunE:    func(cmd *cobra.Command, list []string) error { return a.bundleCreate(cmd.Context(), o, list[0]) },

		ValidArgsFunction: a.completeVM,
	}
	f := cmd.Flags()
	f.StringVarP(&o.out, "output", "o", "", "the file to write (default NAME.tar.zst)")
	f.BoolVar(&o.machine, "machine", false, "pack its disk and memory, too")
	f.BoolVar(&o.image, "image", false, "pack the image that its disk stands on, too")
	f.StringVar(&o.maxBytes, "max-bytes", "10G", "most bytes of published objects, the newest first; 0 = any number")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) bundleCreate(ctx context.Context, o *bundleOptions, ref string) error {
	if a.local.BundleInspect == nil {
		return notHere("bundle create")
	}
	most, err := parseBytes(o.maxBytes, 1)
	if err != nil {
		return err
	}
	path := or(o.out, ref+".tar.zst")
	if st, err := os.Stat(path); err == nil && st.IsDir() {
		path = filepath.Join(path, ref+".tar.zst")
	}
	if err := mustBeNew(path); err != nil {
		return err
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	get := func(ctx context.Context) (io.ReadCloser, error) {
		return c.Bundle(ctx, ref, client.BundleOptions{Machine: o.machine, Image: o.image, MaxBytes: &most})
	}
	if err := a.download(path, "packing "+ref, get, ctx, func(w io.Writer) (io.WriteCloser, error) { return unwrapped{w}, nil }); err != nil {
		return err
	}
	info, err := a.local.BundleInspect(ctx, path, o.trust)
	if err != nil {
		return err
	}
	if o.json {
		return a.io.json(info)
	}
	a.showBundle(info)
	return nil
}

// unwrapped writes as it is.
type unwrapped struct{ io.Writer }

// Close does nothing.
func (unwrapped) Close() error { return nil }

func (a *app) showBundle(i BundleInfo) {
	a.io.printf("%s: %s %s of server %s, packed %s, then %s\n", i.Path, printable(or(i.Name, "a VM")), plain(string(i.VM)), printable(i.Server), i.Made.Local().Format(time.DateTime), plain(string(i.State)))
	what := []string{fmt.Sprintf("repositories: %d", len(i.Repositories)), counted(len(i.Objects), "object"), counted(i.Receipts, "receipt")}
	if i.Machine {
		what = append(what, "disk")
	}
	if i.Memory {
		what = append(what, "memory")
	}
	if i.HasImage {
		what = append(what, "image")
	}
	a.io.printf("%s; %s\n", strings.Join(what, ", "), human(i.Bytes))
	a.io.printf("signed by %s\n", i.Signer)
	if i.ObjectsLeft > 0 {
		a.io.tellf("not in it: %d published versions of objects: a bundle has the newest 1000, and as many bytes as --max-bytes allows", i.ObjectsLeft)
	}
}

func newBundleInspect(a *app) *cobra.Command {
	o := &bundleOptions{}
	cmd := &cobra.Command{
		Use: "inspect FILE", Short: "Check a bundle, and print what it contains and who signed it",
		Long:    "Check every byte of a bundle, and print what it contains and who signed it. Nothing of it is restored.",
		Example: "  warren bundle inspect box.tar.zst\n  warren bundle inspect box.tar.zst --trust SHA256:...\n  warren bundle inspect box.tar.zst --json",
		Args:    args(1, 1, "FILE is missing"),
		RunE: func(cmd *cobra.Command, list []string) error {
			if a.local.BundleInspect == nil {
				return notHere("bundle inspect")
			}
			p := a.io.doing("checking %s", list[0])
			info, err := a.local.BundleInspect(cmd.Context(), list[0], o.trust)
			p.done()
			if err != nil {
				return err
			}
			if o.json {
				return a.io.json(info)
			}
			a.showBundle(info)
			shown := map[string]string{}
			for _, o := range info.Objects {
				shown[o.Entry] = "  s3://" + o.Bucket + "/" + o.Key
			}
			for _, e := range info.Entries {
				a.io.printf("  %10s  %s\n", human(e.Size), printable(e.Path+shown[e.Path]))
			}
			if info.Trusted {
				a.io.printf("every byte is as it was signed, by a key that you trust\n")
			} else {
				a.io.printf("every byte is as it was signed; --trust says whether it is by a key that you trust\n")
			}
			return nil
		},
	}
	cmd.Flags().StringSliceVar(&o.trust, "trust", nil, "say whether this key, by its fingerprint, has signed it")
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func newBundleOpen(a *app) *cobra.Command {
	o := &bundleOptions{}
	cmd := &cobra.Command{
		Use: "open FILE", Short: "Make the VM, repositories and objects of a bundle here",
		Long: `Make the repositories of a bundle, a new bucket with its objects and receipts and, if it has a machine, the VM. The
server checks the whole file first. It refuses a bundle that another server has signed, unless --trust names that
server's key: ask its operator for the output of ` + "`warren bundle signer`" + `. The object s3://B/KEY becomes s3://NEW/B/KEY,
where NEW is the new bucket. A VM with memory is suspended, and a start continues its programs. If this host cannot
continue them, the VM is stopped, and the command says why. Names and ids that are taken are replaced.`,
		Example: "  warren bundle open box.tar.zst\n  warren bundle open box.tar.zst --trust SHA256:... --name box2",
		Args:    args(1, 1, "FILE is missing"),
		RunE:    func(cmd *cobra.Command, list []string) error { return a.bundleOpen(cmd.Context(), o, list[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&o.name, "name", "", "the name of the VM (default: as it was)")
	f.StringSliceVar(&o.trust, "trust", nil, "trust the key with this fingerprint")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}

func (a *app) bundleOpen(ctx context.Context, o *bundleOptions, path string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return fileFailed(path, err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return fileFailed(path, err)
	}
	var n atomic.Int64
	p := a.io.progress(func() string { return fmt.Sprintf("opening %s: %s of %s", path, human(n.Load()), human(st.Size())) })
	out, err := c.OpenBundle(ctx, counting{f, &n}, st.Size(), o.name, o.trust)
	p.done()
	if err != nil {
		return err
	}
	if o.json {
		return a.io.json(out)
	}
	a.opened(out)
	return nil
}

func (a *app) opened(out api.OpenedBundle) {
	for _, r := range out.Repositories {
		a.io.printf("repository %s %s\n", r.ID, printable(r.Name))
	}
	a.io.printf("bucket %s: %s, and receipts.json with %s\n", printable(out.Bucket), counted(out.Objects, "object"), counted(out.Receipts, "receipt"))
	if out.VMID == "" {
		a.io.notef("the bundle has no machine: pack it with --machine")
	} else {
		a.io.printf("%s %s is %s\n", printable(or(out.Name, "the VM")), out.VMID, out.State)
		a.io.notef("continue it with: warren start %s", or(out.Name, string(out.VMID)))
	}
	for _, note := range out.Notes {
		a.io.notef("note: %s", printable(note))
	}
}

func newBundleSigner(a *app) *cobra.Command {
	o := &bundleOptions{}
	cmd := &cobra.Command{
		Use: "signer", Short: "Print the fingerprint of this server's key",
		Example: "  warren bundle signer\n  warren bundle signer --json",
		Args:    args(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			fp, err := c.Signer(cmd.Context())
			if err != nil {
				return err
			}
			if o.json {
				return a.io.json(api.Signer{Fingerprint: fp})
			}
			a.io.printf("%s\n", fp)
			return nil
		},
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().BoolVar(&o.json, "json", false, "print as JSON")
	return cmd
}
