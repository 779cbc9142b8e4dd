// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/vm"
)

// RefusedHeader is set on every answer that a VM's network gives in the place of a server
// that it did not ask. Its value is the reason.
const RefusedHeader = "Warren-Refused"

// Refused is the body of the answer 403 to an HTTP request that the policy refuses.
type Refused struct {
	Error  string `json:"error"` // "refused"
	Reason string `json:"reason"`
	Host   string `json:"host"`
	Method string `json:"method"`
	Path   string `json:"path"`           // without its query
	Rule   string `json:"rule,omitempty"` // id of the rule that decided; none = the mode did
	Policy string `json:"policy"`         // digest of the policy
	Mode   string `json:"mode"`
	Next   string `json:"next"` // a command for the guest
	Why    string `json:"why"`  // the page inside the VM that explains it
}

// Refuse answers a guest's HTTP request that the policy p refuses: JSON if the client
// prefers it, else text. It ends the connection of HTTP/1.
func Refuse(rw http.ResponseWriter, r *http.Request, host, path string, p vm.NetworkPolicy, v egress.Verdict) {
	no := Refused{
		Error: "refused", Reason: printable(v.Reason), Host: printable(host), Method: printable(r.Method), Path: printable(path),
		Rule: v.Rule, Policy: p.Digest(), Mode: string(p.Mode), Next: egress.Next(printable(host)),
		Why: "http://" + vm.PolicyHost + "/why?host=" + url.QueryEscape(host),
	}
	h := rw.Header()
	h.Set(RefusedHeader, no.Reason)
	h.Set("Cache-Control", "no-store")
	if r.ProtoMajor == 1 {
		h.Set("Connection", "close")
	}
	if strings.Contains(r.Header.Get("Accept"), "json") {
		h.Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(rw).Encode(no) // the guest may be gone
		return
	}
	h.Set("Content-Type", "text/plain; charset=utf-8")
	rw.WriteHeader(http.StatusForbidden)
	rule := "none; the mode " + no.Mode + " decided"
	if no.Rule != "" {
		rule = no.Rule
	}
	_, _ = fmt.Fprintf(rw, "warren: refused: %s %s%s\nbecause: %s\nrule: %s\npolicy: %s\nnext: %s\nmore: %s\n",
		no.Method, no.Host, no.Path, no.Reason, rule, no.Policy, no.Next, no.Why)
}

// explain writes what a person or an agent in the guest needs to know.
func (w *web) explain(rw http.ResponseWriter, status int, head string) {
	p := w.net.Policy()
	rw.Header().Set("Content-Type", "text/plain; charset=utf-8")
	rw.WriteHeader(status)
	var b strings.Builder
	fmt.Fprintf(&b, "warren: %s\nnetwork policy of this VM: %s\n", head, p.Mode)
	for _, r := range p.Rules {
		fmt.Fprintf(&b, "  %s\n", egress.Say(r))
	}
	switch p.Mode {
	case vm.NetPackages:
		b.WriteString("reachable:\n")
		for _, h := range p.Hosts {
			fmt.Fprintf(&b, "  %s port %d (%s)\n", h.Host, h.Port, h.Manager)
		}
	case vm.NetOpen:
		b.WriteString("reachable: every public address; private, metadata and host addresses are not\n")
	default:
		b.WriteString("reachable: nothing" + map[bool]string{true: " else"}[len(p.Rules) > 0] + "\n")
	}
	fmt.Fprintf(&b, "ask for more: warren-agent ask HOST, or http://%s\nchange it on the host: warren net set NAME closed|packages|open\n", vm.PolicyHost)
	if last := w.net.rec.lastRefusals(); len(last) > 0 {
		fmt.Fprintf(&b, "last refusals (UTC):\n  %s\n", strings.Join(last, "\n  "))
	}
	_, _ = io.WriteString(rw, b.String())
}
