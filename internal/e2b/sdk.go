// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package e2b

import (
	"regexp"
	"strconv"

	"github.com/warren-vm/warren/vm"
)

// sdkMajor is the major version of E2B's SDKs whose protocol the door speaks. Of it, docs/e2b.md
// names the versions that tests drive.
const sdkMajor = 2

// sdkAgent finds an SDK's language and version in the header User-Agent.
var sdkAgent = regexp.MustCompile(`\be2b-(js|python)-sdk/(([0-9]{1,6})\.[0-9A-Za-z.+-]{1,40})`)

// answers refuses an SDK of another major version. Programs that do not say what they are pass.
func answers(agent string) error {
	m := sdkAgent.FindStringSubmatch(agent)
	if m == nil {
		return nil
	}
	major, err := strconv.Atoi(m[3])
	if err != nil || major == sdkMajor {
		return nil
	}
	how := "npm install e2b@2"
	if m[1] == "python" {
		how = "pip install 'e2b<3'"
	}
	age := "newer than this server knows"
	if major < sdkMajor {
		age = "too old for this server"
	}
	return vm.Errorf(vm.Unsupported, "e2b "+m[2], "this SDK of E2B is %s, which answers versions %d.x", age, sdkMajor).WithHint("`%s`", how)
}
