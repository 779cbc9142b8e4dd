// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// oldest is the first release of Debian whose QEMU is new enough.
const oldest = 12

// release checks for a system and a processor on which Warren is tested.
func (o Options) release() Check {
	c := Check{Name: "system", Status: Warn, Fix: "run Warren on Debian 12 or 13"}
	data, err := os.ReadFile(filepath.Join(o.root, "/etc/os-release"))
	if err != nil {
		c.Detail = "unknown: " + err.Error()
		return c
	}
	said := map[string]string{}
	for _, line := range strings.Split(string(data), "\n") {
		if k, v, ok := strings.Cut(line, "="); ok {
			said[k] = strings.Trim(v, `"'`)
		}
	}
	c.Detail = said["PRETTY_NAME"]
	if o.arch != "amd64" {
		c.Status, c.Detail = Fail, c.Detail+" on "+o.arch+"; machines start on amd64 only"
		c.Fix = "use a server on an amd64 host: set WARREN_API_URL and WARREN_API_KEY"
		return c
	}
	if said["ID"] != "debian" {
		c.Detail += "; Warren is tested on Debian 12 and 13 only"
		return c
	}
	if n, err := strconv.Atoi(said["VERSION_ID"]); err == nil && n < oldest {
		c.Status, c.Fix = Fail, "upgrade this host to Debian 12"
		c.Detail += "; its QEMU is too old"
		return c
	}
	return Check{Name: c.Name, Status: OK, Detail: c.Detail}
}
