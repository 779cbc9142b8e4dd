// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package e2b

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

// maxBody bounds the JSON bodies of the control API.
const maxBody = 1 << 20

// caller is one request to the control API.
type caller struct {
	d *Door
	w http.ResponseWriter
	*http.Request
	call *vm.Call
}

// controlRoutes is the control API. What Warren does not have is refused by name, so that a
// program reads which part of E2B it used.
func (d *Door) controlRoutes() *http.ServeMux {
	m := http.NewServeMux()
	at := func(pattern string, f func(c *caller) error) {
		m.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			c := &caller{d: d, w: w, Request: r}
			var err error
			if c.call, err = d.authenticate(r); err == nil {
				err = d.Pace.Take(c.call.Actor)
			}
			if err == nil {
				err = answers(r.UserAgent())
			}
			if err == nil {
				err = f(c)
			}
			if err != nil {
				d.fail(w, r, err)
			}
		})
	}
	at("POST /sandboxes", func(c *caller) error { return c.create(15) })
	at("POST /v2/sandboxes", func(c *caller) error { return c.create(300) })
	at("POST /sandboxes/{id}/connect", func(c *caller) error { return c.connect(15) })
	at("POST /v2/sandboxes/{id}/connect", func(c *caller) error { return c.connect(300) })
	at("GET /v2/sandboxes", (*caller).list)
	at("GET /sandboxes", (*caller).list)
	at("GET /sandboxes/{id}", (*caller).info)
	at("DELETE /sandboxes/{id}", (*caller).kill)
	at("POST /sandboxes/{id}/timeout", (*caller).setTimeout)
	at("POST /sandboxes/{id}/pause", (*caller).pause)
	at("POST /sandboxes/{id}/fork", (*caller).fork)
	at("POST /sandboxes/{id}/snapshots", (*caller).snapshot)
	at("GET /sandboxes/{id}/metrics", (*caller).metrics)
	at("GET /sandboxes/{id}/logs", (*caller).logs)
	at("PUT /sandboxes/{id}/network", (*caller).network)
	at("GET /snapshots", (*caller).snapshots)
	at("GET /templates", (*caller).templates)
	at("DELETE /templates/{id}", (*caller).deleteTemplate)
	at("GET /templates/{id}/{what}", (*caller).template)
	at("POST /templates/tags", (*caller).assignTags)
	at("DELETE /templates/tags", (*caller).removeTags)
	at("POST /v3/templates", (*caller).requestBuild)
	at("GET /templates/{id}/files/{hash}", (*caller).fileLink)
	m.HandleFunc("PUT /templates/{id}/files/{hash}", d.putFiles)
	at("POST /v2/templates/{id}/builds/{build}", (*caller).startBuild)
	at("GET /templates/{id}/builds/{build}/status", (*caller).buildStatus)
	for pattern, what := range map[string]string{
		"POST /v2/templates": "building templates by Docker", "POST /templates": "building templates by Docker",
		"/volumes": "volumes of E2B", "/volumes/": "volumes of E2B", "/volumecontent/": "volumes of E2B",
		"/secrets": "secrets of E2B", "/secrets/": "secrets of E2B",
	} {
		at(pattern, func(c *caller) error { return c.lacks(what) })
	}
	at("/", func(c *caller) error {
		return vm.Errorf(vm.NotFound, vm.Clip(c.Method+" "+c.URL.Path, 200), "no such route: this SDK may be newer than this server knows")
	})
	return m
}

// serveControl answers a request of the control API. Ids arrive percent-escaped, such as
// ns%2Fname, and stay one segment.
func (d *Door) serveControl(w http.ResponseWriter, r *http.Request) {
	cors(w)
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	d.control.ServeHTTP(w, r)
}

// authenticate finds the owner of the request's API key.
func (d *Door) authenticate(r *http.Request) (*vm.Call, error) {
	given := r.Header.Get("X-Api-Key")
	if given == "" {
		given = strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	}
	a, err := d.Access.Authenticate(r.Context(), key(given))
	switch {
	case err != nil && !errors.Is(err, vm.Unauthenticated):
		return nil, err
	case err == nil && a.Key != "" && a.Identity == "":
		return &vm.Call{Actor: a, Request: vm.NewRequestID()}, nil
	}
	d.brake.Wait(r.Context())
	why := vm.Errorf(vm.Unauthenticated, "", "E2B_API_KEY is no API key of this Warren server").
		WithHint("make one with `warren key create --e2b`")
	if given == "" {
		why.Msg = "no API key was sent"
	}
	return nil, why
}

// decode reads the JSON body; members that are not known are ignored.
func (c *caller) decode(v any) error {
	data, err := io.ReadAll(http.MaxBytesReader(c.w, c.Body, maxBody))
	if err != nil {
		return invalid("body", "the body is cut off, or larger than 1 MiB")
	}
	if len(data) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, v); err != nil {
		return invalid("body", "the body is not what this route takes: %s", err.Error())
	}
	return nil
}

// lacks refuses what Warren does not have.
func (c *caller) lacks(what string) error {
	c.d.refuse(c.w, http.StatusNotImplemented, "Warren does not support "+what+"; `warren image`, `warren volume` and `warren secret` are its own")
	return nil
}

