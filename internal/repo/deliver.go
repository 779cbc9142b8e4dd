// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/outside"
	"github.com/warren-vm/warren/vm"
)

const deliverWidth = 8 // calls at a time

// hooks makes the calls of triggers.
type hooks struct {
	r      *Repo
	client *http.Client
	pauses []time.Duration
	wake   chan struct{}

	mu    sync.Mutex
	going map[string]bool // deliveries that are being made; guarded by mu
}

func newHooks(r *Repo) *hooks {
	return &hooks{r: r, client: r.cfg.Net.Fixed(), pauses: outside.Pauses, wake: make(chan struct{}, 1), going: map[string]bool{}}
}

// start makes the calls that wait, also those that an earlier server left. It ends with
// life; calls that are being made then are made again by the next server.
func (h *hooks) start(life context.Context) { h.r.tasks.Go(func() { h.run(life) }) }

// poke says that there may be something to do.
func (h *hooks) poke() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

func (h *hooks) run(ctx context.Context) {
	for {
		wait := h.begin(ctx)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			h.client.CloseIdleConnections()
			return
		case <-h.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// begin starts the calls that are due, as many as may run, and returns how long to wait
// for the next one.
func (h *hooks) begin(ctx context.Context) time.Duration {
	wait := time.Hour
	now := h.r.cfg.Now()
	for _, d := range h.r.deliveries.By(byState, vm.DeliveryPending) {
		if in := d.NextAt.Sub(now); in > 0 {
			wait = min(wait, in)
			continue
		}
		h.mu.Lock()
		free := !h.going[d.ID] && len(h.going) < deliverWidth
		if free {
			h.going[d.ID] = true
		}
		h.mu.Unlock()
		if !free {
			continue // the end of a call pokes
		}
		h.r.tasks.Go(func() {
			h.deliver(ctx, d)
			h.mu.Lock()
			delete(h.going, d.ID)
			h.mu.Unlock()
			h.poke()
		})
	}
	return wait
}

// deliver makes one try and records its outcome.
func (h *hooks) deliver(ctx context.Context, d vm.Delivery) {
	t, ok := h.r.triggers.Get(d.Trigger)
	rec, known := h.r.table.Get(d.Repo)
	if !ok || !known {
		h.written(ctx, d, h.r.deliveries.Drop(ctx, d.ID))
		return
	}
	status, err := h.call(ctx, t, rec, d)
	if ctx.Err() != nil {
		return // the server ends; the next one tries again
	}
	_, writeErr := h.r.deliveries.Change(ctx, d.ID, func(d *vm.Delivery) error {
		now := h.r.cfg.Now()
		d.Tries, d.LastAt, d.Status, d.Problem, d.NextAt = d.Tries+1, now, status, "", time.Time{}
		switch {
		case err == nil:
			d.State = vm.DeliveryDone
		case status == http.StatusGone || d.Tries > len(h.pauses) || vm.KindOf(err) == vm.Denied:
			d.State, d.Problem = vm.DeliveryFailed, err.Error()
		default:
			d.Problem, d.NextAt = err.Error(), now.Add(h.pauses[d.Tries-1])
		}
		return nil
	})
	h.written(ctx, d, writeErr)
}

// written waits if the record of a delivery could not be written, so that the delivery is
// not repeated at once.
func (h *hooks) written(ctx context.Context, d vm.Delivery, err error) {
	if err == nil || vm.KindOf(err) == vm.NotFound {
		return
	}
	h.r.cfg.Log.Warn("the outcome of a webhook's call was not recorded, so it will be repeated", "delivery", d.ID, "err", err)
	select {
	case <-ctx.Done():
	case <-time.After(h.pauses[0]):
	}
}

// pushBody is the body of a delivery.
type pushBody struct {
	Event          string    `json:"event"`
	DeliveryID     string    `json:"deliveryId"`
	TriggerID      string    `json:"triggerId"`
	RepositoryID   string    `json:"repositoryId"`
	RepositoryName string    `json:"repositoryName,omitempty"`
	Ref            string    `json:"ref"`
	Branch         string    `json:"branch"`
	Before         *string   `json:"before"` // null = the branch is new
	After          *string   `json:"after"`  // null = the branch was deleted
	Pusher         string    `json:"pusher"` // account:ID, identity:ID or vm:ID
	PushedAt       time.Time `json:"pushedAt"`
}

// call makes one try. status is 0 without an answer.
func (h *hooks) call(ctx context.Context, t vm.Trigger, rec vm.Repository, d vm.Delivery) (status int, err error) {
	id := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	body, err := json.Marshal(pushBody{
		Event: t.On.Event, DeliveryID: d.ID, TriggerID: t.ID, RepositoryID: rec.ID, RepositoryName: rec.Name, Ref: d.Change.Ref,
		Branch: strings.TrimPrefix(d.Change.Ref, "refs/heads/"), Before: id(d.Change.Before), After: id(d.Change.After), Pusher: d.Pusher, PushedAt: d.CreatedAt,
	})
	if err != nil {
		return 0, err
	}
	return outside.Hook{URL: t.Does.Endpoint, Secret: t.Secret, Event: t.On.Event, ID: d.ID, Body: body}.Post(ctx, h.client)
}
