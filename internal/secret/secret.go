// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package secret is the room of the secrets that the host puts into requests of VMs. It keeps
// the values under the host's key, says which VMs may use which, and gives a VM's monitor the
// current for one request at a time, after it has written the audit record. It gets new values
// from services, by OAuth or from a rotator. A value is in no other record, no audit record, no
// event, no error and no answer to a user.
//
// A VM may use a secret if its network policy has a use of it (vm.SecretUse), which names the
// secret by id: when the secret is removed, every use of it is void at once.
package secret

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/journal"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/outside"
	"github.com/warren-vm/warren/internal/seal"
	"github.com/warren-vm/warren/vm"
)

// VMs is what the room asks of the engine.
type VMs interface {
	// Find returns the VM that ref names among those that the actor may see. Kinds NotFound,
	// Invalid and Denied.
	Find(a vm.Actor, ref string) (vm.VM, error)
	// OfAccount lists the VMs of an account.
	OfAccount(a vm.AccountID) []vm.VM
	// EditNetwork changes a VM's policy.
	EditNetwork(ctx context.Context, c *vm.Call, ref string, edit func(rec vm.VM, p *vm.NetworkPolicy) error) (vm.VM, error)
}

// Config holds the dependencies of the room. All are required.
type Config struct {
	Dir     layout.Dir
	Journal *journal.Journal
	Net     *outside.Net // reaches the servers that issue access tokens, and rotators
	Now     func() time.Time
	Log     *slog.Logger
}

// Secrets is the room. Its methods may be called concurrently.
type Secrets struct {
	cfg   Config
	host  string
	table *ledger.Table[string, vm.Secret]
	vms   VMs // set by Open

	write sync.Mutex // held from the check of a name until its record is stored

	mu     sync.Mutex
	tokens map[string]*token // by id of the secret; guarded by mu
	opened *seal.HostKey     // guarded by mu; nil = not read yet
	// rotating are the ids of the secrets that are being rotated; guarded by mu.
	rotating map[string]bool
	patience time.Duration // for the answer of a service

	paces paces
}

const (
	byAccount = "account"
	byName    = "name"

	maxPerAccount = 1000
	maxPerVM      = 32
	maxValue      = 8 << 10 // bytes: it has to fit into a header
)

// Kind is the table of secrets.
var Kind = ledger.Kind[string, vm.Secret]{
	Name: "secrets",
	Key:  func(s *vm.Secret) string { return s.ID },
	Host: func(s *vm.Secret) *string { return &s.On },
	Index: map[string]func(*vm.Secret) []string{
		byAccount: func(s *vm.Secret) []string { return []string{string(s.Account)} },
		byName:    func(s *vm.Secret) []string { return []string{nameKey(s.Account, s.Name)} },
	},
	Limit: ledger.Limit[vm.Secret]{
		Most: maxPerAccount, Owner: func(s *vm.Secret) string { return string(s.Account) },
		What: "secrets", Then: "remove one (`warren secret rm NAME`)", Code: "LIMIT_EXCEEDED",
	},
}

// nameKey is the value of the index byName. A name has no slash.
func nameKey(a vm.AccountID, name string) string { return string(a) + "/" + name }

// New returns the room with its table in the ledger. Load the ledger next, then call Open.
func New(l *ledger.Ledger, cfg Config) *Secrets {
	return &Secrets{cfg: cfg, host: l.Host(), table: ledger.Add(l, Kind), tokens: map[string]*token{}, rotating: map[string]bool{}, patience: 20 * time.Second}
}

// Open gives the room its engine.
func (s *Secrets) Open(vms VMs) { s.vms = vms }

