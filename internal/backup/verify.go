// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/audit"
	"github.com/warren-vm/warren/internal/bundle"
	"github.com/warren-vm/warren/internal/events"
	"github.com/warren-vm/warren/internal/generation"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/internal/qcow"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/internal/seal"
	"github.com/warren-vm/warren/internal/store"
	"github.com/warren-vm/warren/vm"
)

// Report is the outcome of a verification.
type Report struct {
	At      time.Time `json:"at"`      // of the verification
	Made    time.Time `json:"made"`    // of the backup
	Server  string    `json:"server"`  // that wrote it
	Signer  string    `json:"signer"`  // fingerprint
	Entries int       `json:"entries"` //
	Bytes   int64     `json:"bytes"`   // of the entries
	Size    int64     `json:"size"`    // of the archive, not encrypted
	Checks  []Check   `json:"checks"`  // of what was restored
	Left    []Left    `json:"left"`    // what is not in the backup
	OK      bool      `json:"ok"`      // every check succeeded
}

// Check is one check of what was restored.
type Check struct {
	What     string   `json:"what"` // such as "repositories"
	Count    int      `json:"count"`
	Problems []string `json:"problems,omitempty"`
}

// maxProblems bounds the problems that one check lists.
const maxProblems = 100

func (c *Check) fail(what string, err error) {
	if len(c.Problems) < maxProblems {
		c.Problems = append(c.Problems, what+": "+err.Error())
	}
}

// Verify restores a backup into a new directory inside scratch, checks it, and removes the
// directory. It checks each byte of the archive, opens the records, has git check every
// repository, reads the headers of every disk and volume, compares memory with its sums, and walks
// the audit chain. A backup that can be restored but has faults gives a report that is not
// OK. Kinds: Corrupt, NoSpace, and those of Open.
func Verify(ctx context.Context, s Source, scratch string) (r Report, err error) {
	a, f, err := s.Open()
	if err != nil {
		return r, err
	}
	defer f.Close()
	facts, err := FactsOf(a.Manifest)
	if err != nil {
		return r, bundle.About(s.Path, err)
	}
	tmp, err := layout.Temp(scratch)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, layout.Error(tmp, os.RemoveAll(tmp))) }()
	dir := layout.Dir(filepath.Join(tmp, "data"))
	if err := os.Mkdir(string(dir), 0o700); err != nil {
		return r, layout.Error(tmp, err)
	}
	if _, err := place(ctx, s, a, dir); err != nil {
		return r, bundle.About(s.Path, err)
	}
	r = Report{
		At: s.Now().UTC(), Made: a.Manifest.At, Server: a.Manifest.Server, Signer: a.Signer,
		Entries: len(a.Manifest.Entries), Bytes: a.Manifest.Bytes(), Size: a.Size, Left: facts.Left, OK: true,
	}
	v := &verifying{s: s, dir: dir, gens: generation.Store{Dir: dir}, left: map[string]bool{}}
	for _, l := range facts.Left {
		v.left[l.What] = true
	}
	for _, step := range []func(context.Context) (Check, error){v.records, v.disks, v.volumes, v.memory, v.repositories, v.objects, v.logs} {
		c, err := step(ctx)
		if err != nil {
			return r, err
		}
		if len(c.Problems) > 0 {
			r.OK = false
		}
		r.Checks = append(r.Checks, c)
	}
	return r, nil
}

// verifying checks a directory that was restored.
type verifying struct {
	s    Source
	dir  layout.Dir
	gens generation.Store
	left map[string]bool // what is not in the backup

	machines    []vm.VM
	generations []vm.Generation
	repos       []vm.Repository
	vols        []string
	heads       []audit.Head
}

// records opens the restored record store and decodes every record as JSON.
func (v *verifying) records(ctx context.Context) (c Check, err error) {
	c.What = "records"
	v.s.progress("opening records", 0, 0)
	sockets, err := os.MkdirTemp("", "warren-")
	if err != nil {
		return c, layout.Error(os.TempDir(), err)
	}
	defer os.RemoveAll(sockets)
	st, err := store.Open(ctx, store.Options{Dir: v.dir.Etcd(), SocketDir: sockets, Log: v.s.Log})
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	_, err = store.Backend{Store: st}.Dump(ctx, func(e ledger.Entry) error {
		c.Count++
		if err := v.record(e); err != nil {
			c.fail(e.Kind+" "+e.ID, err)
		}
		return nil
	})
	return c, err
}

