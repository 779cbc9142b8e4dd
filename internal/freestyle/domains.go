// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package freestyle

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/warren-vm/warren/vm"
)

func domainRoutes(at func(string, right, handler)) {
	at("GET /v5/tls", owner, (*caller).mappings)
	at("POST /v5/tls", owner, (*caller).mapDomain)
	at("GET /v5/tls/{rule}", owner, (*caller).mapping)
	at("PUT /v5/tls/{rule}", owner, (*caller).remapDomain)
	at("DELETE /v5/tls/{rule}", owner, (*caller).unmapDomain)
	at("GET /v5/domains", owner, (*caller).domains)
	at("GET /v5/domains/placeholder", owner, (*caller).placeholder)
	at("GET /v5/verifications", owner, (*caller).verifications)
	at("POST /v5/verifications", owner, (*caller).verify)
	at("GET /v5/verifications/{domain}", owner, (*caller).verification)
	at("PUT /v5/verifications/{domain}", owner, (*caller).complete)
	at("DELETE /v5/verifications/{domain}", owner, (*caller).dropVerification)
}

// tlsEndpoint is one side of a TLS rule.
type tlsEndpoint struct {
	VM     string `json:"vmId,omitempty"`
	VPC    string `json:"vpcId,omitempty"`
	Public bool   `json:"public,omitempty"`
	Host   string `json:"host,omitempty"`
	Port   int    `json:"port,omitempty"`
}

// tlsRule is a TLS rule of a request. Warren has one kind: a name that leads to a port of a VM.
type tlsRule struct {
	Action      string          `json:"action"`
	Domain      string          `json:"domain"`
	Protocol    string          `json:"protocol"`
	Source      tlsEndpoint     `json:"source"`
	Destination tlsEndpoint     `json:"destination"`
	Description string          `json:"description"`
	Transform   json.RawMessage `json:"transform"`
	Match       json.RawMessage `json:"match"`
	ForwardAuth json.RawMessage `json:"forwardAuth"`
}

// present reports whether JSON holds more than null, {} or [].
func present(raw json.RawMessage) bool {
	text := string(raw)
	return text != "" && text != "null" && text != "{}" && text != "[]"
}

// check refuses a rule that is no published port. here says that a destination without identity
// is the VM that the request makes.
func (r *tlsRule) check(c *caller, here bool) error {
	switch {
	case r.Action != "allow":
		return invalid("action", "%q is not allow", vm.Clip(r.Action, 40))
	case r.Domain == "":
		return invalid("domain", "is missing")
	case !r.Source.Public || r.Destination.Public || r.Destination.Host != "" || present(r.Transform):
		return unsupported("tls", "this server does not change what a VM sends").WithHint("`warren secret` keeps credentials outside the VM and puts them into its requests: docs/secrets.md")
	case r.Source.VPC != "" || r.Destination.VPC != "":
		return refusals["vpcs"].refuse()
	case r.Source != tlsEndpoint{Public: true}:
		return invalid("source", "has more than public: true")
	case present(r.ForwardAuth):
		return refusals["forward-auth"].refuse()
	case present(r.Match):
		return unsupported("match", "a name leads to a port of a VM as a whole").WithHint("leave it out")
	case r.Protocol != "" && r.Protocol != "http":
		return unsupported("protocol", "a name carries http, with TLS ended by this server").WithHint("leave it out, or forward the port: `warren forward`")
	case r.Description != "":
		return unsupported("description", "names of this server have no description").WithHint("leave it out")
	case r.Destination.Port < 1 || r.Destination.Port > 65535:
		return invalid("destination", "names no port")
	case here != (r.Destination.VM == ""):
		return invalid("destination", "names no VM, or another one than the one that is made")
	}
	return c.d.Names.CheckMappable(c.call, r.Domain)
}

func (r *tlsRule) port() uint16 { return uint16(r.Destination.Port) }

