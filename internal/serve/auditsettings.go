// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/audit"
	"github.com/warren-vm/warren/internal/outside"
	"github.com/warren-vm/warren/vm"
)

// pruneEvery is how often the server looks for audit records that are too old.
const pruneEvery = time.Hour

// checkAudit checks the settings of the audit log.
func (c Config) checkAudit() error {
	if c.AuditKey != "" && c.AuditSigner != "" {
		return vm.Errorf(vm.Invalid, "auditSigner", "the audit log has one signer: a key or a program").WithHint("give --audit-key or --audit-signer")
	}
	for name, path := range map[string]string{"auditCredentials": c.AuditKeys, "auditKey": c.AuditKey, "auditSigner": c.AuditSigner} {
		if path != "" && !filepath.IsAbs(path) {
			return vm.Errorf(vm.Invalid, path, "not an absolute path for %s", name).WithHint("give one that begins with /")
		}
	}
	for _, a := range c.AuditAnchor {
		if _, err := anchorAt(a, nil); err != nil {
			return err
		}
		if strings.HasPrefix(a, "object:") && c.AuditKeys == "" {
			return vm.Errorf(vm.Invalid, "auditCredentials", "an anchor in object storage needs keys").WithHint("give --audit-credentials FILE with AWS_ACCESS_KEY_ID= and AWS_SECRET_ACCESS_KEY=, of mode 0600")
		}
	}
	if _, err := c.auditAge(); err != nil {
		return err
	}
	switch c.AuditArgs {
	case vm.ArgsFull, vm.ArgsDigest, vm.ArgsNone:
		return nil
	}
	return vm.Errorf(vm.Invalid, c.AuditArgs, "not a policy for auditArgs").WithHint("give full, digest or none")
}

// auditAge is AuditKeep as a duration; 0 = audit records are never removed.
func (c Config) auditAge() (time.Duration, error) {
	if c.AuditKeep == "" {
		return 0, nil
	}
	d, err := vm.ParseAge(c.AuditKeep)
	if err == nil && d < 24*time.Hour {
		err = vm.Errorf(vm.Invalid, c.AuditKeep, "auditKeep is shorter than a day").WithHint("give an age such as 90d")
	}
	return d, err
}

// shownList hides what may be a secret in the values of a setting.
func shownList(name string, list []string) []string {
	if name != "auditAnchor" {
		return list
	}
	out := make([]string, 0, len(list))
	for _, a := range list {
		if to, err := anchorAt(a, nil); err == nil {
			a = to.Name()
		}
		out = append(out, a)
	}
	return out
}

// anchorAt parses the place of an anchor. Kind Invalid.
func anchorAt(text string, net *outside.Net) (audit.Anchor, error) {
	kind, place, _ := strings.Cut(text, ":")
	switch kind {
	case "file":
		if !filepath.IsAbs(place) {
			return nil, vm.Errorf(vm.Invalid, text, "not an absolute path").WithHint("give one such as file:/mnt/other-disk/warren-anchors.jsonl")
		}
		return audit.File(place), nil
	case "webhook":
		u, err := outside.CheckURL(place)
		if err != nil || u.Scheme != "https" {
			return nil, vm.Errorf(vm.Invalid, "auditAnchor", "not the address of a webhook").WithHint("give one such as webhook:https://anchors.example.com/warren")
		}
		return webhook{net: net, url: place, name: "webhook:https://" + u.Host}, nil
	case "object":
		return objectAnchorAt(place)
	}
	return nil, vm.Errorf(vm.Invalid, "auditAnchor", "not a place for anchors").WithHint("give file:PATH, webhook:https://... or object:https://HOST/BUCKET/PREFIX")
}

// webhook is an anchor that calls an address. Its path and query may be secrets.
type webhook struct {
	net       *outside.Net
	url, name string
}

// Name names the host only.
func (w webhook) Name() string { return w.name }

// Put posts the line.
func (w webhook) Put(ctx context.Context, _ vm.Checkpoint, line []byte) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(line))
	if err != nil {
		return vm.Errorf(vm.Invalid, w.name, "the address cannot be called")
	}
	q.Header.Set("Content-Type", "application/json")
	client := w.net.Fixed()
	defer client.CloseIdleConnections()
	a, err := client.Do(q)
	if err != nil {
		return vm.Errorf(vm.Unavailable, w.name, "the webhook cannot be reached") // the error names the address
	}
	defer a.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(a.Body, 64<<10)) // so that the connection closes well
	if a.StatusCode/100 != 2 {
		return vm.Errorf(vm.Unavailable, w.name, "the webhook answered %s", a.Status)
	}
	return nil
}

// openAudit opens the audit log with its signer and its anchors, and compares its end with
// the one in the record store.
func (s *stack) openAudit(ctx context.Context, head audit.Keeper) (err error) {
	o := audit.Options{Log: s.log, Keeper: head}
	switch {
	case s.cfg.AuditKey != "":
		key, err := audit.ReadKey(s.cfg.AuditKey)
		if err != nil {
			return err
		}
		o.Signer = key
	case s.cfg.AuditSigner != "":
		if o.Signer, err = audit.NewCommand(ctx, s.cfg.AuditSigner); err != nil {
			return err
		}
	}
	reach, err := s.cfg.reachPrivate()
	if err != nil {
		return err
	}
	for _, text := range s.cfg.AuditAnchor {
		a, err := anchorAt(text, outside.New(reach))
		if o, ok := a.(*objectAnchor); ok {
			err = o.open(s.cfg.AuditKeys)
		}
		if err != nil {
			return err
		}
		o.Outside = append(o.Outside, a)
	}
	s.audit, err = audit.Open(ctx, s.dir.Audit(), o)
	return err
}

// pruneAudit removes audit records that are older than the setting, until ctx ends.
func (s *stack) pruneAudit(ctx context.Context) {
	age, err := s.cfg.auditAge()
	if err != nil || age == 0 {
		return
	}
	tick := time.NewTicker(pruneEvery)
	defer tick.Stop()
	for {
		p, err := s.audit.Prune(ctx, time.Now().Add(-age), audit.Entry{Actor: vm.Actor{System: "retention"}})
		switch {
		case err != nil && ctx.Err() == nil:
			s.log.Error("old audit records could not be removed", "err", err)
		case p.Segments > 0:
			s.log.Info("old audit records were removed", "records", p.Records, "through", p.Through)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
