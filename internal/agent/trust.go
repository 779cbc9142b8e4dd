// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"os"
	"path/filepath"

	"github.com/warren-vm/warren/vm"
)

// trust makes the guest trust the host's CA for names inside the VM. The certificate is in
// /run, which no disk layer contains, so that it follows the host and changes no disk. The disk has only two links, which
// are the same everywhere; an image gets them at its first boot. A guest without
// /etc/ssl/certs, or with a full disk, goes without.
func (a *Agent) trust(ca []byte) {
	file := filepath.Join(filepath.Dir(a.cfg.RunDir), filepath.Base(vm.InsideCAFile))
	if len(ca) > 0 {
		b := make([]byte, maxSmall)
		if n, err := readSmall(file, b); err != nil || !bytes.Equal(b[:n], ca) {
			if err := writeSmall(file, string(ca), 0o644); err != nil {
				a.log.Warn("the CA for names inside the VM was not written", "err", err)
				return
			}
		}
	}
	dir := filepath.Join(a.cfg.EtcDir, "ssl", "certs")
	own := filepath.Join(filepath.Dir(a.cfg.RunDir), filepath.Base(vm.InterceptCAFile))
	both := [2][2][2]string{vm.InsideCALinks(file), vm.InterceptCALinks(own)}
	for _, l := range [4][2]string{both[0][0], both[0][1], both[1][0], both[1][1]} {
		path := filepath.Join(dir, l[0])
		if _, err := os.Readlink(path); err == nil {
			continue
		}
		if err := os.Symlink(l[1], path); err != nil && !os.IsNotExist(err) && !os.IsExist(err) {
			a.log.Warn("the CA for names inside the VM was not linked", "path", path, "err", err)
			return
		}
	}
}
