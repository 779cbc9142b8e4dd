// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// EventFilter says which events are wanted.
type EventFilter struct {
	Types []string // "" = all
	VM    string   // id; "" = all
	After int64    // replay those with a higher id first; negative = only new ones
}

// Events is a stream of events.
type Events struct{ lines *lines }

// Events follows what happens until it is closed or ctx ends. Code
// EVENTS_GONE when After is older than what is kept.
func (c *Client) Events(ctx context.Context, f EventFilter) (*Events, error) {
	q := url.Values{}
	if len(f.Types) > 0 {
		q.Set("types", strings.Join(f.Types, ","))
	}
	if f.VM != "" {
		q.Set("vm", f.VM)
	}
	h := http.Header{"Accept": {"text/event-stream"}}
	if f.After >= 0 {
		h.Set("Last-Event-ID", strconv.FormatInt(f.After, 10))
	}
	resp, err := c.send(ctx, call{method: http.MethodGet, path: route("v1", "events"), query: q, header: h})
	if err != nil {
		return nil, err
	}
	return &Events{c.lines(ctx, resp.Body)}, nil
}

// Next waits for an event. io.EOF when the server has ended the stream.
func (e *Events) Next() (vm.Event, error) {
	var data []byte
	for {
		line, err := e.lines.next()
		if err != nil {
			return vm.Event{}, err
		}
		if part, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			data = append(append(data, bytes.TrimPrefix(part, []byte(" "))...), '\n')
			continue
		}
		if len(line) > 0 || len(data) == 0 {
			continue // other fields, comments, and the blanks after them
		}
		var ev vm.Event
		if err := json.Unmarshal(data, &ev); err != nil {
			return vm.Event{}, vm.Errorf(vm.Internal, e.lines.c.base, "an event is not understood: %w", err)
		}
		return ev, nil
	}
}

// Close ends the stream.
func (e *Events) Close() error { return e.lines.body.Close() }
