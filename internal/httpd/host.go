// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

func (s *server) whoami(q *request) error {
	a := q.call.Actor
	out := api.WhoAmI{AccountID: a.Account, Admin: a.Admin, KeyID: a.Key, TokenID: a.Token}
	if a.Identity != "" {
		out.IdentityID = &a.Identity
	}
	return q.ok(out)
}

func (s *server) images(q *request) error {
	l, err := s.Engine.Images(q.Context(), q.call)
	if err != nil {
		return err
	}
	out := api.ImageList{Images: []vm.Image{}}
	for _, img := range l {
		img.Files = []vm.File{} // checksums of every file belong in the manifest
		out.Images = append(out.Images, img)
	}
	return q.ok(out)
}

func (s *server) host(q *request) error {
	h, err := s.Engine.Host(q.Context(), q.call)
	if err != nil {
		return err
	}
	out := api.Host{
		Version: api.Version, Accel: h.Platform.Accel, QEMU: h.Platform.QEMU, QEMUVersion: h.Platform.QEMUVersion,
		Machine: h.Platform.Machine, CPU: h.Platform.CPU, CPUs: h.Capacity.CPUs, MemTotal: h.Capacity.MemTotal,
		MemAvailable: h.Capacity.MemAvailable, DiskTotal: h.Capacity.DiskTotal, DiskFree: h.Capacity.DiskFree,
		VMs: h.VMs, Pool: api.Pool(h.Pool), Warnings: h.Warnings,
	}
	if out.Warnings == nil {
		out.Warnings = []string{}
	}
	return q.ok(out)
}

func (s *server) config(q *request) error { return q.ok(s.Settings) }

func (s *server) audit(q *request) error {
	limit, err := q.int("limit", 100)
	if err != nil {
		return err
	}
	after, err := q.int("after", 0)
	if err != nil {
		return err
	}
	f := vm.AuditFilter{
		Limit: int(min(limit, 10_000)), After: after,
		Op: vm.Op(q.query().Get("op")), Actor: q.query().Get("actor"), ID: q.query().Get("id"),
	}
	for name, at := range map[string]*time.Time{"since": &f.Since, "until": &f.Until} {
		if text := q.query().Get(name); text != "" {
			if *at, err = time.Parse(time.RFC3339, text); err != nil {
				return vm.Errorf(vm.Invalid, text, "not a time for %s", name).WithHint("give one such as 2026-01-31T12:00:00Z")
			}
		}
	}
	if ref := q.query().Get("vm"); ref != "" {
		f.VM = vm.ID(ref) // finds a deleted VM's records by its id
		if v, err := s.Engine.Get(q.Context(), q.call, ref); err == nil {
			f.VM = v.ID
		}
	}
	l, err := s.Journal.AuditList(q.Context(), q.call, f)
	if err != nil {
		return err
	}
	out := api.AuditList{Records: []api.AuditRecord{}}
	for _, r := range l {
		out.Records = append(out.Records, api.AuditRecord{
			ID: r.ID, Seq: r.Seq, Time: r.Time, Op: r.Op, VM: r.VM, Subject: r.Subject, Actor: r.Actor, RequestID: r.Request,
			Outcome: r.Outcome, Error: r.Error, EndedAt: r.EndedAt, Detail: r.Detail,
			Generation: r.Generation, Network: r.Network, Right: r.Right,
		})
	}
	return q.ok(out)
}

func shownAccount(a vm.Account) api.Account {
	return api.Account{ID: a.ID, Name: a.Name, Admin: a.Admin, CreatedAt: a.CreatedAt}
}

func shownKey(k vm.APIKey) api.Key {
	return api.Key{ID: k.ID, Account: k.Account, Name: k.Name, CreatedAt: k.CreatedAt, LastUsed: k.LastUsed}
}

func (s *server) accounts(q *request) error {
	l, err := s.Access.Accounts(q.Context(), q.call)
	if err != nil {
		return err
	}
	out := api.AccountList{Accounts: []api.Account{}}
	for _, a := range l {
		out.Accounts = append(out.Accounts, shownAccount(a))
	}
	return q.ok(out)
}

func (s *server) createAccount(q *request) error {
	var in api.NewAccount
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	a, k, secret, err := s.Access.CreateAccount(q.Context(), q.call, in.Name)
	if err != nil {
		return err
	}
	return q.ok(api.CreatedAccount{Account: shownAccount(a), Key: shownKey(k), Secret: secret})
}

