// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

func TestConfigOrder(t *testing.T) {
	dir, err := layout.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file := "listen: 127.0.0.1:1\nssh: \"off\"\nnetDefault: packages\npool: 0\nacmeEmail: ops@example.com\nresolver: 9.9.9.9:53\n"
	if err := os.WriteFile(dir.ServerConfig(), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := map[string]string{"WARREN_LISTEN": "127.0.0.1:2", "WARREN_NET_DEFAULT": "open", "WARREN_RESOLVER": "127.0.0.1:5353", "WARREN_ACME_DIRECTORY": "https://acme.example/dir"}
	c, settings, err := LoadConfig(dir, Config{NetDefault: "closed"}, func(k string) string { return environ[k] })
	if err != nil {
		t.Fatal(err)
	}
	if c.NetDefault != "closed" || c.Listen != "127.0.0.1:2" || c.SSH != "off" || c.poolSize() != 0 {
		t.Errorf("merged to %+v", c)
	}
	want := map[string]string{"netDefault": "flag", "listen": "environment", "ssh": "file", "pool": "file", "acmeEmail": "file", "resolver": "environment", "acmeDirectory": "environment"}
	for _, s := range settings {
		if o, ok := want[s.Name]; ok && s.Origin != o {
			t.Errorf("%s comes from %s, want %s", s.Name, s.Origin, o)
		}
	}
}

// TestObjectStorageIsSaid: the start says where S3 clients find objects, and nothing when
// that is off.
func TestObjectStorageIsSaid(t *testing.T) {
	dir, err := layout.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	said := func(flags Config) (string, Config) {
		t.Helper()
		c, _, err := LoadConfig(dir, flags, func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		announce(&out, dir, c)
		return out.String(), c
	}
	if text, c := said(Config{}); !strings.Contains(text, "http://127.0.0.1:8788") || c.s3URL() != "http://127.0.0.1:8788" {
		t.Errorf("by default it says %q, and links begin with %q", text, c.s3URL())
	}
	if text, c := said(Config{S3: "off"}); strings.Contains(text, "storage") || c.s3URL() != "" {
		t.Errorf("off: it says %q, and links begin with %q", text, c.s3URL())
	}
	if _, c := said(Config{S3URL: "https://s3.example.com"}); c.s3URL() != "https://s3.example.com" {
		t.Errorf("with s3Url links begin with %q", c.s3URL())
	}
}

func TestConfigRefuses(t *testing.T) {
	dir, err := layout.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	none := func(string) string { return "" }
	for _, c := range []Config{{ACMEDirectory: "http://acme.example/dir"}, {ACMEDirectory: "acme.example"}, {ACMEEmail: "nobody"}, {Resolver: "9.9.9.9"}, {PreviewDomain: words{"Bad.example"}}, {PreviewDomain: words{"a.example", "b.a.example"}}, {PreviewDomain: words{"a.example", "a.example"}}, {ACMEEmail: "ops@example.com", ACMEDNSHook: "/none"}, {ACMEEmail: "ops@example.com", ACMEDNSHook: dir.ServerConfig()}, {ACMEDNSHook: "/bin/true"}, {PreviewPort: "0"}, {PreviewPort: "https"}, {ReachPrivate: words{"10.0.0.0/99"}}, {ReachPrivate: words{"localhost"}}, {S3: "8788"}, {S3URL: "s3.example.com"}, {S3URL: "https://s3.example.com/base"}} {
		if _, _, err := LoadConfig(dir, c, none); !errors.Is(err, vm.Invalid) {
			t.Errorf("%+v gave %v", c, err)
		}
	}
	good := Config{ACMEDirectory: "https://acme.example/dir", ACMEEmail: "ops@example.com", Resolver: "[::1]:53", PreviewPort: "443", StorageBudget: "200G", AccountDisk: "off", APIRate: "0", ReachPrivate: words{"10.1.0.0/16", "::1"}}
	if _, _, err := LoadConfig(dir, good, none); err != nil {
		t.Errorf("%+v gave %v", good, err)
	}
	for _, c := range []Config{{Listen: "nonsense"}, {Listen: "off"}, {NetDefault: "wide"}, {SSH: "22"}, {Pool: "-1"}, {Pool: "many"}, {Pool: "65"}, {APIRate: "-1"}, {APIRate: "fast"}, {APIRate: "1000001"}, {AccountDisk: "0"}, {AccountDisk: "none"}, {AccountDisk: "101%"}, {StorageBudget: "101%"}, {StorageBudget: "0%"}, {StorageBudget: "5M"}, {StorageBudget: "-1"}, {StorageBudget: "G"}, {StorageBudget: "%"}, {StorageBudget: "9999999T"}} {
		if _, _, err := LoadConfig(dir, c, none); !errors.Is(err, vm.Invalid) {
			t.Errorf("%+v gave %v", c, err)
		}
	}
	if bytes, share := good.budget(); bytes != 200<<30 || share != 0 {
		t.Errorf("200G is %d bytes or %d %%", bytes, share)
	}
	if bytes, share := defaults.budget(); bytes != 0 || share != 80 {
		t.Errorf("the default is %d bytes or %d %%", bytes, share)
	}
	if err := os.WriteFile(dir.ServerConfig(), []byte("listne: 127.0.0.1:1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := LoadConfig(dir, Config{}, none); !errors.Is(err, vm.Invalid) {
		t.Errorf("a misspelt key gave %v", err)
	}
}

// TestPreviewDomains: one or several, by each of the ways that settings come, and
// which of them the ACME server is asked for.
func TestPreviewDomains(t *testing.T) {
	dir, err := layout.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what, file, environ string
		flags               words
		want                []string
	}{
		{"default", "", "", nil, []string{"warren.localhost"}},
		{"one in the file", "previewDomain: a.example\n", "", nil, []string{"a.example"}},
		{"two in the file", "previewDomain:\n- a.example\n- b.example\n", "", nil, []string{"a.example", "b.example"}},
		{"environment", "previewDomain: a.example\n", "b.example,c.example", nil, []string{"b.example", "c.example"}},
		{"flags", "previewDomain: a.example\n", "b.example", words{"d.example", "e.localhost"}, []string{"d.example", "e.localhost"}},
	} {
		if err := os.WriteFile(dir.ServerConfig(), []byte(c.file), 0o600); err != nil {
			t.Fatal(err)
		}
		got, _, err := LoadConfig(dir, Config{PreviewDomain: c.flags}, func(k string) string { return map[string]string{"WARREN_PREVIEW_DOMAIN": c.environ}[k] })
		if err != nil || !slices.Equal(got.PreviewDomain, c.want) {
			t.Errorf("%s: the preview domains are %v (%v), want %v", c.what, got.PreviewDomain, err, c.want)
		}
		if !slices.Equal(got.ownCA(), c.want) {
			t.Errorf("%s: without a hook the host's CA is for %v", c.what, got.ownCA())
		}
	}
	mixed := Config{PreviewDomain: words{"d.example", "e.localhost", "localhost"}, ACMEDNSHook: "/bin/true"}
	if got := mixed.certified(); !slices.Equal(got, []string{"d.example"}) {
		t.Errorf("certified: %v", got)
	}
	if got := mixed.ownCA(); !slices.Equal(got, []string{"e.localhost", "localhost"}) {
		t.Errorf("the host's CA: %v", got)
	}
}
