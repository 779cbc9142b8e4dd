// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"regexp"
	"strings"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/qemu"
	"github.com/warren-vm/warren/internal/store"
	"github.com/warren-vm/warren/vm"
)

var hostIDForm = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// hostFile is the server's identity in its data directory.
type hostFile struct {
	ID string `json:"id"`
	// Older says that the data directory is older than host ids: some of its records may
	// name none.
	Older bool `json:"older,omitempty"`
}

// openHost returns the host id that a data directory keeps: want, or a random one when
// that is empty. Kind Invalid when the directory has another.
func openHost(dir layout.Dir, want string) (hostFile, error) {
	var h hostFile
	data, err := os.ReadFile(dir.Host())
	switch {
	case err == nil:
		if err := json.Unmarshal(data, &h); err != nil || !hostIDForm.MatchString(h.ID) {
			return h, vm.Errorf(vm.Corrupt, dir.Host(), "the file names no host id").
				WithHint(`restore the id that this server's records name, as {"id":"..."}: a server with another id does not see its VMs`)
		}
		if want != "" && want != h.ID {
			return h, vm.Errorf(vm.Invalid, want, "the data directory %s belongs to the host id %s", dir, h.ID).
				WithHint("leave --host-id and WARREN_HOST_ID out, or choose another data directory: the records of its VMs name their host")
		}
		return h, nil
	case !errors.Is(err, fs.ErrNotExist):
		return h, vm.Errorf(vm.Internal, dir.Host(), "cannot be read: %w", err)
	}
	if h.ID = want; want == "" {
		h.ID = strings.ToLower(rand.Text()[:12])
	}
	if h.Older, err = hasServed(dir); err != nil {
		return h, err
	}
	data, err = json.Marshal(h)
	if err != nil {
		return h, err
	}
	return h, layout.WriteFile(dir.Host(), append(data, '\n'), 0o644)
}

// hasServed reports whether a server has run on the data directory: then it has an audit
// log.
func hasServed(dir layout.Dir) (bool, error) {
	entries, err := os.ReadDir(dir.Audit())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, vm.Errorf(vm.Internal, dir.Audit(), "cannot be read: %w", err)
	}
	return len(entries) > 0, nil
}

// process identifies a process in its claim of a host id.
type process struct {
	qemu.Ident
	Space string `json:"space"` // the pid namespace: a pid has no meaning in another
}

func thisProcess() (process, error) {
	id, err := qemu.Identify(os.Getpid())
	if err != nil {
		return process{}, vm.Errorf(vm.Internal, "/proc", "cannot be read: %w", err)
	}
	space, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return process{}, vm.Errorf(vm.Internal, "/proc", "cannot be read: %w", err)
	}
	return process{id, space}, nil
}

// sees reports whether another process runs. known is false if it is on another machine,
// or in a container whose processes this one does not see.
func (p process) sees(data json.RawMessage) (alive, known bool) {
	var other process
	if err := json.Unmarshal(data, &other); err != nil || other.BootID == "" || other.BootID != p.BootID || other.Space != p.Space {
		return false, false
	}
	return other.Alive(), true
}

// claimHost claims the host id in the record store, and returns whether records without a
// host belong to it.
func (s *stack) claimHost(ctx context.Context) (unclaimed bool, err error) {
	me, err := thisProcess()
	if err != nil {
		return false, err
	}
	data, err := json.Marshal(me)
	if err != nil {
		return false, err
	}
	s.claim, err = s.store.Claim(ctx, store.Claimant{Host: s.host.ID, Process: data, Alive: me.sees, Log: s.log})
	if err != nil {
		return false, err
	}
	if !s.host.Older && len(s.cfg.EtcdEndpoints) > 0 {
		return false, nil
	}
	return s.store.TakeUnclaimed(ctx, s.host.ID)
}
