// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

type upOptions struct {
	source       string // image, or directory of a recipe; "" = the default image
	name         string
	net          string
	ttl          string
	idle         string
	persist      string
	size         sizeFlags
	detach       bool
	json         bool
	onBoot       string
	onIdle       string
	captureEvery string
	profile      string
	giving       giving
	labels       []string
	paths        []string
	repos        []string
	secrets      []string
	filesystemMD bool
}

func newUp(a *app) *cobra.Command {
	o := &upOptions{}
	cmd := &cobra.Command{
		Use:   "up [IMAGE|DIR]",
		Short: "Make a VM and start it",
		Long: `Make a VM from an image and start it. The network is closed unless --net opens it. If WARREN_API_URL names no
server and none runs on this host, one is started first, in the background.

IMAGE is a name or id of "warren image ls" (default base). A shipped recipe that was not built yet is built
first, which takes minutes. DIR, with a slash or a dot in it, holds a warren.yaml: it is built, then used. The
first time, and when something in it changed, it is built only if you say that you trust it. If DIR has no
warren.yaml but a .devcontainer/devcontainer.json or .devcontainer.json, its image is used, DIR is copied into the
VM, and the file's commands run there.

oci:NAME[:TAG|@DIGEST], layout:DIR and archive:FILE are container images: "warren image import" says how they
are used. An image that was imported by the same words is not asked for again.

Before the start it prints how long the VM is kept. A sticky VM, the default, may be evicted while it does not
run, if the disk runs short, the lowest priority first.`,
		Example: `  warren up --name box
  warren up dev --name net --net packages --mem 1G
  warren up --name bot --net agents,packages,api.example.com:443
  warren up --ttl 1h --idle 10m --persist ephemeral
  warren up ./agent-image --name agent
  warren up oci:nginx:1.29 --name web
  warren up --profile dev --add-dir .:/src:rw
  warren up --name box --mount s3://datasets/2026:/data:ro
  warren up --name agent --filesystem-md
  warren up --name fix --repo app --repo lib:/work/lib
  warren up --name web-1 --label team=web --label tier=test`,
		Args: args(0, 1, ""),
		RunE: func(cmd *cobra.Command, list []string) error {
			if len(list) == 1 {
				o.source = list[0]
			}
			return a.up(cmd.Context(), o)
		},
		ValidArgsFunction: a.completeImages,
	}
	f := cmd.Flags()
	f.StringVar(&o.name, "name", "", "name of the VM; a name in use is refused")
	a.netFlag(cmd, &o.net, "what it may reach: "+netWords+" (default closed)")
	f.StringVar(&o.ttl, "ttl", "", "delete it after this time, such as 1h")
	f.StringVar(&o.idle, "idle", "", "suspend it after this time without use; or never (default 5m)")
	f.StringVar(&o.onIdle, "on-idle", "", "what to do then: suspend (default) or stop")
	f.StringVar(&o.onBoot, "on-boot", "", "after a restart of the host: resume it, or stay suspended (default resume if persistent, else stay)")
	f.StringVar(&o.captureEvery, "capture-every", "", "capture a generation at this interval, such as 10m, to roll back to")
	f.StringVar(&o.persist, "persist", "", "how it is kept: ephemeral, sticky, sticky:0 to sticky:10, persistent (default sticky)")
	f.BoolVarP(&o.detach, "detach", "d", false, "print the id only")
	f.BoolVar(&o.json, "json", false, "print as JSON")
	f.StringArrayVar(&o.repos, "repo", nil, "clone a repository into it: REPO[:PATH], a name of \"repo ls\" or a URL; may repeat")
	f.StringArrayVar(&o.secrets, "secret", nil, "let it use a secret of \"warren secret ls\"; may repeat")
	f.BoolVar(&o.filesystemMD, "filesystem-md", false, "write FILESYSTEM.md into the working directory: which places of the VM last")
	a.trustFlag(cmd)
	o.giving.add(cmd)
	a.labelFlag(cmd, &o.labels)
	f.StringArrayVar(&o.paths, "path", nil, "a path rule ACTION:PATTERN, such as hide:/src/.env; the first that matches decides; may repeat")
	o.size.add(f)
	a.profileFlag(cmd, &o.profile, "agent")
	a.completeFlag(cmd, "on-idle", "suspend", "stop")
	a.completeFlag(cmd, "on-boot", "resume", "stay")
	a.completeFlag(cmd, "persist", "ephemeral", "sticky", "persistent")
	return cmd
}

