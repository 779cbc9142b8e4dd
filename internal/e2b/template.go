// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package e2b

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

// A template that a client builds is a snapshot whose record says so (vm.Template), one for
// each build that has a tag. All images and all other snapshots are templates, too, without
// tags.

const (
	defaultTag = "default" // of a build for which the client names no tag
	maxTags    = 32        // of a build
)

var (
	templateName = regexp.MustCompile(`^[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?$`)
	templateTag  = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,62}[A-Za-z0-9])?$`)
)

// splitTemplate reads name:tag or namespace/name:tag; an account is its own namespace, and
// capitals are the same as small letters.
func splitTemplate(text string) (name, tag string) {
	name, tag, _ = strings.Cut(text, ":")
	return strings.ToLower(ref(name)), tag
}

// templateID is the id of a template. It is that of its name, and stays after a rebuild.
func (d *Door) templateID(account vm.AccountID, name string) string {
	mac := hmac.New(sha256.New, d.Secret)
	_, _ = mac.Write([]byte("e2b template\x00" + string(account) + "\x00" + name)) // documented never to fail
	return hex.EncodeToString(mac.Sum(nil))[:20]
}

// built lists the builds of a template, given by its name or id, the newest first. An empty
// name lists the builds of all templates.
func (d *Door) built(ctx context.Context, call *vm.Call, name string) ([]vm.Generation, error) {
	list, err := d.Engine.Snapshots(ctx, call, false)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(slices.Clone(list), func(g vm.Generation) bool {
		t := g.Template
		return t == nil || t.Name == "" || g.State != vm.GenReady || g.Gone || g.DiskOnly || g.Deleted ||
			name != "" && t.Name != name && d.templateID(g.Account, t.Name) != name
	})
	slices.SortFunc(list, func(a, b vm.Generation) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}

// tagged returns the newest build with a tag.
func tagged(builds []vm.Generation, tag string) (vm.Generation, bool) {
	i := slices.IndexFunc(builds, func(g vm.Generation) bool { return g.Template.Has(tag) })
	if i < 0 {
		return vm.Generation{}, false
	}
	return builds[i], true
}

// origin is what a sandbox is made of.
type origin struct {
	ref      string              // an image or a snapshot
	defaults *vm.SandboxDefaults // nil = the image's own
	known    bool                // it has the Linux user that SDKs expect
}

// origin finds what the name of a template means: a build of a template, else an image, else
// a snapshot.
func (d *Door) origin(ctx context.Context, call *vm.Call, template string) (origin, error) {
	name, tag := splitTemplate(template)
	builds, err := d.built(ctx, call, name)
	if err != nil {
		return origin{}, err
	}
	if len(builds) > 0 {
		g, ok := tagged(builds, cmp.Or(tag, defaultTag))
		if !ok {
			return origin{}, vm.Errorf(vm.NotFound, vm.Clip(template, 128), "the template has no build with the tag %s", cmp.Or(tag, defaultTag)).
				WithHint("Template.getTags lists its tags")
		}
		return origin{string(g.Snapshot), &g.Template.Defaults, true}, nil
	}
	out := origin{ref: d.image(ctx, call, template)}
	if g, err := d.Engine.FindSnapshot(ctx, call, out.ref); err == nil && g.Template != nil {
		out.defaults, out.known = &g.Template.Defaults, true
	}
	return out, nil
}

// template answers /templates/aliases/NAME and /templates/NAME/tags.
func (c *caller) template() error {
	switch {
	case c.PathValue("id") == "aliases":
		return c.templateAlias()
	case c.PathValue("what") == "tags":
		return c.templateTags()
	}
	return c.lacks("this part of templates")
}

// templateAlias answers whether a template exists.
func (c *caller) templateAlias() error {
	alias := c.PathValue("what")
	name, tag := splitTemplate(alias)
	builds, err := c.d.built(c.Context(), c.call, name)
	if err != nil {
		return err
	}
	if len(builds) > 0 {
		if _, ok := tagged(builds, tag); ok || tag == "" {
			return c.send(http.StatusOK, map[string]any{"templateID": c.d.templateID(c.call.Actor.Account, builds[0].Template.Name), "public": false})
		}
		return vm.Errorf(vm.NotFound, vm.Clip(alias, 64), "no such template")
	}
	if img, err := c.d.Engine.FindImage(c.Context(), c.call, c.d.image(c.Context(), c.call, alias)); err == nil {
		return c.send(http.StatusOK, map[string]any{"templateID": string(img.ID), "public": true})
	}
	g, err := c.d.Engine.FindSnapshot(c.Context(), c.call, ref(alias))
	if err != nil {
		return vm.Errorf(vm.NotFound, vm.Clip(alias, 64), "no such template")
	}
	return c.send(http.StatusOK, map[string]any{"templateID": string(g.Snapshot), "public": false})
}

// listedTemplate is a template as the command line of E2B lists it.
type listedTemplate struct {
	ID      string    `json:"templateID"`
	Build   string    `json:"buildID"`
	Aliases []string  `json:"aliases"`
	Names   []string  `json:"names"`
	Public  bool      `json:"public"`
	CPUs    int       `json:"cpuCount"`
	Memory  int       `json:"memoryMB"`
	Disk    int       `json:"diskSizeMB"`
	Created time.Time `json:"createdAt"`
	Updated time.Time `json:"updatedAt"`
	Version string    `json:"envdVersion"`
	Status  string    `json:"buildStatus"`
	Builds  int       `json:"buildCount"`
}

func (c *caller) templates() error {
	images, err := c.d.Engine.Images(c.Context(), c.call)
	if err != nil {
		return err
	}
	builds, err := c.d.built(c.Context(), c.call, "")
	if err != nil {
		return err
	}
	list := make([]listedTemplate, 0, len(images)+len(builds))
	for _, i := range images {
		list = append(list, listedTemplate{
			ID: string(i.ID), Build: string(i.ID), Aliases: []string{i.Name}, Names: []string{i.Name}, Public: true,
			Memory: i.MemoryMiB, Disk: i.DiskMiB, Created: i.CreatedAt, Updated: i.CreatedAt, Version: envdVersion, Status: statusReady, Builds: 1,
		})
	}
	at := map[string]int{}
	for _, g := range builds {
		name := g.Template.Name
		if i, ok := at[name]; ok {
			list[i].Builds++
			list[i].Created = g.CreatedAt
			continue
		}
		at[name] = len(list)
		list = append(list, listedTemplate{
			ID: c.d.templateID(g.Account, name), Build: g.Template.Build, Aliases: []string{name}, Names: []string{name},
			CPUs: g.Size.VCPU, Memory: g.Size.MemoryMiB, Disk: g.Size.DiskMiB, Created: g.CreatedAt, Updated: g.CreatedAt,
			Version: envdVersion, Status: statusReady, Builds: 1,
		})
	}
	return c.send(http.StatusOK, list)
}

// deleteTemplate deletes all builds of a template, or a snapshot.
func (c *caller) deleteTemplate() error {
	name, tag := splitTemplate(c.PathValue("id"))
	builds, err := c.d.built(c.Context(), c.call, name)
	if err != nil {
		return err
	}
	if len(builds) == 0 || tag != "" {
		return c.deleteSnapshot()
	}
	for _, g := range builds {
		if _, err := c.d.Engine.RemoveSnapshot(c.Context(), c.call, string(g.Snapshot)); err != nil {
			return err
		}
	}
	return c.done()
}

// checkTags refuses names that are no tags, and removes those that are given twice.
func checkTags(list []string) ([]string, error) {
	out := []string{}
	for _, tag := range list {
		if !templateTag.MatchString(tag) {
			return nil, invalid("tags", "%q is no tag", vm.Clip(tag, 64)).WithHint("use up to 64 letters, digits and . _ -")
		}
		if !slices.Contains(out, tag) {
			out = append(out, tag)
		}
	}
	if len(out) > maxTags {
		return nil, vm.Errorf(vm.Limit, "tags", "a build has at most %d tags", maxTags)
	}
	return out, nil
}

// snapshotName is the name by which Warren's own commands know a build.
func snapshotName(template string, tags []vm.TemplateTag) string {
	if len(tags) == 0 || slices.ContainsFunc(tags, func(t vm.TemplateTag) bool { return t.Name == defaultTag }) {
		return template
	}
	return template + ":" + tags[0].Name
}

// settle gives a build its tags, and takes them from the other builds. The name of another
// build may be free only afterwards.
func (d *Door) settle(ctx context.Context, call *vm.Call, builds []vm.Generation, g vm.Generation, tags []vm.TemplateTag) error {
	name := snapshotName(g.Template.Name, tags)
	done, err := d.Engine.TagTemplate(ctx, call, string(g.Snapshot), name, tags)
	if err != nil {
		return err
	}
	if err := d.untag(ctx, call, builds, g.ID, func(tag string) bool { return done.Template.Has(tag) }); err != nil || done.Name == name {
		return err
	}
	_, err = d.Engine.TagTemplate(ctx, call, string(g.Snapshot), name, tags)
	return err
}

// untag takes tags from all builds but one. A build that has no tag afterwards cannot be
// reached any more, and is removed.
func (d *Door) untag(ctx context.Context, call *vm.Call, builds []vm.Generation, but vm.GenerationID, taken func(tag string) bool) error {
	for _, g := range builds {
		rest := slices.DeleteFunc(slices.Clone(g.Template.Tags), func(t vm.TemplateTag) bool { return taken(t.Name) })
		var err error
		switch {
		case g.ID == but || len(rest) == len(g.Template.Tags):
		case len(rest) == 0:
			_, err = d.Engine.RemoveSnapshot(ctx, call, string(g.Snapshot))
		default:
			_, err = d.Engine.TagTemplate(ctx, call, string(g.Snapshot), snapshotName(g.Template.Name, rest), rest)
		}
		if err != nil && vm.KindOf(err) != vm.NotFound {
			return err
		}
	}
	return nil
}

// templateTags lists the tags of a template.
func (c *caller) templateTags() error {
	name, _ := splitTemplate(c.PathValue("id"))
	builds, err := c.d.built(c.Context(), c.call, name)
	if err != nil {
		return err
	}
	if len(builds) == 0 {
		return vm.Errorf(vm.NotFound, vm.Clip(c.PathValue("id"), 64), "no such template was built")
	}
	type answer struct {
		Tag     string    `json:"tag"`
		Build   string    `json:"buildID"`
		Created time.Time `json:"createdAt"`
	}
	out, seen := []answer{}, map[string]bool{}
	for _, g := range builds {
		for _, t := range g.Template.Tags {
			if !seen[t.Name] {
				out = append(out, answer{t.Name, g.Template.Build, t.At.UTC()})
			}
			seen[t.Name] = true
		}
	}
	return c.send(http.StatusOK, out)
}

// assignTags gives a build more tags, which other builds of the template lose.
func (c *caller) assignTags() error {
	var in struct {
		Target string   `json:"target"`
		Tags   []string `json:"tags"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	tags, err := checkTags(in.Tags)
	if err != nil {
		return err
	}
	if len(tags) == 0 {
		return invalid("tags", "no tag is given")
	}
	name, tag := splitTemplate(in.Target)
	builds, err := c.d.built(c.Context(), c.call, name)
	if err != nil {
		return err
	}
	g, ok := tagged(builds, cmp.Or(tag, defaultTag))
	if !ok {
		return vm.Errorf(vm.NotFound, vm.Clip(in.Target, 128), "no build of this template has the tag").WithHint("Template.getTags lists the tags")
	}
	all := slices.Clone(g.Template.Tags)
	for _, tag := range tags {
		if !g.Template.Has(tag) {
			all = append(all, vm.TemplateTag{Name: tag, At: time.Now()})
		}
	}
	if len(all) > maxTags {
		return vm.Errorf(vm.Limit, "tags", "a build has at most %d tags", maxTags)
	}
	if err := c.d.settle(c.Context(), c.call, builds, g, all); err != nil {
		return err
	}
	return c.send(http.StatusCreated, map[string]any{"buildID": g.Template.Build, "tags": tags})
}

// removeTags takes tags from a template. Each build keeps at least one.
func (c *caller) removeTags() error {
	var in struct {
		Name string   `json:"name"`
		Tags []string `json:"tags"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	name, _ := splitTemplate(in.Name)
	builds, err := c.d.built(c.Context(), c.call, name)
	if err != nil {
		return err
	}
	if len(builds) == 0 {
		return vm.Errorf(vm.NotFound, vm.Clip(in.Name, 64), "no such template was built")
	}
	for _, g := range builds {
		left := slices.ContainsFunc(g.Template.Tags, func(t vm.TemplateTag) bool { return !slices.Contains(in.Tags, t.Name) })
		if !left {
			return invalid("tags", "a build of the template would have no tag, and nobody could reach it").WithHint("delete the template, or assign the build another tag first")
		}
	}
	if err := c.d.untag(c.Context(), c.call, builds, "", func(tag string) bool { return slices.Contains(in.Tags, tag) }); err != nil {
		return err
	}
	return c.done()
}
