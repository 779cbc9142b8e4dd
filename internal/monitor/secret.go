// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package monitor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/intercept"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/proxy"
	"github.com/warren-vm/warren/vm"
)

// newInterceptor returns what reads requests to hosts with a secret or with a rule about
// requests. The VM's own CA is read, or made, when it is first needed.
func (m *machine) newInterceptor(ctx context.Context) *intercept.Interceptor {
	dir := layout.VMDir(m.spec.Dir)
	m.authority = sync.OnceValues(func() (*intercept.Authority, error) {
		return intercept.OpenAuthority(dir.InterceptCA(), dir.InterceptCAKey())
	})
	m.server = sync.OnceValue(func() *http.Client { return proxy.Client(m.serverRun().Inside(), m.spec.ID) })
	return intercept.New(ctx, intercept.Config{Authority: m.authority, Value: m.secretValue, Misplaced: m.secretMisplaced, Log: m.log})
}

const (
	maxSecretAnswer = 64 << 10
	reportTimeout   = 5 * time.Second
)

// secretValue asks the server for the value that belongs into one request.
func (m *machine) secretValue(ctx context.Context, ask vm.SecretAsk) (string, error) {
	var out vm.SecretValue
	return out.Value, m.tellServer(ctx, "/secret-use", ask, &out)
}

// secretMisplaced reports a placeholder that was sent where it does not belong. The record of
// the connection says it, too.
func (m *machine) secretMisplaced(ctx context.Context, p vm.Misplaced) {
	ctx, stop := context.WithTimeout(ctx, reportTimeout)
	defer stop()
	var out struct{}
	if err := m.tellServer(ctx, "/secret-misplaced", p, &out); err != nil {
		m.log.Warn("the server was not told of a misplaced secret", "secret", p.Name, "host", p.Host, "err", err)
	}
}

// tellServer makes a call of the monitor's own. Its errors never contain the answer's body
// unless the server made it as an error.
func (m *machine) tellServer(ctx context.Context, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return vm.Errorf(vm.Internal, path, "the call cannot be written: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+vm.MonitorHost+path, bytes.NewReader(body))
	if err != nil {
		return vm.Errorf(vm.Internal, path, "the call cannot be made: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := m.server().Do(r)
	if err != nil {
		return vm.Errorf(vm.Unavailable, "", "the server did not answer: %w", err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxSecretAnswer))
	if err != nil {
		return vm.Errorf(vm.Unavailable, "", "the server's answer ended early")
	}
	if resp.StatusCode != http.StatusOK {
		kind := vm.Unavailable
		switch resp.StatusCode {
		case http.StatusForbidden:
			kind = vm.Denied
		case http.StatusNotFound:
			kind = vm.NotFound
		}
		var e struct {
			Message string `json:"message"`
		}
		_ = json.Unmarshal(data, &e) // the status is enough
		return vm.Errorf(kind, "", "%s", vm.Clip(e.Message, 300))
	}
	if err := json.Unmarshal(data, out); err != nil {
		return vm.Errorf(vm.Unavailable, "", "the server's answer cannot be read")
	}
	return nil
}

// fill adds to a reset what comes from the VM's network and from this host.
func (m *machine) fill(r *vm.Reset) {
	r.CA = proxy.CA(m.serverRun().InsideCert())
	m.mu.Lock()
	p := m.spec.Network
	m.mu.Unlock()
	for _, u := range p.Secrets {
		r.Secrets = append(r.Secrets, vm.GuestSecret{Name: u.Name, Env: u.Env, Placeholder: u.Placeholder})
	}
	if !reads(p) {
		return
	}
	a, err := m.authority()
	if err != nil {
		m.log.Error("the VM's own CA is missing: its programs cannot reach hosts whose requests are read", "err", err)
		return
	}
	r.OwnCA = a.PEM()
}

// reads reports whether a policy has hosts whose requests are read.
func reads(p vm.NetworkPolicy) bool {
	return len(p.Secrets) > 0 || slices.ContainsFunc(p.Rules, vm.NetRule.HTTP)
}

// setNetwork changes the policy. The guest gets the placeholders that the policy adds. If it
// does not take them, the policy before is in force again.
func (m *machine) setNetwork(ctx context.Context, p vm.NetworkPolicy) error {
	old, err := m.swapPolicy(p)
	if err != nil || !closed(m.started) || sameGift(old, p) {
		return err
	}
	var r vm.Reset
	m.fill(&r)
	err = m.guest.Give(ctx, r)
	if err == nil {
		return nil
	}
	m.log.Warn("the guest did not take its placeholders", "err", err)
	if len(p.Secrets) <= len(old.Secrets) && (reads(old) || !reads(p)) {
		return nil // it has what it needs, and what it holds too much is void
	}
	_, back := m.swapPolicy(old)
	return errors.Join(vm.Errorf(vm.GuestFault, string(m.spec.ID), "the guest's agent did not take the placeholders: %w", err).
		WithHint("if the VM was started by an older Warren, stop and start it"), back)
}

// swapPolicy puts a policy in force, also for a monitor that re-attaches, and returns the one
// before.
func (m *machine) swapPolicy(p vm.NetworkPolicy) (old vm.NetworkPolicy, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old = m.spec.Network
	if err := m.save(p); err != nil {
		return old, err
	}
	m.spec.Network = p
	m.net.SetPolicy(p)
	return old, nil
}

// sameGift reports whether two policies give the guest the same files.
func sameGift(a, b vm.NetworkPolicy) bool {
	return reads(a) == reads(b) && slices.EqualFunc(a.Secrets, b.Secrets, func(x, y vm.SecretUse) bool {
		return x.Name == y.Name && x.Env == y.Env && x.Placeholder == y.Placeholder
	})
}