type tlsAnswer struct {
	ID           string       `json:"id"` // the domain: each leads to one place
	Account      vm.AccountID `json:"accountId"`
	Action       string       `json:"action"`
	Domain       string       `json:"domain"`
	Protocol     string       `json:"protocol"`
	Source       tlsEndpoint  `json:"source"`
	Destination  tlsEndpoint  `json:"destination"`
	Dependencies []dependency `json:"dependencies"`
	CreatedAt    time.Time    `json:"createdAt"`
	UpdatedAt    time.Time    `json:"updatedAt"`
}

func (c *caller) shownMapping(m vm.Mapping) tlsAnswer {
	on := dependency{Kind: "vm", ID: string(m.VM)}
	if rec, ok := c.d.Engine.VMOf(m.VM); ok {
		on.Slug = rec.Name
	}
	at := m.CreatedAt.UTC()
	return tlsAnswer{m.Domain, m.Account, "allow", m.Domain, "http", tlsEndpoint{Public: true}, tlsEndpoint{VM: string(m.VM), Port: int(m.Port)}, []dependency{on}, at, at}
}

func (c *caller) mappings() (answer, error) {
	q := c.URL.Query()
	if q.Has("vpcId") {
		return answer{}, refusals["vpcs"].refuse()
	}
	of := vm.ID("")
	if ref := q.Get("vmId"); ref != "" {
		rec, err := c.d.Engine.Get(c.ctx, c.call, ref)
		if err != nil {
			return answer{}, err
		}
		of = rec.ID
	}
	list, err := c.d.Names.Mappings(c.ctx, c.call)
	if err != nil {
		return answer{}, err
	}
	all := []tlsAnswer{}
	for _, m := range list {
		if of == "" || m.VM == of {
			all = append(all, c.shownMapping(m))
		}
	}
	slices.SortStableFunc(all, func(a, b tlsAnswer) int { return b.CreatedAt.Compare(a.CreatedAt) })
	shown, err := page(c, all)
	if err != nil {
		return answer{}, err
	}
	return ok(map[string]any{"rules": shown, "totalCount": len(all)})
}

// findMapping finds a mapping by its domain.
func (c *caller) findMapping(domain string) (vm.Mapping, error) {
	list, err := c.d.Names.Mappings(c.ctx, c.call)
	if err != nil {
		return vm.Mapping{}, err
	}
	for _, m := range list {
		if m.Domain == domain {
			return m, nil
		}
	}
	return vm.Mapping{}, vm.Errorf(vm.NotFound, vm.Clip(domain, 80), "no such TLS rule").WithHint("tls.list() says which there are")
}

func (c *caller) mapDomain() (answer, error) {
	var in tlsRule
	if err := c.decodeStrict(&in); err != nil {
		return answer{}, err
	}
	if err := in.check(c, false); err != nil {
		return answer{}, err
	}
	if m, err := c.findMapping(in.Domain); err == nil {
		return answer{}, vm.Errorf(vm.Exists, m.Domain, "the name leads to a VM already").WithHint("replace its rule, or delete it")
	}
	return c.lead(in)
}

// lead makes a name lead to a port.
func (c *caller) lead(in tlsRule) (answer, error) {
	rec, err := c.d.Engine.Get(c.ctx, c.call, in.Destination.VM)
	if err != nil {
		return answer{}, err
	}
	m, err := c.d.Names.MapDomain(c.ctx, c.again(), in.Domain, string(rec.ID), in.port())
	if err != nil {
		return answer{}, err
	}
	return ok(c.shownMapping(m))
}

func (c *caller) mapping() (answer, error) {
	m, err := c.findMapping(c.PathValue("rule"))
	if err != nil {
		return answer{}, err
	}
	return ok(c.shownMapping(m))
}

func (c *caller) remapDomain() (answer, error) {
	var in tlsRule
	if err := c.decodeStrict(&in); err != nil {
		return answer{}, err
	}
	m, err := c.findMapping(c.PathValue("rule"))
	if err != nil {
		return answer{}, err
	}
	if err := in.check(c, false); err != nil {
		return answer{}, err
	}
	if in.Domain != m.Domain {
		return answer{}, unsupported("domain", "a rule keeps its name here").WithHint("delete the rule, and make one for %s", vm.Clip(in.Domain, 80))
	}
	return c.lead(in)
}

