// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/internal/audit"
	"github.com/warren-vm/warren/internal/cli"
	"github.com/warren-vm/warren/internal/doctor"
	"github.com/warren-vm/warren/internal/image"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/start"
	"github.com/warren-vm/warren/internal/warm"
	"github.com/warren-vm/warren/vm"
)

// Local returns the functions of the command line that work on this host without a
// server.
func Local(getenv func(string) string, uid int) cli.Local {
	c := commands{getenv: getenv, uid: uid}
	return cli.Local{
		Serve: c.serve, ServeBehind: c.background,
		AuditVerify: func(dir, key string, outside []vm.Checkpoint) (vm.AuditReport, error) {
			r, err := audit.Verify(dir, key, audit.Head{}, outside...)
			return auditReport(r), err
		},
		AuditAnchors: audit.ParseCheckpoints, Doctor: c.doctor, Config: c.config, Recipes: image.Names,
		ImageBuild: c.imageBuild, ImageImport: c.imageImport, ImageList: c.imageList, ImageInspect: c.imageInspect, ImageRemove: c.imageRemove,
		ImageUse: c.imageUse, ImageExport: c.imageExport, ImageImportFile: c.imageImportFile,
		Backups: c.backups(), BundleInspect: c.bundleInspect, Trusts: c.trusts(),
	}
}

type commands struct {
	getenv func(string) string
	uid    int
}

func (c commands) dir(flag string) (layout.Dir, error) {
	path, err := DataDir(flag, c.getenv, c.uid)
	if err != nil {
		return "", err
	}
	return layout.Open(path)
}

func (c commands) serve(ctx context.Context, o cli.ServeOptions, _, stderr io.Writer) error {
	path, err := DataDir(o.Data, c.getenv, c.uid)
	if err != nil {
		return err
	}
	flags := Config{
		Listen: o.Listen, SSH: o.SSH, Preview: o.Preview, S3: o.S3, S3URL: o.S3URL, S3Endpoint: o.S3Endpoint, S3Credentials: o.S3Credentials, Clamd: o.Clamd, AskWebhook: o.AskWebhook, NetDefault: o.NetDefault,
		Pool: o.Pool, StorageBudget: o.StorageBudget, AccountDisk: o.AccountDisk, AuditKey: o.AuditKey, AuditSigner: o.AuditSigner, AuditAnchor: o.AuditAnchor, AuditKeys: o.AuditKeys, AuditKeep: o.AuditKeep, AuditArgs: o.AuditArgs, RequireKVM: o.RequireKVM, EtcdEndpoints: o.EtcdEndpoints, HostID: o.HostID, PreviewDomain: o.PreviewDomain,
	}
	start.Serve()
	return Run(ctx, path, flags, c.getenv, stderr)
}

func (c commands) config(_ context.Context, data string) (string, []cli.Setting, error) {
	dir, err := c.dir(data)
	if err != nil {
		return "", nil, err
	}
	_, settings, err := LoadConfig(dir, Config{}, c.getenv)
	out := make([]cli.Setting, 0, len(settings))
	for _, s := range settings {
		out = append(out, cli.Setting(s))
	}
	return string(dir), out, err
}

func (c commands) adminKey(data string) (string, error) {
	path, err := DataDir(data, c.getenv, c.uid)
	if err != nil {
		return "", err
	}
	name := layout.Dir(path).AdminKey()
	key, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", vm.Errorf(vm.Unauthenticated, name, "there is no admin key").
			WithHint("start the server once (`warren serve`), or set WARREN_API_KEY")
	}
	if err != nil {
		return "", vm.Errorf(vm.Denied, name, "%w", err).WithHint("set WARREN_API_KEY to one of your keys")
	}
	return strings.TrimSpace(string(key)), nil
}

// doctor checks the host. The probe needs an image and reports if there is none.
func (c commands) doctor(ctx context.Context, data string) ([]cli.Check, bool, error) {
	path, err := DataDir(data, c.getenv, c.uid)
	if err != nil {
		return nil, false, err
	}
	o := doctor.Options{Data: path, Probe: func(ctx context.Context) (vm.Accel, []string, time.Duration, error) {
		return c.probe(ctx, path)
	}}
	dir, err := layout.Open(path)
	if err == nil {
		var cfg Config
		if cfg, _, err = LoadConfig(dir, Config{}, c.getenv); err == nil {
			o.Listen = []string{cfg.Listen}
			o.Serving = answers(ctx, cfg.Listen)
			o.Pool = c.pool(ctx, path, cfg, o.Serving)
		}
	}
	found := doctor.Run(ctx, o)
	out := make([]cli.Check, 0, len(found))
	for _, f := range found {
		out = append(out, cli.Check{Name: f.Name, Status: string(f.Status), Detail: f.Detail, Fix: f.Fix})
	}
	return out, !doctor.Failed(found), nil
}