func (v *verifying) record(e ledger.Entry) error {
	into := func(to any) error {
		if err := json.Unmarshal(e.Value, to); err != nil {
			return vm.Errorf(vm.Corrupt, e.ID, "not readable: %w", err)
		}
		return nil
	}
	switch e.Kind {
	case "vms":
		v.machines = append(v.machines, vm.VM{})
		return into(&v.machines[len(v.machines)-1])
	case "generations":
		v.generations = append(v.generations, vm.Generation{})
		return into(&v.generations[len(v.generations)-1])
	case "repositories":
		v.repos = append(v.repos, vm.Repository{})
		return into(&v.repos[len(v.repos)-1])
	case "volumes":
		v.vols = append(v.vols, e.ID)
	case "audit":
		v.heads = append(v.heads, audit.Head{})
		return into(&v.heads[len(v.heads)-1])
	}
	var any json.RawMessage
	return into(&any)
}

// disks reads the headers and first tables of every disk, down to the image.
func (v *verifying) disks(ctx context.Context) (Check, error) {
	c := Check{What: "disks of VMs and generations"}
	known := map[string]error{}
	for _, rec := range v.machines {
		if ctx.Err() != nil {
			return c, context.Cause(ctx)
		}
		c.Count++
		layers, err := v.gens.LayersOf(rec.ID)
		if err == nil {
			err = chain(layers, known)
		}
		if err != nil && rec.State != vm.Lost && !v.left["vm "+string(rec.ID)] {
			c.fail("vm "+string(rec.ID), err)
		}
	}
	for _, g := range v.generations {
		if ctx.Err() != nil {
			return c, context.Cause(ctx)
		}
		if g.Gone || g.State != vm.GenReady || v.left["generation "+string(g.ID)] {
			continue
		}
		c.Count++
		layers, err := v.gens.Layers(g.ID)
		if err == nil {
			err = chain(layers, known)
		}
		if err != nil {
			c.fail("generation "+string(g.ID), err)
		}
	}
	return c, nil
}

// volumes reads the headers of every volume: without them nobody can unlock it.
func (v *verifying) volumes(context.Context) (Check, error) {
	c := Check{What: "volumes"}
	for _, id := range v.vols {
		if v.left["volume "+id] {
			continue
		}
		c.Count++
		if _, err := qcow.Check(layout.VolumeDir(v.dir.Volume(vm.VolumeID(id))).Disk(), qcow.Volume); err != nil {
			c.fail("volume "+id, err)
		}
	}
	return c, nil
}

// chain checks the layers of one disk. known has the outcome of each file.
func chain(layers []string, known map[string]error) error {
	for _, path := range layers {
		err, seen := known[path]
		if !seen {
			err = layer(path)
			known[path] = err
		}
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(filepath.Base(filepath.Dir(path)), filepath.Base(path)), err)
		}
	}
	return nil
}

func layer(path string) error {
	if _, err := qcow.Check(path, qcow.Layer); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return layout.Error(path, err)
	}
	defer f.Close()
	_, err = qcow.OpenLayer(f)
	return err
}

// memory compares the memory of generations with the sums in their manifests, and opens
// the keys of sealed ones.
func (v *verifying) memory(ctx context.Context) (Check, error) {
	c := Check{What: "memory of generations"}
	for _, g := range v.generations {
		if ctx.Err() != nil {
			return c, context.Cause(ctx)
		}
		if !g.Whole() || g.State != vm.GenReady || !g.Durable || v.left["generation "+string(g.ID)] {
			continue
		}
		c.Count++
		v.s.progress("comparing memory", int64(c.Count), 0)
		if err := v.whole(ctx, g); err != nil {
			c.fail("generation "+string(g.ID), err)
		}
	}
	return c, nil
}

