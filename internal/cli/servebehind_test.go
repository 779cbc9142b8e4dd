// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"net"
	"net/url"
	"testing"

	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/vm"
)

// starts is a Local whose server does not start; it counts the attempts.
func starts(n *int) Local {
	return Local{ServeBehind: func(context.Context, string, func(context.Context) bool) (string, error) {
		*n++
		return "", vm.Errorf(vm.Unavailable, "serve", "the server ended at once")
	}}
}

// A server that the environment names is never started by this command.
func TestNamedServerIsNotStarted(t *testing.T) {
	n := 0
	run(t, nil, starts(&n), "", "up").wants(t, 10, "start the server")
	if n != 0 {
		t.Errorf("%d servers were started beside the one that WARREN_API_URL names", n)
	}
}

// Where no server runs, up starts one, and says why that failed.
func TestUpStartsAServer(t *testing.T) {
	u, err := url.Parse(client.DefaultURL)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := net.Dial("tcp", u.Host); err == nil {
		c.Close()
		t.Skip("a server runs on this host at the default address, so that none is started")
	}
	n := 0
	runEnv(t, map[string]string{"WARREN_DATA": t.TempDir()}, starts(&n), "", "up").wants(t, 10, "the server ended at once")
	if n != 1 {
		t.Errorf("%d servers were started, want one", n)
	}
}
