// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package freestyle

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

func snapshotRoutes(at func(string, right, handler)) {
	at("GET /v5/snapshots", owner, (*caller).snapshots)
	at("GET /v5/snapshots/{snapshot}", owner, (*caller).snapshotInfo)
	at("PATCH /v5/snapshots/{snapshot}", owner, (*caller).renameSnapshot)
	at("DELETE /v5/snapshots/{snapshot}", owner, (*caller).deleteSnapshot)
}

// snapshotAnswer is a snapshot, or an image, which is a public one.
type snapshotAnswer struct {
	ID          vm.SnapshotID `json:"id"`
	Source      vm.ID         `json:"sourceVmId,omitempty"`
	SourceSlug  string        `json:"sourceVmSlug,omitempty"`
	Slug        string        `json:"slug,omitempty"`
	DisplayName string        `json:"displayName,omitempty"`
	Account     vm.AccountID  `json:"accountId,omitempty"`
	Public      bool          `json:"public"`
	FromPlan    bool          `json:"autoDeleteFromPlan"`
	CreatedAt   time.Time     `json:"createdAt"`
	UpdatedAt   time.Time     `json:"updatedAt"`
}

func shownSnapshot(g vm.Generation) snapshotAnswer {
	at := g.CreatedAt.UTC()
	return snapshotAnswer{ID: g.Snapshot, Source: g.VM, SourceSlug: g.VMName, Slug: g.Name, DisplayName: g.Note, Account: g.Account, CreatedAt: at, UpdatedAt: at}
}

func shownImage(i vm.Image) snapshotAnswer {
	at := i.CreatedAt.UTC()
	return snapshotAnswer{ID: i.Snapshot, Slug: i.Name, Public: true, CreatedAt: at, UpdatedAt: at}
}

// usable reports whether VMs can be made from a generation by its name.
func usable(g vm.Generation) bool {
	return g.Snapshot != "" && !g.Deleted && !g.Gone && g.State == vm.GenReady
}

// lookUp finds a snapshot of the account or an image: by id, slug or OWNER/IMAGE.
func (c *caller) lookUp(ref string) (g vm.Generation, img vm.Image, err error) {
	name := ref
	if i := strings.LastIndexByte(ref, '/'); i >= 0 {
		name = ref[i+1:]
	} else if g, err := c.d.Engine.FindSnapshot(c.ctx, c.call, ref); err == nil && usable(g) {
		return g, img, nil
	}
	if name != "" {
		if img, err = c.d.Engine.FindImage(c.ctx, c.call, name); err == nil || vm.KindOf(err) != vm.NotFound {
			return g, img, err
		}
	}
	out := vm.Errorf(vm.NotFound, vm.Clip(ref, 80), "no such snapshot, and no image of this server has the name %s", vm.Clip(name, 80)).
		WithHint("vms.snapshots.list() says which there are; without snapshotId a VM is made from this server's default image")
	return g, img, out
}

// source returns the id of what a VM is to be made from.
func (c *caller) source(ref string) (string, error) {
	g, img, err := c.lookUp(ref)
	return string(cmp.Or(g.Snapshot, img.Snapshot)), err
}

// maxHistory bounds the steps back to the snapshot that a VM was made from.
const maxHistory = 20

// sourceOf is the snapshot or image that a VM was made from, as far as its history tells.
func (c *caller) sourceOf(rec vm.VM) vm.SnapshotID {
	id, _ := c.origin(rec)
	return id
}

// sourceName is the name that it has now.
func (c *caller) sourceName(rec vm.VM) string {
	_, name := c.origin(rec)
	return name
}

func (c *caller) origin(rec vm.VM) (vm.SnapshotID, string) {
	at := rec.Head
	for range maxHistory {
		if at == "" {
			break
		}
		g, err := c.d.Engine.FindSnapshot(c.ctx, c.call, string(at))
		if err != nil {
			break
		}
		if g.VM != rec.ID {
			if g.Snapshot != "" {
				return g.Snapshot, g.Name
			}
			break
		}
		at = g.Parent
	}
	img, err := c.d.Engine.FindImage(c.ctx, c.call, string(rec.Image))
	if err != nil {
		return "", rec.ImageName
	}
	return img.Snapshot, img.Name
}

// snapshotTimes refuses what Warren does not do with snapshots.
type snapshotTimes struct {
	Delete *int64 `json:"autoDeleteSeconds"`
	TTL    *int64 `json:"ttlSeconds"`
}

func (s snapshotTimes) check() error {
	for name, n := range map[string]*int64{"autoDeleteSeconds": s.Delete, "ttlSeconds": s.TTL} {
		if n != nil && *n != never {
			return unsupported(name, "this server keeps a snapshot until it is deleted").WithHint("leave it out, and delete the snapshot when it is no longer needed")
		}
	}
	return nil
}