// repoFlags turns REPO[:PATH] into repositories to clone. The path begins at the last
// ":/", except that of a URL.
func repoFlags(list []string) (*api.Git, error) {
	if len(list) == 0 {
		return nil, nil
	}
	out := &api.Git{}
	for _, s := range list {
		r := api.Repo{Repo: s}
		if i := strings.LastIndex(s, ":/"); i >= 0 && !strings.HasPrefix(s[i:], "://") {
			r.Repo, r.Path = s[:i], s[i+1:]
		}
		if r.Repo == "" {
			return nil, usage("--repo: %s names no repository", printable(s)).WithHint("write REPO or REPO:/PATH")
		}
		out.Repos = append(out.Repos, r)
	}
	return out, nil
}

// request turns the flags into the request.
func (o *upOptions) request() (api.CreateVM, error) {
	r := api.CreateVM{Name: o.name, UniqueName: o.name != "", Image: o.source, Network: vm.NetworkSpec(o.net), Profile: o.profile, Secrets: o.secrets}
	var err error
	if o.name != "" {
		if err := vm.CheckName(o.name); err != nil {
			return r, err
		}
	}
	if _, err := vm.FindProfile(o.profile); err != nil {
		return r, err
	}
	if r.Sizes, err = o.size.sizes(); err != nil {
		return r, err
	}
	if r.Paths, err = pathRules(o.paths); err != nil {
		return r, err
	}
	if r.Labels, err = parseLabels(o.labels); err != nil {
		return r, err
	}
	if r.Git, err = repoFlags(o.repos); err != nil {
		return r, err
	}
	if o.ttl != "" {
		d, err := parseSeconds(o.ttl)
		if err != nil {
			return r, err
		}
		r.TTL = vm.Some(seconds(d))
	}
	switch o.idle {
	case "":
	case "never":
		r.IdleTimeout = vm.Null[vm.Seconds]()
	default:
		d, err := parseSeconds(o.idle)
		if err != nil {
			return r, err
		}
		r.IdleTimeout = vm.Some(seconds(d))
	}
	switch o.onIdle {
	case "", "suspend":
	case "stop":
		r.StopOnIdle = true
	default:
		return r, usage("--on-idle: %s is neither suspend nor stop", printable(o.onIdle))
	}
	onBoot, err := vm.ParseOnBoot(o.onBoot)
	if err != nil {
		return r, usage("--on-boot: %s is neither resume nor stay", printable(o.onBoot))
	}
	r.OnBoot = string(onBoot)
	if o.captureEvery != "" {
		d, err := parseSeconds(o.captureEvery)
		if err != nil {
			return r, err
		}
		r.CaptureEvery = seconds(d)
	}
	r.Persistence, err = parsePersist(o.persist)
	return r, err
}

// seconds rounds up: a requested time is never shortened.
func seconds(d time.Duration) vm.Seconds {
	return vm.Seconds((d + time.Second - 1).Truncate(time.Second))
}

// parsePersist reads ephemeral, sticky, sticky:N or persistent.
func parsePersist(s string) (*vm.Persistence, error) {
	kind, number, numbered := strings.Cut(s, ":")
	p := vm.Persistence{Type: vm.PersistenceType(kind)}
	switch {
	case s == "":
		return nil, nil
	case p.Type == vm.Sticky && numbered:
		n, err := strconv.Atoi(number)
		if err == nil && n >= 0 && n <= 10 {
			p.Priority = &n
			return &p, nil
		}
	case p.Type == vm.Sticky:
		p = vm.DefaultPersistence()
		return &p, nil
	case !numbered && (p.Type == vm.Ephemeral || p.Type == vm.Persistent):
		return &p, nil
	}
	return nil, usage("--persist: %s is not a persistence", printable(s)).WithHint("use ephemeral, sticky, sticky:0 to sticky:10, or persistent")
}

