// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"bufio"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/warren-vm/warren/vm"
)

// TestIdentityToken: a token opens the VMs granted to its identity.
func TestIdentityToken(t *testing.T) {
	s := newStand(t, http.HandlerFunc(echo))
	s.e.site.Public = false
	for _, granted := range []bool{false, true} {
		s.e.granted = granted
		want := map[bool]int{false: 401, true: 200}[granted]
		for _, h := range [][2]string{{"X-Warren-Key", myToken}, {"Authorization", "Bearer " + myToken}, {tokenHeader, myToken}} {
			if resp, _ := s.get(s.url(boxHost, "/"), h[0], h[1]); resp.StatusCode != want {
				t.Errorf("granted %v, %s: %d", granted, h[0], resp.StatusCode)
			}
		}
	}
	s.e.revoked = true
	if resp, _ := s.get(s.url(boxHost, "/"), "X-Warren-Key", myToken); resp.StatusCode != 401 {
		t.Errorf("a revoked token: %d", resp.StatusCode)
	}
}

// TestNoSecretReachesGuest: no header with a Warren key or token, of any
// account, reaches a guest; values that only look alike do.
func TestNoSecretReachesGuest(t *testing.T) {
	s := newStand(t, http.HandlerFunc(echo)) // public
	theirs := strings.Repeat("x", 48)
	basic := func(user, password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	for _, secret := range []string{myKey, myToken, otherKey} {
		got := s.echo("/", "Authorization", basic("x-access-token", secret), tokenHeader, secret, "X-Warren-Key", secret,
			"X-Api-Key", secret, "X-List", "a, "+secret+";q=1", "Referer", "https://a/?key="+secret, "Cookie", "a=1; k="+secret+"; b=2")
		for name, values := range got.Header {
			if strings.Contains(strings.Join(values, " "), secret) {
				t.Errorf("%s: %q reached the guest", name, values)
			}
		}
		if a, c := got.Header.Get("Authorization"), got.Header.Get("Cookie"); a != "" || c != "a=1; b=2" {
			t.Errorf("the guest gets the authorization %q and cookies %q, want none and a=1; b=2", a, c)
		}
	}
	got := s.echo("/", "Authorization", basic("me", theirs), "X-Api-Key", theirs, "Cookie", "k="+theirs)
	if got.Header.Get("Authorization") != basic("me", theirs) || got.Header.Get("X-Api-Key") != theirs || got.Header.Get("Cookie") != "k="+theirs {
		t.Errorf("the guest's own was taken: %v", got.Header)
	}
}

// TestCut: a connection ends with the right to it; that of a link at its expiry.
func TestCut(t *testing.T) {
	s := newStand(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ws" {
			if c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true}); err == nil {
				_, _, _ = c.Read(r.Context())
				_ = c.CloseNow()
			}
			return
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	s.e.site.Public, s.e.granted = false, true
	// begin opens a WebSocket and a long answer; the function waits for their end.
	begin := func(name, value string) func() {
		c := s.client()
		c.Transport.(*http.Transport).ForceAttemptHTTP2 = false
		ws, resp, err := websocket.Dial(t.Context(), "wss"+strings.TrimPrefix(s.url(boxHost, "/ws"), "https"), &websocket.DialOptions{HTTPClient: c, HTTPHeader: http.Header{name: {value}}})
		if err != nil {
			t.Fatalf("the WebSocket of %s does not open: %v %v", name, err, resp)
		}
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.url(boxHost, "/long"), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(name, value)
		long, err := s.client().Do(r)
		if err != nil || long.StatusCode != 200 {
			t.Fatalf("the long answer of %s does not begin: %v %v", name, err, long)
		}
		return func() {
			t.Helper()
			ended := make(chan error, 2)
			go func() { _, _, err := ws.Read(t.Context()); ended <- err }()
			go func() { _, err := bufio.NewReader(long.Body).ReadByte(); ended <- err }()
			for range 2 {
				select {
				case err := <-ended:
					if err == nil {
						t.Error("it brought something")
					}
				case <-time.After(10 * time.Second):
					t.Fatal("it goes on")
				}
			}
			_, _ = ws.CloseNow(), long.Body.Close()
		}
	}
	wait := begin("X-Warren-Key", myToken)
	s.e.cut()
	wait()
	site := s.e.site
	site.Port = 3000
	begin("Cookie", cookieName+"="+s.g.pass(scopeOf(site), vm.Actor{}, time.Now().Add(2*time.Second)))()
	// A client sees the end of its answer before the gateway's handler has returned.
	open := func() (awake int64, sessions int) {
		s.e.mu.Lock()
		defer s.e.mu.Unlock()
		return s.e.inside.Load(), len(s.e.sessions)
	}
	awake, sessions := open()
	for end := time.Now().Add(10 * time.Second); awake+int64(sessions) > 0 && time.Now().Before(end); awake, sessions = open() {
		time.Sleep(time.Millisecond)
	}
	if awake != 0 || sessions != 0 {
		t.Errorf("%d requests hold the VM awake and %d sessions are left, want none", awake, sessions)
	}
}

