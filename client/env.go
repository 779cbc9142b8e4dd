// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// DefaultURL is the default address of a server.
const DefaultURL = "http://127.0.0.1:8787"

// HostKey is the file with the admin's key of the host's server, which the units of
// the Debian package run. The members of the group warren may read it.
const HostKey = "/var/lib/warren/group.key"

// hostKey is HostKey outside tests.
var hostKey = HostKey

// FromEnv returns a client for the server and key in the environment:
// WARREN_API_URL, else DefaultURL; WARREN_API_KEY, else, for a server on this
// host, the admin's key in WARREN_DATA, or HostKey if this user may read it, or the
// admin's key in the default data directory. An empty variable counts as
// absent. A missing key is no error: the server's refusal says what is missing.
func FromEnv(getenv func(string) string) (*Client, error) {
	base := getenv("WARREN_API_URL")
	if base == "" {
		base = DefaultURL
	}
	key := strings.TrimSpace(getenv("WARREN_API_KEY"))
	c := New(base, key)
	if c.baseErr != nil {
		return c, c.baseErr
	}
	if key != "" {
		c.refused = keyRefused{"this server does not know the key in WARREN_API_KEY", makeKey}
		return c, nil
	}
	// The admin's key is sent only to a server on this host.
	if !Loopback(base) {
		c.refused = keyRefused{"this server requires a key, and WARREN_API_KEY is not set", makeKey}
		return c, nil
	}
	if data, err := os.ReadFile(hostKey); err == nil && getenv("WARREN_DATA") == "" {
		c.key, c.host = strings.TrimSpace(string(data)), true
		c.refused = keyRefused{"this server does not know the key in " + hostKey, "restart the host's server: `systemctl restart warren`; for a server of your own, set WARREN_DATA to its data directory"}
		return c, nil
	}
	dir, err := DataDir(getenv, os.Getuid())
	if err != nil {
		c.refused = keyRefused{"this server requires a key: WARREN_API_KEY is not set, and neither is WARREN_DATA", makeKey}
		return c, nil
	}
	file := filepath.Join(dir, "admin.key")
	data, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.refused = keyRefused{"this server requires a key: WARREN_API_KEY is not set, and there is no " + file, otherData}
		if _, err := os.Lstat(hostKey); err == nil || errors.Is(err, fs.ErrPermission) {
			c.refused.hint = "for the server of this host, ask its operator to make you a member of the group warren (`adduser NAME warren`), and log in again; or " + otherData
		}
	case err != nil:
		c.refused = keyRefused{"this server requires a key: WARREN_API_KEY is not set, and " + file + " cannot be read by this user", makeKey}
	default:
		c.key = strings.TrimSpace(string(data))
		c.refused = keyRefused{"this server does not know the key in " + file, otherData}
	}
	return c, nil
}

// OfHost reports whether the client uses the key of the host's server.
func (c *Client) OfHost() bool { return c.host }

// keyRefused is the error for a key that the server refuses: where the key
// came from, and what to do. why "" = the server's reason.
type keyRefused struct{ why, hint string }

const (
	makeKey   = "set WARREN_API_KEY to a key of this server; with an existing key, `warren key create` makes another"
	otherData = "set WARREN_DATA to this server's data directory, or WARREN_API_KEY to a key of it"
)

// DataDir is the default data directory of this host's server: $WARREN_DATA,
// for root /var/lib/warren, $XDG_DATA_HOME/warren, and else
// ~/.local/share/warren.
func DataDir(getenv func(string) string, uid int) (string, error) {
	if p := getenv("WARREN_DATA"); p != "" {
		return filepath.Abs(p)
	}
	if uid == 0 {
		return "/var/lib/warren", nil
	}
	if p := getenv("XDG_DATA_HOME"); filepath.IsAbs(p) {
		return filepath.Join(p, "warren"), nil
	}
	if home := getenv("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "share", "warren"), nil
	}
	return "", vm.Errorf(vm.Invalid, "", "no data directory: neither WARREN_DATA nor HOME is set").
		WithHint("set WARREN_DATA to a directory that you own")
}

// Loopback reports whether a server of that URL is on this host.
func Loopback(base string) bool {
	u, err := url.Parse(base)
	if err != nil {
		return false
	}
	host := u.Hostname()
	if a, err := netip.ParseAddr(host); err == nil {
		return a.IsLoopback()
	}
	return host == "localhost" || strings.HasSuffix(host, ".localhost") && net.ParseIP(host) == nil
}
