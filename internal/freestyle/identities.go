// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package freestyle

import (
	"encoding/json"
	"time"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/vm"
)

func identityRoutes(at func(string, right, handler)) {
	const one = "/v5/identities/{identity}"
	at("GET /v5/identities", owner, (*caller).identities)
	at("POST /v5/identities", owner, (*caller).createIdentity)
	at("GET "+one, owner, (*caller).identity)
	at("DELETE "+one, owner, (*caller).deleteIdentity)
	at("GET "+one+"/tokens", owner, (*caller).tokens)
	at("POST "+one+"/tokens", owner, (*caller).createToken)
	at("DELETE "+one+"/tokens/{token}", owner, (*caller).revokeToken)
	at("GET "+one+"/permissions/vm", owner, (*caller).permissions)
	at("POST "+one+"/permissions/vm", owner, (*caller).grant)
	at("GET "+one+"/permissions/vm/{vm}", owner, (*caller).permission)
	at("PATCH "+one+"/permissions/vm/{vm}", owner, (*caller).changeGrant)
	at("DELETE "+one+"/permissions/vm/{vm}", owner, (*caller).revoke)
}

// identityAnswer is an identity. Freestyle makes managed ones for itself; Warren has none.
type identityAnswer struct {
	ID      vm.IdentityID `json:"id"`
	Account vm.AccountID  `json:"accountId,omitempty"`
	Managed bool          `json:"managed"`
}

// named is the identity in the path.
func (c *caller) named() string { return c.PathValue("identity") }

func (c *caller) identities() (answer, error) {
	list, _, err := c.d.Access.Identities(c.ctx, c.call, access.Page{})
	if err != nil {
		return answer{}, err
	}
	all := []identityAnswer{}
	for _, i := range list {
		all = append(all, identityAnswer{ID: i.ID})
	}
	shown, err := page(c, all)
	if err != nil {
		return answer{}, err
	}
	return ok(map[string]any{"identities": shown, "total": len(all)})
}

func (c *caller) createIdentity() (answer, error) {
	var in struct {
		Managed bool `json:"managed"`
	}
	if err := c.decode(&in); err != nil {
		return answer{}, err
	}
	if in.Managed {
		return answer{}, unsupported("managed", "this server has no managed identities").WithHint("leave it out")
	}
	i, err := c.d.Access.CreateIdentity(c.ctx, c.call, "")
	if err != nil {
		return answer{}, err
	}
	return ok(identityAnswer{ID: i.ID})
}

func (c *caller) identity() (answer, error) {
	i, err := c.d.Access.FindIdentity(c.call, c.named())
	if err != nil {
		return answer{}, err
	}
	return ok(identityAnswer{ID: i.ID, Account: i.Account})
}

func (c *caller) deleteIdentity() (answer, error) {
	_, err := c.d.Access.DeleteIdentity(c.ctx, c.call, c.named())
	return done, err
}

type tokenAnswer struct {
	ID    vm.TokenID `json:"id"`
	Token string     `json:"token,omitempty"` // only when it is made
}

func (c *caller) tokens() (answer, error) {
	list, err := c.d.Access.Tokens(c.ctx, c.call, c.named())
	if err != nil {
		return answer{}, err
	}
	out := []tokenAnswer{}
	for _, t := range list {
		out = append(out, tokenAnswer{ID: t.ID})
	}
	return ok(out)
}

func (c *caller) createToken() (answer, error) {
	t, secret, err := c.d.Access.CreateToken(c.ctx, c.call, c.named(), access.TokenRequest{})
	if err != nil {
		return answer{}, err
	}
	return ok(tokenAnswer{t.ID, secret})
}

func (c *caller) revokeToken() (answer, error) {
	return done, c.d.Access.RevokeToken(c.ctx, c.call, c.named(), vm.TokenID(c.PathValue("token")))
}

// permissionAnswer says as which Linux users an identity may use a VM; null = any.
type permissionAnswer struct {
	ID        string        `json:"id"`
	Identity  vm.IdentityID `json:"identityId"`
	VM        vm.ID         `json:"vmId"`
	Users     *[]string     `json:"allowedLinuxUsers"`
	GrantedAt time.Time     `json:"grantedAt"`
	GrantedBy string        `json:"grantedBy"`
}

func shownPermission(p vm.VMPermission) permissionAnswer {
	out := permissionAnswer{ID: p.ID, Identity: p.Identity, VM: p.VM, GrantedAt: p.GrantedAt.UTC(), GrantedBy: p.GrantedBy}
	if p.AllowedUsers != nil {
		out.Users = &p.AllowedUsers
	}
	return out
}

func (c *caller) permissions() (answer, error) {
	list, _, err := c.d.Access.VMPermissions(c.ctx, c.call, c.named(), access.Page{})
	if err != nil {
		return answer{}, err
	}
	out := []permissionAnswer{}
	for _, p := range list {
		out = append(out, shownPermission(p))
	}
	return ok(out)
}

// grant wants the id of the VM: a slug may later be another VM's.
func (c *caller) grant() (answer, error) {
	var in struct {
		VM    string    `json:"vmId"`
		Users *[]string `json:"allowedLinuxUsers"`
	}
	if err := c.decode(&in); err != nil {
		return answer{}, err
	}
	if !vm.IsID(in.VM) {
		return answer{}, invalid("vmId", "%q is not the id of a VM", vm.Clip(in.VM, 80)).WithHint("vms.get(SLUG) says its id")
	}
	var users []string
	if in.Users != nil {
		users = append([]string{}, *in.Users...)
	}
	p, err := c.d.Access.GrantVM(c.ctx, c.call, c.named(), in.VM, users)
	if err != nil {
		return answer{}, err
	}
	return ok(shownPermission(p))
}

func (c *caller) permission() (answer, error) {
	p, err := c.d.Access.VMPermission(c.ctx, c.call, c.named(), c.ref())
	if err != nil {
		return answer{}, err
	}
	return ok(shownPermission(p))
}

func (c *caller) changeGrant() (answer, error) {
	var in struct {
		Users json.RawMessage `json:"allowedLinuxUsers"`
	}
	if err := c.decode(&in); err != nil {
		return answer{}, err
	}
	if in.Users == nil {
		return answer{}, invalid("allowedLinuxUsers", "is missing").WithHint("send the names of Linux users, or null for any")
	}
	var users []string // null = any
	if err := json.Unmarshal(in.Users, &users); err != nil {
		return answer{}, invalid("allowedLinuxUsers", "is neither a list of names nor null")
	}
	p, err := c.d.Access.ChangeGrant(c.ctx, c.call, c.named(), c.ref(), &users, nil)
	if err != nil {
		return answer{}, err
	}
	return ok(shownPermission(p))
}

func (c *caller) revoke() (answer, error) {
	return done, c.d.Access.RevokeVM(c.ctx, c.call, c.named(), c.ref())
}
