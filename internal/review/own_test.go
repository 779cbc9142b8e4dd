// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/review"
	"github.com/warren-vm/warren/vm"
)

// What Warren writes at every start is counted and not listed. The same files with other
// content are listed.
func TestOwnWrites(t *testing.T) {
	hosts := "127.0.0.1\tlocalhost\n127.0.1.1\twarren\n"
	was := map[string]string{"etc/hostname": "warren\n", "etc/machine-id": strings.Repeat("a", 32) + "\n", "etc/hosts": hosts}
	started := map[string]string{
		"etc/hostname": "app\n", "etc/machine-id": strings.Repeat("b", 32) + "\n", "etc/hosts": strings.Replace(hosts, "1\twarren", "1\tapp", 1),
		"etc/ssh/ssh_host_ed25519_key.pub": "ssh-ed25519 AAAA\n", "var/lib/dbus/machine-id": "-> /etc/machine-id",
		"etc/ssl/certs/warren.pem": "-> /run/warren-ca.pem", "etc/ssl/certs/" + vm.InsideCAHash + ".0": "-> warren.pem",
	}
	d := both(t, was, started, review.Options{Hunks: true})
	for name := range started {
		if listed(d, "/"+name) {
			t.Errorf("/%s is listed after a start", name)
		}
	}
	if list := formatted(d); len(list) > 0 {
		t.Errorf("a start alerts: %+v", list)
	}
	reasons := ""
	for _, h := range d.Hidden {
		reasons += h.Reason + ";"
	}
	if !strings.Contains(reasons, "that Warren or the system writes at every start") {
		t.Errorf("the reasons are %q", reasons)
	}
	changed := map[string]string{"etc/hostname": "app\nexport X=1\n", "etc/machine-id": "x\n", "etc/ssl/certs/warren.pem": "-> /tmp/ca", "etc/hosts": hosts + "10.0.0.1\tpypi.org\n"}
	d = both(t, was, changed, review.Options{})
	for name := range changed {
		if !listed(d, "/"+name) {
			t.Errorf("/%s is hidden though somebody else wrote it", name)
		}
	}
	wantAlert(t, d, "names", "/etc/hosts")
}
