// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// hostTree makes a host's /etc below a new directory.
func hostTree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, body := range files {
		p := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o700), os.WriteFile(p, []byte(body), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const bookworm = "PRETTY_NAME=\"Debian\"\nVERSION_CODENAME=bookworm\nID=debian\n"

// Only Debian's own sources are passed on.
func TestHostSources(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  []string // URIs
	}{
		{"deb822", map[string]string{"etc/apt/sources.list.d/debian.sources": `
# a comment
Types: deb deb-src
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb-src
URIs: http://sources.example/debian
Suites: bookworm

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm
`}, []string{"http://mirror.example/debian"}},
		{"others' repositories", map[string]string{
			"etc/apt/sources.list.d/a.sources":      "Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm\nComponents: main\n",
			"etc/apt/sources.list.d/node.sources":   "Types: deb\nURIs: https://node.example/node_20.x\nSuites: nodistro\nComponents: main\nSigned-By: /usr/share/keyrings/node.gpg\n",
			"etc/apt/sources.list.d/cloud.list":     "deb https://cloud.example/apt cloud-sdk-bookworm main\n",
			"etc/apt/sources.list.d/docker.list":    "deb [arch=amd64 signed-by=/etc/apt/keyrings/docker.asc] https://docker.example/debian bookworm stable\n",
			"etc/apt/sources.list.d/inline.sources": "Types: deb\nURIs: https://inline.example/\nSuites: bookworm\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n x\n",
			"etc/apt/sources.list.d/x.list.save":    "deb http://saved.example bookworm main\n",
		}, []string{"http://mirror.example/debian"}},
		{"one line", map[string]string{"etc/apt/sources.list": `
deb cdrom:[Debian]/ bookworm main
deb http://mirror.example/debian bookworm main non-free # with a comment
deb-src http://mirror.example/debian bookworm main
deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg check-valid-until=no] https://snapshot.example/x bookworm main
deb http://security.example/debian-security bookworm-security main
deb http://sid.example/debian sid main
#deb http://no.example/debian bookworm main
`}, []string{"http://mirror.example/debian", "https://snapshot.example/x", "http://security.example/debian-security"}},
		{"list of mirrors", map[string]string{
			"etc/apt/sources.list.d/d.sources": "Types: deb\nURIs: mirror+file:///etc/apt/mirrors/debian.list\nSuites: bookworm\nComponents: main\n",
			"etc/apt/mirrors/debian.list":      "# ours\nhttps://m1.example/debian\nhttps://m2.example/debian priority:2\n",
		}, []string{"https://m1.example/debian", "https://m2.example/debian"}},
	} {
		c.files["etc/os-release"] = bookworm
		got, err := hostSources(hostTree(t, c.files))
		if err != nil {
			t.Errorf("sources of %s: %v", c.name, err)
			continue
		}
		var uris []string
		for _, s := range got.Sources {
			uris = append(uris, s.URIs...)
		}
		if strings.Join(uris, " ") != strings.Join(c.want, " ") || got.Codename != "bookworm" {
			t.Errorf("%s: %q of %s, want %q", c.name, uris, got.Codename, c.want)
		}
		// The written sources are parsed to the same sources again.
		again := parseDeb822([]byte(got.String()))
		if len(again) != len(got.Sources) || (aptSources{Sources: again}).String() != got.String() {
			t.Errorf("%s: rendered\n%s\nread back as\n%v", c.name, got, again)
		}
	}
}

func TestHostSourcesNone(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"no os-release": {},
		"no sources":    {"etc/os-release": bookworm},
		"ubuntu": {
			"etc/os-release":       "ID=ubuntu\nVERSION_CODENAME=noble\n",
			"etc/apt/sources.list": "deb http://ubuntu.example/ubuntu noble main\n",
		},
	} {
		if got, err := hostSources(hostTree(t, files)); !errors.Is(err, vm.Unsupported) {
			t.Errorf("sources of a host with %s are %+v (%v), want unsupported", name, got, err)
		}
	}
	// Another distribution with Debian's own sources and keys may build.
	root := hostTree(t, map[string]string{
		"etc/os-release":                   "ID=other\nVERSION_CODENAME=zz\n",
		"etc/apt/sources.list.d/d.sources": "Types: deb\nURIs: http://mirror.example\nSuites: bookworm\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n",
	})
	if got, err := hostSources(root); err != nil || got.Codename != "bookworm" {
		t.Errorf("another distribution's sources are %+v (%v), want those of bookworm", got, err)
	}
}

func TestHostCAs(t *testing.T) {
	const pem = "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"
	root := hostTree(t, map[string]string{
		hostCADir + "/a.crt":      pem,
		hostCADir + "/sub/b.crt":  pem,
		hostCADir + "/readme.txt": pem,
		hostCADir + "/binary.crt": "\x30\x82",
	})
	got, err := hostCAs(root)
	if err != nil || len(got) != 2 || got[0].Name != "a.crt" || got[1].Name != "b.crt" {
		t.Errorf("the host's certificates are %+v (%v), want a.crt and b.crt", got, err)
	}
	if got, err := hostCAs(t.TempDir()); err != nil || len(got) != 0 {
		t.Errorf("no directory: %v, %v", got, err)
	}
}
