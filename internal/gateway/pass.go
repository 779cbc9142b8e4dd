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

// A pass is what a link or a cookie says: until when, who, and a signature that
// binds both to what it is for. It is kept nowhere, so it outlives this process;
// who is named in it is judged again at each request.

// bearer names the key or token of who logged in.
type bearer struct {
	Account  vm.AccountID  `json:"c"`
	Key      vm.KeyID      `json:"k,omitempty"`
	Token    vm.TokenID    `json:"t,omitempty"`
	Identity vm.IdentityID `json:"i,omitempty"`
	Issued   time.Time     `json:"a"`
}

// pass signs that an actor, or with the zero actor whoever has it, may do until
// a time what the scope says.
func (g *Gateway) pass(scope string, a vm.Actor, expires time.Time) string {
	who := ""
	if a.Account != "" {
		data, _ := json.Marshal(bearer{a.Account, a.Key, a.Token, a.Identity, a.Issued}) // strings and a time
		who = base64.RawURLEncoding.EncodeToString(data)
	}
	signed := strconv.FormatInt(expires.Unix(), 36) + "." + who
	return signed + "." + g.sign(scope, signed)
}

// scopeOf is what a pass for a site is signed for. It changes when the port is
// closed.
func scopeOf(site vm.Site) string {
	return fmt.Sprintf("preview\n%s\n%s\n%d\n%d", site.Account, site.VM, site.Port, site.Epoch)
}

func (g *Gateway) sign(scope, signed string) string {
	m := hmac.New(sha256.New, g.LinkKey)
	fmt.Fprintf(m, "%s\n%s", scope, signed)
	return base64.RawURLEncoding.EncodeToString(m.Sum(nil))
}

// checkPass returns whose a pass is, and when it ends; whether who it names may
// still do anything is for the caller to ask.
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
	// ticketParam carries a ticket; it is gone after the redirect.
	ticketParam = "warren-ticket"
	ticketLasts = 30 * time.Second
	loginLasts  = 12 * time.Hour
	maxTickets  = 4096
)

// ticket is what somebody who is logged in gets for one arrival at a site.
type ticket struct {
	who   vm.Actor
	site  vm.Site
	until time.Time
}

// tickets are those that were given out and not used.
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
		if now.After(o.until) || len(t.open) >= maxTickets { // all old ones, and any one when there are too many
			delete(t.open, k)
		}
	}
	t.open[secret] = ticket{who, site, until}
	return secret, until
}

// take uses a ticket up, also when it is for another site.
func (t *tickets) take(secret string, site vm.Site) (vm.Actor, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o, ok := t.open[secret]
	delete(t.open, secret)
	ok = ok && time.Now().Before(o.until) && o.site.VM == site.VM && o.site.Port == site.Port && o.site.Epoch == site.Epoch
	return o.who, ok
}

// Ticket returns an address that opens a port, once and soon, for an actor.
func (g *Gateway) Ticket(a vm.Actor, site vm.Site, host string) (string, time.Time) {
	t, until := g.tickets.give(a, site)
	return g.URL(host) + "/?" + ticketParam + "=" + t, until
}
