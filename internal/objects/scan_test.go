// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/objects"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// namedScanner refuses by names, and needs all bytes of some.
type namedScanner struct {
	mu    sync.Mutex
	block chan struct{} // Whole waits for it
	order []string      // keys that Whole has judged
}

func (*namedScanner) Quick(_ context.Context, u objects.ScanInput) (objects.Verdict, error) {
	switch {
	case strings.HasSuffix(u.Key, ".bad"):
		return objects.Verdict{State: vm.Refused, Reason: "its name"}, nil
	case strings.HasSuffix(u.Key, ".whole"):
		return objects.Verdict{State: vm.Unscanned}, nil
	}
	return objects.Verdict{State: vm.Clean}, nil
}

func (s *namedScanner) Whole(ctx context.Context, u objects.ScanInput, body io.ReaderAt) (objects.Verdict, error) {
	s.mu.Lock()
	block := s.block
	s.mu.Unlock()
	select {
	case <-block:
	case <-ctx.Done():
		return objects.Verdict{}, ctx.Err()
	}
	s.mu.Lock()
	s.order = append(s.order, u.Key)
	s.mu.Unlock()
	all := make([]byte, u.Size)
	if _, err := body.ReadAt(all, 0); err != nil && !errors.Is(err, io.EOF) {
		return objects.Verdict{}, err
	}
	if bytes.Contains(all, []byte("evil")) {
		return objects.Verdict{State: vm.Refused, Reason: "its bytes"}, nil
	}
	return objects.Verdict{State: vm.Clean}, nil
}

// TestScanStates: nobody reads an upload before it is judged, also after a restart; a refused
// one is read only by the account's owner who asks for it, and not by way of a copy.
//
// 001-24
func TestScanStates(t *testing.T) {
	scanner := &namedScanner{block: make(chan struct{})}
	h := newHostWith(t, func(s *vmtest.Site) { s.Scanner = scanner })
	get := func(c *vm.Call, key string, refused bool) error {
		ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer stop()
		return second(h.room.Get(ctx, c, objects.Which{Bucket: "box", Key: key, Refused: refused}))
	}
	if o := h.put("a.bad", []byte("x")); o.Scan != vm.Refused {
		t.Errorf("what the scanner refuses is %s", o.Scan)
	}
	h.refused("get of a refused object", get(h.call, "a.bad", false), "OBJECT_REFUSED")
	h.must(get(h.call, "a.bad", true))
	who := h.identity("agent")
	h.must(second(h.room.Grant(t.Context(), h.call, "box", vm.ObjectGrant{Identity: who.Actor.Identity, Access: vm.ObjectWrite})))
	h.refused("an identity's get of a refused object", get(who, "a.bad", true), "OBJECT_REFUSED")
	h.put("good", []byte("x"))
	copied, _, err := h.room.Copy(t.Context(), h.call, objects.Which{Bucket: "box", Key: "good"}, objects.PutRequest{Bucket: "box", Key: "copy.bad"}, false, false)
	h.must(err)
	if copied.Scan != vm.Refused {
		t.Errorf("a copy with a name that is refused is %s", copied.Scan)
	}
	h.put("good.whole", []byte("fine"))
	h.put("evil.whole", []byte("evil"))
	if err := get(h.call, "good.whole", false); err == nil {
		t.Error("an upload is read before it is judged")
	}
	h.close(h.House)
	scanner.mu.Lock()
	close(scanner.block)
	scanner.mu.Unlock()
	h.open()
	h.soon("both are judged", func() bool {
		return get(h.call, "good.whole", false) == nil && vm.AsError(get(h.call, "evil.whole", false)).Code == "OBJECT_REFUSED"
	})
	list, err := h.AuditList(t.Context(), h.call, vm.AuditFilter{Limit: 100})
	h.must(err)
	if !slices.ContainsFunc(list, func(r vm.AuditRecord) bool { return r.Op == vm.OpObjectScan && r.Detail["refused"] == "its bytes" }) {
		t.Error("the refusal has no audit record")
	}
}

// TestScansInTurn: an account with many uploads to be judged does not keep another one
// waiting for all of them.
func TestScansInTurn(t *testing.T) {
	scanner := &namedScanner{block: make(chan struct{})}
	h := newHostWith(t, func(s *vmtest.Site) { s.Scanner = scanner })
	other := h.account("other")
	h.must(second(h.room.CreateBucket(t.Context(), other, "theirs")))
	for i := range 5 {
		h.put(strconv.Itoa(i)+".whole", []byte("many"))
	}
	h.must(second(h.room.Put(t.Context(), other, objects.PutRequest{Bucket: "theirs", Key: "one.whole", Size: 3}, strings.NewReader("one"))))
	close(scanner.block)
	order := func() []string {
		scanner.mu.Lock()
		defer scanner.mu.Unlock()
		return slices.Clone(scanner.order)
	}
	h.soon("all are judged", func() bool { return len(order()) == 6 })
	if got := slices.Index(order(), "one.whole"); got > 1 {
		t.Errorf("the upload of another account is judged as number %d: %v", got+1, order())
	}
}
