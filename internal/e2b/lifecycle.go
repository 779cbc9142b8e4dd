// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package e2b

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/vm"
)

func (c *caller) setTimeout() error {
	var in struct {
		Timeout int64 `json:"timeout"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	rec, err := c.sandbox()
	if err != nil {
		return err
	}
	if paused(rec) {
		return notRunning(rec)
	}
	if in.Timeout > int64(vm.MaxDuration/time.Second) {
		return invalid("timeout", "%d is not a time-out in seconds", in.Timeout)
	}
	ends := time.Now().Add(time.Duration(max(in.Timeout, 0)) * time.Second)
	if _, err = c.d.Engine.ChangeSandbox(c.Context(), c.call, string(rec.ID), func(s *vm.Sandbox) { s.EndsAt = ends }); err != nil {
		return err
	}
	return c.done()
}

func notRunning(rec vm.VM) error {
	return vm.Errorf(vm.WrongState, string(rec.ID), "the sandbox is paused").WithHint("connect to it, which resumes it")
}

func (c *caller) pause() error {
	var in struct {
		Memory *bool `json:"memory"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	rec, err := c.sandbox()
	if err != nil {
		return err
	}
	switch {
	case paused(rec):
		return notRunning(rec)
	case in.Memory != nil && !*in.Memory:
		_, err = c.d.Engine.Stop(c.Context(), c.call, string(rec.ID))
	default:
		_, err = c.d.Engine.Suspend(c.Context(), c.call, string(rec.ID), engine.SuspendRequest{})
	}
	if err != nil {
		return err
	}
	return c.done()
}

func (c *caller) fork() error {
	var in struct {
		Timeout *int64 `json:"timeout"`
		Count   *int   `json:"count"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	rec, err := c.sandbox()
	if err != nil {
		return err
	}
	count, timeout := 1, int64(300)
	if in.Count != nil {
		count = *in.Count
	}
	if in.Timeout != nil {
		timeout = *in.Timeout
	}
	if count < 1 || timeout <= 0 || timeout > int64(vm.MaxDuration/time.Second) {
		return invalid("fork", "count and timeout must be 1 or more")
	}
	child := rec.Sandbox.Clone()
	child.By, child.Timeout = c.call.Actor.Key, vm.Seconds(time.Duration(timeout)*time.Second)
	child.EndsAt = time.Now().Add(time.Duration(timeout) * time.Second)
	done, err := c.d.Engine.Fork(c.Context(), c.call, string(rec.ID), engine.ForkRequest{Count: count, Sandbox: child})
	if err != nil {
		return err
	}
	type forked struct {
		Sandbox sandboxAnswer `json:"sandbox"`
	}
	list := make([]forked, 0, len(done.Children))
	for _, v := range done.Children {
		list = append(list, forked{c.made(v)})
	}
	return c.send(http.StatusCreated, list)
}

type snapshotAnswer struct {
	ID    string   `json:"snapshotID"`
	Names []string `json:"names"`
}

func shownSnapshot(g vm.Generation) snapshotAnswer {
	out := snapshotAnswer{ID: string(g.Snapshot), Names: []string{}}
	if g.Name != "" {
		out.Names = append(out.Names, g.Name)
	}
	return out
}

func (c *caller) snapshot() error {
	var in struct {
		Name string `json:"name"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	rec, err := c.sandbox()
	if err != nil {
		return err
	}
	kept := engine.SnapshotRequest{Name: in.Name}
	if rec.Sandbox.Defaults != nil {
		kept.Template = &vm.Template{Defaults: *rec.Sandbox.Defaults}
	}
	taken, err := c.d.Engine.Snapshot(c.Context(), c.call, string(rec.ID), kept)
	if err != nil {
		return err
	}
	return c.send(http.StatusCreated, shownSnapshot(taken.Generation))
}

func (c *caller) snapshots() error {
	list, err := c.d.Engine.Snapshots(c.Context(), c.call, false)
	if err != nil {
		return err
	}
	q := c.URL.Query()
	id, name := q.Get("sandboxID"), q.Get("name")
	list = slices.DeleteFunc(slices.Clone(list), func(g vm.Generation) bool {
		return g.Snapshot == "" || g.Template != nil && g.Template.Name != "" || g.Deleted || g.Gone || g.State != vm.GenReady || g.VM == "" || id != "" && string(g.VM) != id ||
			name != "" && g.Name != name && string(g.Snapshot) != name
	})
	slices.SortFunc(list, func(a, b vm.Generation) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.Snapshot, b.Snapshot))
	})
	page, err := pageOf(c, list, func(g vm.Generation) (time.Time, string) { return g.CreatedAt, string(g.Snapshot) })
	if err != nil {
		return err
	}
	out := make([]snapshotAnswer, 0, len(page))
	for _, g := range page {
		out = append(out, shownSnapshot(g))
	}
	return c.send(http.StatusOK, out)
}