func checkSnapshotSlug(s string) error {
	if s != "" && (len(s) > 63 || !slugPattern.MatchString(s)) {
		return invalid(vm.Clip(s, 80), "not a slug: 1 to 63 of a-z, 0-9 and single hyphens between them")
	}
	return nil
}

// snapshot captures a VM.
func (c *caller) snapshot() (answer, error) {
	var in struct {
		Slug        string `json:"slug"`
		DisplayName string `json:"displayName"`
		snapshotTimes
	}
	if err := c.decodeStrict(&in); err != nil {
		return answer{}, err
	}
	if err := in.check(); err != nil {
		return answer{}, err
	}
	if err := checkSnapshotSlug(in.Slug); err != nil {
		return answer{}, err
	}
	rec, err := c.find()
	if err != nil {
		return answer{}, err
	}
	if rec.State != vm.Running && rec.State != vm.Suspended {
		return answer{}, vm.Errorf(vm.WrongState, string(rec.ID), "the VM is %s", stateOf(rec)).WithHint("start it: a snapshot has its memory, too")
	}
	taken, err := c.d.Engine.Snapshot(c.ctx, c.call, string(rec.ID), engine.SnapshotRequest{
		Name: in.Slug, Note: in.DisplayName, Persistence: &vm.Persistence{Type: vm.Persistent},
	})
	if err != nil {
		return answer{}, err
	}
	return ok(struct {
		ID       vm.SnapshotID  `json:"snapshotId"`
		Source   vm.ID          `json:"sourceVmId"`
		Snapshot snapshotAnswer `json:"snapshot"`
	}{taken.Snapshot, rec.ID, shownSnapshot(taken.Generation)})
}

func (c *caller) snapshots() (answer, error) {
	q := c.URL.Query()
	list, err := c.d.Engine.Snapshots(c.ctx, c.call, false)
	if err != nil {
		return answer{}, err
	}
	source := q.Get("sourceVmId")
	if rec, err := c.d.Engine.Get(c.ctx, c.call, source); source != "" && err == nil {
		source = string(rec.ID) // it may be named by its slug
	}
	all := []snapshotAnswer{}
	for _, g := range list {
		if usable(g) && g.VM != "" && (source == "" || string(g.VM) == source) {
			all = append(all, shownSnapshot(g))
		}
	}
	if source == "" {
		images, err := c.d.Engine.Images(c.ctx, c.call)
		if err != nil {
			return answer{}, err
		}
		for _, i := range images {
			all = append(all, shownImage(i))
		}
	}
	if part := q.Get("search"); part != "" {
		all = slices.DeleteFunc(all, func(s snapshotAnswer) bool {
			return !strings.Contains(s.Slug, part) && !strings.Contains(s.DisplayName, part)
		})
	}
	slices.SortFunc(all, func(a, b snapshotAnswer) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	shown, err := page(c, all)
	if err != nil {
		return answer{}, err
	}
	return ok(map[string]any{"snapshots": shown, "totalCount": len(all)})
}

func (c *caller) snapshotInfo() (answer, error) {
	g, img, err := c.lookUp(c.PathValue("snapshot"))
	if err != nil {
		return answer{}, err
	}
	if g.Snapshot == "" {
		return ok(shownImage(img))
	}
	return ok(shownSnapshot(g))
}

// own finds a snapshot of the account that may be changed.
func (c *caller) own() (vm.Generation, error) {
	g, img, err := c.lookUp(c.PathValue("snapshot"))
	if err == nil && g.Snapshot == "" {
		err = vm.Errorf(vm.WrongState, img.Name, "this is an image of the server").WithHint("`warren image rm` removes it")
	}
	return g, err
}

func (c *caller) renameSnapshot() (answer, error) {
	var in struct {
		Slug        *string `json:"slug"`
		DisplayName *string `json:"displayName"`
		snapshotTimes
	}
	if err := c.decodeStrict(&in); err != nil {
		return answer{}, err
	}
	if err := in.check(); err != nil {
		return answer{}, err
	}
	g, err := c.own()
	if err != nil {
		return answer{}, err
	}
	if in.DisplayName != nil && *in.DisplayName != g.Note {
		return answer{}, unsupported("displayName", "the display name of a snapshot is set when it is made").WithHint("change its slug")
	}
	if in.Slug != nil && *in.Slug != g.Name {
		if err := checkSnapshotSlug(*in.Slug); err != nil {
			return answer{}, err
		}
		if g, err = c.d.Engine.RenameSnapshot(c.ctx, c.call, string(g.Snapshot), *in.Slug); err != nil {
			return answer{}, err
		}
	}
	return ok(shownSnapshot(g))
}

func (c *caller) deleteSnapshot() (answer, error) {
	g, err := c.own()
	if err == nil {
		_, err = c.d.Engine.RemoveSnapshot(c.ctx, c.call, string(g.Snapshot))
	}
	return done, err
}
