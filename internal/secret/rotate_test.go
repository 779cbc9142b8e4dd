// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package secret_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/job"
	"github.com/warren-vm/warren/internal/ledger"
	"github.com/warren-vm/warren/internal/secret"
	"github.com/warren-vm/warren/vm"
)

// rotator is the rotator of one value. Each call replaces it, unless answer writes another
// answer.
type rotator struct {
	*httptest.Server
	mu     sync.Mutex
	value  string
	asks   []map[string]string
	answer http.HandlerFunc
}

func newRotator(t *testing.T) *rotator {
	s := &rotator{value: value}
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *rotator) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body) // so that the server sees the client leave
	s.mu.Lock()
	answer := s.answer
	s.mu.Unlock()
	if answer != nil {
		answer(w, q)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.Method != http.MethodPost || q.Header.Get("Authorization") != "Bearer "+s.value {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var ask map[string]string
	if err := json.Unmarshal(body, &ask); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.asks = append(s.asks, ask)
	s.value = fmt.Sprintf("%s-%d", value, len(s.asks))
	_, _ = fmt.Fprintf(w, `{"value":%q}`, s.value)
}

// answers makes the rotator give another answer; nil = its own.
func (s *rotator) answers(f http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = f
}

func (r *room) rotate(name string) error {
	_, err := r.Rotate(r.t.Context(), r.c, vm.Rotation{Name: name, Reason: "request"})
	return err
}

// gives wants the VM's monitor to get a value for the secret "token".
func (r *room) gives(what string, v vm.VM, want string) {
	r.t.Helper()
	if got, err := r.ask(v, nil); err != nil || got != want {
		r.t.Errorf("%s: the monitor gets %q, %v, want %q", what, got, err, want)
	}
}

func refused(t *testing.T, what string, err error, kind vm.Kind, code string) {
	t.Helper()
	if vm.KindOf(err) != kind || vm.AsError(err).Code != code {
		t.Errorf("%s: %v (code %s), want kind %s, code %s", what, err, vm.AsError(err).Code, kind, code)
	}
	if text := fmt.Sprintf("%+v %v", err, vm.AsError(err).Fields); strings.Contains(text, "theValue") || strings.Contains(text, "refresh-") {
		t.Errorf("%s: the error has the value: %s", what, text)
	}
}

// A rotator gets the present value and what it is about. Its value is in force at once, for
// the placeholders that VMs hold, and after a restart. It is in no record, event or file.
func TestRotate(t *testing.T) {
	r, s := newRoom(t), newRotator(t)
	r.set(secret.Request{Name: "token", Value: value, RotateURL: s.URL + "/rotate"})
	if err := r.rotate("token"); err != nil {
		t.Fatal(err)
	}
	r.gives("after the rotation", r.box, value+"-1")
	if want := map[string]string{"secret": "token", "host": "api.example.com", "account": string(r.c.Actor.Account), "reason": "request"}; fmt.Sprint(s.asks) != fmt.Sprint([]map[string]string{want}) {
		t.Errorf("the rotator was asked %v, want %v", s.asks, want)
	}
	r.close()
	r.open()
	r.gives("after a restart", r.box, value+"-1")
	rec, _, err := r.Get(t.Context(), r.c, "token")
	if err != nil || rec.RotatedAt.IsZero() {
		t.Errorf("the record says rotated at %v, %v", rec.RotatedAt, err)
	}
	audit, err := r.site.Audit.List(t.Context(), vm.AuditFilter{})
	if err != nil {
		t.Fatal(err)
	}
	if i := slices.IndexFunc(audit, func(a vm.AuditRecord) bool { return a.Op == vm.OpSecretRotate }); i < 0 || audit[i].Outcome != "ok" || audit[i].Subject != "token" {
		t.Errorf("the audit log lacks the rotation: %+v", audit)
	}
	events := r.site.Events.All()
	if !slices.ContainsFunc(events, func(e vm.Event) bool { return e.Type == "secret.rotated" && e.Data["secret"] == "token" }) {
		t.Error("there is no event of the rotation")
	}
	if text, err := json.Marshal([]any{rec, audit, events}); err != nil || strings.Contains(string(text), "theValue") {
		t.Errorf("the value is in %s, %v", text, err)
	}
	err = filepath.WalkDir(string(r.site.Dir), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if b, _ := os.ReadFile(path); strings.Contains(string(b), "theValue") {
				t.Errorf("the value is in %s", path)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Whatever a rotator answers wrongly, the old value stays in force.
func TestRotateBadAnswers(t *testing.T) {
	r, s := newRoom(t), newRotator(t)
	r.SetPatience(300 * time.Millisecond)
	r.set(secret.Request{Name: "token", Value: value, RotateURL: s.URL})
	says := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(text)) }
	}
	other := newRotator(t)
	for name, answer := range map[string]http.HandlerFunc{
		"not JSON":      says(value),
		"nothing":       says(""),
		"no value":      says(`{"token":"0123456789"}`),
		"an empty one":  says(`{"value":""}`),
		"a number":      says(`{"value":12345678}`),
		"the same":      says(`{"value":"` + value + `"}`),
		"a short one":   says(`{"value":"1234567"}`),
		"a line end":    says(`{"value":"0123456789\nX: theValue"}`),
		"a long one":    says(`{"value":"` + strings.Repeat("theValue", 1100) + `"}`),
		"a long answer": says(`{"value":"0123456789"}` + strings.Repeat(" ", 70<<10)),
		"status 500": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte(`{"value":"0123456789"}`))
		},
		"a redirect": func(w http.ResponseWriter, q *http.Request) {
			http.Redirect(w, q, other.URL, http.StatusTemporaryRedirect)
		},
		"an end": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a hang": func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() },
	} {
		s.answers(answer)
		refused(t, name, r.rotate("token"), vm.Unavailable, "SECRET_NOT_ROTATED")
	}
	if len(other.asks) > 0 {
		t.Error("a redirect was followed, with the value")
	}
	s.Close()
	refused(t, "no rotator there", r.rotate("token"), vm.Unavailable, "SECRET_NOT_ROTATED")
	r.set(secret.Request{Name: "token", Value: value, RotateURL: "https://10.255.255.1/"})
	err := r.rotate("token")
	refused(t, "a private address", err, vm.Unavailable, "SECRET_NOT_ROTATED")
	if !strings.Contains(fmt.Sprint(err), "does not connect to") {
		t.Errorf("a rotator at a private address: %v, want it refused", err)
	}
	r.gives("after bad answers", r.box, value)
	if slices.ContainsFunc(r.site.Events.All(), func(e vm.Event) bool { return e.Type == "secret.rotated" }) {
		t.Error("an event says that the secret was rotated")
	}
}