// done answers without a body.
func (c *caller) done() error {
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

func (c *caller) send(code int, v any) error {
	send(c.w, code, v)
	return nil
}

// sandbox finds the sandbox in the path.
func (c *caller) sandbox() (vm.VM, error) {
	return c.find(c.PathValue("id"))
}

func (c *caller) find(id string) (vm.VM, error) {
	gone := vm.Errorf(vm.NotFound, vm.Clip(id, 64), "no such sandbox").WithHint("it was killed, or has reached its time-out")
	if !vm.IsID(id) {
		return vm.VM{}, gone
	}
	rec, err := c.d.Engine.Get(c.Context(), c.call, id)
	if err != nil && vm.KindOf(err) != vm.NotFound {
		return rec, err
	}
	if err != nil || rec.Sandbox == nil || rec.Sandbox.Builds != "" || rec.Op == vm.OpDelete {
		return rec, gone
	}
	return rec, nil
}

// Answers of the control API.
type (
	sandboxAnswer struct {
		Template string `json:"templateID"`
		ID       string `json:"sandboxID"`
		Client   string `json:"clientID"`
		Version  string `json:"envdVersion"`
		Token    string `json:"envdAccessToken,omitempty"`
		// Traffic opens private ports. Also a sandbox without them has one: the SDKs send
		// it to the code interpreter, whose port is never public.
		Traffic string  `json:"trafficAccessToken"`
		Domain  *string `json:"domain"`
	}
	listedAnswer struct {
		Template string            `json:"templateID"`
		Alias    string            `json:"alias,omitempty"`
		ID       string            `json:"sandboxID"`
		Client   string            `json:"clientID"`
		Started  time.Time         `json:"startedAt"`
		End      time.Time         `json:"endAt"`
		Version  string            `json:"envdVersion"`
		CPUs     int               `json:"cpuCount"`
		Memory   int               `json:"memoryMB"`
		Disk     int               `json:"diskSizeMB"`
		State    string            `json:"state"`
		Metadata map[string]string `json:"metadata,omitempty"`
	}
	detailAnswer struct {
		listedAnswer
		Domain    *string        `json:"domain"`
		Token     string         `json:"envdAccessToken,omitempty"`
		Internet  *bool          `json:"allowInternetAccess"`
		Network   *networkRules  `json:"network,omitempty"`
		Lifecycle lifecycleRules `json:"lifecycle"`
	}
	lifecycleRules struct {
		OnTimeout  string `json:"onTimeout"`
		AutoResume bool   `json:"autoResume"`
	}
)

// envdVersion is the version of envd whose behaviour the door has.
const envdVersion = "0.6.13"

const clientID = "warren"

// domain is the one under which the ports of sandboxes are reached: that of the request, if it
// came to api.<domain>.
func (c *caller) domain() *string {
	if d, ok := strings.CutPrefix(c.Host, "api."); ok {
		return &d
	}
	if c.d.Domain == "" {
		return nil
	}
	return &c.d.Domain
}

// made describes a sandbox to those who may use it.
func (c *caller) made(rec vm.VM) sandboxAnswer {
	d := c.d
	d.meet(rec.ID)
	out := sandboxAnswer{
		Template: rec.Sandbox.Template, ID: string(rec.ID), Client: clientID, Version: envdVersion, Token: d.token(tokenEnvd, rec.ID),
		Domain: c.domain(), Traffic: d.token(tokenTraffic, rec.ID),
	}
	return out
}

func paused(rec vm.VM) bool {
	switch rec.State {
	case vm.Suspended, vm.Stopped, vm.Lost:
		return true
	}
	return false
}

func listed(rec vm.VM) listedAnswer {
	out := listedAnswer{
		Template: rec.Sandbox.Template, Alias: rec.Sandbox.Template, ID: string(rec.ID), Client: clientID, Started: rec.CreatedAt.UTC(), End: rec.Sandbox.EndsAt.UTC(), Version: envdVersion,
		CPUs: rec.Size.VCPU, Memory: rec.Size.MemoryMiB, Disk: rec.Size.DiskMiB, State: "running", Metadata: rec.Sandbox.Metadata,
	}
	if paused(rec) || rec.Op == vm.OpSuspend || rec.Op == vm.OpStop { // no request reaches it any more
		out.State = "paused"
	}
	return out
}

func (c *caller) info() error {
	rec, err := c.sandbox()
	if err != nil {
		return err
	}
	sb := rec.Sandbox
	out := detailAnswer{
		listedAnswer: listed(rec), Domain: c.domain(), Token: c.d.token(tokenEnvd, rec.ID), Network: shownNetwork(sb),
		Lifecycle: lifecycleRules{"pause", sb.AutoResume},
	}
	if sb.OnEnd == vm.OpDelete {
		out.Lifecycle.OnTimeout = "kill"
	}
	if sb.NoInternet || sb.HasInternet {
		out.Internet = &sb.HasInternet
	}
	return c.send(http.StatusOK, out)
}

func (c *caller) kill() error {
	rec, err := c.sandbox()
	if err != nil {
		return err
	}
	if _, err := c.d.Engine.Delete(c.Context(), c.call, string(rec.ID)); err != nil {
		return err
	}
	c.d.forget(rec.ID)
	return c.done()
}

// forget drops what the door keeps of a sandbox for speed.
func (d *Door) forget(id vm.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.samples, id)
	delete(d.kernels, id)
	for at := range d.homes {
		if at.vm == id {
			delete(d.homes, at)
		}
	}
}

// forgetGone drops what the door keeps of sandboxes that have ended at their time-out.
func (d *Door) forgetGone() {
	d.mu.Lock()
	kept := slices.Concat(slices.Collect(maps.Keys(d.samples)), slices.Collect(maps.Keys(d.kernels)))
	d.mu.Unlock()
	for _, id := range kept {
		if _, ok := d.Engine.VMOf(id); !ok {
			d.forget(id)
		}
	}
}

func (c *caller) logs() error {
	if _, err := c.sandbox(); err != nil {
		return err
	}
	return c.send(http.StatusOK, map[string]any{"logs": []any{}, "logEntries": []any{}})
}
