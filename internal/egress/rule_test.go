// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package egress_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/vm"
)

// rules makes a policy of a mode and rules as people write them; "!" before one denies.
func rules(t testing.TB, mode vm.NetworkMode, texts ...string) vm.NetworkPolicy {
	t.Helper()
	p := vm.NetworkPolicy{Mode: mode}
	for i, text := range texts {
		bare, deny := strings.CutPrefix(text, "!")
		bare, methods, _ := strings.Cut(bare, " ")
		r, err := egress.ParseRule(bare)
		if err != nil {
			t.Fatalf("the rule %s is not read: %v", text, err)
		}
		if deny {
			r.Action = vm.NetDeny
		}
		if methods != "" {
			r.Methods = strings.Split(methods, ",")
		}
		r.ID = "r-00000" + string(rune('a'+i))
		p.Rules = append(p.Rules, r)
	}
	return p
}

// Rules are tried in their order, and the verdict names the one that decided.
func TestRules(t *testing.T) {
	const api = "api.example.com"
	tests := []struct {
		name   string
		mode   vm.NetworkMode
		rules  []string
		req    egress.Request
		allow  bool
		rule   string
		reason string
	}{
		{"named", "closed", []string{api}, egress.Request{Proto: "tcp", Name: "API.example.com.", Port: 443}, true, "a", ""},
		{"port 80, too", "closed", []string{api}, egress.Request{Proto: "tcp", Name: api, Port: 80}, true, "a", ""},
		{"another port", "closed", []string{api}, egress.Request{Proto: "tcp", Name: api, Port: 22}, false, "", "no rule"},
		{"udp", "closed", []string{api}, egress.Request{Proto: "udp", Name: api, Port: 443}, false, "", "no rule"},
		{"another name", "closed", []string{api}, egress.Request{Proto: "tcp", Name: "x." + api, Port: 443}, false, "", "no rule"},
		{"its address alone", "closed", []string{api}, egress.Request{Proto: "tcp", IP: ip("8.8.8.8"), Port: 443}, false, "", "no rule"},
		{"below", "closed", []string{"*.example.com"}, egress.Request{Proto: "tcp", Name: "a.b.example.com", Port: 443}, true, "a", ""},
		{"not itself", "closed", []string{"*.example.com"}, egress.Request{Proto: "tcp", Name: "example.com", Port: 443}, false, "", "no rule"},
		{"not beside", "closed", []string{"*.example.com"}, egress.Request{Proto: "tcp", Name: "evilexample.com", Port: 443}, false, "", "no rule"},
		{"lookup", "closed", []string{api + ":5432"}, egress.Request{Proto: "dns", Name: api}, true, "a", ""},
		{"lookup of another", "closed", []string{api}, egress.Request{Proto: "dns", Name: "evil.example.net"}, false, "", "no rule"},
		{"udp named", "closed", []string{"udp:time.example.com:123"}, egress.Request{Proto: "udp", Name: "time.example.com", Port: 123, IP: ip("8.8.8.8")}, true, "a", ""},
		{"quic named", "closed", []string{"udp:" + api + ":443"}, egress.Request{Proto: "udp", Name: api, Port: 443, IP: ip("8.8.8.8")}, true, "a", ""},

		{"cidr", "closed", []string{"8.8.0.0/16:53"}, egress.Request{Proto: "tcp", IP: ip("8.8.8.8"), Port: 53}, true, "a", ""},
		{"cidr, other port", "closed", []string{"8.8.0.0/16:53"}, egress.Request{Proto: "tcp", IP: ip("8.8.8.8"), Port: 54}, false, "", "no rule"},
		{"cidr, mapped", "closed", []string{"8.8.0.0/16"}, egress.Request{Proto: "tcp", IP: ip("::ffff:8.8.8.8"), Port: 54}, true, "a", ""},
		{"private cidr", "closed", []string{"10.0.0.0/8:5432"}, egress.Request{Proto: "tcp", IP: ip("10.1.2.3"), Port: 5432}, true, "a", ""},
		{"name on a private address", "closed", []string{api}, egress.Request{Proto: "tcp", Name: api, IP: ip("10.1.2.3"), Port: 443}, false, "a", "not public"},
		{"name on an opened private address", "closed", []string{api, "10.1.0.0/16:443"}, egress.Request{Proto: "tcp", Name: api, IP: ip("10.1.2.3"), Port: 443}, true, "a", ""},
		{"name on a closed part of it", "closed", []string{api, "!10.1.2.0/24", "10.1.0.0/16:443"}, egress.Request{Proto: "tcp", Name: api, IP: ip("10.1.2.3"), Port: 443}, false, "a", "not public"},
		{"any", "closed", []string{"*:443"}, egress.Request{Proto: "tcp", IP: ip("8.8.8.8"), Port: 443}, true, "a", ""},
		{"any, private", "closed", []string{"*:443"}, egress.Request{Proto: "tcp", IP: ip("10.0.0.1"), Port: 443}, false, "", "no rule"},
		{"any, metadata by name", "closed", []string{"*:80"}, egress.Request{Proto: "tcp", IP: ip("169.254.169.254"), Name: api, Port: 80}, false, "", "no rule"},
		{"the host by a range", "closed", []string{"8.8.0.0/16"}, egress.Request{Proto: "tcp", IP: ip("8.8.4.4"), Port: 22, Host: host}, false, "", "no rule"},
		{"the host by its address", "closed", []string{"8.8.4.4:22"}, egress.Request{Proto: "tcp", IP: ip("8.8.4.4"), Port: 22, Host: host}, true, "a", ""},

		{"deny before allow", "closed", []string{"!" + api, "*.example.com"}, egress.Request{Proto: "tcp", Name: api, Port: 443}, false, "a", "denies"},
		{"allow before deny", "closed", []string{api, "!*.example.com"}, egress.Request{Proto: "tcp", Name: api, Port: 443}, true, "a", ""},
		{"deny on every port", "open", []string{"!" + api}, egress.Request{Proto: "tcp", Name: api, Port: 2222, IP: ip("8.8.8.8")}, false, "a", "denies"},
		{"deny by udp, too", "open", []string{"!" + api}, egress.Request{Proto: "udp", Name: api, Port: 2222, IP: ip("8.8.8.8")}, false, "a", "denies"},
		{"deny the lookup", "open", []string{"!" + api}, egress.Request{Proto: "dns", Name: api}, false, "a", "denies"},
		{"deny one port", "open", []string{"!" + api + ":25"}, egress.Request{Proto: "dns", Name: api}, true, "", ""},
		{"deny an address behind a name", "open", []string{"!8.8.0.0/16"}, egress.Request{Proto: "tcp", Name: api, IP: ip("8.8.8.8"), Port: 443}, false, "a", "denies"},
		{"quic with denied names", "open", []string{"!" + api}, egress.Request{Proto: "udp", IP: ip("8.8.8.8"), Port: 443}, false, "", "QUIC"},
		{"open beside rules", "open", []string{"!" + api}, egress.Request{Proto: "tcp", IP: ip("8.8.8.8"), Port: 443}, true, "", ""},

		{"the connection of a request", "closed", []string{api + " GET"}, egress.Request{Proto: "tcp", Name: api, Port: 443}, true, "a", ""},
		{"method", "closed", []string{api + " GET"}, egress.Request{Proto: "tcp", Name: api, Port: 443, Method: "GET", Path: "/"}, true, "a", ""},
		{"another method", "closed", []string{api + " GET"}, egress.Request{Proto: "tcp", Name: api, Port: 443, Method: "POST", Path: "/"}, false, "", "no rule"},
		{"allow is exact", "closed", []string{api + " GET"}, egress.Request{Proto: "tcp", Name: api, Port: 443, Method: "get", Path: "/"}, false, "", "no rule"},
		{"deny in any case", "closed", []string{"!" + api + " POST", api}, egress.Request{Proto: "tcp", Name: api, Port: 443, Method: "pOsT", Path: "/"}, false, "a", "denies"},
		{"denied requests, open connection", "closed", []string{"!" + api + " POST", api}, egress.Request{Proto: "tcp", Name: api, Port: 443}, true, "b", ""},
		{"path", "closed", []string{api + "/v1/**"}, egress.Request{Proto: "tcp", Name: api, Port: 443, Method: "GET", Path: "/v1/a/b"}, true, "a", ""},
		{"another path", "closed", []string{api + "/v1/**"}, egress.Request{Proto: "tcp", Name: api, Port: 443, Method: "GET", Path: "/v2"}, false, "", "no rule"},
		{"ambiguous path", "closed", []string{"!" + api + "/admin/**", api}, egress.Request{Proto: "tcp", Name: api, Port: 443, Method: "GET", Path: "/x/..;/admin"}, false, "a", "more than one way"},
		{"deny a path in any case", "closed", []string{"!" + api + "/admin", api}, egress.Request{Proto: "tcp", Name: api, Port: 443, Method: "GET", Path: "/%41dmin/"}, false, "a", "denies"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := egress.Evaluate(rules(t, tt.mode, tt.rules...), tt.req)
			want := ""
			if tt.rule != "" {
				want = "r-00000" + tt.rule
			}
			if v.Allow != tt.allow || v.Rule != want || !strings.Contains(v.Record(), tt.reason) {
				t.Errorf("Evaluate = %+v, want allow %v by the rule %q with a reason about %q", v, tt.allow, want, tt.reason)
			}
		})
	}
}