// Without an audit record no service is asked; a secret without a rotator is refused; one
// rotation at a time changes a secret; a new value that cannot be stored is not in force.
func TestRotateRefused(t *testing.T) {
	r, s := newRoom(t), newRotator(t)
	refused(t, "no rotator", r.rotate("token"), vm.Unsupported, "SECRET_NO_ROTATOR")
	refused(t, "no secret", r.rotate("nothing"), vm.NotFound, "SECRET_NOT_FOUND")
	r.set(secret.Request{Name: "token", Value: value, RotateURL: s.URL})
	r.site.Audit.Fail(vm.Errorf(vm.NoSpace, "", "no space"))
	if err := r.rotate("token"); err == nil || len(s.asks) > 0 {
		t.Errorf("without an audit record: %v, the rotator was asked %v", err, s.asks)
	}
	r.site.Audit.Fail(nil)

	asked, reply := make(chan bool), make(chan bool)
	s.answers(func(w http.ResponseWriter, _ *http.Request) {
		asked <- true
		<-reply
		_, _ = w.Write([]byte(`{"value":"the-second-value"}`))
	})
	first := make(chan error)
	go func() { first <- r.rotate("token") }()
	<-asked
	refused(t, "a second rotation", r.rotate("token"), vm.Busy, "SECRET_ROTATING")
	_, _, err := r.Set(t.Context(), r.c, secret.Request{Name: "token", Value: value})
	refused(t, "a new value meanwhile", err, vm.Busy, "SECRET_ROTATING")
	refused(t, "a removal meanwhile", r.Remove(t.Context(), r.c, "token"), vm.Busy, "SECRET_ROTATING")
	r.gives("while it is rotated", r.box, value)
	reply <- true
	if err := <-first; err != nil {
		t.Fatal(err)
	}
	r.gives("after it", r.box, "the-second-value")

	s.answers(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"value":"the-third-value"}`)) })
	r.site.Backend.Fault = func(done bool, ops []ledger.Op) error {
		if !done && ops[0].Kind == "secrets" {
			return vm.Errorf(vm.NoSpace, "", "the store is full")
		}
		return nil
	}
	if err := r.rotate("token"); vm.KindOf(err) != vm.NoSpace {
		t.Errorf("a full store: %v, want kind %s", err, vm.NoSpace)
	}
	r.gives("when the store is full", r.box, "the-second-value")
	r.close()
	r.site.Backend.Fault = nil
	r.open()
	r.gives("after a restart", r.box, "the-second-value")
	if err := r.rotate("token"); err != nil {
		t.Fatal(err)
	}
	r.gives("when the store has space", r.box, "the-third-value")
}

// A value is sent to no other rotator than the one that it was given for.
func TestRotatorIsSealed(t *testing.T) {
	r, s := newRoom(t), newRotator(t)
	if err := r.SetRotator("token", s.URL, r.c.Actor.Account); err != nil {
		t.Fatal(err)
	}
	if err := r.rotate("token"); vm.KindOf(err) != vm.Corrupt || len(s.asks) > 0 {
		t.Errorf("a rotator that was put into the record: %v, it was asked %v, want kind %s", err, s.asks, vm.Corrupt)
	}
}

// An end of the request does not interrupt a rotation: its rotator may have replaced the
// value already.
func TestRotateWithoutCaller(t *testing.T) {
	r, s := newRoom(t), newRotator(t)
	r.set(secret.Request{Name: "token", Value: value, RotateURL: s.URL})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	s.answers(func(w http.ResponseWriter, _ *http.Request) {
		leave()
		_, _ = w.Write([]byte(`{"value":"the-second-value"}`))
	})
	if _, err := r.Rotate(ctx, r.c, vm.Rotation{Name: "token"}); err != nil {
		t.Error(err)
	}
	r.gives("after the caller left", r.box, "the-second-value")
}

// tokens is a service of OAuth. Each refresh ends the refresh token.
type tokens struct {
	mu      sync.Mutex
	refresh string
	n       int
	keep    bool // a refresh gives no new refresh token
	revoke  int  // status of revocations
	revoked []string
}

func (s *tokens) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.FormValue("client_id") != "me" || q.FormValue("client_secret") != "client-secret" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if q.URL.Path == "/revoke" {
		if s.revoke == http.StatusOK && q.FormValue("token_type_hint") == "refresh_token" {
			s.revoked = append(s.revoked, q.FormValue("token"))
		}
		w.WriteHeader(s.revoke)
		return
	}
	if q.FormValue("refresh_token") != s.refresh {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.n++
	if s.keep {
		_, _ = fmt.Fprintf(w, `{"access_token":"access-%d"}`, s.n)
		return
	}
	s.refresh = fmt.Sprintf("refresh-token-%d", s.n)
	_, _ = fmt.Fprintf(w, `{"access_token":"access-%d","refresh_token":%q,"expires_in":3600}`, s.n, s.refresh)
}

// A rotation gets another refresh token, drops the access token, and revokes the old refresh
// token. One that was not revoked is revoked by the next rotation.
func TestRotateOAuth(t *testing.T) {
	r := newRoom(t)
	s := &tokens{refresh: "refresh-token-0", revoke: http.StatusOK}
	web := httptest.NewTLSServer(s)
	defer web.Close()
	r.set(secret.Request{
		Name: "crm", Host: "crm.example.com", Header: "Authorization", Value: "refresh-token-0", ClientSecret: "client-secret",
		OAuth: &vm.OAuth{TokenURL: web.URL + "/token", ClientID: "me", RevokeURL: web.URL + "/revoke"},
	})
	if _, err := r.Grant(t.Context(), r.c, "crm", "box"); err != nil {
		t.Fatal(err)
	}
	gives := func(want string) {
		t.Helper()
		uses := r.now(r.box.ID).Network.Secrets
		got, err := r.ask(r.box, func(a *vm.SecretAsk) { a.Name, a.Host, a.Placeholder = "crm", "crm.example.com", uses[1].Placeholder })
		if err != nil || got != want {
			t.Errorf("the access token is %q, %v, want %q", got, err, want)
		}
	}
	gives("access-1") // which replaced token 0 by token 1
	if err := r.rotate("crm"); err != nil || strings.Join(s.revoked, " ") != "refresh-token-1" {
		t.Errorf("a rotation: %v, revoked are %v", err, s.revoked)
	}
	gives("access-3") // by token 2, which the rotation gave
	s.revoke = http.StatusServiceUnavailable
	refused(t, "no revocation", r.rotate("crm"), vm.Unavailable, "SECRET_NOT_ROTATED")
	r.close()
	r.open()
	gives("access-5")
	s.revoke = http.StatusOK
	if err := r.rotate("crm"); err != nil || strings.Join(s.revoked, " ") != "refresh-token-1 refresh-token-3 refresh-token-5" {
		t.Errorf("the next rotation: %v, revoked are %v", err, s.revoked)
	}
	s.keep = true
	refused(t, "no new refresh token", r.rotate("crm"), vm.Unsupported, "SECRET_NO_ROTATOR")
	if len(s.revoked) != 3 {
		t.Errorf("revoked are %v, also one that is in force", s.revoked)
	}
	s.refresh = "another"
	refused(t, "a refused refresh token", r.rotate("crm"), vm.Unavailable, "SECRET_NOT_ROTATED")
}

// credential is what the record of a job says of a secret.
func credential(t *testing.T, j vm.Job, name string) vm.Credential {
	t.Helper()
	i := slices.IndexFunc(j.Remains.Credentials, func(c vm.Credential) bool { return c.Name == name })
	if i < 0 {
		t.Fatalf("the record of the job does not name %s: %+v", name, j.Remains.Credentials)
	}
	return j.Remains.Credentials[i]
}

func step(j vm.Job) vm.StepState {
	i := slices.IndexFunc(j.Steps, func(s vm.JobStep) bool { return s.Step == vm.StepCredentials })
	return j.Steps[i].State
}

// The done check rotates what the VM could use, once, ends the VM's grants with the VM, and
// says what it could not rotate. Other VMs use the new value with the placeholder they have.
func TestDoneRotates(t *testing.T) {
	r, s := newRoom(t), newRotator(t)
	r.set(secret.Request{Name: "token", Value: value, RotateURL: s.URL})
	other, err := r.e.Create(t.Context(), r.c, engine.CreateRequest{Name: "other", Secrets: []string{"token"}})
	if err != nil {
		t.Fatal(err)
	}
	done := func(ref string, q job.DoneRequest) vm.Job {
		t.Helper()
		j, err := r.e.Done(t.Context(), r.c, ref, q)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	j := done("box", job.DoneRequest{})
	if c := credential(t, j, "token"); len(s.asks) > 0 || step(j) != vm.StepOpen || c.RotatesBy != vm.RotatesByRotator || c.Others != 1 || !c.Granted {
		t.Errorf("nothing decided: the step is %s, %+v, the rotator was asked %v", step(j), c, s.asks)
	}
	r.gives("before", r.box, value)
	j = done("box", job.DoneRequest{Rotate: true})
	if c := credential(t, j, "token"); step(j) != vm.StepDone || c.RotatedAt.IsZero() || c.Uses != 1 {
		t.Errorf("rotated: the step is %s, %+v", step(j), c)
	}
	if len(s.asks) != 1 || s.asks[0]["vm"] != string(r.box.ID) || s.asks[0]["reason"] != "done" {
		t.Errorf("the rotator was asked %v, want once, for the VM", s.asks)
	}
	r.gives("another VM, with its old placeholder", other, value+"-1")
	if done("box", job.DoneRequest{Rotate: true}); len(s.asks) != 1 {
		t.Errorf("a second request has rotated again: %v", s.asks)
	}
	r.gives("used after the rotation", r.box, value+"-1")
	if j = done("box", job.DoneRequest{}); step(j) != vm.StepOpen {
		t.Errorf("used after the rotation: the step is %s", step(j))
	}

	s.answers(http.NotFound)
	j = done("box", job.DoneRequest{Rotate: true, Retention: vm.RetainNothing})
	if c := credential(t, j, "token"); step(j) != vm.StepOpen || c.Granted || !strings.Contains(c.NotRotated, "status 404") {
		t.Errorf("a failed rotation: the step is %s, %+v", step(j), c)
	}
	if _, users, err := r.Get(t.Context(), r.c, "token"); err != nil || len(users) != 1 || users[0].ID != other.ID {
		t.Errorf("after the end of the VM %v may use the secret, %v, want only the other VM", users, err)
	}
	s.answers(nil)
	r.close()
	r.open()
	j = done(string(r.box.ID), job.DoneRequest{Rotate: true})
	if c := credential(t, j, "token"); step(j) != vm.StepDone || c.NotRotated != "" || len(s.asks) != 2 {
		t.Errorf("repeated: the step is %s, %+v, the rotator was asked %v", step(j), c, s.asks)
	}
	r.gives("another VM", other, value+"-2")
}

// The done check knows a secret that a deleted VM never used, one that was removed, and one
// that has the name of a removed one. It asks about what it cannot rotate.
func TestDoneAsks(t *testing.T) {
	r, s := newRoom(t), newRotator(t)
	r.gives("before", r.box, value)
	for _, name := range []string{"gone", "fresh"} {
		r.set(secret.Request{Name: name, Host: "b.example.com", Header: "X-Key", Value: value, RotateURL: s.URL})
	}
	v, err := r.e.Create(t.Context(), r.c, engine.CreateRequest{Name: "two", Secrets: []string{"token", "gone", "fresh"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.e.Done(t.Context(), r.c, "two", job.DoneRequest{}); err != nil {
		t.Fatal(err)
	}
	if err := r.Remove(t.Context(), r.c, "gone"); err != nil {
		t.Fatal(err)
	}
	r.set(secret.Request{Name: "gone", Host: "b.example.com", Header: "X-Key", Value: value, RotateURL: s.URL})
	j, err := r.e.Done(t.Context(), r.c, "two", job.DoneRequest{Rotate: true, Retention: vm.RetainNothing})
	if err != nil {
		t.Fatal(err)
	}
	if c := credential(t, j, "fresh"); c.RotatedAt.IsZero() || c.Granted {
		t.Errorf("one that was never used: %+v, want it rotated", c)
	}
	if c := credential(t, j, "gone"); !c.Removed || !c.RotatedAt.IsZero() || len(s.asks) != 1 {
		t.Errorf("a removed one: %+v, the rotator was asked %v; a later one of its name is another", c, s.asks)
	}
	if c := credential(t, j, "token"); c.RotatesBy != "" || c.Removed || step(j) != vm.StepOpen {
		t.Errorf("one without a rotator: %+v, the step is %s", c, step(j))
	}
	j, err = r.e.Done(t.Context(), r.c, string(v.ID), job.DoneRequest{Rotate: true, Rotated: true})
	if err != nil || step(j) != vm.StepDone || len(s.asks) != 1 {
		t.Errorf("confirmed: the step is %s, %v, the rotator was asked %v", step(j), err, s.asks)
	}
	if j, err = r.e.Done(t.Context(), r.c, string(v.ID), job.DoneRequest{}); err != nil || step(j) != vm.StepDone {
		t.Errorf("confirmed before: the step is %s, %v", step(j), err)
	}
}

// A done that is cut off after it has rotated and removed the VM is repeated by the VM's id,
// and rotates nothing again.
func TestDoneCutOff(t *testing.T) {
	r, s := newRoom(t), newRotator(t)
	r.set(secret.Request{Name: "token", Value: value, RotateURL: s.URL})
	writes := 0
	r.site.Backend.Fault = func(done bool, ops []ledger.Op) error {
		if !done && ops[0].Kind == "jobs" {
			if writes++; writes > 1 {
				return vm.Errorf(vm.NoSpace, "", "the store is full")
			}
		}
		return nil
	}
	if _, err := r.e.Done(t.Context(), r.c, "box", job.DoneRequest{Rotate: true, Retention: vm.RetainNothing}); vm.KindOf(err) != vm.NoSpace || len(s.asks) != 1 {
		t.Fatalf("done into a full store: %v, the rotator was asked %v", err, s.asks)
	}
	if _, there := r.e.VMOf(r.box.ID); there {
		t.Fatal("the VM is not removed")
	}
	r.close()
	r.site.Backend.Fault = nil
	r.open()
	j, err := r.e.Done(t.Context(), r.c, string(r.box.ID), job.DoneRequest{Rotate: true})
	if err != nil || step(j) != vm.StepDone || len(s.asks) != 1 {
		t.Errorf("repeated: %v, the step is %s, the rotator was asked %v", err, step(j), s.asks)
	}
}
