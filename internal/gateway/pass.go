// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/vm"
)

// A pass is the value of a link or a cookie: an expiry time, an actor, and a
// signature that binds both to a scope. The gateway stores none, so a pass
// survives a restart. The rights of the actor are checked at each request.

// bearer names the key or token of the user who logged in.
type bearer struct {
	Account  vm.AccountID  `json:"c"`
	Key      vm.KeyID      `json:"k,omitempty"`
	Token    vm.TokenID    `json:"t,omitempty"`
	Identity vm.IdentityID `json:"i,omitempty"`
	Issued   time.Time     `json:"a"`
}

// pass signs that an actor has access to the scope until expires. With the zero
// actor, whoever holds the pass has access.
func (g *Gateway) pass(scope string, a vm.Actor, expires time.Time) string {
	who := ""
	if a.Account != "" {
		data, _ := json.Marshal(bearer{a.Account, a.Key, a.Token, a.Identity, a.Issued}) // strings and a time cannot fail
		who = base64.RawURLEncoding.EncodeToString(data)
	}
	signed := strconv.FormatInt(expires.Unix(), 36) + "." + who
	return signed + "." + g.sign(scope, signed)
}

// scopeOf returns the scope of a pass for a site. It changes when the port is made private.
func scopeOf(site vm.Site) string {
	return fmt.Sprintf("preview\n%s\n%s\n%d\n%d", site.Account, site.VM, site.Port, site.Epoch)
}

func (g *Gateway) sign(scope, signed string) string {
	m := hmac.New(sha256.New, g.LinkKey)
	fmt.Fprintf(m, "%s\n%s", scope, signed)
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

// checkPass returns the actor and the expiry of a valid pass. The caller must
// check whether the actor still has the right.
func (g *Gateway) checkPass(pass, scope string) (who vm.Actor, until time.Time, ok bool) {
	i := strings.LastIndexByte(pass, '.')
	if i < 0 || !hmac.Equal([]byte(pass[i+1:]), []byte(g.sign(scope, pass[:i]))) {
		return who, until, false
	}
	at, name, _ := strings.Cut(pass[:i], ".")
	unix, err := strconv.ParseInt(at, 36, 64)
	if err != nil {
		return who, until, false
	}
	if name != "" {
		var b bearer
		data, err := base64.RawURLEncoding.DecodeString(name)
		if err != nil || json.Unmarshal(data, &b) != nil {
			return who, until, false
		}
		who = vm.Actor{Account: b.Account, Key: b.Key, Token: b.Token, Identity: b.Identity, Issued: b.Issued}
	}
	until = time.Unix(unix, 0)
	return who, until, time.Now().Before(until)
}

const (
	// ticketParam carries a ticket. The redirect removes it.
	ticketParam = "warren-ticket"
	ticketLasts = 30 * time.Second
	loginLasts  = 12 * time.Hour
	maxTickets  = 4096
)

// ticket lets a logged-in user open a site once.
type ticket struct {
	who   vm.Actor
	site  vm.Site
	until time.Time
}

// tickets are the unused tickets.
type tickets struct {
	mu   sync.Mutex
	open map[string]ticket
}

// give returns a new ticket.
func (t *tickets) give(who vm.Actor, site vm.Site) (string, time.Time) {
	now := time.Now()
	secret, until := vm.NewSecret(), now.Add(ticketLasts)
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, o := range t.open {
		if now.After(o.until) || len(t.open) >= maxTickets { // drop expired ones, or any if there are too many
			delete(t.open, k)
		}
	}
	t.open[secret] = ticket{who, site, until}
	return secret, until
}

// take uses up a ticket, even if it is for another site.
func (t *tickets) take(secret string, site vm.Site) (vm.Actor, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o, ok := t.open[secret]
	delete(t.open, secret)
	ok = ok && time.Now().Before(o.until) && o.site.VM == site.VM && o.site.Port == site.Port && o.site.Epoch == site.Epoch
	return o.who, ok
}

// Ticket returns an address that opens a port for an actor, once and within a short time.
func (g *Gateway) Ticket(a vm.Actor, site vm.Site, host string) (string, time.Time) {
	t, until := g.tickets.give(a, site)
	return g.URL(host) + "/?" + ticketParam + "=" + t, until
}