// Set keeps a secret. If the account has one with the name, it gets the new value, and
// replaced is true; in may then leave out where it goes, and must not change that. Kinds
// Invalid, Exists, Denied.
func (s *Secrets) Set(ctx context.Context, c *vm.Call, in Request) (out vm.Secret, replaced bool, err error) {
	defer func() { err = vm.WithOp(vm.OpSecretSet, in.Name, err) }()
	if err := c.Actor.OwnerOnly(in.Name); err != nil {
		return out, false, err
	}
	if err := in.checkValue(); err != nil {
		return out, false, err
	}
	s.write.Lock()
	defer s.write.Unlock()
	old, replaced := s.named(c.Actor.Account, in.Name)
	rec := old
	if !replaced {
		if rec, err = in.record(); err != nil {
			return out, false, err
		}
		rec.ID, rec.Account, rec.CreatedAt = vm.NewUUID(), c.Actor.Account, s.cfg.Now().UTC()
		rec.Prefix = vm.PlaceholderPrefix(in.Value)
		rec.Shape = vm.PlaceholderLike(in.Value, rec.Prefix)
	} else {
		if err = in.keeps(old); err == nil {
			err = s.idle(old)
		}
		if err != nil {
			return out, true, err
		}
	}
	rec.RotateURL = cmp.Or(in.RotateURL, rec.RotateURL)
	r, err := s.cfg.Journal.Begin(ctx, c, vm.AuditEntry{Op: vm.OpSecretSet, Subject: rec.Name, Detail: map[string]any{
		"id": rec.ID, "host": rec.Host, "port": rec.Port, "header": rec.Header, "replaced": replaced, "oauth": rec.OAuth != nil, "rotator": rec.RotateURL != "",
	}})
	if err != nil {
		return out, replaced, err
	}
	defer func() { r.End(err, nil) }()
	if rec.Sealed, err = s.sealed(rec, "value", in.Value); err != nil {
		return out, replaced, err
	}
	if rec.OAuth != nil && in.OAuth != nil {
		o := *rec.OAuth
		o.RevokeURL = cmp.Or(in.OAuth.RevokeURL, o.RevokeURL)
		if in.ClientSecret != "" {
			if o.Sealed, err = s.sealed(rec, "client", in.ClientSecret); err != nil {
				return out, replaced, err
			}
		}
		rec.OAuth = &o
	}
	if !replaced {
		rec.On = s.host
		err = s.table.Create(ctx, rec)
		return public(rec), false, err
	}
	rec.RotatedAt = s.cfg.Now().UTC()
	s.dropTokens(rec.ID)
	_, err = s.table.Change(ctx, rec.ID, func(have *vm.Secret) error {
		have.Sealed, have.OAuth, have.RotateURL, have.RotatedAt = rec.Sealed, rec.OAuth, rec.RotateURL, rec.RotatedAt
		return nil
	})
	s.dropTokens(rec.ID)
	return public(rec), true, err
}

// public is a record without what is sealed.
func public(s vm.Secret) vm.Secret {
	s.Sealed = nil
	if s.OAuth != nil {
		o := *s.OAuth
		o.Sealed, o.Replaced = nil, nil
		s.OAuth = &o
	}
	return s
}

// List returns the secrets of the caller's account by name, without their values.
func (s *Secrets) List(_ context.Context, c *vm.Call) ([]vm.Secret, error) {
	if err := c.Actor.OwnerOnly(""); err != nil {
		return nil, vm.WithOp(vm.OpList, "secrets", err)
	}
	list := s.table.By(byAccount, string(c.Actor.Account))
	slices.SortFunc(list, func(a, b vm.Secret) int { return strings.Compare(a.Name, b.Name) })
	for i := range list {
		list[i] = public(list[i])
	}
	return list, nil
}

// Get returns one secret without its value, and the VMs that may use it. Kind NotFound.
func (s *Secrets) Get(_ context.Context, c *vm.Call, name string) (out vm.Secret, users []vm.VM, err error) {
	if err := c.Actor.OwnerOnly(name); err != nil {
		return out, nil, vm.WithOp(vm.OpGet, name, err)
	}
	rec, err := s.find(c, name)
	if err != nil {
		return out, nil, vm.WithOp(vm.OpGet, name, err)
	}
	return public(rec), s.users(rec), nil
}

// users lists the VMs whose policy has a use of a secret.
func (s *Secrets) users(rec vm.Secret) (list []vm.VM) {
	for _, v := range s.vms.OfAccount(rec.Account) {
		if slices.ContainsFunc(v.Network.Secrets, func(u vm.SecretUse) bool { return u.ID == rec.ID }) {
			list = append(list, v)
		}
	}
	return list
}