func (a *app) up(ctx context.Context, o *upOptions) error {
	r, err := o.request()
	if err != nil {
		return err
	}
	extra, err := o.giving.read()
	if err == nil {
		err = extra.allowed(r.Name, r.Profile)
	}
	if err != nil {
		return err
	}
	dev, err := findProject(o.source)
	if err != nil {
		return err
	}
	if dev != nil {
		a.tellIgnored(dev)
		dev.request(&r)
	}
	c, err := a.clientOrServer(ctx)
	if err != nil {
		return err
	}
	a.sayRetention(r)
	made, err := a.create(ctx, c, r)
	if err == nil {
		if err = extra.give(ctx, c, string(made.ID)); err == nil && o.filesystemMD {
			err = writeFilesystemMD(ctx, c, string(made.ID))
		}
		if err != nil { // differs from the request
			err = errors.Join(err, a.removeAfter(ctx, c, string(made.ID), err))
		} else if dev != nil {
			err = a.setUp(ctx, c, made.VM, dev)
		}
	}
	switch {
	case err != nil:
		return err
	case o.json:
		return a.io.json(made.VM)
	case o.detach || a.io.quiet:
		a.io.printf("%s\n", made.ID)
		return nil
	}
	a.describeNew(made.VM)
	if dev != nil {
		a.tellProject(made.VM, dev)
	}
	return nil
}

// writeFilesystemMD writes FILESYSTEM.md in a VM once everything is mounted. The VM's own
// command makes the text. A file of that name stays.
func writeFilesystemMD(ctx context.Context, c *client.Client, id string) error {
	e, err := c.Exec(ctx, id, vm.ExecSpec{Command: "test -e FILESYSTEM.md || " + vm.GuestProgram + " filesystem > FILESYSTEM.md"})
	if err != nil {
		return err
	}
	var said bytes.Buffer
	status, err := e.Run(&said, &said)
	if err == nil && status.Code != 0 {
		err = vm.Errorf(vm.GuestFault, "FILESYSTEM.md", "was not written: %s", plain(vm.Clip(strings.TrimSpace(said.String()), 300)))
	}
	return err
}

// defaultIdle is the API's idle timeout if the request has none.
const defaultIdle = 5 * time.Minute

// sayRetention prints how long a VM will be kept, before it is made.
func (a *app) sayRetention(r api.CreateVM) {
	will := api.VM{Persistence: vm.DefaultPersistence(), IdleStops: r.StopOnIdle}
	if r.Persistence != nil {
		will.Persistence = *r.Persistence
	}
	idle := r.IdleTimeout.Value
	if !r.IdleTimeout.Set {
		idle = seconds(defaultIdle)
	}
	ttl := r.TTL.Value
	if p, err := vm.FindProfile(r.Profile); err == nil && !r.TTL.Set {
		ttl = seconds(p.TTL)
	}
	kept := "until you remove it"
	switch {
	case ttl > 0:
		kept = "for " + span(time.Duration(ttl)) + " at most"
	case will.Persistence.Type == vm.Ephemeral:
		kept = "until it " + deletedOnce[deleteEvent(will)]
		kept = strings.Replace(kept, "its timeout", span(time.Duration(idle)), 1)
	}
	then := ""
	if idle > 0 {
		will.IdleTimeout = &idle
		did, _, _ := strings.Cut(whenIdle(will), ";")
		if ttl > 0 || !strings.HasPrefix(did, "deleted") { // otherwise it was printed before
			then = ", and " + did
		}
	}
	a.io.notef("%s is kept %s%s.", or(r.Name, "the VM"), kept, then)
	if will.Persistence.Type == vm.Sticky {
		a.io.notef("warning: a sticky VM that does not run may be evicted when the disk runs short.\n  hint: --persist persistent prevents that")
	}
}

// isDir reports whether an argument names a directory and not an image.
func isDir(source string) bool { return strings.ContainsAny(source, "/.") }

// create makes a VM. It first builds the image if the argument is a
// directory, or a shipped recipe that was not built yet.
func (a *app) create(ctx context.Context, c *client.Client, r api.CreateVM) (api.CreatedVM, error) {
	if c.OfHost() && (isContainer(r.Image) || isDir(r.Image)) {
		return api.CreatedVM{}, ofHost(r.Image)
	}
	if isContainer(r.Image) {
		img, err := a.importImage(ctx, &imageImportOptions{source: r.Image, ifMissing: true})
		if err != nil {
			return api.CreatedVM{}, err
		}
		r.Image = string(img.ID)
	} else if isDir(r.Image) {
		img, err := a.build(ctx, r.Image, false)
		if err != nil {
			return api.CreatedVM{}, err
		}
		r.Image = string(img.ID)
	}
	made, err := a.createNow(ctx, c, r)
	if !errors.Is(err, vm.NotFound) || !a.toBuild(ctx, or(r.Image, "base")) {
		return made, err
	}
	if c.OfHost() {
		return made, ofHost(r.Image)
	}
	if _, err := a.build(ctx, or(r.Image, "base"), true); err != nil {
		return made, err
	}
	return a.createNow(ctx, c, r)
}

