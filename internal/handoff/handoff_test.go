// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package handoff_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/handoff"
	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type server struct {
	*vmtest.Site
	*vmtest.House
	admin *vm.Call
}

func newServer(t *testing.T, host string) *server {
	t.Helper()
	s, err := vmtest.NewSite(t.TempDir())
	must(t, err)
	s.Host = host
	h, err := s.Open(t.Context())
	must(t, err)
	t.Cleanup(func() { must(t, h.Close(context.WithoutCancel(t.Context()))) })
	admin, _, err := vmtest.Admin(t.Context(), h)
	must(t, err)
	return &server{s, h, admin}
}

// packed makes a VM that may use a repository with a commit, and packs it.
func (s *server) packed(t *testing.T) []byte {
	t.Helper()
	code, err := s.Repo.Create(t.Context(), s.admin, repo.CreateRequest{Name: "code"})
	must(t, err)
	_, err = s.Repo.Commit(t.Context(), s.admin, code.ID, repo.CommitRequest{
		Branch: "main", Message: "one", Files: []repo.FileEdit{{Path: "a.txt", Size: 4, Open: repo.Bytes([]byte("kept"))}},
	})
	must(t, err)
	_, err = s.Repo.Protect(t.Context(), s.admin, code.ID, "main")
	must(t, err)
	empty, err := s.Repo.Create(t.Context(), s.admin, repo.CreateRequest{Name: "empty"})
	must(t, err)
	box, err := s.Create(t.Context(), s.admin, engine.CreateRequest{Name: "box"})
	must(t, err)
	_, err = s.ChangeRepos(t.Context(), box.ID, func([]vm.RepoGrant) ([]vm.RepoGrant, error) {
		return []vm.RepoGrant{{Repo: code.ID, Access: vm.GitWrite}, {Repo: empty.ID, Access: vm.GitRead}}, nil
	})
	must(t, err)
	s.publishes(t, box.ID)
	var out bytes.Buffer
	_, err = s.Rooms.Handoff.Create(t.Context(), s.admin, "box", handoff.CreateOptions{MaxBytes: handoff.DefaultObjectBytes}, &out, func() error { return nil })
	must(t, err)
	return out.Bytes()
}

// TestOpen: a bundle makes the repositories that the VM uses on another server, with their
// commits and protection, under other names if theirs are taken; only a signer that is
// trusted can do that.
//
// 001-23
func TestOpen(t *testing.T) {
	a, b := newServer(t, "a"), newServer(t, "b")
	data := a.packed(t)
	if _, err := b.Rooms.Handoff.Open(t.Context(), b.admin, bytes.NewReader(data), handoff.OpenOptions{}); !errors.Is(err, vm.Denied) {
		t.Fatalf("an unknown signer: %v, want kind %s", err, vm.Denied)
	}
	signer, err := a.Rooms.Handoff.Signer()
	must(t, err)
	for n, want := range [][]string{{"code", "empty"}, {"code-2", "empty-2"}} {
		out, err := b.Rooms.Handoff.Open(t.Context(), b.admin, bytes.NewReader(data), handoff.OpenOptions{Trust: []string{signer}})
		must(t, err)
		var names []string
		for _, r := range out.Repositories {
			names = append(names, r.Name)
		}
		if !slices.Equal(names, want) {
			t.Errorf("opened %d times it made %v, want %v", n+1, names, want)
		}
		if out.Server != "a" || out.Signer != signer || out.Receipts == 0 {
			t.Errorf("the bundle is described as %+v", out)
		}
		file, err := b.Repo.Contents(t.Context(), b.admin, out.Repositories[0].ID, "main", "a.txt", false)
		if err != nil || string(file.Data) != "kept" {
			t.Errorf("the repository has the file %q, %v", file.Data, err)
		}
		rec, err := b.Repo.Get(t.Context(), b.admin, out.Repositories[0].ID)
		if err != nil || !slices.Equal(rec.Protected, []string{"main"}) {
			t.Errorf("the repository protects %v, %v", rec.Protected, err)
		}
	}
	own, err := a.Rooms.Handoff.Open(t.Context(), a.admin, bytes.NewReader(data), handoff.OpenOptions{})
	if err != nil || len(own.Repositories) != 2 {
		t.Errorf("the server's own bundle: %v, %d repositories", err, len(own.Repositories))
	}
}