// accountID resolves an account's id or name.
func (s *server) accountID(q *request, ref string) (vm.AccountID, error) {
	l, err := s.Access.Accounts(q.Context(), q.call)
	if err != nil {
		return "", err
	}
	for _, a := range l {
		if string(a.ID) == ref || a.Name == ref {
			return a.ID, nil
		}
	}
	return vm.AccountID(ref), nil // the engine returns NotFound
}

func (s *server) removeAccount(q *request) error {
	force, err := q.bool("force")
	if err != nil {
		return err
	}
	id, err := s.accountID(q, q.values["account"])
	if err != nil {
		return err
	}
	if err := s.Access.RemoveAccount(q.Context(), q.call, id, force); err != nil {
		return err
	}
	return q.ok(okBody{})
}

func (s *server) keys(q *request) error {
	var account vm.AccountID
	if ref := q.query().Get("account"); ref != "" {
		var err error
		if account, err = s.accountID(q, ref); err != nil {
			return err
		}
	}
	l, err := s.Access.Keys(q.Context(), q.call, account)
	if err != nil {
		return err
	}
	out := api.KeyList{Keys: []api.Key{}}
	for _, k := range l {
		out.Keys = append(out.Keys, shownKey(k))
	}
	return q.ok(out)
}

func (s *server) createKey(q *request) error {
	var in api.NewKey
	if err := q.decode(&in, maxBody); err != nil {
		return err
	}
	account := in.Account
	if account != "" {
		var err error
		if account, err = s.accountID(q, string(account)); err != nil {
			return err
		}
	}
	k, secret, err := s.Access.CreateKey(q.Context(), q.call, account, in.Name)
	if err != nil {
		return err
	}
	return q.ok(api.CreatedKey{Key: shownKey(k), Secret: secret})
}

func (s *server) rotateKey(q *request) error {
	k, secret, err := s.Access.RotateKey(q.Context(), q.call, vm.KeyID(q.values["key"]))
	if err != nil {
		return err
	}
	return q.ok(api.CreatedKey{Key: shownKey(k), Secret: secret})
}

func (s *server) revokeKey(q *request) error {
	if err := s.Access.RevokeKey(q.Context(), q.call, vm.KeyID(q.values["key"])); err != nil {
		return err
	}
	return q.ok(okBody{})
}

// events streams events (SSE). Last-Event-ID, or ?after=, says where to resume; without
// it only new events are sent.
func (s *server) events(q *request) error {
	after := int64(-1)
	if v := orDefault(q.Header.Get("Last-Event-ID"), q.query().Get("after")); v != "" {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < 0 {
			return vm.Errorf(vm.Invalid, v, "not an event's id")
		}
		after = n
	}
	var types []string
	if v := q.query().Get("types"); v != "" {
		types = strings.Split(v, ",")
	}
	var only vm.ID
	if ref := q.query().Get("vm"); ref != "" {
		only = vm.ID(ref)
		v, err := s.Engine.Get(q.Context(), q.call, ref)
		switch {
		case err == nil:
			only = v.ID
		case !vm.IsID(ref): // a deleted VM still has events
			return err
		}
	}
	ctx, cancel := s.streaming(q)
	defer cancel()
	stream, err := s.Journal.Events(ctx, q.call, after)
	if err != nil {
		return err
	}
	defer stream.Close()
	q.header("text/event-stream")
	q.w.WriteHeader(http.StatusOK)
	f := http.NewResponseController(q.w)
	for {
		_ = f.Flush()
		quiet, stop := context.WithTimeout(ctx, keepAlive)
		e, err := stream.Next(quiet)
		stop()
		switch {
		case err != nil && ctx.Err() == nil && quiet.Err() != nil:
			if _, err := fmt.Fprint(q.w, ": quiet\n\n"); err != nil {
				return nil
			}
			continue
		case err != nil && ctx.Err() == nil:
			data, encErr := json.Marshal(s.errorBody(q.Context(), err, q.call, q.ref()))
			if encErr != nil {
				return encErr
			}
			_, _ = fmt.Fprintf(q.w, "event: error\ndata: %s\n\n", data) // an error means that the reader is gone
			return nil
		case err != nil:
			return nil // the stream ends; the client resumes by id
		}
		if len(types) > 0 && !slices.Contains(types, e.Type) || only != "" && e.VM != only {
			continue
		}
		e.Account = ""
		data, err := json.Marshal(e)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(q.w, "id: %d\nevent: %s\ndata: %s\n\n", e.ID, e.Type, data); err != nil {
			return nil
		}
	}
}
