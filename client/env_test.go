// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

func TestFromEnv(t *testing.T) {
	got, known := "", true
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		if got == "" || !known {
			answer(w, 401, api.EncodeError(vm.Errorf(vm.Unauthenticated, "", "no key").WithHint("the server's hint"), ""))
			return
		}
		answer(w, 200, api.WhoAmI{})
	}))
	defer s.Close()
	dir := t.TempDir()
	env := map[string]string{"WARREN_API_URL": s.URL, "WARREN_DATA": dir}
	ask := func() error {
		c, err := FromEnv(func(k string) string { return env[k] })
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, err = c.WhoAmI(t.Context())
		return err
	}
	file := filepath.Join(dir, "admin.key")
	names := func(what string, err error, words ...string) { // the refusal of a key
		t.Helper()
		if !errors.Is(err, vm.Unauthenticated) || vm.AsError(err).Hint == "" {
			t.Errorf("%s: %v, hint %q", what, err, vm.AsError(err).Hint)
			return
		}
		for _, word := range append(words, s.URL, "WARREN_API_KEY") {
			if e := vm.AsError(err); !strings.Contains(e.Error()+e.Hint, word) {
				t.Errorf("%s: %q does not name %s", what, e.Error()+" "+e.Hint, word)
			}
		}
	}
	names("without a key", ask(), file)
	if err := os.WriteFile(filepath.Join(dir, "admin.key"), []byte("adminkey\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ask(); err != nil || got != "Bearer adminkey" {
		t.Errorf("the data directory's key: %v, sent %q", err, got)
	}
	known = false
	names("a file of another server", ask(), file)
	known = true
	env["WARREN_API_KEY"] = "mine"
	if err := ask(); err != nil || got != "Bearer mine" {
		t.Errorf("the environment's key: %v, sent %q", err, got)
	}
	known = false
	names("a wrong variable", ask(), "does not know the key in WARREN_API_KEY")
	known = true
	env["WARREN_API_URL"] = "nonsense"
	if _, err := FromEnv(func(k string) string { return env[k] }); !errors.Is(err, vm.Invalid) {
		t.Errorf("a bad address gave %v", err)
	}
	// The admin's key of this host is never sent to another host.
	c, err := FromEnv(func(k string) string {
		return map[string]string{"WARREN_API_URL": "http://192.0.2.1:8787", "WARREN_DATA": dir}[k]
	})
	if err != nil || c.key != "" {
		t.Errorf("%v, key %q", err, c.key)
	}
}

func TestDataDir(t *testing.T) {
	for _, tc := range []struct {
		env  map[string]string
		uid  int
		want string
	}{
		{map[string]string{"WARREN_DATA": "/d", "HOME": "/h"}, 0, "/d"},
		{map[string]string{"HOME": "/root", "XDG_DATA_HOME": "/x"}, 0, "/var/lib/warren"},
		{map[string]string{"HOME": "/h", "XDG_DATA_HOME": "/x"}, 1000, "/x/warren"},
		{map[string]string{"HOME": "/h", "XDG_DATA_HOME": "relative"}, 1000, "/h/.local/share/warren"},
		{nil, 1000, ""},
	} {
		got, err := DataDir(func(k string) string { return tc.env[k] }, tc.uid)
		if got != tc.want || (err != nil) != (tc.want == "") {
			t.Errorf("the data directory for %v is %q (%v), want %q", tc.env, got, err, tc.want)
		}
	}
	for url, want := range map[string]bool{
		"http://127.0.0.1:1": true, "http://[::1]:1": true, "http://localhost": true, "http://a.localhost": true,
		"http://192.0.2.1": false, "http://localhost.example.org": false, "http://[": false,
	} {
		if Loopback(url) != want {
			t.Errorf("Loopback(%q) = %v", url, !want)
		}
	}
}

// A member of the group warren uses the host's server by its key; a data directory that the environment names
// is another's. A user who may not read that key is told how.
func TestHostKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "group.key")
	hostKey = file
	t.Cleanup(func() { hostKey = HostKey })
	if err := os.WriteFile(file, []byte("wk-host\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	from := func(env map[string]string) *Client {
		c, err := FromEnv(func(k string) string { return env[k] })
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	home := t.TempDir()
	if c := from(map[string]string{"HOME": home}); c.key != "wk-host" || !c.OfHost() {
		t.Errorf("the key is %q, of the host %t; want the host's", c.key, c.OfHost())
	}
	if c := from(map[string]string{"HOME": home, "WARREN_DATA": home}); c.key != "" || c.OfHost() {
		t.Errorf("with WARREN_DATA the key is %q, of the host %t; want none", c.key, c.OfHost())
	}
	if c := from(map[string]string{"HOME": home, "WARREN_API_URL": "http://192.0.2.1:8787"}); c.key != "" {
		t.Errorf("another host is sent the key %q", c.key)
	}
	c := from(map[string]string{"HOME": home, "WARREN_DATA": home})
	if !strings.Contains(c.refused.hint, "group warren") {
		t.Errorf("the hint is %q, which does not name the group", c.refused.hint)
	}
}
