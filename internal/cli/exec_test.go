// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// guest is the far end of an exec: it gets the command and the connection.
type guest func(ctx context.Context, conn *websocket.Conn, spec vm.ExecSpec)

// runs lets a fake VM run commands.
func (f *fake) runs(g guest) {
	f.mux.HandleFunc("GET /v1/vms/{vm}/exec", func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			f.t.Error(err)
			return
		}
		defer func() { _ = conn.CloseNow() }()
		_, data, err := conn.Read(r.Context())
		if err != nil {
			f.t.Error(err)
			return
		}
		var spec vm.ExecSpec
		if err := json.Unmarshal(data, &spec); err != nil {
			f.t.Error(err)
		}
		say(r.Context(), conn, api.ExecMessage{Type: "started", Process: &vm.Process{ID: "p7"}})
		g(r.Context(), conn, spec)
	})
}

func say(ctx context.Context, conn *websocket.Conn, m api.ExecMessage) {
	data, _ := json.Marshal(m)
	_ = conn.Write(ctx, websocket.MessageText, data)
}

func ends(status vm.ExitStatus) guest {
	return func(ctx context.Context, conn *websocket.Conn, _ vm.ExecSpec) {
		_ = conn.Write(ctx, websocket.MessageBinary, append([]byte{api.ChannelStdout}, "to out\n"...))
		_ = conn.Write(ctx, websocket.MessageBinary, append([]byte{api.ChannelStderr}, "to err\n"...))
		say(ctx, conn, api.ExecMessage{Type: "exit", Status: &status})
	}
}

// TestExecStatus: the guest's status and streams are passed on; Warren's
// failures have separate statuses.
func TestExecStatus(t *testing.T) {
	for _, c := range []struct {
		status vm.ExitStatus
		want   int
	}{
		{vm.ExitStatus{}, 0},
		{vm.ExitStatus{Code: 3}, 3},
		{vm.ExitStatus{Code: 127}, 127},
		{vm.ExitStatus{Code: 137, Signal: "KILL"}, 137},
		{vm.ExitStatus{Code: 143, Signal: "TERM", TimedOut: true}, 124},
	} {
		f := newFake(t)
		f.runs(ends(c.status))
		r := run(t, f, Local{}, "", "exec", "box", "--", "cmd")
		if r.code != c.want || r.out != "to out\n" || !strings.HasPrefix(r.stderr, "to err\n") {
			t.Errorf("%+v gave %+v", c.status, r)
		}
	}
	broken := newFake(t)
	broken.runs(func(context.Context, *websocket.Conn, vm.ExecSpec) {})
	run(t, broken, Local{}, "", "exec", "box", "--", "cmd").wants(t, 125, "p7")
	none := newFake(t)
	none.on("GET /v1/vms/box/exec", vm.Errorf(vm.WrongState, "box", "the VM is stopped").WithHint("start it first"))
	run(t, none, Local{}, "", "exec", "box", "--", "cmd").wants(t, 125, "start it first")
}

// TestExecSpec: what the flags become.
func TestExecSpec(t *testing.T) {
	f := newFake(t)
	var got vm.ExecSpec
	var input []byte
	f.runs(func(ctx context.Context, conn *websocket.Conn, spec vm.ExecSpec) {
		got = spec
		for spec.Stdin {
			typ, data, err := conn.Read(ctx)
			if err != nil || typ == websocket.MessageText {
				break
			}
			input = append(input, data[1:]...)
		}
		ends(vm.ExitStatus{})(ctx, conn, spec)
	})
	r := run(t, f, Local{}, "through", "exec", "box", "--timeout", "1.5", "--user", "u", "--cwd", "/etc", "-e", "A=b c", "-i", "--", "cat", "-n", "--", "x")
	want := vm.ExecSpec{Argv: []string{"cat", "-n", "--", "x"}, User: "u", Cwd: "/etc", Env: map[string]string{"A": "b c"}, Timeout: vm.Millis(1500 * time.Millisecond), Stdin: true}
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	if r.code != 0 || string(a) != string(b) || string(input) != "through" {
		t.Errorf("%+v: sent %s with input %q, want %s", r, a, input, b)
	}
}