// TestTicket: an address that opens one site once, with the rights of the caller.
func TestTicket(t *testing.T) {
	s := newStand(t, http.HandlerFunc(echo))
	s.e.site.Public, s.e.granted = false, true
	site := s.e.site
	site.Port = 3000
	who, err := s.e.Authenticate(t.Context(), myToken)
	if err != nil {
		t.Fatal(err)
	}
	give := func() string {
		link, until := s.g.Ticket(who, site, boxHost)
		if left := time.Until(until); left > ticketLasts || left < ticketLasts-5*time.Second {
			t.Errorf("it lasts %v", left)
		}
		return link
	}
	link := give()
	resp, _ := s.get(link + "&a=b")
	if resp.StatusCode != 303 || resp.Header.Get("Location") != "/?a=b" || len(resp.Cookies()) != 1 {
		t.Fatalf("a ticket is answered %d %v, want 303 to /?a=b with a cookie", resp.StatusCode, resp.Header)
	}
	cookie := cookieName + "=" + resp.Cookies()[0].Value
	if again, _ := s.get(link); again.StatusCode != 401 {
		t.Errorf("used twice: %d", again.StatusCode)
	}
	// For another port it opens nothing, and is used up.
	other := give()
	for _, host := range []string{"3001-box.warren.localhost", boxHost} {
		if resp, _ := s.get(strings.Replace(other, boxHost, host, 1)); resp.StatusCode != 401 {
			t.Errorf("a ticket that was used or is another port's opens %s: %d, want 401", host, resp.StatusCode)
		}
	}
	late := give()
	_, secret, _ := strings.Cut(late, "=")
	s.g.tickets.mu.Lock()
	old := s.g.tickets.open[secret]
	old.until = time.Now()
	s.g.tickets.open[secret] = old
	s.g.tickets.mu.Unlock()
	if resp, _ := s.get(late); resp.StatusCode != 401 {
		t.Errorf("too late: %d", resp.StatusCode)
	}
	if resp, _ := s.get(strings.Replace(give(), "/?", "//evil.example/?", 1)); resp.Header.Get("Location") != "/evil.example/" {
		t.Errorf("leads away: %q", resp.Header.Get("Location"))
	}
	// Its cookie is checked at each request, and does not work as a link.
	if resp, _ := s.get(s.url(boxHost, "/"), "Cookie", cookie); resp.StatusCode != 200 {
		t.Errorf("the cookie that the ticket gave is answered %d, want 200", resp.StatusCode)
	}
	if resp, _ := s.get(s.url(boxHost, "/?"+linkParam+"="+strings.TrimPrefix(cookie, cookieName+"="))); resp.StatusCode != 401 {
		t.Errorf("a cookie as a link: %d", resp.StatusCode)
	}
	s.e.mu.Lock()
	s.e.revoked = true
	s.e.mu.Unlock()
	if resp, _ := s.get(s.url(boxHost, "/"), "Cookie", cookie); resp.StatusCode != 401 {
		t.Errorf("after its token was revoked: %d", resp.StatusCode)
	}
	for range maxTickets + 10 {
		give()
	}
	if n := len(s.g.tickets.open); n > maxTickets {
		t.Errorf("%d tickets are kept", n)
	}
}

