//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package safety

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// keyTricks is what root in a VM tries that may write below s3://inbox/in/, and nothing else.
// It prints the status of each request.
const keyTricks = `
import http.client, json
said = b'WHAT IT SAYS'
def ask(method, path, headers={}, body=b''):
    c = http.client.HTTPConnection('s3.warren.internal', timeout=30)
    c.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    c.putheader('Host', headers.pop('Host', 's3.warren.internal'))
    c.putheader('Content-Length', str(len(body)))
    for k, v in headers.items(): c.putheader(k, v)
    c.endheaders(body)
    r = c.getresponse()
    text = r.read()
    c.close()
    return r.status, text
http.client.HTTPConnection._validate_path = lambda self, path: None
out, seen = {}, b''
for key in ['../other/x', '%2e%2e/other/x', '..%2fother/x', 'a/%2e%2e/%2e%2e/other/x', './x', 'a/..', 'a/./b', '../../theirs/x', '%2e%2e/%2e%2e/theirs/x', '%c0%ae%c0%ae/other/x',
            'a%00b', 'a%0ab', 'a%0d%0aX-Y:z', '%1b%5b31m', '%7f', '%ff%fe', 'n' * 1100]:
    out['PUT of ' + key[:40]] = ask('PUT', '/inbox/in/' + key, body=said)[0]
for path in ['/inbox/other/x', '/inbox/in-evil/x', '/inbox/in', '/theirs/x', '//theirs/x', '/inbox%2f..%2ftheirs/x', '/theirs/in/x']:
    out['PUT to ' + path] = ask('PUT', path, body=said)[0]
out['PUT to another host'] = ask('PUT', '/x', {'Host': 'theirs.s3.warren.internal'}, said)[0]
for path in ['/inbox/other/secret', '/theirs/secret', '/inbox/in/../other/secret', '/inbox/in/%2e%2e/other/secret', '/inbox?list-type=2', '/inbox?list-type=2&prefix=in', '/theirs?list-type=2', '/inbox?versions']:
    out['GET ' + path], text = ask('GET', path)
    seen += text
listed = b'<Contents>' in ask('GET', '/inbox?list-type=2&prefix=in/../other/')[1]
for source in ['/inbox/other/secret', '/theirs/secret', 'inbox/in/../other/secret', '/inbox/in/%2e%2e/other/secret']:
    out['copy of ' + source] = ask('PUT', '/inbox/in/copy', {'X-Amz-Copy-Source': source})[0]
out['GET of a name that misleads, after it was written with %d' % ask('PUT', '/inbox/in/report%E2%80%AEfdp.exe', body=b'x')[0]] = ask('GET', '/inbox/in/report%E2%80%AEfdp.exe')[0]
fine = ask('PUT', '/inbox/in/fine', body=b'fine')[0]
print(json.dumps({'tricks': out, 'fine': fine, 'secret': b'SECRET' in seen or listed}))
`

func oddKeys(h *host, r *Result) {
	name, told := h.fork(), canary("upload")
	defer h.run("rm", name)
	for _, bucket := range []string{"inbox", "theirs"} {
		h.ok("bucket", "create", bucket)
		defer h.run("bucket", "rm", "--force", bucket)
	}
	for _, to := range []string{"s3://inbox/other/secret", "s3://inbox/in-evil/secret", "s3://theirs/secret"} {
		if a := h.runIn("SECRET", "artifact", "put", "-", to); a.code != 0 {
			h.Fatalf("an object cannot be stored: %s", a.errs)
		}
	}
	h.ok("bucket", "grant", "s3://inbox/in/", "--vm", name, "--write")
	a := h.runIn(strings.Replace(keyTricks, "WHAT IT SAYS", told, 1), "exec", name, "-i", "--", "python3", "-")
	var did struct {
		Tricks map[string]int `json:"tricks"`
		Fine   int            `json:"fine"`
		Secret bool           `json:"secret"`
	}
	err := json.Unmarshal([]byte(a.out), &did)
	facts := map[string]bool{
		"the tricks are tried: " + oneLine(a.errs):     err == nil && len(did.Tricks) > 30,
		"what was granted works":                       did.Fine == http.StatusOK,
		"no answer has another prefix's bytes or keys": !did.Secret,
	}
	for what, status := range did.Tricks {
		facts[fmt.Sprintf("%s is refused: %d", what, status)] = status >= 400 && status < 500
	}
	where := h.holding(told, "/vms/", "/generations/")
	facts[fmt.Sprintf("no file of the host has a refused upload: %q", where)] = len(where) == 0
	list := h.ok("artifact", "ls", "-r", "s3://inbox")
	facts["a list on the host has no characters that mislead"] = !strings.ContainsAny(list, "\x1b\u202e")
	facts["the list has what was written, and nothing else: "+oneLine(list)] = len(strings.Split(strings.TrimSpace(list), "\n")) == 5
	mounted := h.run("volume", "mount", name, "--volume", "s3://inbox/in", "--guest", "/in")
	shown := h.sh(name, "ls /in; cat /in/../other/secret /in/../in-evil/secret")
	facts["a mount shows the prefix only: "+oneLine(mounted.errs+shown.out)] = mounted.code == 0 && strings.Contains(shown.out, "fine") && !strings.Contains(shown.out, "SECRET")
	r.verdict(Prevented, NotCovered, "keys that climb, have control characters or are too long are refused, also encoded and as the source of a copy; other prefixes and buckets are not reached, a mount shows its prefix only, and an upload whose name misleads is read by nobody in the VM", facts)
}

// objectLinks are the facts of signed links to an object.
func (h *host) objectLinks(facts map[string]bool) {
	h.Helper()
	h.ok("bucket", "create", "linked")
	defer h.run("bucket", "rm", "--force", "linked")
	if a := h.runIn("SECRET", "artifact", "put", "-", "s3://linked/report.txt"); a.code != 0 {
		h.Fatalf("an object cannot be stored: %s", a.errs)
	}
	visit := &http.Client{Timeout: time.Minute}
	link := func(lasts string) string {
		return strings.TrimSpace(h.ok("artifact", "sign", "s3://linked/report.txt", "--for", lasts, "-q"))
	}
	long, short := link("1h"), link("3s")
	ends := time.Now().Add(3 * time.Second)
	facts["links of an object open it"] = h.open(visit, short) == http.StatusOK && h.open(visit, long) == http.StatusOK
	facts["a link with another end opens no object"] = h.open(visit, strings.Replace(long, "X-Amz-Expires=3600", "X-Amz-Expires=36000", 1)) == http.StatusForbidden
	facts["a link with another key opens no object"] = h.open(visit, strings.Replace(long, "report.txt", "other.txt", 1)) == http.StatusForbidden
	<-time.After(time.Until(ends) + 1100*time.Millisecond) // its end is in whole seconds
	facts["a link opens no object after its end"] = h.open(visit, short) == http.StatusForbidden
	for _, line := range strings.Split(h.ok("key", "ls", "--s3"), "\n") {
		if strings.Contains(line, "signed links") {
			h.ok("key", "revoke", strings.Fields(line)[0])
		}
	}
	facts["a link opens no object after its key was revoked"] = h.open(visit, long) == http.StatusForbidden
}