func (c *caller) deleteSnapshot() error {
	id := c.PathValue("id")
	if base, tag, ok := strings.Cut(id, ":"); ok && tag == "default" {
		id = base
	}
	_, err := c.d.Engine.RemoveSnapshot(c.Context(), c.call, id)
	if vm.AsError(err).Code == "SNAPSHOT_ALREADY_DELETED" {
		return vm.Errorf(vm.NotFound, vm.Clip(id, 64), "no such snapshot")
	}
	if err != nil {
		return err
	}
	return c.done()
}

// list answers one page of the account's sandboxes, the newest first.
func (c *caller) list() error {
	q := c.URL.Query()
	wanted, err := metadataOf(q.Get("metadata"))
	if err != nil {
		return err
	}
	var after time.Time
	if t := q.Get("startedAfter"); t != "" {
		if after, err = time.Parse(time.RFC3339Nano, t); err != nil {
			return invalid("startedAfter", "not a time such as 2026-01-02T15:04:05Z")
		}
	}
	states := strings.Split(strings.Join(q["state"], ","), ",")
	all, _, _, err := c.d.Engine.List(c.Context(), c.call, engine.Filter{})
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(v vm.VM) bool {
		return v.Sandbox == nil || v.Sandbox.Builds != "" || v.Op == vm.OpDelete || v.Op == vm.OpCreate || !matches(v, wanted, after, states, q.Get("template"))
	})
	slices.SortFunc(all, func(a, b vm.VM) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	if q.Get("order") == "asc" {
		slices.Reverse(all)
	}
	page, err := pageOf(c, all, func(v vm.VM) (time.Time, string) { return v.CreatedAt, string(v.ID) })
	if err != nil {
		return err
	}
	out := make([]listedAnswer, 0, len(page))
	for _, v := range page {
		out = append(out, listed(v))
	}
	return c.send(http.StatusOK, out)
}

// matches reports whether a sandbox passes the filters of a list.
func matches(v vm.VM, metadata map[string]string, after time.Time, states []string, template string) bool {
	for k, want := range metadata {
		if have, ok := v.Sandbox.Metadata[k]; !ok || have != want {
			return false
		}
	}
	state := listed(v).State
	switch {
	case states[0] != "" && !slices.Contains(states, state):
		return false
	case v.CreatedAt.Before(after.Truncate(time.Millisecond)): // SDKs give back a time of ours, rounded down
		return false
	case template != "" && template != v.Sandbox.Template && template != string(v.Image) && template != v.ImageName:
		return false
	}
	return true
}

// metadataOf reads the filter of a list, k=v&… with each part escaped once more.
func metadataOf(text string) (map[string]string, error) {
	out := map[string]string{}
	if text == "" {
		return out, nil
	}
	if len(text) > 64<<10 {
		return nil, invalid("metadata", "the filter is too long")
	}
	if !strings.Contains(text, "=") {
		plain, err := url.QueryUnescape(text)
		if err != nil {
			return nil, invalid("metadata", "not k=v&…")
		}
		text = plain
	}
	for pair := range strings.SplitSeq(text, "&") {
		k, v, ok := strings.Cut(pair, "=")
		key, err := unescapeTwice(k)
		value, err2 := unescapeTwice(v)
		if !ok || err != nil || err2 != nil {
			return nil, invalid("metadata", "not k=v&…")
		}
		out[key] = value
	}
	return out, nil
}