func (c *caller) unmapDomain() (answer, error) {
	m, err := c.findMapping(c.PathValue("rule"))
	if err == nil {
		_, err = c.d.Names.Unmap(c.ctx, c.call, m.Domain)
	}
	return done, err
}

type domainAnswer struct {
	Domain     string    `json:"domain"`
	CreatedAt  time.Time `json:"createdAt"`
	VerifiedBy string    `json:"verifiedBy,omitempty"`
}

func (c *caller) domains() (answer, error) {
	list, err := c.d.Names.Domains(c.ctx, c.call)
	if err != nil {
		return answer{}, err
	}
	out := []domainAnswer{}
	for _, d := range list {
		if d.Verified {
			out = append(out, domainAnswer{Domain: d.Name, CreatedAt: d.CreatedAt.UTC()})
		}
	}
	return ok(map[string]any{"domains": out})
}

// placeholder answers what the SDK shows as null: the pages of this server have no branding.
func (c *caller) placeholder() (answer, error) {
	return answer{}, vm.Errorf(vm.NotFound, "placeholder", "the pages of this server have no branding")
}

type verificationAnswer struct {
	ID         string     `json:"id"`
	Domain     string     `json:"domain"`
	Code       string     `json:"verificationCode"`
	Record     string     `json:"recordName"`
	State      string     `json:"state"`
	VerifiedAt *time.Time `json:"verifiedAt"` // null: Warren does not keep when
	CreatedAt  time.Time  `json:"createdAt"`
}

func shownVerification(d vm.Domain) verificationAnswer {
	out := verificationAnswer{ID: d.ID, Domain: d.Name, Code: d.Code, Record: vm.VerificationName(d.Name), State: "pending", CreatedAt: d.CreatedAt.UTC()}
	if d.Verified {
		out.State = "verified"
	}
	return out
}

func (c *caller) verifications() (answer, error) {
	list, err := c.d.Names.Domains(c.ctx, c.call)
	if err != nil {
		return answer{}, err
	}
	state := c.URL.Query().Get("state")
	out := []verificationAnswer{}
	for _, d := range list {
		if v := shownVerification(d); state == "" || v.State == state {
			out = append(out, v)
		}
	}
	return ok(map[string]any{"verifications": out})
}

func (c *caller) verify() (answer, error) {
	var in struct {
		Domain string `json:"domain"`
	}
	if err := c.decode(&in); err != nil {
		return answer{}, err
	}
	d, err := c.d.Names.VerifyDomain(c.ctx, c.call, in.Domain)
	if err != nil {
		return answer{}, err
	}
	return ok(shownVerification(d))
}

// findVerification finds a verification by its id or its domain.
func (c *caller) findVerification() (vm.Domain, error) {
	ref := c.PathValue("domain")
	list, err := c.d.Names.Domains(c.ctx, c.call)
	if err != nil {
		return vm.Domain{}, err
	}
	for _, d := range list {
		if d.ID == ref || d.Name == ref {
			return d, nil
		}
	}
	return vm.Domain{}, vm.Errorf(vm.NotFound, vm.Clip(ref, 80), "no such verification").WithHint("domains.verifications.create(DOMAIN) begins one")
}

func (c *caller) verification() (answer, error) {
	d, err := c.findVerification()
	if err != nil {
		return answer{}, err
	}
	return ok(shownVerification(d))
}

func (c *caller) complete() (answer, error) {
	d, err := c.findVerification()
	if err != nil {
		return answer{}, err
	}
	if d, err = c.d.Names.CheckDomain(c.ctx, c.call, d.ID); err != nil {
		return answer{}, err
	}
	return ok(domainAnswer{d.Name, d.CreatedAt.UTC(), d.ID})
}

func (c *caller) dropVerification() (answer, error) {
	d, err := c.findVerification()
	if err == nil {
		_, err = c.d.Names.DropVerification(c.ctx, c.call, d.Name, d.Code)
	}
	return done, err
}