// A rule that has ended decides nothing.
func TestUntil(t *testing.T) {
	p := rules(t, vm.NetClosed, "api.example.com")
	end := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	p.Rules[0].Until = end
	for at, want := range map[time.Time]bool{end.Add(-time.Second): true, end: false, end.Add(time.Hour): false} {
		if v := egress.Evaluate(p, egress.Request{Proto: "tcp", Name: "api.example.com", Port: 443, Now: at}); v.Allow != want {
			t.Errorf("at %s, with an end at %s, the rule allows: %v, want %v", at, end, v.Allow, want)
		}
	}
	if got := egress.NextEnd(p, end.Add(-time.Minute)); !got.Equal(end) {
		t.Errorf("the next end is %s, want %s", got, end)
	}
}

// Rules are read as people write them, and a wrong one is a typed error that says what to
// write.
func TestParseRule(t *testing.T) {
	for text, want := range map[string]string{
		"api.example.com:443": "api.example.com 443-443", "*.Example.com": "*.example.com", "10.1.2.3/8:5432": "10.0.0.0/8 5432-5432",
		"udp:1.1.1.1:53": "1.1.1.1 53-53 udp", "*": "*", "*:443": "* 443-443", "[2001:db8::1]:443": "2001:db8::1 443-443", "2001:db8::/32": "2001:db8::/32",
		"::ffff:8.8.8.8": "8.8.8.8", "https://api.example.com/v1/**": "api.example.com 443-443 /v1/**", "db.example.com:8000-8100": "db.example.com 8000-8100", "8.8.8.8": "8.8.8.8",
	} {
		r, err := egress.ParseRule(text)
		got := r.To
		for _, g := range r.Ports {
			got += fmt.Sprintf(" %d-%d", g.First, g.Last)
		}
		got = strings.TrimSpace(got + " " + r.Proto + strings.Join(r.Paths, ","))
		if err != nil || got != want {
			t.Errorf("%s is read as %q with %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", "package", "api.example.com:0", "api.example.com:70000", "api.example.com:9-3", "ex*mple.com", "*.*.com", "a..com", "-:80", "10.0.0.0/40", "300.1.1.1", "2130706433", "0x7f.1", "bücher.example", "git.warren.internal", "http://", "[::1:80", "udp:api.example.com:53/path", "10.0.0.1/x", "api.example.com/a/../b", "api.example.com/a%20b", "api.example.com/**/b"} {
		if r, err := egress.ParseRule(text); vm.KindOf(err) != vm.Invalid {
			t.Errorf("%q is read as %+v with %v, want an error of kind invalid", text, r, err)
		}
	}
}

// Only rules that open what is not public need an admin.
func TestNeedsAdmin(t *testing.T) {
	for text, want := range map[string]bool{
		"api.example.com": false, "*": false, "8.8.8.8": false, "8.8.8.0/24": false, "10.0.0.1": true, "10.0.0.0/8:5432": true, "0.0.0.0/0": true,
		"8.0.0.0/6": true, "169.254.169.254": true, "127.0.0.1:80": true, "::/0": true, "64:ff9b::/96": true, "2606:4700::/32": false, "fd00::/8": true, "2002::/16": true,
	} {
		r, err := egress.ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		if got := egress.NeedsAdmin(r); got != want {
			t.Errorf("%s needs an admin: %v, want %v", text, got, want)
		}
		r.Action = vm.NetDeny
		if egress.NeedsAdmin(r) {
			t.Errorf("to deny %s needs an admin", text)
		}
	}
}

// Widens says in words what a policy newly allows.
func TestWidens(t *testing.T) {
	for _, tt := range []struct {
		old, new vm.NetworkPolicy
		want     string // a part of the words; "" = not wider
	}{
		{rules(t, "closed"), rules(t, "closed", "api.example.com"), "api.example.com on port 80, 443"},
		{rules(t, "closed", "*.example.com"), rules(t, "closed", "*.example.com", "api.example.com"), ""},
		{rules(t, "closed", "api.example.com GET"), rules(t, "closed", "api.example.com"), "api.example.com"},
		{rules(t, "closed", "api.example.com"), rules(t, "closed", "api.example.com POST"), ""},
		{rules(t, "closed", "api.example.com/v1/**"), rules(t, "closed", "api.example.com/v1/models"), ""},
		{rules(t, "closed", "8.8.8.0/24"), rules(t, "closed", "8.8.0.0/16"), "the 65536 addresses"},
		{rules(t, "closed", "8.8.0.0/16"), rules(t, "closed", "8.8.8.8"), ""},
		{rules(t, "closed"), rules(t, "closed", "10.0.0.1"), "not public"},
		{rules(t, "closed"), rules(t, "open"), "every public address"},
		{rules(t, "open"), rules(t, "closed", "api.example.com"), ""},
		{rules(t, "open", "!evil.example.com"), rules(t, "open"), "no longer denied: evil.example.com"},
		{rules(t, "open", "!evil.example.com"), rules(t, "open", "evil.example.com", "!evil.example.com:25"), "evil.example.com"},
		{rules(t, "closed"), rules(t, "closed", "!evil.example.com"), ""},
		{rules(t, "closed"), rules(t, "closed", "*.com"), "top-level"},
	} {
		got := strings.Join(egress.Widens(tt.old, tt.new), "; ")
		if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
			t.Errorf("from %v to %v widens %q, want a part %q", tt.old.Rules, tt.new.Rules, got, tt.want)
		}
	}
}

// A rule that an earlier one covers is refused by name.
func TestShadowed(t *testing.T) {
	if s := egress.Shadowed(rules(t, "closed", "*.example.com", "10.0.0.0/8", "api.example.com", "10.1.1.1", "api.example.com:22").Rules); len(s) != 2 || s[0].Rule != 2 || s[1].Rule != 3 {
		t.Errorf("shadowed are %v, want the third and the fourth rule", s)
	}
	err := egress.CheckRules(rules(t, "closed", "*.example.com", "!api.example.com:443").Rules)
	if vm.KindOf(err) != vm.Invalid || !strings.Contains(err.Error(), "never decides") {
		t.Errorf("a rule that never decides gives %v, want an error of kind invalid", err)
	}
}

// An answer says how a request would be carried, and by which rule.
func TestAnswer(t *testing.T) {
	p := rules(t, "closed", "api.example.com GET", "plain.example.com")
	for _, tt := range []struct {
		q       vm.NetQuestion
		allowed bool
		how     string
	}{
		{vm.NetQuestion{Host: "plain.example.com"}, true, vm.NetPassed},
		{vm.NetQuestion{Host: "api.example.com"}, true, vm.NetIntercepted},
		{vm.NetQuestion{Host: "api.example.com", Method: "POST"}, false, vm.NetRefused},
		{vm.NetQuestion{Host: "evil.example.net"}, false, vm.NetRefused},
		{vm.NetQuestion{Host: "policy.warren.internal", Port: 80}, true, vm.NetPassed},
		{vm.NetQuestion{Host: "2130706433"}, false, vm.NetRefused},
	} {
		a := egress.Answer(p, tt.q, []netip.Addr{})
		if a.Allowed != tt.allowed || a.How != tt.how || a.Policy != p.Digest() || a.Reason == "" || !a.Allowed && a.Next == "" && egress.ValidName(tt.q.Host) {
			t.Errorf("%+v is answered with %+v, want allowed %v, %s", tt.q, a, tt.allowed, tt.how)
		}
	}
}

// A path that servers read in different ways is refused, whatever the rule.
func TestAmbiguousPaths(t *testing.T) {
	p := rules(t, "closed", "api.example.com/v1/**")
	for _, path := range []string{
		"/v1/../x", "/v1/..", "/v1/.", "/v1//x", "//v1", "/v1/%2e%2e/x", "/v1/%2E./x", "/v1/..%2fx", "/v1/a%2Fb", "/v1/%5c..", "/v1/a\\b", "/v1/a;b", "/v1/a%3bb", "/v1/%252e", "/v1/%00", "/v1/%0d%0a",
		"/v1/%c0%ae", "/v1/%e0%80%ae", "/v1/%ff", "/v1/%", "/v1/%2", "/v1/%zz", "/v1/a%3fb", "/v1/a%23b", "/v1/x.", "/v1/x%20", "/v1/\x80", "/v1/a b", "/v1/%ef%bc%8e%ef%bc%8e", "/v1/%e2%80%8b", "*", "", "v1/x",
		"/v1/" + strings.Repeat("a", 9000),
	} {
		if v := egress.Evaluate(p, egress.Request{Proto: "tcp", Name: "api.example.com", Port: 443, Method: "GET", Path: path}); v.Allow {
			t.Errorf("the path %q is allowed by a rule about /v1/**", path)
		}
	}
	for _, path := range []string{"/v1", "/v1/", "/v1/x", "/v1/x/", "/v1/a%20b", "/v1/%C3%BC", "/v1/a.b", "/v1/.well-known", "/v1/a+b@c:d=e&f,g"} {
		if v := egress.Evaluate(p, egress.Request{Proto: "tcp", Name: "api.example.com", Port: 443, Method: "GET", Path: path}); !v.Allow {
			t.Errorf("the path %q is refused: %s", path, v.Reason)
		}
	}
}

func TestMethods(t *testing.T) {
	got := egress.Methods("POST", map[string][]string{"X-Http-Method-Override": {"DELETE", "delete"}, "X-Method-Override": {" PUT "}})
	if strings.Join(got, " ") != "POST DELETE PUT delete" {
		t.Errorf("the request may mean %q, want POST DELETE PUT delete", got)
	}
	got = egress.Methods("POST", map[string][]string{"X_http-method_override": {"GET, DELETE"}, "X_METHOD_OVERRIDE": {"PUT,"}})
	if strings.Join(got, ",") != "POST,,DELETE,GET,PUT" {
		t.Errorf("the request may mean %q, want POST, DELETE, GET, PUT and nothing", got)
	}
}

// A header that may replace the path is refused where rules are about paths.
func TestPathMoved(t *testing.T) {
	p := rules(t, "closed", "api.example.com/v1/**", "other.example.com GET", "plain.example.com")
	for _, name := range []string{"X-Original-Url", "X-Rewrite-Url", "X_original_url", "x_REWRITE-url"} {
		header := map[string][]string{name: {"/admin"}}
		if v := egress.PathMoved(p, "API.example.com", 443, header); v.Reason == "" || v.Allow || v.Rule != "r-00000a" {
			t.Errorf("a request with the header %s gives %+v, want a refusal by the rule about paths", name, v)
		}
		for _, host := range []string{"other.example.com", "plain.example.com", "none.example.com"} {
			if v := egress.PathMoved(p, host, 443, header); v.Reason != "" {
				t.Errorf("a request to %s with the header %s is refused: %s", host, name, v.Reason)
			}
		}
	}
	if v := egress.PathMoved(p, "api.example.com", 443, map[string][]string{"X-Original-Host": {"x"}}); v.Reason != "" {
		t.Errorf("another header is refused: %s", v.Reason)
	}
}

// FuzzPath: a path that a rule about one directory allows stays in it, however a server
// decodes it.
func FuzzPath(f *testing.F) {
	for _, s := range []string{"/v1/x", "/v1/%2e%2e/x", "/v1/..;/x", "/v1/%c0%ae", "/v1/a%2fb"} {
		f.Add(s)
	}
	p := rules(f, "closed", "api.example.com/v1/**")
	f.Fuzz(func(t *testing.T, path string) {
		if !egress.Evaluate(p, egress.Request{Proto: "tcp", Name: "api.example.com", Port: 443, Method: "GET", Path: path}).Allow {
			return
		}
		lower := strings.ToLower(path)
		for _, bad := range []string{"//", "/../", "/./", "\\", "%2f", "%5c", "%25", ";", "%3b", "%00"} {
			if strings.Contains(strings.ReplaceAll(lower, "%2e", ".")+"/", bad) && !(bad == "//" && strings.HasSuffix(lower, "/") && !strings.Contains(lower, "//")) {
				t.Errorf("%q is allowed and has %q", path, bad)
			}
		}
		if path != "/v1" && !strings.HasPrefix(path, "/v1/") && !strings.Contains(path, "%") {
			t.Errorf("%q is allowed", path)
		}
	})
}

// FuzzRule: every rule that is read is accepted by the check, and is read again from what
// people see.
func FuzzRule(f *testing.F) {
	for _, s := range []string{"api.example.com:443", "*.example.com", "10.0.0.0/8:5432", "udp:1.1.1.1:53", "[::1]:80", "https://a.example.com/v1/**"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := egress.ParseRule(text)
		if err != nil {
			return
		}
		if err := egress.CheckRule(r); err != nil {
			t.Errorf("%q is read as %+v, which is wrong: %v", text, r, err)
		}
		if again := egress.Canonical(r); again.To != r.To {
			t.Errorf("%q is read as %q, whose one spelling is %q", text, r.To, again.To)
		}
	})
}
