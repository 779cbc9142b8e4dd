// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
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

// defaultAddress is where the first server of a host listens.
func defaultAddress(t *testing.T) string {
	t.Helper()
	u, err := url.Parse(client.DefaultURL)
	if err != nil {
		t.Fatal(err)
	}
	if c, err := net.Dial("tcp", u.Host); err == nil {
		c.Close()
		t.Skip("a server runs on this host at the default address, so that none is started")
	}
	return u.Host
}

// A server that was started is waited for until it takes the key that it has made, not only until it answers.
func TestStartedServerTakesItsKey(t *testing.T) {
	address, data := defaultAddress(t), t.TempDir()
	key := filepath.Join(data, "admin.key")
	var without, with bool
	runEnv(t, map[string]string{"WARREN_DATA": data}, Local{ServeBehind: func(ctx context.Context, _ string, answers func(context.Context) bool) (string, error) {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return "", err
		}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") == "" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			_, _ = w.Write([]byte(`{"vms":[]}`))
		})}
		go func() { _ = server.Serve(l) }()
		defer server.Close()
		without = answers(ctx)
		if err := os.WriteFile(key, []byte("wk-admin\n"), 0o600); err != nil {
			return "", err
		}
		with = answers(ctx)
		return "", vm.Errorf(vm.Unavailable, "serve", "that was the test")
	}}, "", "up").wants(t, 10, "that was the test")
	if without {
		t.Error("a server whose key is not there yet counts as started")
	}
	if !with {
		t.Error("a server that takes its key does not count as started")
	}
}

// Where no server runs, up starts one, and says why that failed.
func TestUpStartsAServer(t *testing.T) {
	defaultAddress(t)
	n := 0
	runEnv(t, map[string]string{"WARREN_DATA": t.TempDir()}, starts(&n), "", "up").wants(t, 10, "the server ended at once")
	if n != 1 {
		t.Errorf("%d servers were started, want one", n)
	}
}
