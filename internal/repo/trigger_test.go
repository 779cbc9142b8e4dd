// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/vm"
)

// called is one call of a webhook.
type called struct {
	body      string
	signature string
	delivery  string
}

// endpoint answers calls with the given statuses, then with 200.
func endpoint(t *testing.T, statuses ...int) (string, chan called) {
	t.Helper()
	calls := make(chan called, 100)
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		status := 200
		if n < len(statuses) {
			status = statuses[n]
		}
		n++
		w.WriteHeader(status)
		calls <- called{string(body), r.Header.Get("X-Warren-Signature-256"), r.Header.Get("X-Warren-Delivery")}
	}))
	t.Cleanup(s.Close)
	return s.URL, calls
}

func (r *room) write(id, branch, path string) {
	r.t.Helper()
	_, err := r.Commit(r.t.Context(), r.call, id, repo.CommitRequest{Branch: branch, Base: "main", Message: "m", Files: []repo.FileEdit{{Path: path, Size: 1, Open: repo.Bytes([]byte("y"))}}})
	if err != nil {
		r.t.Fatalf("the commit to %s fails: %v", branch, err)
	}
}

func next(t *testing.T, calls chan called) called {
	t.Helper()
	select {
	case c := <-calls:
		return c
	case <-time.After(20 * time.Second):
		t.Fatal("the webhook was not called")
		return called{}
	}
}

// TestTriggers: a push calls the URL of each trigger that it matches, signed; a call that
// fails is made again, with the same body.
func TestTriggers(t *testing.T) {
	r := newRoom(t)
	r.SetPauses([]time.Duration{10 * time.Millisecond, 10 * time.Millisecond})
	rec := r.imported(map[string]string{"a": "x"})
	url, calls := endpoint(t, 500)
	tr, err := r.CreateTrigger(t.Context(), r.call, rec.ID, repo.TriggerRequest{
		On: vm.TriggerOn{Branches: []string{"main", "agent/**"}, Globs: []string{"src/**"}}, Does: vm.TriggerDoes{Endpoint: url + "/hook"},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.write(rec.ID, "main", "docs/x")         // no file matches
	r.write(rec.ID, "other", "src/x")         // no branch matches
	r.write(rec.ID, "agent/app/x", "src/one") // this one does
	first, second := next(t, calls), next(t, calls)
	if first.body != second.body || first.delivery != second.delivery {
		t.Errorf("the second try has the body %s, want that of the first, %s", second.body, first.body)
	}
	mac := hmac.New(sha256.New, []byte(tr.Secret))
	mac.Write([]byte(first.body))
	if want := "sha256=" + hex.EncodeToString(mac.Sum(nil)); first.signature != want {
		t.Errorf("the signature is %s, want %s", first.signature, want)
	}
	var body struct{ Event, Branch, RepositoryID, After string }
	if err := json.Unmarshal([]byte(first.body), &body); err != nil || body.Event != "push" || body.Branch != "agent/app/x" || body.RepositoryID != rec.ID || len(body.After) != 40 {
		t.Errorf("the body is %s, %v", first.body, err)
	}
	if strings.Contains(first.body, tr.Secret) {
		t.Error("the body contains the secret")
	}
	deadline := time.Now().Add(20 * time.Second)
	for {
		log, err := r.Deliveries(t.Context(), r.call, rec.ID, tr.ID)
		if err != nil || len(log) != 1 {
			t.Fatalf("the log has %d calls, %v, want 1", len(log), err)
		}
		if log[0].State == vm.DeliveryDone {
			if log[0].Tries != 2 || log[0].Status != 200 {
				t.Errorf("the log says %d tries and status %d, want 2 and 200", log[0].Tries, log[0].Status)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the log says %+v, want delivered", log[0])
		}
		time.Sleep(5 * time.Millisecond) // until the outcome is recorded
	}
	list, err := r.Triggers(t.Context(), r.call, rec.ID)
	if err != nil || len(list) != 1 || list[0].Secret != "" {
		t.Errorf("the list is %+v, %v, want one trigger without its secret", list, err)
	}
	if err := r.RemoveTrigger(t.Context(), r.call, rec.ID, tr.ID); err != nil {
		t.Errorf("the trigger cannot be removed: %v", err)
	}
}

// TestTriggerOverRestart: a call that waits when the server ends is made by the next one.
func TestTriggerOverRestart(t *testing.T) {
	r := newRoom(t)
	r.SetPauses([]time.Duration{100 * time.Millisecond})
	rec := r.imported(map[string]string{"a": "x"})
	url, calls := endpoint(t, 503)
	if _, err := r.CreateTrigger(t.Context(), r.call, rec.ID, repo.TriggerRequest{Does: vm.TriggerDoes{Endpoint: url}}); err != nil {
		t.Fatal(err)
	}
	r.write(rec.ID, "main", "b")
	first := next(t, calls)
	if err := r.house.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	h, err := r.site.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close(t.Context()) })
	if again := next(t, calls); again.delivery != first.delivery {
		t.Errorf("the next server makes the call %s, want %s again", again.delivery, first.delivery)
	}
}
