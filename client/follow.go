// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// lines reads a streamed answer line by line.
type lines struct {
	stream
	scan *bufio.Scanner
}

func (c *Client) lines(ctx context.Context, q call) (*lines, error) {
	resp, err := c.send(ctx, q) //nolint:bodyclose // the returned stream closes it
	if err != nil {
		return nil, err
	}
	l := &lines{stream: stream{c: c, ctx: ctx, body: resp.Body}}
	l.scan = bufio.NewScanner(&l.stream)
	l.scan.Buffer(make([]byte, 0, 4<<10), maxError)
	return l, nil
}

// next returns a line without its end; io.EOF when the server ended it.
func (l *lines) next() ([]byte, error) {
	if l.scan.Scan() {
		return l.scan.Bytes(), nil
	}
	if err := l.scan.Err(); err != nil {
		return nil, vm.AsError(err)
	}
	return nil, io.EOF
}

// message returns the next line of JSON. A blank line only keeps the connection alive.
func (l *lines) message() ([]byte, error) {
	for {
		line, err := l.next()
		if err != nil || len(bytes.TrimSpace(line)) > 0 {
			return line, err
		}
	}
}

// Watch is a stream of changes in a guest's file system.
type Watch struct{ l *lines }

// WatchFiles watches files and whole directories; no path = the working directory.
// The watch ends with the context, at Close, or when one of the paths is removed.
func (c *Client) WatchFiles(ctx context.Context, ref, user string, paths ...string) (*Watch, error) {
	l, err := c.lines(ctx, call{method: http.MethodPost, path: vmPath(ref, "watch-files"), query: url.Values{"path": paths}, header: as(user)})
	if err != nil {
		return nil, err
	}
	return &Watch{l: l}, nil
}

// Next waits for the next change; io.EOF when the server ended the stream.
func (w *Watch) Next() (vm.FileEvent, error) {
	var ev vm.FileEvent
	line, err := w.l.message()
	if err != nil {
		return ev, err
	}
	if err := json.Unmarshal(line, &ev); err != nil {
		return ev, vm.Errorf(vm.GuestFault, "", "an unknown change: %w", err)
	}
	if ev.Type == "" {
		return ev, lineError(line)
	}
	return ev, nil
}

// lineError is the error that a line of a stream holds.
func lineError(line []byte) error {
	var b api.ErrorBody
	if err := json.Unmarshal(line, &b); err != nil || b.Code == "" {
		return vm.Errorf(vm.GuestFault, "", "an unknown line")
	}
	return api.DecodeError(b)
}

// ServiceFollow is a service's journal as it grows.
type ServiceFollow struct{ l *lines }

// FollowService returns a service's journal: its last lines, and then new ones,
// until the context ends or Close.
func (c *Client) FollowService(ctx context.Context, ref, name string, lines int, since string) (*ServiceFollow, error) {
	q := url.Values{"follow": {"true"}, "lines": {strconv.Itoa(lines)}}
	if since != "" {
		q.Set("since", since)
	}
	l, err := c.lines(ctx, call{method: http.MethodGet, path: vmPath(ref, "systemd", "services", name, "logs"), query: q})
	if err != nil {
		return nil, err
	}
	return &ServiceFollow{l: l}, nil
}

// Next waits for the next line; io.EOF when the server ended the stream.
func (f *ServiceFollow) Next() (vm.UnitLog, error) {
	var u vm.UnitLog
	line, err := f.l.message()
	if err != nil {
		return u, err
	}
	if err := json.Unmarshal(line, &u); err != nil {
		return u, vm.Errorf(vm.GuestFault, "", "an unknown line of a journal: %w", err)
	}
	if u.Timestamp.IsZero() {
		return u, lineError(line)
	}
	return u, nil
}

// Close ends the stream.
func (f *ServiceFollow) Close() error { return f.l.Close() }

// Close ends the watch.
func (w *Watch) Close() error { return w.l.Close() }

// Events is a stream of the server's events.
type Events struct{ l *lines }

// Events follows the server's events: those after the event with id after, or only new ones if
// after is negative; of the given types (none = all) and of one VM ("" = all that the caller
// may see). To continue after a broken connection, pass the id of the last received event.
func (c *Client) Events(ctx context.Context, after int64, types []string, ref string) (*Events, error) {
	q := url.Values{}
	if len(types) > 0 {
		q.Set("types", strings.Join(types, ","))
	}
	if ref != "" {
		q.Set("vm", ref)
	}
	h := http.Header{"Accept": {"text/event-stream"}}
	if after >= 0 {
		h.Set("Last-Event-ID", strconv.FormatInt(after, 10))
	}
	l, err := c.lines(ctx, call{method: http.MethodGet, path: pathOf("v1", "events"), query: q, header: h})
	if err != nil {
		return nil, err
	}
	return &Events{l: l}, nil
}

// Next waits for the next event; io.EOF when the server ended the stream.
func (e *Events) Next() (vm.Event, error) {
	var data []byte
	name := ""
	for {
		line, err := e.l.next()
		if err != nil {
			return vm.Event{}, err // an incomplete event is dropped
		}
		if len(line) == 0 {
			if len(data) > 0 {
				return decodeEvent(name, data)
			}
			name = ""
			continue
		}
		field, value, _ := strings.Cut(string(line), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "data":
			if len(data) > 0 {
				data = append(data, '\n')
			}
			data = append(data, value...)
		case "event":
			name = value
		}
	}
}

func decodeEvent(name string, data []byte) (vm.Event, error) {
	if name == "error" {
		return vm.Event{}, lineError(data)
	}
	var ev vm.Event
	if err := json.Unmarshal(data, &ev); err != nil {
		return ev, vm.Errorf(vm.Internal, "", "an unknown event: %w", err)
	}
	return ev, nil
}

// Close ends the stream.
func (e *Events) Close() error { return e.l.Close() }