// Remove removes a secret. From then on no VM can use it; a later secret with its name is
// another one. Kind NotFound.
func (s *Secrets) Remove(ctx context.Context, c *vm.Call, name string) (err error) {
	defer func() { err = vm.WithOp(vm.OpSecretRemove, name, err) }()
	if err := c.Actor.OwnerOnly(name); err != nil {
		return err
	}
	s.write.Lock()
	defer s.write.Unlock()
	rec, err := s.find(c, name)
	if err == nil {
		err = s.idle(rec)
	}
	if err != nil {
		return err
	}
	users := s.users(rec)
	r, err := s.cfg.Journal.Begin(ctx, c, vm.AuditEntry{Op: vm.OpSecretRemove, Subject: rec.Name, Detail: map[string]any{"id": rec.ID, "vms": len(users)}})
	if err != nil {
		return err
	}
	defer func() { r.End(err, nil) }()
	if err := s.table.Drop(ctx, rec.ID); err != nil {
		return err
	}
	s.dropTokens(rec.ID)
	for _, v := range users { // every use is void already; this removes it from the policies
		if _, err := s.drop(ctx, c, string(v.ID), rec.Name); err != nil {
			s.cfg.Log.Info("a removed secret stays in a VM's policy, where it has no effect", "secret", rec.Name, "vm", v.ID, "err", err)
		}
	}
	return nil
}

// Forget removes the secrets of an account that is deleted.
func (s *Secrets) Forget(ctx context.Context, account vm.AccountID) error {
	for _, rec := range s.table.By(byAccount, string(account)) {
		if err := s.table.Drop(ctx, rec.ID); err != nil {
			return err
		}
		s.dropTokens(rec.ID)
	}
	return nil
}

func (s *Secrets) named(a vm.AccountID, name string) (vm.Secret, bool) {
	list := s.table.By(byName, nameKey(a, name))
	if len(list) == 0 {
		return vm.Secret{}, false
	}
	return list[0], true
}

func (s *Secrets) find(c *vm.Call, name string) (vm.Secret, error) {
	rec, ok := s.named(c.Actor.Account, name)
	if !ok {
		return rec, notFound(name)
	}
	return rec, nil
}

func notFound(name string) error {
	return vm.Errorf(vm.NotFound, vm.Clip(name, 64), "no such secret").WithCode("SECRET_NOT_FOUND", "secret", vm.Clip(name, 64)).
		WithHint("`warren secret ls` lists them, `warren secret set NAME --host HOST --header Authorization` makes one")
}

// envelope is what is sealed: the value, and the secret and the places for which it was
// given, so that a sealed value cannot be moved to another record or sent to another rotator.
type envelope struct {
	ID, What, Host, Header, Value string
	Port                          int
	RotateURL                     string `json:",omitempty"`
}

func (s *Secrets) hostKey(make bool) (*seal.HostKey, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened != nil {
		return s.opened, nil
	}
	load := seal.LoadHostKey
	if make {
		load = seal.EnsureHostKey
	}
	k, err := load(s.cfg.Dir.HostKey())
	if err == nil {
		s.opened = k
	}
	return k, err
}

func (s *Secrets) sealed(rec vm.Secret, what, value string) ([]byte, error) {
	k, err := s.hostKey(true)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(envelope{rec.ID, what, rec.Host, rec.Header, value, rec.Port, rec.RotateURL})
	if err != nil {
		return nil, vm.Errorf(vm.Internal, rec.Name, "the secret cannot be written")
	}
	return seal.Wrap(k, data)
}

func (s *Secrets) unseal(rec vm.Secret, what string, sealed []byte) (string, error) {
	k, err := s.hostKey(false)
	if err != nil {
		return "", err
	}
	data, err := seal.Unwrap(k, sealed)
	if err != nil {
		return "", vm.Errorf(vm.Corrupt, rec.Name, "the secret cannot be opened with this host's key").
			WithHint("give its value again: `warren secret set %s`", rec.Name)
	}
	var e envelope
	err = json.Unmarshal(data, &e)
	if err != nil || e.ID != rec.ID || e.What != what || e.Host != rec.Host || e.Header != rec.Header || e.Port != rec.Port || e.RotateURL != rec.RotateURL {
		return "", vm.Errorf(vm.Corrupt, rec.Name, "the sealed value belongs to another secret, host, header or rotator").
			WithHint("give its value again: `warren secret set %s`", rec.Name)
	}
	return e.Value, nil
}
