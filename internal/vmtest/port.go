// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// FreePort returns an address of 127.0.0.1 on which nothing listens, for a server that the
// test starts. It stays the test's own until its process ends: the port is outside of the
// range from which Linux takes ports for outgoing connections (32768 to 60999), and a lock
// keeps the tests of other processes from it.
func FreePort(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("warren-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		port := 12000 + rand.IntN(20000)
		lock, err := os.OpenFile(filepath.Join(dir, fmt.Sprint(port)), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			_ = lock.Close()
			continue
		}
		addr := fmt.Sprintf("127.0.0.1:%d", port)
		l, err := net.Listen("tcp", addr)
		if err != nil {
			_ = lock.Close()
			continue
		}
		_ = l.Close()
		portLocks.Store(port, lock)
		return addr
	}
	t.Fatal("none of 1,000 ports is free")
	return ""
}

// portLocks are the locks of this process's ports, which end with it.
var portLocks sync.Map