func (v *verifying) whole(ctx context.Context, g vm.Generation) error {
	m, err := v.gens.Load(g.ID)
	if err != nil {
		return err
	}
	dir := layout.GenerationDir(v.dir.Generation(g.ID))
	if g.Sealed {
		host, err := seal.LoadHostKey(v.dir.HostKey())
		if err != nil {
			return err
		}
		_, err = host.Key(g.SealKey)
		return err
	}
	if err := qemu.Verify(ctx, dir.RAM(), m.RAM); err != nil {
		return err
	}
	return qemu.Verify(ctx, dir.Device(), m.Device)
}

// repositories has git check each repository.
func (v *verifying) repositories(ctx context.Context) (Check, error) {
	c := Check{What: "repositories"}
	for i, r := range v.repos {
		v.s.progress("checking repositories", int64(i), int64(len(v.repos)))
		if v.left["repository "+r.ID] {
			continue
		}
		c.Count++
		switch err := repo.Fsck(ctx, v.dir.Repo(r.ID)); {
		case ctx.Err() != nil:
			return c, context.Cause(ctx)
		case vm.KindOf(err) == vm.Unsupported:
			return c, err
		case err != nil:
			c.fail("repository "+r.ID, err)
		}
	}
	return c, nil
}

// objects compares the bytes of every version of an object with its record.
func (v *verifying) objects(ctx context.Context) (c Check, err error) {
	c.What = "versions of objects"
	v.s.progress("checking objects", 0, 0)
	c.Count, c.Problems, err = objects.Check(ctx, v.dir)
	return c, err
}

// logs walks the audit chain and opens the event log.
func (v *verifying) logs(context.Context) (Check, error) {
	c := Check{What: "audit records"}
	v.s.progress("checking the audit chain", 0, 0)
	head := audit.Head{}
	for _, h := range v.heads {
		if h.Seq > head.Seq {
			head = h
		}
	}
	r, err := audit.Verify(v.dir.Audit(), "", head)
	if err != nil {
		return c, err
	}
	c.Count = int(r.Records)
	if r.Problem != "" {
		c.Problems = append(c.Problems, r.Problem)
	}
	log, err := events.Open(v.dir.Events())
	if err != nil {
		c.fail("events", err)
		return c, nil
	}
	return c, log.Close()
}

// Verified is where the report of a successful verification of a backup is kept.
func Verified(path string) string { return path + ".verified" }

// proof is what the file that Verified names holds.
type proof struct {
	Report
	// Size and ModTime are those of the file that was verified: another file is no backup.
	FileSize int64     `json:"fileSize"`
	ModTime  time.Time `json:"modTime"`
}

// Keep writes the report of a backup beside it, or removes an older one when the report is
// not OK.
func (r Report) Keep(path string) error {
	if !r.OK {
		if err := os.Remove(Verified(path)); err != nil && !os.IsNotExist(err) {
			return layout.Error(path, err)
		}
		return nil
	}
	st, err := os.Stat(path)
	if err != nil {
		return layout.Error(path, err)
	}
	return layout.WriteJSON(Verified(path), proof{r, st.Size(), st.ModTime().UTC()}, 0o600)
}

// VerifiedAt is when a file was last verified as it is; zero = it was not.
func VerifiedAt(path string) time.Time {
	var p proof
	st, err := os.Stat(path)
	if err != nil || layout.ReadJSON(Verified(path), &p) != nil || !p.OK || p.FileSize != st.Size() || !p.ModTime.Equal(st.ModTime()) {
		return time.Time{}
	}
	return p.At
}

// Inspect returns the manifest of a backup and who signed it, without reading the rest.
func Inspect(s Source) (bundle.Manifest, string, error) {
	a, f, err := s.Open()
	if err != nil {
		return bundle.Manifest{}, "", err
	}
	return a.Manifest, a.Signer, f.Close()
}

// Name is the file name of a backup.
func Name(m bundle.Manifest) string {
	return strings.Join([]string{"warren", m.Server, m.At.UTC().Format("20060102-150405")}, "-") + ".tar.zst"
}