func unescapeTwice(s string) (string, error) {
	once, err := url.QueryUnescape(s)
	if err != nil {
		return "", err
	}
	if twice, err := url.QueryUnescape(once); err == nil {
		return twice, nil
	}
	return once, nil
}

// pageOf cuts one page out of a sorted list, and names the next in a header. A token is the
// last item of the page before, which may be gone by then.
func pageOf[T any](c *caller, list []T, at func(T) (time.Time, string)) ([]T, error) {
	q, limit := c.URL.Query(), 100
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 100 {
			return nil, invalid("limit", "not within 1 to 100")
		}
		limit = n
	}
	if token := q.Get("nextToken"); token != "" {
		data, err := base64.RawURLEncoding.DecodeString(token)
		stamp, id, ok := strings.Cut(string(data), " ")
		nanos, err2 := strconv.ParseInt(stamp, 10, 64)
		if err != nil || err2 != nil || !ok {
			return nil, invalid("nextToken", "not a token of this server")
		}
		last, asc := time.Unix(0, nanos), q.Get("order") == "asc"
		list = slices.DeleteFunc(list, func(v T) bool {
			t, other := at(v)
			order := cmp.Or(last.Compare(t), cmp.Compare(other, id))
			if asc {
				order = -order
			}
			return order <= 0
		})
	}
	if len(list) <= limit {
		return list, nil
	}
	t, id := at(list[limit-1])
	c.w.Header().Set("X-Next-Token", base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(t.UnixNano(), 10)+" "+id)))
	return list[:limit], nil
}

// metric is one sample of what a sandbox uses.
type metric struct {
	Time      time.Time `json:"timestamp"`
	Unix      int64     `json:"timestampUnix"`
	CPUs      int       `json:"cpuCount"`
	CPU       float64   `json:"cpuUsedPct"`
	MemUsed   int64     `json:"memUsed"`
	MemTotal  int64     `json:"memTotal"`
	MemCache  int64     `json:"memCache"`
	DiskUsed  int64     `json:"diskUsed"`
	DiskTotal int64     `json:"diskTotal"`

	busy, uptime float64
}

// maxSamples bounds what is kept of one sandbox.
const maxSamples = 720

// metrics answers the samples in a range. Each request takes one; between requests none are
// taken.
func (c *caller) metrics() error {
	rec, err := c.sandbox()
	if err != nil {
		return err
	}
	d, q := c.d, c.URL.Query()
	if rec.State == vm.Running {
		st, err := d.Inside.Stats(c.Context(), c.call, string(rec.ID))
		if err != nil {
			return err
		}
		d.keep(rec.ID, st)
	}
	from, _ := strconv.ParseInt(q.Get("start"), 10, 64)
	until, err := strconv.ParseInt(q.Get("end"), 10, 64)
	if err != nil {
		until = 1 << 62
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	out := []metric{}
	for _, m := range d.samples[rec.ID] {
		if m.Unix >= from && m.Unix <= until {
			out = append(out, m)
		}
	}
	return c.send(http.StatusOK, out)
}

// keep adds a sample.
func (d *Door) keep(id vm.ID, st vm.Stats) {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.samples[id]
	now := time.Now().UTC()
	m := metric{
		Time: now, Unix: now.Unix(), CPUs: st.VCPU, MemTotal: st.MemTotal, MemUsed: st.MemTotal - st.MemAvailable,
		DiskTotal: st.DiskTotal, DiskUsed: st.DiskTotal - st.DiskFree, busy: st.CPUSeconds, uptime: st.UptimeSeconds,
	}
	busy, uptime := m.busy, m.uptime
	if n := len(list); n > 0 && list[n-1].uptime < uptime {
		busy, uptime = busy-list[n-1].busy, uptime-list[n-1].uptime
	}
	if uptime > 0 {
		m.CPU = max(0, 100*busy/uptime)
	}
	if len(list) >= maxSamples {
		list = list[1:]
	}
	d.samples[id] = append(list, m)
}