// TestInterrupt: the first ^C goes to the command; the second detaches from it
// and prints how to find it again.
func TestInterrupt(t *testing.T) {
	interrupt := func() {
		if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
			t.Error(err)
		}
	}
	var got []string
	follow := func(end bool) guest {
		return func(ctx context.Context, conn *websocket.Conn, _ vm.ExecSpec) {
			interrupt()
			for {
				_, data, err := conn.Read(ctx)
				if err != nil {
					return
				}
				var m api.ExecMessage
				if err := json.Unmarshal(data, &m); err != nil {
					t.Error(err)
				}
				got = append(got, strings.TrimSpace(m.Type+" "+m.Signal))
				switch {
				case m.Type == "signal" && end:
					say(ctx, conn, api.ExecMessage{Type: "exit", Status: &vm.ExitStatus{Code: 130, Signal: "INT"}})
					return
				case m.Type == "signal":
					interrupt()
				}
			}
		}
	}
	f := newFake(t)
	f.runs(follow(true))
	if r := run(t, f, Local{}, "", "exec", "box", "--", "cmd"); r.code != 130 || strings.Join(got, ",") != "signal INT" {
		t.Errorf("%+v, the guest got %v", r, got)
	}
	got = nil
	f = newFake(t)
	f.runs(follow(false))
	r := run(t, f, Local{}, "", "exec", "box", "--", "cmd")
	r.wants(t, 130, "warren logs -f box p7")
}

// TestRun: one VM is created, used and removed, whatever happens in between.
func TestRun(t *testing.T) {
	for _, c := range []struct {
		name  string
		guest guest
		want  int
	}{
		{"ok", ends(vm.ExitStatus{}), 0},
		{"status", ends(vm.ExitStatus{Code: 9}), 9},
		{"broken", func(context.Context, *websocket.Conn, vm.ExecSpec) {}, 125},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFake(t)
			var made api.CreateVM
			f.mux.HandleFunc("POST /v1/vms", func(w http.ResponseWriter, r *http.Request) {
				if err := json.NewDecoder(r.Body).Decode(&made); err != nil {
					t.Error(err)
				}
				reply(w, api.CreatedVM{ID: box.ID, VM: box})
			})
			f.runs(c.guest)
			f.on("DELETE /v1/vms/{vm}", map[string]string{})
			r := run(t, f, Local{}, "", "run", "dev", "--net", "packages", "--", "cmd")
			asked := f.requests()
			if r.code != c.want || !made.OneShot || !made.UniqueName || made.Image != "dev" || asked[len(asked)-1] != "DELETE /v1/vms/"+made.Name {
				t.Errorf("%+v, made %+v, asked %v", r, made, asked)
			}
		})
	}
}

// TestRunNotMade: a VM that could not be made is still looked for at the end.
func TestRunNotMade(t *testing.T) {
	f := newFake(t)
	f.on("POST /v1/vms", vm.Errorf(vm.Limit, "", "no memory for another VM").WithHint("stop one"))
	f.on("DELETE /v1/vms/{vm}", vm.Errorf(vm.NotFound, "", "no such VM"))
	r := run(t, f, Local{}, "", "run", "--", "cmd")
	r.wants(t, 125, "no memory for another VM")
	if strings.Contains(r.stderr, "no such VM") {
		t.Errorf("run without a VM complains of the VM: %+v", r)
	}
}

// TestCopyOut: an incomplete copy leaves no file.
func TestCopyOut(t *testing.T) {
	f := newFake(t)
	f.on("GET /v1/vms/box/fs/stat", vm.FileInfo{Name: "f", Path: "/f", Kind: vm.FileRegular, Mode: 0o644})
	f.mux.HandleFunc("GET /v1/vms/box/raw/f", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("maxBytes") != "16777216" {
			t.Errorf("asked with %s", r.URL.RawQuery)
		}
		w.Header().Set(api.HeaderLength, "5")
		_, _ = w.Write([]byte("abc"))
	})
	dir := t.TempDir()
	if r := run(t, f, Local{}, "", "cp", "box:/f", dir); r.code == 0 {
		t.Errorf("a cut file was accepted: %+v", r)
	}
	if l, err := os.ReadDir(dir); err != nil || len(l) != 0 {
		t.Errorf("%v: %v is left", err, l)
	}
}

// TestCopyIn: a copy into a directory keeps its name.
func TestCopyIn(t *testing.T) {
	f := newFake(t)
	f.on("GET /v1/vms/box/fs/stat", vm.FileInfo{Name: "work", Path: "/work", Kind: vm.FileDirectory})
	f.on("PUT /v1/vms/box/raw/{path...}", vm.Errorf(vm.NoSpace, "/work/in.txt", "no space left in the guest"))
	name := filepath.Join(t.TempDir(), "in.txt")
	if err := os.WriteFile(name, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, f, Local{}, "", "cp", name, "box:/work").wants(t, 8, "no space")
	if asked := f.requests(); strings.ReplaceAll(asked[len(asked)-1], "//", "/") != "PUT /v1/vms/box/raw/work/in.txt" {
		t.Errorf("asked %v", asked)
	}
	run(t, f, Local{}, "", "cp", filepath.Dir(name), "box:/work").wants(t, 2, "-r")
	run(t, f, Local{}, "", "cp", name+".not", "box:/work").wants(t, 3, "in.txt.not")
}
