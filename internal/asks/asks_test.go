// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package asks_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/asks"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// room is a server with a VM, its owner's calls, and those of an identity.
type room struct {
	*vmtest.House
	t     *testing.T
	site  *vmtest.Site
	clock *vmtest.Clock
	owner *vm.Call
	box   vm.VM
	ann   vm.Identity
}

func newRoom(t *testing.T, hook asks.Webhook) *room {
	t.Helper()
	return newRoomWith(t, hook, "")
}

// newRoomWith is newRoom with a policy for the arguments of commands in records.
func newRoomWith(t *testing.T, hook asks.Webhook, args string) *room {
	t.Helper()
	s, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &room{t: t, site: s, clock: vmtest.NewClock()}
	s.Clock, s.AskWebhook, s.AuditArgs = r.clock, hook, args
	if r.House, err = s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		if err := r.House.Rooms.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	secret, _, err := r.EnsureAdmin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.owner = &vm.Call{}
	if r.owner.Actor, err = r.Authenticate(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if r.box, err = r.Create(t.Context(), r.owner, engine.CreateRequest{Name: "box"}); err != nil {
		t.Fatal(err)
	}
	if r.ann, err = r.CreateIdentity(t.Context(), r.owner, "ann"); err != nil {
		t.Fatal(err)
	}
	return r
}

// guest is a call of a program in the VM, as that of the identity.
func (r *room) guest() *vm.Call {
	return &vm.Call{Actor: vm.Actor{Account: r.box.Account, VM: r.box.ID}}
}

func (r *room) asAnn() *vm.Call {
	return &vm.Call{Actor: vm.Actor{Account: r.box.Account, Identity: r.ann.ID}}
}

func (r *room) grant(rights ...vm.AskRight) {
	r.t.Helper()
	if _, err := r.GrantVM(r.t.Context(), r.owner, "ann", "box", nil, rights...); err != nil {
		r.t.Fatal(err)
	}
}

func (r *room) propose(host, why string) (vm.Ask, error) {
	return r.Asks.Propose(r.t.Context(), r.guest(), r.box, vm.NetRule{To: host}, why)
}

// pending waits until n asks wait, and returns them, the newest first.
func (r *room) pending(n int) []vm.Ask {
	r.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		list, err := r.Asks.List(r.t.Context(), r.owner, asks.Filter{State: vm.AskPending})
		if err != nil {
			r.t.Fatal(err)
		}
		if len(list) == n {
			return list
		}
		if time.Now().After(end) {
			r.t.Fatalf("%d asks wait for a decision, want %d", len(list), n)
		}
		<-time.After(time.Millisecond)
	}
}

func wantCode(t *testing.T, what string, err error, code string) {
	t.Helper()
	if vm.AsError(err).Code != code {
		t.Errorf("%s gives %v (code %q), want the code %s", what, err, vm.AsError(err).Code, code)
	}
}

// run runs a command as the identity, and sends its outcome.
func (r *room) run(ctx context.Context, command string) <-chan error {
	done := make(chan error, 1)
	go func() {
		x, err := r.Exec(ctx, r.asAnn(), "box", vm.ExecSpec{Command: command})
		if err == nil {
			_, err = x.Run(io.Discard, io.Discard)
		}
		done <- err
	}()
	return done
}

// inTime waits for the outcome of a call whose time is up, and moves the clock meanwhile: the task that ends
// asks may have begun to wait before the clock moved, and may set its timer only afterwards.
func (r *room) inTime(done <-chan error) error {
	r.t.Helper()
	for end := time.After(20 * time.Second); ; {
		select {
		case err := <-done:
			return err
		case <-end:
			r.t.Fatal("the call has not ended 20 seconds after its deadline")
		case <-time.After(time.Millisecond):
			r.clock.Advance(time.Second)
		}
	}
}

func (r *room) rules() []vm.NetRule {
	r.t.Helper()
	v, err := r.Find(r.owner.Actor, "box")
	if err != nil {
		r.t.Fatal(err)
	}
	return v.Network.Rules
}