// TestOpenDamaged: a bundle with a flipped bit, or whose end is missing, makes nothing and
// leaves nothing.
func TestOpenDamaged(t *testing.T) {
	a, b := newServer(t, "a"), newServer(t, "b")
	data := a.packed(t)
	signer, err := a.Rooms.Handoff.Signer()
	must(t, err)
	for at := 0; at < len(data); at += 97 {
		bad := slices.Clone(data)
		bad[at] ^= 0x08
		for what, data := range map[string][]byte{"a flipped bit": bad, "the end cut off": data[:at]} {
			_, err := b.Rooms.Handoff.Open(t.Context(), b.admin, bytes.NewReader(data), handoff.OpenOptions{Trust: []string{signer}})
			if !errors.Is(err, vm.Corrupt) {
				t.Fatalf("%s at byte %d: %v, want kind %s", what, at, err, vm.Corrupt)
			}
		}
	}
	if list := b.Repo.All(); len(list) != 0 {
		t.Errorf("damaged bundles made %d repositories", len(list))
	}
	b.keepsNothing(t, "damaged bundles")
}

// silent is an upload that sends nothing until it is ended.
type silent struct {
	asked chan struct{} // closed when it is read
	end   chan struct{}
	once  sync.Once
}

func (s *silent) Read([]byte) (int, error) {
	s.once.Do(func() { close(s.asked) })
	<-s.end
	return 0, io.ErrUnexpectedEOF
}

// TestOpenSlowUploads: uploads of others that never end keep nobody from opening a bundle;
// an account uploads one at a time.
func TestOpenSlowUploads(t *testing.T) {
	s := newServer(t, "a")
	data := s.packed(t)
	var slow sync.WaitGroup
	defer slow.Wait() // after the bodies have ended
	var last *vm.Call
	for _, name := range []string{"one", "two", "three"} {
		_, _, secret, err := s.CreateAccount(t.Context(), s.admin, name)
		must(t, err)
		actor, err := s.Authenticate(t.Context(), secret)
		must(t, err)
		last = &vm.Call{Actor: actor}
		body, call := &silent{asked: make(chan struct{}), end: make(chan struct{})}, last
		failed := make(chan error, 1)
		slow.Go(func() { // ends with the body
			_, err := s.Rooms.Handoff.Open(context.WithoutCancel(t.Context()), call, body, handoff.OpenOptions{})
			failed <- err
		})
		defer close(body.end)
		select {
		case <-body.asked:
		case err := <-failed:
			t.Fatalf("the upload of account %s is refused beside those of others: %v", name, err)
		}
	}
	if _, err := s.Rooms.Handoff.Open(t.Context(), last, bytes.NewReader(data), handoff.OpenOptions{}); !errors.Is(err, vm.Busy) {
		t.Errorf("a second upload of an account: %v, want kind %s", err, vm.Busy)
	}
	if _, err := s.Rooms.Handoff.Open(t.Context(), s.admin, bytes.NewReader(data), handoff.OpenOptions{}); err != nil {
		t.Errorf("a bundle beside uploads that never end: %v", err)
	}
}

// TestPackRights: an identity packs nothing, and another account's VM is unknown.
func TestPackRights(t *testing.T) {
	s := newServer(t, "a")
	_, err := s.Create(t.Context(), s.admin, engine.CreateRequest{Name: "box"})
	must(t, err)
	_, _, secret, err := s.CreateAccount(t.Context(), s.admin, "other")
	must(t, err)
	actor, err := s.Authenticate(t.Context(), secret)
	must(t, err)
	pack := func(who vm.Actor) error {
		_, err := s.Rooms.Handoff.Create(t.Context(), &vm.Call{Actor: who}, "box", handoff.CreateOptions{}, new(bytes.Buffer), func() error { return nil })
		return err
	}
	if err := pack(actor); !errors.Is(err, vm.NotFound) {
		t.Errorf("another account: %v, want kind %s", err, vm.NotFound)
	}
	agent := s.admin.Actor
	agent.Identity, agent.Key = "id-x", ""
	if err := pack(agent); !errors.Is(err, vm.Denied) {
		t.Errorf("an identity: %v, want kind %s", err, vm.Denied)
	}
}
