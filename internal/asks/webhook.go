// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package asks

import (
	"context"
	"encoding/json"
	"net/http"
	"net/netip"
	"time"

	"github.com/warren-vm/warren/internal/outside"
	"github.com/warren-vm/warren/vm"
)

// Webhook is where asks are announced, so that a program can decide them by the API.
type Webhook struct {
	URL    string // "" = nowhere
	Secret string // signs the calls
}

// maxDeliveries bounds the calls of the webhook that wait.
const maxDeliveries = 1000

// delivery is one call of the webhook.
type delivery struct {
	outside.Hook
	tries int
	until time.Time // no try later than this
}

// hookBody is the body of a call.
type hookBody struct {
	Event string `json:"event"` // ask.created, ask.approved, ask.denied, ask.expired or ask.ended
	Ask   vm.Ask `json:"ask"`
}

// lateNews is how long after a decision the webhook may still be told of it.
const lateNews = time.Hour

// deliver has the webhook called with an ask.
func (a *Asks) deliver(event string, ask vm.Ask) {
	if a.cfg.Webhook.URL == "" {
		return
	}
	body, err := json.Marshal(hookBody{Event: event, Ask: ask})
	if err != nil {
		a.cfg.Log.Warn("the webhook is not told of an ask", "ask", ask.ID, "err", err)
		return
	}
	until := ask.Deadline
	if ask.State != vm.AskPending {
		until = a.now().Add(lateNews)
	}
	d := delivery{Hook: outside.Hook{URL: a.cfg.Webhook.URL, Secret: a.cfg.Webhook.Secret, Event: event, ID: vm.NewUUID(), Body: body}, until: until}
	select {
	case a.send <- d:
	default:
		a.cfg.Log.Warn("the webhook is not told of an ask, because too many calls wait", "ask", ask.ID, "limit", maxDeliveries)
	}
}

// hooksAtOnce bounds the calls of the webhook at a time.
const hooksAtOnce = 8

// announce calls the webhook until ctx ends, and waits for its calls.
func (a *Asks) announce(ctx context.Context) {
	// The operator has named the webhook, so it may be at any address. No redirect is followed.
	client := outside.New([]netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}).Fixed()
	defer client.CloseIdleConnections()
	places := make(chan struct{}, hooksAtOnce)
	for {
		select {
		case <-ctx.Done():
			return
		case places <- struct{}{}:
		}
		select {
		case <-ctx.Done():
			return
		case d := <-a.send:
			a.tasks.Go(func() { // ends with ctx, or after the last try
				defer func() { <-places }()
				a.post(ctx, client, d)
			})
		}
	}
}

// post tries one call of the webhook until it succeeds or is useless.
func (a *Asks) post(ctx context.Context, client *http.Client, d delivery) {
	for {
		status, err := d.Post(ctx, client)
		if err == nil || ctx.Err() != nil {
			return
		}
		pause := outside.Pauses[min(d.tries, len(outside.Pauses)-1)]
		d.tries++
		if status == http.StatusGone || a.now().Add(pause).After(d.until) {
			a.cfg.Log.Warn("the webhook was not told of an ask", "event", d.Event, "status", status, "tries", d.tries, "err", err)
			return
		}
		after, stop := a.cfg.Clock.After(pause)
		select {
		case <-after:
		case <-ctx.Done():
		}
		stop()
		if ctx.Err() != nil {
			return
		}
	}
}