// A proposal is one ask, which only the account decides. 003-30
func TestProposal(t *testing.T) {
	r := newRoom(t, asks.Webhook{})
	ctx := t.Context()
	ask, err := r.propose("api.example.com", "to fetch the schema")
	if err != nil {
		t.Fatal(err)
	}
	if ask.State != vm.AskPending || len(ask.Widens) != 1 || !strings.Contains(ask.Widens[0], "api.example.com") || ask.Why != "to fetch the schema" {
		t.Errorf("the ask is %+v, want a pending one that says what it widens and why", ask)
	}
	if len(r.rules()) != 0 {
		t.Errorf("before the decision the policy has the rules %v, want none", r.rules())
	}
	if again, err := r.propose("API.example.com.", "other words"); err != nil || again.ID != ask.ID {
		t.Errorf("the same proposal gives the ask %s (%v), want %s again", again.ID, err, ask.ID)
	}
	for what, c := range map[string]*vm.Call{"the VM": r.guest(), "an identity": r.asAnn()} {
		_, err := r.Asks.Approve(ctx, c, ask.ID, 0, "")
		wantCode(t, what+" that approves", err, "FORBIDDEN")
		_, err = r.Asks.Deny(ctx, c, ask.ID, "")
		wantCode(t, what+" that denies", err, "FORBIDDEN")
	}
	if _, err := r.Asks.Get(ctx, r.asAnn(), ask.ID); vm.AsError(err).Code != "ASK_NOT_FOUND" {
		t.Errorf("an identity that reads the VM's ask gets %v, want it not to be there", err)
	}
	waited := make(chan error, 1)
	go func() { waited <- r.Asks.Wait(ctx, r.guest(), ask) }()
	if _, err := r.Asks.Approve(ctx, r.owner, ask.ID, time.Hour, "for the demo"); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Errorf("the program that waits gets %v, want the approval", err)
	}
	rules := r.rules()
	if len(rules) != 1 || rules[0].To != "api.example.com" || rules[0].From != ask.ID || !rules[0].Until.Equal(r.clock.Now().Add(time.Hour)) {
		t.Errorf("after the approval for 1h the rules are %+v, want one from %s that ends in an hour", rules, ask.ID)
	}
	_, err = r.Asks.Deny(ctx, r.owner, ask.ID, "")
	wantCode(t, "a denial after the approval", err, "ASK_DECIDED")
	longer, err := r.propose("api.example.com", "")
	if err != nil {
		t.Fatalf("a proposal of what is allowed for an hour only gives %v, want an ask", err)
	}
	if _, err := r.Asks.Approve(ctx, r.owner, longer.ID, 0, ""); err != nil {
		t.Fatal(err)
	}
	_, err = r.propose("api.example.com", "")
	wantCode(t, "a proposal of what is allowed for ever", err, "ASK_NEEDLESS")
	_, err = r.propose("10.0.0.1", "")
	wantCode(t, "a proposal of a private address", err, "FORBIDDEN")
	_, err = r.propose("no host", "")
	if vm.KindOf(err) != vm.Invalid {
		t.Errorf("a proposal of no host gives %v, want it invalid", err)
	}
	if _, err = r.propose("b.example.com", strings.Repeat("x", 1025)); vm.KindOf(err) != vm.Invalid {
		t.Errorf("a reason of 1025 bytes gives %v, want it invalid", err)
	}
}

func TestLimits(t *testing.T) {
	r := newRoom(t, asks.Webhook{})
	for i := range 100 {
		if _, err := r.propose(fmt.Sprintf("h%d.example.com", i), ""); err != nil {
			t.Fatal(err)
		}
	}
	_, err := r.propose("more.example.com", "")
	wantCode(t, "the 101st proposal of one VM", err, "LIMIT_EXCEEDED")
	r.clock.Advance(asks.RuleWait + time.Second)
	r.pending(0)
	if _, err := r.propose("more.example.com", ""); err != nil {
		t.Errorf("a proposal after the others have expired gives %v, want it filed", err)
	}
	r.clock.Advance(8 * 24 * time.Hour)
	r.pending(0)
	r.clock.Advance(8 * 24 * time.Hour)
	if _, err := r.propose("last.example.com", ""); err != nil {
		t.Fatal(err)
	}
	all, err := r.Asks.List(t.Context(), r.owner, asks.Filter{})
	if err != nil || len(all) != 1 {
		t.Errorf("%d asks are kept (%v) a week after the others were decided, want 1", len(all), err)
	}
}

