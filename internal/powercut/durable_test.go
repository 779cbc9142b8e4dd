// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package powercut_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/audit"
	"github.com/warren-vm/warren/internal/events"
	"github.com/warren-vm/warren/internal/generation"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/internal/store"
	"github.com/warren-vm/warren/internal/volume"
	"github.com/warren-vm/warren/vm"
)

const (
	box  vm.ID           = "vm-powercut00000000"
	base vm.GenerationID = "sl-base000000000000"
	next vm.GenerationID = "sl-next000000000000"
	size                 = 64 // MiB of the disks
)

// operations are what a user is told is on disk. "old" and "new" are contents.
var operations = []operation{
	{
		name: "a data directory is made",
		do: func(dir layout.Dir) error {
			_, err := layout.Open(filepath.Join(string(dir), "data"))
			return err
		},
		check: func(dir layout.Dir) error {
			dir = layout.Dir(filepath.Join(string(dir), "data"))
			return errors.Join(want(dir.Format(), "1\n"), there(dir.VMs(), dir.Generations(), dir.Audit(), dir.Events()))
		},
	},
	{
		name:   "a file is replaced",
		before: func(dir layout.Dir) error { return layout.WriteFile(dir.AdminKey(), []byte("old"), 0o600) },
		do:     func(dir layout.Dir) error { return layout.WriteFile(dir.AdminKey(), []byte("new"), 0o600) },
		check:  func(dir layout.Dir) error { return want(dir.AdminKey(), "new") },
		whole: func(dir layout.Dir) error {
			if want(dir.AdminKey(), "old") == nil {
				return nil
			}
			return want(dir.AdminKey(), "new")
		},
	},
	{
		name: "a directory is published",
		before: func(dir layout.Dir) error {
			return errors.Join(os.MkdirAll(string(dir)+"/.tmp/sub", 0o700), os.Mkdir(dir.Images(), 0o700))
		},
		do: func(dir layout.Dir) error {
			return errors.Join(os.WriteFile(string(dir)+"/.tmp/one", []byte("one"), 0o600), os.WriteFile(string(dir)+"/.tmp/sub/two", []byte("two"), 0o600),
				layout.Publish(string(dir)+"/.tmp", dir.Images()+"/x"))
		},
		check: func(dir layout.Dir) error {
			return errors.Join(want(dir.Images()+"/x/one", "one"), want(dir.Images()+"/x/sub/two", "two"))
		},
	},
	{
		name:   "a VM gets a disk",
		before: func(dir layout.Dir) error { return errors.Join(open(dir), above(dir, base)) },
		do: func(dir layout.Dir) error {
			return errors.Join(os.Mkdir(dir.VM(box), 0o700), generation.Store{Dir: dir}.Disk(base, box, size))
		},
		check: func(dir layout.Dir) error { return lies(dir.Overlay(box), dir, base) },
	},
	{
		name:   "a VM's disk is put back",
		before: func(dir layout.Dir) error { return errors.Join(running(dir), above(dir, next)) },
		do:     func(dir layout.Dir) error { return generation.Store{Dir: dir}.Disk(next, box, size) },
		check:  func(dir layout.Dir) error { return lies(dir.Overlay(box), dir, next) },
		whole: func(dir layout.Dir) error {
			if lies(dir.Overlay(box), dir, base) == nil {
				return nil
			}
			return lies(dir.Overlay(box), dir, next)
		},
		spare: map[string]string{"/vms": "the VM had its directory"},
	},
	{
		name:   "a capture begins",
		before: running,
		do:     func(dir layout.Dir) error { return generation.Store{Dir: dir}.Begin(next, box, size) },
		// From here on the machine may write to its next disk what its guest syncs.
		check: func(dir layout.Dir) error {
			pending, err := generation.Store{Dir: dir}.Pending(box)
			if err != nil || len(pending) != 1 {
				return fmt.Errorf("the VM's next disk is not there: %v, %w", pending, err)
			}
			return errors.Join(lies(layout.VMDir(dir.VM(box)).NextOverlay(next), dir, next), lies(layout.GenerationDir(dir.Generation(next)).Disk(), dir, base))
		},
		whole: func(dir layout.Dir) error { return lies(dir.Overlay(box), dir, base) },
	},
	{
		name: "a capture takes over",
		before: func(dir layout.Dir) error {
			return errors.Join(running(dir), generation.Store{Dir: dir}.Begin(next, box, size))
		},
		do:    func(dir layout.Dir) error { return generation.Store{Dir: dir}.Advance(next, box) },
		check: func(dir layout.Dir) error { return lies(dir.Overlay(box), dir, next) },
		whole: func(dir layout.Dir) error { return lies(layout.GenerationDir(dir.Generation(next)).Disk(), dir, base) },
	},
	{
		name:   "a capture is the VM's disk from begin to end",
		before: running,
		do: func(dir layout.Dir) error {
			s := generation.Store{Dir: dir}
			return errors.Join(s.Begin(next, box, size), s.Advance(next, box))
		},
		check: func(dir layout.Dir) error {
			return errors.Join(lies(dir.Overlay(box), dir, next), lies(layout.GenerationDir(dir.Generation(next)).Disk(), dir, base))
		},
	},
	{
		name: "a disk grows",
		before: func(dir layout.Dir) error {
			if err := running(dir); err != nil {
				return err
			}
			// What lies behind the table may be anything.
			f, err := os.OpenFile(dir.Overlay(box), os.O_RDWR, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt(bytes.Repeat([]byte{0xff}, 64), 3<<16+8)
			return errors.Join(err, f.Close())
		},
		do: func(dir layout.Dir) error { return qemu.GrowOverlay(dir.Overlay(box), 2048) },
		check: func(dir layout.Dir) error {
			if got := be(dir.Overlay(box), 24); got != 2048<<20 {
				return fmt.Errorf("its size is %d", got)
			}
			return grownWhole(dir)
		},
		whole: grownWhole,
		each:  true,
	},
	{
		name: "a generation is published",
		before: func(dir layout.Dir) error {
			return errors.Join(running(dir), generation.Store{Dir: dir}.Begin(next, box, size))
		},
		do: func(dir layout.Dir) error {
			if err := memory(dir); err != nil {
				return err
			}
			// What the machine wrote to the layer before it was frozen.
			f, err := os.OpenFile(layout.GenerationDir(dir.Generation(next)).Disk(), os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteAt([]byte("of the guest"), 1<<20)
				err = errors.Join(err, f.Close())
			}
			if err == nil {
				_, err = generation.Store{Dir: dir}.Publish(context.Background(), vm.Manifest{Format: 1, ID: next})
			}
			return err
		},
		check: func(dir layout.Dir) error {
			data, err := os.ReadFile(layout.GenerationDir(dir.Generation(next)).Disk())
			if err != nil || !bytes.HasSuffix(data, []byte("of the guest")) {
				return fmt.Errorf("the layer lacks what was written: %w", err)
			}
			return remembered(dir, next)
		},
		spare: map[string]string{"/generations": "its name was made durable when the capture began"},
	},
	{
		name:   "a generation gets a second name",
		before: published,
		do: func(dir layout.Dir) error {
			s := generation.Store{Dir: dir}
			g, err := s.Load(next)
			if err != nil {
				return err
			}
			g.ID = "sl-alias00000000000"
			return s.Alias(next, g)
		},
		check: func(dir layout.Dir) error { return remembered(dir, "sl-alias00000000000") },
	},
	{
		name:   "memory is sealed",
		before: func(dir layout.Dir) error { return errors.Join(published(dir), wrapKey(dir)) },
		do: func(dir layout.Dir) error {
			_, err := generation.Store{Dir: dir}.Seal(context.Background(), next, wrapped(dir))
			return err
		},
		check: openSealed,
		whole: openSealed,
	},
	{
		name: "sealed memory is settled",
		before: func(dir layout.Dir) error {
			s := generation.Store{Dir: dir}
			err := errors.Join(published(dir), wrapKey(dir))
			if err == nil {
				_, err = s.Seal(context.Background(), next, wrapped(dir))
			}
			return err
		},
		do: func(dir layout.Dir) error {
			s := generation.Store{Dir: dir}
			err := s.Open(context.Background(), next, wrapped(dir))
			if err == nil {
				_, err = s.DropSealed(context.Background(), next)
			}
			return err
		},
		check: openSealed,
		whole: openSealed,
	},
	{
		name:   "the host key is made",
		before: open,
		do:     wrapKey,
		check: func(dir layout.Dir) error {
			return errors.Join(published(dir), wrapAgain(dir))
		},
		spare: map[string]string{"/.tmp2": "the name that counts is the second one, in the data directory"},
	},
	{
		name:   "an action is recorded",
		before: open,
		do:     func(dir layout.Dir) error { return begin(dir, "proof") },
		check:  recorded,
		spare: map[string]string{
			"/audit/.tmp2":         "the public key is for those who check: see below",
			"/audit/anchors.jsonl": "the record counts without its signature: see below",
		},
	},
	{
		name: "an action is recorded in a new segment",
		before: func(dir layout.Dir) error {
			if err := open(dir); err != nil {
				return err
			}
			wide := audit.Entry{Op: vm.OpExec, Detail: map[string]any{"wide": strings.Repeat("x", 30<<10)}}
			for n := 1; n > 0; { // the first one, and as many as the segment has place for
				log, err := audit.Open(context.Background(), dir.Audit(), audit.Options{})
				for ; err == nil && n > 0; n-- {
					_, err = log.Begin(context.Background(), wide)
				}
				if err == nil {
					err = log.Close()
				}
				st, serr := os.Stat(dir.Audit() + "/000000.jsonl")
				if err := errors.Join(err, serr); err != nil {
					return err
				}
				if st.Size() < 1<<20 {
					n = int((8<<20 - 1) / st.Size())
				}
			}
			return nil
		},
		do: func(dir layout.Dir) error { return begin(dir, "proof") },
		check: func(dir layout.Dir) error {
			if found, err := filepath.Glob(dir.Audit() + "/0*.jsonl"); err != nil || len(found) < 2 {
				return fmt.Errorf("no second segment: %v, %w", found, err)
			}
			return recorded(dir)
		},
		spare: map[string]string{"/audit/anchors.jsonl": "the record counts without its signature: see below"},
	},
	{
		name:   "a record is signed",
		before: open,
		do: func(dir layout.Dir) error {
			log, err := audit.Open(context.Background(), dir.Audit(), audit.Options{})
			if err != nil {
				return err
			}
			if _, err := log.Begin(context.Background(), audit.Entry{Op: vm.OpExec, Subject: "proof"}); err != nil {
				return err
			}
			return log.Sync()
		},
		check: func(dir layout.Dir) error {
			r, err := audit.Verify(dir.Audit(), "", audit.Head{})
			if err != nil || r.Problem != "" || r.Anchored != r.Records || r.Records == 0 {
				return fmt.Errorf("not signed to the end: %+v, %w", r, err)
			}
			return nil
		},
		spare: map[string]string{"/audit/.tmp1": "the signing key is for the next start: see above"},
	},
	{
		name:   "an event has an id of its own",
		before: open,
		do:     func(dir layout.Dir) error { return append_(dir, 1) },
		check:  func(dir layout.Dir) error { return newID(dir, 1) },
		spare:  map[string]string{"/events/.tmp1": "an empty mark is of no boot: it says the same"},
	},
	{
		name:   "many events have ids of their own",
		before: open,
		do:     func(dir layout.Dir) error { return append_(dir, 2500) },
		check:  func(dir layout.Dir) error { return newID(dir, 2500) },
		spare:  map[string]string{"/events/.tmp1": "an empty mark is of no boot: it says the same"},
	},
	{
		name:   "a volume is made",
		before: func(dir layout.Dir) error { return errors.Join(open(dir), wrapKey(dir)) },
		do:     makeVolume,
		check: func(dir layout.Dir) error {
			return errors.Join(sameHeader(dir), openVolume(dir))
		},
		coarse: true, // qemu-img takes its time; what this is made of is above
	},
	{
		name:   "a volume grows",
		before: func(dir layout.Dir) error { return errors.Join(open(dir), wrapKey(dir), makeVolume(dir)) },
		do: func(dir layout.Dir) error {
			s := volume.Store{Dir: dir}
			key, _, err := s.Open(context.Background(), box2, vm.VolumeSecret{}, false)
			if err != nil {
				return err
			}
			return s.Grow(context.Background(), box2, key, 32)
		},
		check: func(dir layout.Dir) error {
			if got := be(volumeDir(dir).Disk(), 24); got != 32<<20 {
				return fmt.Errorf("its size is %d", got)
			}
			return sameHeader(dir)
		},
		coarse: true, // as above
	},
	{
		name: "a volume's header is put back",
		before: func(dir layout.Dir) error {
			if err := errors.Join(open(dir), wrapKey(dir), makeVolume(dir)); err != nil {
				return err
			}
			f, err := os.OpenFile(volumeDir(dir).Disk(), os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt(make([]byte, 64<<10), 0)
			return errors.Join(err, f.Close())
		},
		do:    openVolume,
		check: sameHeader,
	},
	{
		name:   "a record is stored",
		before: open,
		do: func(dir layout.Dir) error {
			return records(dir, func(ctx context.Context, c *ledger.Table[vm.ID, vm.VM]) error {
				return c.Create(ctx, vm.VM{ID: box})
			})
		},
		check:  elsewhere, // etcd panics where it finds its files damaged
		coarse: true,
	},
	restoring,
}

// stored wants the record to be there.
func stored(dir layout.Dir) error {
	return records(dir, func(_ context.Context, c *ledger.Table[vm.ID, vm.VM]) error {
		if _, ok := c.Get(box); !ok {
			return errors.New("the record is not there")
		}
		return nil
	})
}

func open(dir layout.Dir) error {
	_, err := layout.Open(string(dir))
	return err
}

// above makes a generation's disk above an image.
func above(dir layout.Dir, id vm.GenerationID) error {
	if err := os.Mkdir(dir.Generation(id), 0o700); err != nil {
		return err
	}
	return qemu.CreateOverlay(layout.GenerationDir(dir.Generation(id)).Disk(), "../../images/x/disk.qcow2", size)
}

// running makes the directory of a VM whose disk lies on a generation's.
func running(dir layout.Dir) error {
	return errors.Join(open(dir), above(dir, base), os.Mkdir(dir.VM(box), 0o700), generation.Store{Dir: dir}.Disk(base, box, size))
}

// lies wants path to be a whole overlay above a generation's disk.
func lies(path string, dir layout.Dir, on vm.GenerationID) error {
	name, err := qemu.BackingName(path)
	if err != nil {
		return err
	}
	if got := vm.GenerationID(filepath.Base(filepath.Dir(name))); got != on && !(on == base && got == "x") {
		return fmt.Errorf("%s lies on %s", filepath.Base(path), name)
	}
	if st, err := os.Stat(path); err != nil || st.Size() < 4<<16 || be(path, 24) != size<<20 || be(path, 1<<16) != 2<<16 {
		return fmt.Errorf("%s is not whole", filepath.Base(path))
	}
	return there(layout.GenerationDir(dir.Generation(on)).Disk())
}

// be reads eight bytes of a file, big-endian; 0 where there are none.
func be(path string, off int64) (n uint64) {
	f, err := os.Open(path)
	if err != nil {
		return 0
	}
	defer f.Close()
	var b [8]byte
	if _, err := f.ReadAt(b[:], off); err != nil {
		return 0
	}
	for _, x := range b {
		n = n<<8 | uint64(x)
	}
	return n
}

// grownWhole wants the entries of the first-level table that count to be zero.
func grownWhole(dir layout.Dir) error {
	for i := range int64(be(dir.Overlay(box), 32) & 0xffffffff) { // entries, behind four bytes of encryption
		if got := be(dir.Overlay(box), 3<<16+8*i); got != 0 {
			return fmt.Errorf("entry %d of the table is %x", i, got)
		}
	}
	return nil
}

func memory(dir layout.Dir) error {
	g := layout.GenerationDir(dir.Generation(next))
	return errors.Join(os.WriteFile(g.RAM(), bytes.Repeat([]byte("memory  "), 300_000), 0o600), os.WriteFile(g.Device(), []byte("device"), 0o600))
}

// published makes a generation with memory.
func published(dir layout.Dir) error {
	if _, err := os.Stat(dir.Format()); err != nil {
		if err := open(dir); err != nil {
			return err
		}
	}
	if err := errors.Join(above(dir, next), memory(dir)); err != nil {
		return err
	}
	_, err := generation.Store{Dir: dir}.Publish(context.Background(), vm.Manifest{Format: 1, ID: next})
	return err
}

// remembered wants a generation to be whole: its files are what its manifest
// says.
func remembered(dir layout.Dir, id vm.GenerationID) error {
	m, err := generation.Store{Dir: dir}.Load(id)
	if err != nil {
		return err
	}
	g := layout.GenerationDir(dir.Generation(id))
	for path, f := range map[string]vm.File{g.RAM(): m.RAM, g.Device(): m.Device} {
		got, err := qemu.Sum(context.Background(), path)
		if err != nil || f.Size == 0 || fmt.Sprint(got) != fmt.Sprint(f) {
			return fmt.Errorf("%s is not what the manifest says: %w", filepath.Base(path), err)
		}
	}
	return there(g.Disk())
}

func keyFile(dir layout.Dir) string { return string(dir) + "/wrapped" }

func wrapKey(dir layout.Dir) error {
	key, err := generation.Store{Dir: dir}.SealKey()
	if err != nil {
		return err
	}
	return layout.WriteFile(keyFile(dir), key, 0o600)
}

func wrapped(dir layout.Dir) []byte {
	key, _ := os.ReadFile(keyFile(dir)) // without it nothing can be opened
	return key
}

// wrapAgain seals and opens with the key that was wrapped before the cut.
func wrapAgain(dir layout.Dir) error {
	_, err := generation.Store{Dir: dir}.Seal(context.Background(), next, wrapped(dir))
	return err
}

func openSealed(dir layout.Dir) error {
	if err := (generation.Store{Dir: dir}).Open(context.Background(), next, wrapped(dir)); err != nil {
		return err
	}
	return remembered(dir, next)
}

func begin(dir layout.Dir, subject string) error {
	log, err := audit.Open(context.Background(), dir.Audit(), audit.Options{})
	if err != nil {
		return err
	}
	_, err = log.Begin(context.Background(), audit.Entry{Op: vm.OpExec, Subject: subject})
	return err
}

func recorded(dir layout.Dir) error {
	log, err := audit.Open(context.Background(), dir.Audit(), audit.Options{})
	if err != nil {
		return err
	}
	list, err := log.List(audit.Filter{Op: vm.OpExec, Limit: 1})
	if err = errors.Join(err, log.Close()); err != nil || len(list) != 1 || list[0].Subject != "proof" {
		return fmt.Errorf("the record is gone: %d found, %w", len(list), err)
	}
	r, err := audit.Verify(dir.Audit(), "", audit.Head{})
	if err != nil || r.Problem != "" {
		return fmt.Errorf("the log does not verify: %+v, %w", r, err)
	}
	return nil
}

func append_(dir layout.Dir, n int) error {
	log, err := events.Open(dir.Events())
	for range n {
		if err == nil {
			_, err = log.Append(vm.Event{Type: "vm.created"})
		}
	}
	return err
}

// newID wants the log to give an id that was not given. The host has started
// again.
func newID(dir layout.Dir, given int64) error {
	marks, err := filepath.Glob(dir.Events() + "/*")
	if err != nil {
		return err
	}
	for _, path := range marks {
		if st, err := os.Stat(path); err == nil && st.Size() == 36 { // of another boot
			if err := os.WriteFile(path, []byte("00000000-0000-0000-0000-000000000000"), 0o600); err != nil {
				return err
			}
		}
	}
	log, err := events.Open(dir.Events())
	if err != nil {
		return err
	}
	defer log.Close()
	e, err := log.Append(vm.Event{Type: "vm.created"})
	if err != nil || e.ID <= given {
		return fmt.Errorf("the id %d was given before: %w", e.ID, err)
	}
	return nil
}

const box2 vm.VolumeID = "vol-powercut00000000"

func volumeDir(dir layout.Dir) layout.VolumeDir { return layout.VolumeDir(dir.Volume(box2)) }

func makeVolume(dir layout.Dir) error {
	return volume.Store{Dir: dir}.Create(context.Background(), box2, 16, vm.VolumeSlotSpec{})
}

func openVolume(dir layout.Dir) error {
	_, _, err := volume.Store{Dir: dir}.Open(context.Background(), box2, vm.VolumeSecret{}, false)
	return err
}

// sameHeader wants the disk's first cluster to be what the copy of the header
// holds.
func sameHeader(dir layout.Dir) error {
	header, err := os.ReadFile(volumeDir(dir).Header())
	if err != nil {
		return err
	}
	disk, err := os.ReadFile(volumeDir(dir).Disk())
	if err != nil {
		return err
	}
	if len(disk) < 64<<10 || len(header) < 56 || !bytes.HasPrefix(header[56:], disk[:64<<10]) {
		return errors.New("the header and its copy differ")
	}
	return nil
}

func records(dir layout.Dir, do func(context.Context, *ledger.Table[vm.ID, vm.VM]) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	sockets, err := os.MkdirTemp("", "wpc")
	if err != nil {
		return err
	}
	defer os.RemoveAll(sockets)
	s, err := store.Open(ctx, store.Options{Dir: dir.Etcd(), SocketDir: sockets, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	l := ledger.New(store.Backend{Store: s}, "", slog.New(slog.DiscardHandler))
	vms := ledger.Add(l, ledger.Kind[vm.ID, vm.VM]{Name: "vms", Key: func(v *vm.VM) vm.ID { return v.ID }})
	if err := l.Load(ctx); err != nil {
		return err
	}
	return do(ctx, vms) // the store stays open: it is the cut that ends it
}

func want(path, content string) error {
	got, err := os.ReadFile(path)
	if err != nil || string(got) != content {
		return fmt.Errorf("%s holds %q, not %q: %w", filepath.Base(path), got, content, err)
	}
	return nil
}

func there(paths ...string) (err error) {
	for _, path := range paths {
		_, one := os.Stat(path)
		err = errors.Join(err, one)
	}
	return err
}
