// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/store"
	"github.com/warren-vm/warren/vm"
)

// TestHostID: a data directory keeps its host id, and is refused under another.
func TestHostID(t *testing.T) {
	dir, err := layout.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	first, err := openHost(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	if !hostIDForm.MatchString(first.ID) {
		t.Errorf("a host id %q was made", first.ID)
	}
	if first.Older {
		t.Error("a new data directory counts as an older one")
	}
	again, err := openHost(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	if again != first {
		t.Errorf("at the next start it is %+v, was %+v", again, first)
	}
	if _, err := openHost(dir, first.ID); err != nil {
		t.Errorf("its own id by the flag: %v", err)
	}
	_, err = openHost(dir, "other")
	if !errors.Is(err, vm.Invalid) {
		t.Errorf("another id: %v", err)
	}
	if vm.AsError(err).Hint == "" {
		t.Error("the refusal does not say what to do")
	}
	if err := os.WriteFile(dir.Host(), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := openHost(dir, ""); !errors.Is(err, vm.Corrupt) {
		t.Errorf("a damaged file: %v", err)
	}
}

// TestOlderDirectory: a data directory of an older warren is known as one, also
// after its first start.
func TestOlderDirectory(t *testing.T) {
	dir, err := layout.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir.Audit(), "segment"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, start := range []string{"first", "second"} {
		h, err := openHost(dir, "old-one")
		if err != nil {
			t.Fatal(err)
		}
		if h.ID != "old-one" {
			t.Errorf("at the %s start its id is %q", start, h.ID)
		}
		if !h.Older {
			t.Errorf("at the %s start it does not count as older", start)
		}
	}
}

// server is one `serve` with a data directory of its own.
type server struct {
	stop context.CancelFunc
	end  chan error
}

// startServer starts a server with that host id on an etcd, and waits until it
// serves or has ended.
func startServer(t *testing.T, id, endpoint string) (*server, error) {
	t.Helper()
	dir := shortDir(t)
	ctx, stop := context.WithCancel(t.Context())
	s := &server{stop: stop, end: make(chan error, 1)}
	said := &watchedLog{text: make(chan string, 100)}
	go func() {
		s.end <- Run(ctx, dir, Config{
			Listen: "127.0.0.1:0", SSH: "off", Preview: "off", S3: "off", Pool: "0", HostID: id, EtcdEndpoints: []string{endpoint}, // only the records are looked at
		}, func(string) string { return "" }, said)
	}()
	for {
		select {
		case err := <-s.end:
			return nil, err
		case line := <-said.text:
			if strings.Contains(line, "API on") {
				t.Cleanup(func() { s.ended(t) })
				return s, nil
			}
		case <-time.After(time.Minute):
			t.Fatal("the server does not start")
		}
	}
}

// ended stops the server.
func (s *server) ended(t *testing.T) {
	t.Helper()
	s.stop()
	if err := <-s.end; err != nil {
		t.Errorf("a server ended with %v", err)
	}
	s.end <- nil
}

// watchedLog hands on what is written.
type watchedLog struct{ text chan string }

func (w *watchedLog) Write(p []byte) (int, error) {
	select {
	case w.text <- string(p):
	default: // nobody reads it any more
	}
	return len(p), nil
}

func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "wsh") // short: it holds sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// TestTwoServers: on one etcd a second server with the same host id is refused, and
// one with another id leaves the records of the first one as they are.
func TestTwoServers(t *testing.T) {
	dir := shortDir(t)
	s, err := store.Open(t.Context(), store.Options{Dir: filepath.Join(dir, "etcd"), SocketDir: filepath.Join(dir, "s"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	etcd := store.Backend{Store: s}
	endpoint := "unix://" + filepath.Join(dir, "s", "client.sock")
	if _, err := startServer(t, "one", endpoint); err != nil {
		t.Fatal(err)
	}
	_, err = startServer(t, "one", endpoint)
	if !errors.Is(err, vm.Busy) {
		t.Fatalf("a second server with that host id: %v", err)
	}
	if hint := vm.AsError(err).Hint; !strings.Contains(hint, "--host-id") {
		t.Errorf("the hint of the refusal is %q", hint)
	}
	theirs := map[string]int64{}
	for kind, value := range map[string]string{
		"vms":         `{"id":"x","account":"a","name":"n","state":"running","host":"one"}`,
		"generations": `{"id":"x","account":"a","state":"ready","host":"one"}`,
		"volumes":     `{"id":"x","account":"a","project":"p","name":"v","host":"one","mounts":[{"vm":"x"}]}`,
		"holds":       `{"id":"x","vmId":"x","host":"one"}`,
		"builds":      `{"id":"x","account":"a","state":"building","host":"one"}`,
		"jobs":        `{"vmId":"x","accountId":"a","host":"one"}`,
		"usage":       `{"vm":"x","account":"a","host":"one"}`,
		"results":     `{"id":"x","account":"a","host":"one"}`,
	} {
		rev, err := etcd.Write(t.Context(), ledger.Op{Kind: kind, ID: "x", Value: []byte(value)})
		if err != nil {
			t.Fatal(err)
		}
		theirs[kind] = rev
	}
	two, err := startServer(t, "two", endpoint)
	if err != nil {
		t.Fatalf("a server with another host id: %v", err)
	}
	two.ended(t)
	for kind, rev := range theirs {
		switch e, err := etcd.Read(t.Context(), kind, "x"); {
		case err != nil:
			t.Errorf("the other host's %s: %v", kind, err)
		case e.Revision != rev:
			t.Errorf("of %s the other server changed a record: %s", kind, e.Value)
		}
	}
	accounts, _, err := etcd.ReadAll(t.Context(), "accounts")
	if err != nil {
		t.Fatal(err)
	}
	if len(accounts) != 1 {
		t.Errorf("there are %d accounts, want the one admin of both", len(accounts))
	}
}