// Of a denial and an approval at once, one counts, and a denied rule is never in force.
func TestDecisionRace(t *testing.T) {
	r := newRoom(t, asks.Webhook{})
	for i := range 20 {
		host := fmt.Sprintf("h%d.example.com", i)
		ask, err := r.propose(host, "")
		if err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		var yes, no error
		call := *r.owner
		both.Go(func() { _, yes = r.Asks.Approve(t.Context(), &call, ask.ID, 0, "") })
		both.Go(func() { _, no = r.Asks.Deny(t.Context(), &vm.Call{Actor: r.owner.Actor}, ask.ID, "") })
		both.Wait()
		if (yes == nil) == (no == nil) {
			t.Fatalf("an approval (%v) and a denial (%v) at once: want that one of them counts", yes, no)
		}
		inForce := false
		for _, rule := range r.rules() {
			inForce = inForce || rule.To == host
		}
		if inForce != (yes == nil) {
			t.Errorf("the approval gave %v and the rule's being in force is %t", yes, inForce)
		}
	}
}

// A rule that cannot be put in force leaves the ask pending.
func TestApprovalFails(t *testing.T) {
	r := newRoom(t, asks.Webhook{})
	v, err := r.Create(t.Context(), r.owner, engine.CreateRequest{Name: "shut", Profile: vm.ProfileUntrusted})
	if err != nil {
		t.Fatal(err)
	}
	ask, err := r.Asks.Propose(t.Context(), &vm.Call{Actor: vm.Actor{Account: v.Account, VM: v.ID}}, v, vm.NetRule{To: "api.example.com"}, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Asks.Approve(t.Context(), r.owner, ask.ID, 0, ""); vm.KindOf(err) != vm.Denied {
		t.Errorf("an approval against the VM's profile gives %v, want it denied", err)
	}
	if got, err := r.Asks.Get(t.Context(), r.owner, ask.ID); err != nil || got.State != vm.AskPending || got.DecidedBy != "" {
		t.Errorf("the ask is %s by %q afterwards (%v), want it pending", got.State, got.DecidedBy, err)
	}
	if _, err := r.Delete(t.Context(), r.owner, "shut"); err != nil {
		t.Fatal(err)
	}
	_, err = r.Asks.Approve(t.Context(), r.owner, ask.ID, 0, "")
	wantCode(t, "an approval for a VM that is gone", err, "ASK_ENDED")
}

// Each waiting call has an ask of its own: one approval runs one call.
func TestCall(t *testing.T) {
	r := newRoom(t, asks.Webhook{})
	r.grant(vm.ReadOnlyAsks...)
	ctx := t.Context()
	if _, err := r.Stat(ctx, r.asAnn(), "box", "", "/"); err != nil {
		t.Errorf("looking at a file gives %v, want it without an approval", err)
	}
	first, second := r.run(ctx, "echo a >> /log"), r.run(ctx, "echo a >> /log")
	list := r.pending(2)
	if list[0].What != "echo a >> /log" || list[0].Identity != r.ann.ID || list[0].Details["user"] != "root" || len(list[0].Digest) != 64 {
		t.Errorf("the ask is %+v, want the command, who runs it as whom, and a digest", list[0])
	}
	if _, err := r.Asks.Approve(ctx, r.owner, list[0].ID, time.Hour, ""); vm.KindOf(err) != vm.Invalid {
		t.Errorf("an approval of a call for an hour gives %v, want it invalid", err)
	}
	if _, err := r.Asks.Approve(ctx, r.owner, list[0].ID, 0, ""); err != nil {
		t.Fatal(err)
	}
	var ran error
	select {
	case ran = <-first:
		first = second
	case ran = <-second:
	}
	if ran != nil {
		t.Fatalf("the approved call gives %v", ran)
	}
	r.pending(1)
	if _, err := r.Asks.Deny(ctx, r.owner, list[1].ID, "once is enough"); err != nil {
		t.Fatal(err)
	}
	err := <-first
	wantCode(t, "the denied call", err, "ASK_DENIED")
	if !strings.Contains(fmt.Sprint(err), "once is enough") {
		t.Errorf("the denied call gets %v, want the note", err)
	}
	var out bytes.Buffer
	x, err := r.Exec(ctx, r.owner, "box", vm.ExecSpec{Command: "cat /log"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := x.Run(&out, io.Discard); err != nil || out.String() != "a\n" {
		t.Errorf("the log holds %q (%v), want that the command ran once", out.String(), err)
	}
	records, err := r.site.Audit.List(ctx, vm.AuditFilter{})
	if err != nil {
		t.Fatal(err)
	}
	named, approved := 0, 0
	for _, rec := range records {
		if rec.Op == vm.OpExec && rec.Actor.Ask == list[0].ID {
			named++
		}
		if rec.Op == vm.OpApprove && rec.Subject == list[0].ID && rec.Detail["sha256"] == list[0].Digest && rec.Outcome == "ok" {
			approved++
		}
	}
	if named != 1 || approved != 1 {
		t.Errorf("%d records of a command name the approval, and %d of the approval name the digest; want 1 of each", named, approved)
	}
}

func TestDeadline(t *testing.T) {
	r := newRoom(t, asks.Webhook{})
	r.grant(vm.AskExec)
	done := r.run(t.Context(), "echo a >> /log")
	ask := r.pending(1)[0]
	if ask.Deadline.Sub(ask.CreatedAt) != asks.CallWait {
		t.Errorf("the call waits %s, want %s", ask.Deadline.Sub(ask.CreatedAt), asks.CallWait)
	}
	r.clock.Advance(asks.CallWait)
	wantCode(t, "the call after its deadline", r.inTime(done), "ASK_EXPIRED")
	_, err := r.Asks.Approve(t.Context(), r.owner, ask.ID, 0, "")
	wantCode(t, "an approval after the deadline", err, "ASK_EXPIRED")
	if _, err := r.Stat(t.Context(), r.owner, "box", "", "/log"); vm.KindOf(err) != vm.NotFound {
		t.Errorf("the command's file gives %v, want that it never ran", err)
	}
}

func TestCallerLeaves(t *testing.T) {
	r := newRoom(t, asks.Webhook{})
	r.grant(vm.AskExec)
	ctx, leave := context.WithCancel(t.Context())
	done := r.run(ctx, "echo a >> /log")
	ask := r.pending(1)[0]
	leave()
	if err := <-done; vm.KindOf(err) != vm.Cancelled {
		t.Errorf("the call of a caller that left gives %v, want it cancelled", err)
	}
	_, err := r.Asks.Approve(t.Context(), r.owner, ask.ID, 0, "")
	wantCode(t, "an approval for a caller that has left", err, "ASK_ENDED")
	gone := r.run(t.Context(), "echo a >> /log")
	r.pending(1)
	if err := r.RevokeVM(t.Context(), r.owner, "ann", "box"); err != nil {
		t.Fatal(err)
	}
	if err := <-gone; vm.KindOf(err) != vm.Denied {
		t.Errorf("the call gives %v when its permission is revoked, want it denied", err)
	}
	r.pending(0)
}

// A long command is cut with a mark, and its digest covers all of it.
func TestLongCommand(t *testing.T) {
	r := newRoom(t, asks.Webhook{})
	r.grant(vm.AskExec)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	long := "true\n" + strings.Repeat("#", 2*vm.MaxAskText)
	one := r.run(ctx, long+" rm -rf /")
	a := r.pending(1)[0]
	other := r.run(ctx, long+" echo")
	b := r.pending(2)
	if len(a.What) > vm.MaxAskText || !strings.HasSuffix(a.What, "the digest is of all]") || a.Size != len(long)+len(" rm -rf /") || !strings.HasPrefix(a.What, "true\n#") {
		t.Errorf("the ask of %d bytes stores %d of %d: %.20q…%q, want a cut that is marked, with its newline", len(long)+9, len(a.What), a.Size, a.What, a.What[len(a.What)-30:])
	}
	if b[0].Digest == b[1].Digest {
		t.Errorf("two long commands with different ends have the digest %s, want different ones", a.Digest)
	}
	stop()
	<-one
	<-other
}

// Every verb that changes something, or copies out, waits where its right depends on
// approval. What needs the owner is possible by an approval alone.
func TestEveryRight(t *testing.T) {
	r := newRoom(t, asks.Webhook{})
	ctx := t.Context()
	snapshot := func(c *vm.Call) error {
		_, err := r.Snapshot(ctx, c, "box", engine.SnapshotRequest{Name: "s"})
		return err
	}
	r.grant()
	wantCode(t, "a snapshot by an identity that may not ask", snapshot(r.asAnn()), "FORBIDDEN")
	all := append([]vm.AskRight{}, vm.AskRights...)
	if _, err := r.ChangeGrant(ctx, r.owner, "ann", "box", nil, &all); err != nil {
		t.Fatal(err)
	}
	if _, err := r.WriteFile(ctx, r.owner, "box", "", "/f", vm.WriteOptions{Size: 1}, strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	for what, f := range map[string]func(c *vm.Call) error{
		"exec": func(c *vm.Call) error { _, err := r.Exec(ctx, c, "box", vm.ExecSpec{Command: "true"}); return err },
		"background": func(c *vm.Call) error {
			_, err := r.StartProcess(ctx, c, "box", vm.ExecSpec{Command: "true"})
			return err
		},
		"signal":   func(c *vm.Call) error { return r.SignalProcess(ctx, c, "box", "", "p1", "TERM") },
		"terminal": func(c *vm.Call) error { _, err := r.OpenTerminal(ctx, c, "box", vm.TerminalSpec{}); return err },
		"attach":   func(c *vm.Call) error { _, err := r.AttachTerminal(ctx, c, "box", "t1", vm.TerminalView{}); return err },
		"type": func(c *vm.Call) error {
			_, err := r.SendTerminal(ctx, c, "box", "t1", vm.TerminalSend{Data: []byte("x")})
			return err
		},
		"service": func(c *vm.Call) error {
			_, err := r.SwitchServices(ctx, c, "box", "", "stop", []string{"cron"})
			return err
		},
		"dial": func(c *vm.Call) error {
			_, err := r.DialSocket(ctx, c, "box", vm.SocketSpec{Network: "tcp"})
			return err
		},
		"dial a port": func(c *vm.Call) error { return second(r.ConnectPort(ctx, c, "box", 7)) },
		"listen": func(c *vm.Call) error {
			_, err := r.ListenSocket(ctx, c, "box", vm.SocketSpec{Network: "tcp"})
			return err
		},
		"write": func(c *vm.Call) error {
			_, err := r.WriteFile(ctx, c, "box", "", "/g", vm.WriteOptions{Size: 1}, strings.NewReader("x"))
			return err
		},
		"unpack":   func(c *vm.Call) error { return r.TarUp(ctx, c, "box", "", "/", strings.NewReader("")) },
		"mkdir":    func(c *vm.Call) error { return r.Mkdir(ctx, c, "box", "", "/d", 0o755, false) },
		"rename":   func(c *vm.Call) error { return r.Rename(ctx, c, "box", "", "/f", "/h") },
		"remove":   func(c *vm.Call) error { return r.Remove(ctx, c, "box", "", "/f", false) },
		"chmod":    func(c *vm.Call) error { return r.Chmod(ctx, c, "box", "", "/f", 0o600) },
		"symlink":  func(c *vm.Call) error { return r.Symlink(ctx, c, "box", "", "/f", "/l") },
		"link":     func(c *vm.Call) error { return r.Link(ctx, c, "box", "", "/f", "/l") },
		"attr":     func(c *vm.Call) error { return r.SetAttr(ctx, c, "box", "", "/f", vm.FileAttr{}) },
		"copy out": func(c *vm.Call) error { _, _, err := r.OpenFile(ctx, c, "box", "", "/f"); return err },
		"tar":      func(c *vm.Call) error { _, err := r.TarDown(ctx, c, "box", "", "/"); return err },
		"handle": func(c *vm.Call) error {
			_, err := r.OpenHandle(ctx, c, "box", "", "/f", vm.OpenOptions{Read: true})
			return err
		},
		"pick":     func(c *vm.Call) error { _, err := r.PickFiles(ctx, c, "box", "", "/", vm.TreePick{}); return err },
		"turn":     func(c *vm.Call) error { _, err := r.Turn(ctx, c, "box", engine.TurnRequest{Note: "n"}); return err },
		"snapshot": snapshot,
		"mount": func(c *vm.Call) error {
			_, err := r.Mount(ctx, c, "box", engine.MountRequest{Path: "/data"})
			return err
		},
	} {
		done := make(chan error, 1)
		go func() { done <- f(r.asAnn()) }()
		ask := r.pending(1)[0]
		if _, err := r.Asks.Deny(ctx, r.owner, ask.ID, ""); err != nil {
			t.Fatal(err)
		}
		wantCode(t, "the denied "+what+" ("+ask.What+")", <-done, "ASK_DENIED")
	}
	done := make(chan error, 1)
	go func() { done <- snapshot(r.asAnn()) }()
	if _, err := r.Asks.Approve(ctx, r.owner, r.pending(1)[0].ID, 0, ""); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("the approved snapshot gives %v, want it taken", err)
	}
}

// A program is told of asks by the webhook, whose calls are signed.
func TestWebhook(t *testing.T) {
	type call struct{ event, signature, body string }
	calls := make(chan call, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		calls <- call{q.Header.Get("X-Warren-Event"), q.Header.Get("X-Warren-Signature-256"), string(body)}
	}))
	defer hook.Close()
	const secret = "a secret of the webhook"
	r := newRoom(t, asks.Webhook{URL: hook.URL, Secret: secret})
	ask, err := r.propose("api.example.com", "")
	if err != nil {
		t.Fatal(err)
	}
	made := <-calls
	var body struct {
		Event string
		Ask   vm.Ask
	}
	if err := json.Unmarshal([]byte(made.body), &body); err != nil || body.Event != "ask.created" || body.Ask.ID != ask.ID || made.event != "ask.created" {
		t.Errorf("the webhook gets %+v (%v), want ask.created with %s", made, err, ask.ID)
	}
	m := hmac.New(sha256.New, []byte(secret))
	m.Write([]byte(made.body))
	if want := "sha256=" + hex.EncodeToString(m.Sum(nil)); made.signature != want {
		t.Errorf("the call is signed %s, want %s", made.signature, want)
	}
	if _, err := r.Asks.Deny(t.Context(), r.owner, ask.ID, ""); err != nil {
		t.Fatal(err)
	}
	if next := <-calls; next.event != "ask.denied" {
		t.Errorf("after the denial the webhook gets %s, want ask.denied", next.event)
	}
}

// A call that waited when the server ended never runs; a proposal still waits.
func TestRestart(t *testing.T) {
	r := newRoom(t, asks.Webhook{})
	kept, err := r.propose("api.example.com", "")
	if err != nil {
		t.Fatal(err)
	}
	r.grant(vm.AskExec)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	r.run(ctx, "true")
	lost := r.pending(2)[0]
	if lost.Kind != vm.AskAction {
		lost = r.pending(2)[1]
	}
	ended, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	if err := r.House.Rooms.Close(ended); err != nil {
		t.Fatal(err)
	}
	h, err := r.site.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.House = h
	if got, err := h.Asks.Get(t.Context(), r.owner, lost.ID); err != nil || got.State != vm.AskEnded {
		t.Errorf("the ask of the call is %s (%v) after the restart, want it ended", got.State, err)
	}
	if got, err := h.Asks.Get(t.Context(), r.owner, kept.ID); err != nil || got.State != vm.AskPending {
		t.Errorf("the proposal is %s (%v) after the restart, want it pending", got.State, err)
	}
}