// TestLogin: keys are accepted only at the preview domain; the log-in leads
// only to a site of this gateway that the key opens.
func TestLogin(t *testing.T) {
	s := newStand(t, http.HandlerFunc(echo))
	s.e.site.Public = false
	apex := s.g.URL("warren.localhost")
	resp, body := s.get(s.url(boxHost, "/a?b=c&"+linkParam+"=old"), "Accept", "text/html")
	want := apex + "/?path=%2Fa%3Fb%3Dc&amp;to=" + boxHost
	if resp.StatusCode != 401 || !strings.Contains(body, want) || strings.Contains(body, "password") {
		t.Fatalf("no way to %s: %s", want, body)
	}
	if resp, body := s.get(strings.ReplaceAll(want, "&amp;", "&"), "Accept", "text/html"); resp.StatusCode != 200 || !strings.Contains(body, `type="password"`) || !strings.Contains(body, `value="/a?b=c"`) {
		t.Errorf("the log-in page is answered %d without a password field or the way back: %s", resp.StatusCode, body)
	}
	post := func(origin, cookie string, form url.Values) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), "POST", apex+loginPath, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Origin": {origin}, "Cookie": {cookie}}
		resp, err := s.client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		return resp
	}
	form := func(key, to, path string) url.Values { return url.Values{"key": {key}, "to": {to}, "path": {path}} }
	resp = post(apex, "", form(myKey, boxHost, "/a?b=c"))
	to := resp.Header.Get("Location")
	if resp.StatusCode != 303 || !strings.HasPrefix(to, s.url(boxHost, "/a?b=c&"+ticketParam+"=")) || len(resp.Cookies()) != 1 {
		t.Fatalf("a log-in with the key is answered %d %v, want 303 with a ticket and one cookie", resp.StatusCode, resp.Header)
	}
	c := resp.Cookies()[0]
	if c.Name != loginCookie || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" {
		t.Errorf("the log-in's cookie is %+v, want it secure, strict, for this host and for programs out of reach", c)
	}
	if resp, _ := s.get(to); resp.StatusCode != 303 || resp.Header.Get("Location") != "/a?b=c" {
		t.Errorf("the log-in's ticket is answered %d %v, want 303 to /a?b=c", resp.StatusCode, resp.Header)
	}
	in := c.Name + "=" + c.Value
	if resp := post(apex, in, form("", boxHost, "")); resp.StatusCode != 303 {
		t.Errorf("who is logged in: %d", resp.StatusCode)
	}
	if resp, body := s.get(apex+"/?to="+boxHost, "Cookie", in, "Accept", "text/html"); resp.StatusCode != 200 || strings.Contains(body, "password") {
		t.Errorf("who is logged in: %d %s", resp.StatusCode, body)
	}
	if resp, _ := s.get(s.url(boxHost, "/"), "Cookie", cookieName+"="+c.Value); resp.StatusCode != 401 {
		t.Errorf("the log-in's cookie at a preview: %d", resp.StatusCode)
	}
	for _, bad := range []struct {
		origin, cookie string
		form           url.Values
		want           int
	}{
		{s.g.URL("3000-evil.warren.localhost"), in, form("", boxHost, "/"), 403},
		{"null", in, form("", boxHost, "/"), 403},
		{"", in, form("", boxHost, "/"), 403},
		{apex, "", form("", boxHost, "/"), 401},
		{apex, "", form(strings.Repeat("x", 48), boxHost, "/"), 401},
		{apex, "", form(otherKey, boxHost, "/"), 401}, // another account's
		{apex, in, form("", "evil.example", "/"), 401},
		{apex, in, form("", "warren.localhost", "/"), 401},
		{apex, in, form("", "3000-nobody.warren.localhost", "/"), 401},
		{apex, in[:len(in)-2], form("", boxHost, "/"), 401},
	} {
		if resp := post(bad.origin, bad.cookie, bad.form); resp.StatusCode != bad.want || resp.Header.Get("Location") != "" {
			t.Errorf("the log-in %+v is answered %d %v, want %d and no way on", bad, resp.StatusCode, resp.Header, bad.want)
		}
	}
	for _, path := range []string{"//evil.example/", "https://evil.example/x", "/\\evil.example", "@evil.example", ":80/", ".evil.example/"} {
		to, err := url.Parse(post(apex, in, form("", boxHost, path)).Header.Get("Location"))
		if err != nil || to.Scheme != "https" || to.Hostname() != boxHost || to.User != nil {
			t.Errorf("%s leads to %v, %v", path, to, err)
		}
	}
	if resp, _ := s.get(apex + "/other"); resp.StatusCode != 404 {
		t.Errorf("another page of the log-in's host is answered %d, want 404", resp.StatusCode)
	}
}

// TestFaultsForStrangers: the engine's error about a VM is shown to an account
// that may see the VM, not to visitors of a public port.
func TestFaultsForStrangers(t *testing.T) {
	s := newStand(t, http.HandlerFunc(echo))
	const secret = "/var/lib/warren/vms/165izw2f"
	s.e.enterErr = vm.Errorf(vm.NoSpace, boxID, "no room in %s", secret).WithHint("ls " + secret)
	s.e.statsErr = s.e.enterErr
	cookie := cookieName + "=" + s.g.pass(scopeOf(vm.Site{VM: boxID, Account: mineID, Port: 3000}), vm.Actor{Account: mineID, Key: "key"}, time.Now().Add(time.Hour))
	for name, c := range map[string]struct {
		header, value string
		told          bool
	}{
		"a stranger": {"Accept", "*/*", false}, "another account": {keyHeader, otherKey, false}, "a false cookie": {"Cookie", cookie + "x", false},
		"the owner": {keyHeader, myKey, true}, "the owner's browser": {"Cookie", cookie, true},
	} {
		for _, accept := range []string{"text/html", "application/json"} {
			resp, body := s.get(s.url(boxHost, "/"), c.header, c.value, "Accept", accept, "Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate")
			if resp.StatusCode != 503 {
				t.Errorf("%s gets %d as %s, want 503: %s", name, resp.StatusCode, accept, body)
			}
			if told := strings.Contains(body, secret); told != c.told {
				t.Errorf("%s is told the fault as %s: %v, want %v: %s", name, accept, told, c.told, body)
			}
			if !c.told && (!strings.Contains(body, "The VM does not answer") || strings.Contains(body, boxID)) {
				t.Errorf("%s is told more as %s than that the VM does not answer: %s", name, accept, body)
			}
		}
	}
}