func (a *app) createNow(ctx context.Context, c *client.Client, r api.CreateVM) (api.CreatedVM, error) {
	p := a.io.doing("starting %s", or(r.Name, "a VM"))
	defer p.done()
	return c.Create(ctx, r)
}

// toBuild reports whether an image is a shipped recipe that this host, being
// the server's, has not built yet.
func (a *app) toBuild(ctx context.Context, image string) bool {
	l := a.local
	if base := a.getenv("WARREN_API_URL"); base != "" && !client.Loopback(base) {
		return false
	}
	if l.Recipes == nil || l.ImageBuild == nil || l.ImageList == nil || !slices.Contains(l.Recipes(), image) {
		return false
	}
	built, err := l.ImageList(ctx, a.data)
	return err == nil && !slices.ContainsFunc(built, func(i vm.Image) bool { return i.Name == image })
}

func or(s, fallback string) string {
	if s == "" {
		return fallback
	}
	return s
}

// describeNew prints the new VM: its name, its settings, how long it is kept.
func (a *app) describeNew(v api.VM) {
	row := func(name, value string) { a.io.printf("%-9s%s\n", name, value) }
	row("id", string(v.ID))
	if v.Name != "" {
		row("name", v.Name)
	}
	row("image", printable(v.Image))
	row("size", sizing(v.Sizing))
	row("network", networkOf(v))
	row("kept", keptHow(v))
	row("until", keptUntil(v))
	row("idle", whenIdle(v))
	if w := warningOf(v); w != "" {
		a.io.notef("warning: %s", w)
	}
}

// warningOf is a warning that every description of a VM must include.
func warningOf(v api.VM) string {
	if v.Warning == "" && v.Accel == vm.TCG {
		return vm.EmulatedWarning
	}
	return v.Warning
}

// retention says how long a VM is kept, in a few words.
func retention(v api.VM) string {
	kept := string(v.Persistence.Type)
	if p := v.Persistence.Priority; p != nil {
		kept += ":" + itoa(*p)
	}
	if v.ExpiresAt.IsZero() {
		kept += ", until removed"
	} else {
		kept += ", deleted at " + v.ExpiresAt.Local().Format(time.DateTime)
	}
	if s := v.IdleTimeout; s != nil && *s > 0 {
		how := "suspended"
		if v.IdleStops {
			how = "stopped"
		}
		kept += ", " + how + " when idle for " + span(time.Duration(*s))
	}
	return kept
}

// deleteEvent is what deletes an ephemeral VM: onstop, onsuspend, onidletimeout,
// or "" = any of them.
func deleteEvent(v api.VM) string { return strings.ToLower(v.Persistence.DeleteEvent) }

// deletedOnce describes what deletes an ephemeral VM.
var deletedOnce = map[string]string{
	"onstop": "has stopped", "onsuspend": "is suspended", "onidletimeout": "was idle for its timeout", "": "stops, is suspended or was idle for its timeout",
}

// keptHow says what the persistence of a VM means.
func keptHow(v api.VM) string {
	p := v.Persistence
	switch {
	case p.Type == vm.Persistent:
		return "persistent: removed only by hand"
	case p.Type == vm.Sticky && p.Priority != nil:
		return "sticky:" + itoa(*p.Priority) + ": may be removed while it does not run, if the disk runs short"
	case p.Type != vm.Ephemeral:
		return string(p.Type)
	}
	return "ephemeral: deleted once it " + deletedOnce[deleteEvent(v)]
}

func keptUntil(v api.VM) string {
	if v.ExpiresAt.IsZero() {
		return "no time limit"
	}
	return v.ExpiresAt.Local().Format(time.DateTime) + ": then deleted in any state"
}

// whenIdle describes what happens to a VM that nobody uses.
func whenIdle(v api.VM) string {
	s := v.IdleTimeout
	if s == nil || *s <= 0 {
		return "never suspended"
	}
	after := " after " + span(time.Duration(*s)) + " without use"
	event := deleteEvent(v)
	ephemeral := v.Persistence.Type == vm.Ephemeral && (event == "" || event == "onidletimeout" || event == "onstop" && v.IdleStops || event == "onsuspend" && !v.IdleStops)
	switch {
	case ephemeral:
		return "deleted" + after
	case v.IdleStops:
		return "stopped" + after + "; its memory is lost, its disk is kept"
	}
	return "suspended" + after + "; the next use wakes it as it was"
}

// ref is a VM's name, else its id.
func ref(v api.VM) string { return or(v.Name, string(v.ID)) }