// pool describes the setting of the warm pool and, if its server answers, its counters.
func (c commands) pool(ctx context.Context, data string, cfg Config, serving bool) string {
	said := "off: each create starts a machine"
	if n := cfg.poolSize(); n > 0 {
		said = fmt.Sprintf("%d machines of each image and size in use wait for a create; 0 with --pool turns it off", n)
	}
	key, err := c.adminKey(data)
	if !serving || err != nil {
		return said
	}
	host, err := client.New("http://"+cfg.Listen, key).Host(ctx)
	if err != nil {
		return said // perhaps another server than ours
	}
	p := host.Pool
	return fmt.Sprintf("%d machines wanted of each image and size in use, %d ready; %d of %d creates took one",
		p.Size, p.Ready, p.Hits, p.Hits+p.Misses)
}

// answers reports whether a Warren server answers on addr.
func answers(ctx context.Context, addr string) bool {
	ctx, stop := context.WithTimeout(ctx, 2*time.Second)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/healthz", nil)
	if err != nil {
		return false
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return false
	}
	res.Body.Close()
	return res.Header.Get(api.HeaderVersion) != ""
}

func (c commands) probe(ctx context.Context, path string) (vm.Accel, []string, time.Duration, error) {
	dir, err := layout.Open(path)
	if err != nil {
		return "", nil, 0, err
	}
	l, err := openLocal(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return "", nil, 0, err
	}
	img, err := l.anyImage()
	if err != nil {
		return "", nil, 0, err
	}
	report, err := l.probe(ctx, img, false)
	if err != nil {
		return "", nil, 0, err
	}
	var tried []string
	var took time.Duration
	for _, t := range report.Tries {
		tried = append(tried, t.String())
		took += t.Took
	}
	return report.Accel, tried, took, nil
}

func (c commands) imageBuild(ctx context.Context, o cli.BuildOptions) (vm.Image, error) {
	dir, err := c.dir(o.Data)
	if err != nil {
		return vm.Image{}, err
	}
	recipe, err := loadRecipe(o.Recipe)
	if err != nil {
		return vm.Image{}, err
	}
	if err := verifyTrust(ctx, dir, o, recipe); err != nil {
		return vm.Image{}, err
	}
	l, err := openLocal(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return vm.Image{}, err
	}
	warmUp := func(ctx context.Context, img vm.Image) error {
		if o.NoWarm {
			return nil
		}
		return l.makeWarm(ctx, img, o.Progress)
	}
	if o.IfMissing {
		if img, err := image.Find(dir, recipe.Name); err == nil {
			return img, warmUp(ctx, img)
		}
	}
	if recipe.Dockerfile != "" {
		return dockerfileBuild(ctx, l, o, recipe)
	}
	return image.Build(ctx, image.BuildOptions{
		Dir: dir, Recipe: recipe, HostCAs: o.HostCAs, Progress: o.Progress, Warm: warmUp,
	})
}

// makeWarm makes the warm generation of the default size.
func (l *local) makeWarm(ctx context.Context, img vm.Image, progress func(string, int, int)) error {
	p, err := l.platform(ctx, img)
	if err != nil {
		return err
	}
	size := vm.DefaultSize
	size.DiskMiB, size.MemoryMiB = max(size.DiskMiB, img.DiskMiB), cmp.Or(img.MemoryMiB, size.MemoryMiB)
	o, err := l.warmOptions(img, size, p)
	if err != nil {
		return err
	}
	if progress != nil {
		o.Progress = func(step string) { progress(step, 0, 0) }
	}
	_, err = warm.Get(ctx, o)
	return err
}

func (c commands) imageList(_ context.Context, data string) ([]vm.Image, error) {
	dir, err := c.dir(data)
	if err != nil {
		return nil, err
	}
	return image.List(dir)
}

func (c commands) imageInspect(_ context.Context, data, ref string) (vm.Image, error) {
	dir, err := c.dir(data)
	if err != nil {
		return vm.Image{}, err
	}
	return image.Find(dir, ref)
}

func (c commands) imageRemove(_ context.Context, data, ref string, force bool) (vm.Image, error) {
	dir, err := c.dir(data)
	if err != nil {
		return vm.Image{}, err
	}
	used, err := usedImages(dir)
	if err != nil {
		return vm.Image{}, err
	}
	return image.Remove(dir, ref, image.RemoveOptions{Used: used, Force: force})
}
