// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/coder/websocket"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// noJSON are the commands whose standard output is a stream: bytes of a file, a
// terminal, a script for a shell, the server's log.
var noJSON = []string{
	"warren fs cat", "warren memory show", "warren shell", "warren pty attach", "warren ssh", "warren ssh-proxy", "warren serve", "warren mcp", "warren completion", "warren docs",
}

// TestEveryCommandHasJSON: none is forgotten.
func TestEveryCommandHasJSON(t *testing.T) {
	visit(testRoot(), func(c *cobra.Command) {
		if c.HasSubCommands() || slices.Contains(noJSON, c.CommandPath()) {
			return
		}
		if c.Flags().Lookup("json") == nil {
			t.Errorf("%s has no --json", c.CommandPath())
		}
	})
}

// TestFlagsMeanOneThing: a letter stands for the same word with every verb; those
// of ssh are ssh's own.
func TestFlagsMeanOneThing(t *testing.T) {
	means := map[string][]string{
		"a": {"all"}, "d": {"detach", "background"}, "e": {"env"}, "f": {"follow"}, "h": {"help"}, "i": {"stdin"}, "k": {"key"}, "l": {"user", "label", "selector"}, "m": {"message"},
		"n": {"count", "tail", "limit"}, // how many
		"o": {"output"}, "p": {"parents"}, "q": {"quiet"}, "r": {"recursive"}, "s": {"session"}, "t": {"tty"}, "v": {"verbose"}, "y": {"yes"},
	}
	visit(testRoot(), func(c *cobra.Command) {
		if c.Name() == "ssh" {
			return
		}
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Shorthand != "" && !slices.Contains(means[f.Shorthand], f.Name) {
				t.Errorf("%s: -%s means --%s here, and %q elsewhere", c.CommandPath(), f.Shorthand, f.Name, means[f.Shorthand])
			}
			if f.Shorthand == "n" && f.Value.Type() != "int" {
				t.Errorf("%s: -n is no number", c.CommandPath())
			}
			if slices.Contains(means["n"], f.Name) && f.Value.Type() == "int" && f.Shorthand != "n" {
				t.Errorf("%s: --%s has no -n", c.CommandPath(), f.Name)
			}
		})
	})
}

// TestPlaceholders: what help prints for a flag's value is one word. The flags package takes it from the first text
// between back quotes.
func TestPlaceholders(t *testing.T) {
	visit(testRoot(), func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if word, _ := pflag.UnquoteUsage(f); strings.Contains(word, " ") {
				t.Errorf("%s: --%s is shown as --%s %s", c.CommandPath(), f.Name, f.Name, word)
			}
		})
	})
}

// TestVersionEverywhere: every verb accepts --version, with or without its arguments.
func TestVersionEverywhere(t *testing.T) {
	visit(testRoot(), func(c *cobra.Command) {
		line := append(strings.Fields(c.CommandPath())[1:], "--version")
		if r := run(t, nil, Local{}, "", line...); r.code != 0 || r.out != "warren "+api.Version+"\n" {
			t.Errorf("%v: %+v, want the version", line, r)
		}
	})
}

// TestHelpOfAll: help names the server's variables, and each exit status once.
func TestHelpOfAll(t *testing.T) {
	r := run(t, nil, Local{}, "", "--help")
	for _, want := range []string{"WARREN_API_URL", "http://127.0.0.1:8787", "WARREN_API_KEY", "admin.key", "WARREN_DATA", "-q, --quiet", "-v, --verbose", "--version"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("help does not name %s", want)
		}
	}
	seen := map[string]bool{}
	for _, line := range strings.Split(strings.TrimSuffix(exitTable(), "\n"), "\n") {
		status := strings.Fields(line)[0]
		if seen[status] {
			t.Errorf("status %s is listed twice", status)
		}
		seen[status] = true
	}
	for _, k := range api.Kinds {
		if !seen[itoa(k.Exit)] {
			t.Errorf("status %d is not listed", k.Exit)
		}
	}
	if r := run(t, nil, Local{}, "", "volume", "mount", "--help"); !strings.Contains(r.out, "a second writer is refused") {
		t.Errorf("--share does not say that two writers are refused:\n%s", r.out)
	}
}

// TestHelpFits: help fits a terminal of 80 columns, but for examples and the
// names of commands.
func TestHelpFits(t *testing.T) {
	visit(testRoot(), func(c *cobra.Command) {
		r := run(t, nil, Local{}, "", append(strings.Fields(c.CommandPath())[1:], "--help")...)
		if r.code != 0 {
			t.Errorf("%s --help: %+v", c.CommandPath(), r)
		}
		for _, line := range strings.Split(r.out, "\n") {
			if utf8.RuneCountInString(line) > helpWidth && !strings.HasPrefix(line, "  warren ") && !strings.Contains(c.Example, line) {
				t.Errorf("%s --help has a line of %d columns: %s", c.CommandPath(), utf8.RuneCountInString(line), line)
			}
		}
	})
}

// changers are command lines that change something, with the first name of which
// they tell.
var changers = []struct{ line, name string }{
	{"account rm team-a", "team-a"},
	{"domain unmap app.warren.localhost", "app.warren.localhost"},
	{"fs mkdir box:/a", "box:/a"},
	{"fs rm box:/a", "box:/a"},
	{"fs mv box:/a box:/b", "box:/a"},
	{"hold release box hd-1", "hd-1"},
	{"identity rm ci", "ci"},
	{"identity revoke ci box", "box"},
	{"identity key rm ci laptop", "laptop"},
	{"key revoke ky-1", "ky-1"},
	{"token revoke ci tk-1", "tk-1"},
	{"kill box", "box"},
	{"net set box packages", "box"},
	{"net allow box api.example.com", "box"},
	{"net deny box api.example.com", "box"},
	{"net rm box r-aaaaaa", "box"},
	{"policy set ci packages", "ci"},
	{"policy rm ci", "ci"},
	{"pty close box work", "work"},
	{"rm box", "box"},
	{"start box", "box"},
	{"resume box", "box"},
	{"service add box web -- /opt/web", "web.service"},
	{"service rm box web", "web"},
	{"service start box web", "web.service"},
	{"service stop box web", "web.service"},
	{"service restart box web", "web.service"},
	{"signal box p3", "p3"},
	{"snapshot rename sc-1 before", "sc-1"},
	{"snapshot rm sc-1", "sc-1"},
	{"volume rm cache", "cache"},
	{"volume unmount box /cache", "/cache"},
	{"volume key rm cache ks-1", "ks-1"},
	{"volume key rotate cache", "cache"},
	{"volume snapshot rm work before", "before"},
}

// changed answers every request of those.
func changed(t *testing.T) *fake {
	f := newFake(t)
	f.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/pty/sessions"):
			reply(w, api.PtySessionList{Sessions: []api.PtySession{{SessionID: "work"}}})
		case strings.Contains(r.URL.Path, "systemd"):
			one := vm.UnitResult{ServiceID: "web.service", Success: true, Message: "active"}
			reply(w, map[string]any{"results": []vm.UnitResult{one}, "serviceName": "web.service", "serviceId": "web.service", "success": true, "message": "active"})
		case strings.HasSuffix(r.URL.Path, "/start"):
			reply(w, api.StartedVM{VM: box})
		case r.Method == http.MethodGet && r.URL.Path == "/v1/vms/box":
			stopped := box
			stopped.State = vm.Stopped
			reply(w, stopped)
		default:
			reply(w, map[string]any{"network": "packages", "id": "x"})
		}
	})
	return f
}

// TestChangesAsJSON: a verb that changes something prints that as JSON and
// nothing else, and with -q nothing at all.
func TestChangesAsJSON(t *testing.T) {
	f := changed(t)
	for _, c := range changers {
		words := strings.Fields(c.line)
		at := len(words) // before the command of the guest
		if i := slices.Index(words, "--"); i >= 0 {
			at = i
		}
		r := run(t, f, Local{}, "data", slices.Insert(slices.Clone(words), at, "--json")...)
		var list []change
		if err := json.Unmarshal([]byte(r.out), &list); err != nil || r.code != 0 || len(list) != 1 || list[0].Name != c.name || list[0].Result == "" {
			t.Errorf("%s --json: %v: %+v", c.line, err, r)
		}
		if r := run(t, f, Local{}, "data", slices.Insert(slices.Clone(words), at, "-q")...); r.code != 0 || r.out+r.stderr != "" {
			t.Errorf("%s -q: %+v, want no output", c.line, r)
		}
	}
}

// TestJSONGoesOn: if one of several VMs fails, the list has the others.
func TestJSONGoesOn(t *testing.T) {
	f := newFake(t)
	f.on("DELETE /v1/vms/a", map[string]string{"id": "a"})
	f.on("DELETE /v1/vms/b", vm.Errorf(vm.Busy, "b", "in use"))
	r := run(t, f, Local{}, "", "rm", "b", "a", "--json", "-q")
	var list []change
	if err := json.Unmarshal([]byte(r.out), &list); err != nil || len(list) != 1 || list[0].Name != "a" {
		t.Errorf("rm --json of one that fails and one that does not: %v: %+v, want a alone", err, r)
	}
	r.wants(t, api.ExitCode(vm.Errorf(vm.Busy, "b", "")), "b: in use") // -q silences no error
}

// TestExecJSON: output and status of a command come as one object, and the exit
// status stays the command's.
func TestExecJSON(t *testing.T) {
	f := newFake(t)
	f.runs(ends(vm.ExitStatus{Code: 3}))
	f.on("POST /v1/vms", api.CreatedVM{ID: box.ID, VM: box})
	f.mux.HandleFunc("DELETE /v1/vms/{vm}", func(w http.ResponseWriter, _ *http.Request) { reply(w, api.DeletedVM{ID: box.ID}) })
	for _, line := range []string{"exec box --json -- cmd", "run --json -- cmd"} {
		r := run(t, f, Local{}, "", strings.Fields(line)...)
		var got ranCommand
		if err := json.Unmarshal([]byte(r.out), &got); err != nil {
			t.Fatalf("%s printed no JSON: %v: %+v", line, err, r)
		}
		if want := (ranCommand{StatusCode: 3, Stdout: "to out\n", Stderr: "to err\n"}); !reflect.DeepEqual(got, want) || r.code != 3 || strings.Contains(r.stderr, "to err") {
			t.Errorf("%s: %+v, status %d", line, got, r.code)
		}
	}
	late := newFake(t)
	late.runs(ends(vm.ExitStatus{Code: 143, TimedOut: true}))
	if r := run(t, late, Local{}, "", "exec", "box", "--json", "--", "cmd"); r.code != 124 || !strings.Contains(r.out, `"timedOut": true`) {
		t.Errorf("out of time: %+v", r)
	}
	bytes := newFake(t)
	bytes.runs(func(ctx context.Context, conn *websocket.Conn, _ vm.ExecSpec) {
		_ = conn.Write(ctx, websocket.MessageBinary, []byte{api.ChannelStdout, 0xff, 0xfe})
		say(ctx, conn, api.ExecMessage{Type: "exit", Status: &vm.ExitStatus{}})
	})
	if r := run(t, bytes, Local{}, "", "exec", "box", "--json", "--", "cmd"); !strings.Contains(r.out, `"stdout": "//4="`) || !strings.Contains(r.out, `"stdoutEncoding": "base64"`) {
		t.Errorf("bytes that are no text: %+v", r)
	}
	f.on("POST /v1/vms/box/processes", vm.Process{ID: "p9"})
	if r := run(t, f, Local{}, "", "exec", "box", "-d", "--json", "--", "cmd"); !strings.Contains(r.out, `"id": "p9"`) {
		t.Errorf("in the background: %+v", r)
	}
}

// TestGatheredIsBounded: endless output of a command does not fill the memory.
func TestGatheredIsBounded(t *testing.T) {
	var b bounded
	chunk := bytes.Repeat([]byte("x"), maxGathered-1)
	for range 3 {
		if n, err := b.Write(chunk); n != len(chunk) || err != nil {
			t.Fatalf("wrote %d, %v", n, err)
		}
	}
	if b.Len() != maxGathered || !b.cut {
		t.Errorf("%d bytes are kept, cut: %v", b.Len(), b.cut)
	}
}

// TestLogsJSON: a log comes as an object a line.
func TestLogsJSON(t *testing.T) {
	f := newFake(t)
	f.mux.HandleFunc("GET /v1/vms/box/processes/p3/log", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(api.HeaderOffset, "0")
		_, _ = w.Write([]byte("one\n\xff\nend"))
	})
	r := run(t, f, Local{}, "", "logs", "box", "p3", "--json")
	if want := `{"line":"one"}` + "\n" + `{"line":"/w==","encoding":"base64"}` + "\n" + `{"line":"end"}` + "\n"; r.out != want {
		t.Errorf("logs --json: %+v, want %s", r, want)
	}
}

// TestQuietListing: with -q a listing has only the ids or names of its rows.
func TestQuietListing(t *testing.T) {
	f := newFake(t)
	f.on("GET /v1/vms", api.VMList{VMs: []api.VM{box}})
	f.on("GET /v1/identities", api.IdentityList{})
	if r := run(t, f, Local{}, "", "ls", "-q"); r.out != string(box.ID)+"\n" {
		t.Errorf("ls -q: %q", r.out)
	}
	if r := run(t, f, Local{}, "", "profile", "ls", "-q"); !strings.Contains(r.out, "untrusted") {
		t.Errorf("a table without ids: %q", r.out)
	}
	none := newFake(t)
	none.on("GET /v1/vms", api.VMList{})
	if r := run(t, none, Local{}, "", "ls", "-q"); r.out+r.stderr != "" {
		t.Errorf("an empty ls -q: %+v", r)
	}
}

// TestErrorsAsTyped: an error names the verb as it was typed, not its alias.
func TestErrorsAsTyped(t *testing.T) {
	f := newFake(t)
	refused := vm.Errorf(vm.NotFound, "box", "no such VM")
	refused.Op = vm.OpStart
	f.mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { refuse(w, refused) })
	for line, want := range map[string]string{
		"resume box": "warren: resume: box: no such VM", "snapshot rm box": "warren: snapshot rm: box: no such VM", "down box": "warren: down: box: no such VM",
		"rm": "which VM?",
	} {
		if r := run(t, f, Local{}, "", strings.Fields(line)...); !strings.Contains(r.stderr, want) {
			t.Errorf("%s: want %q: %+v", line, want, r)
		}
	}
}

// TestForkNotesOnce: only a VM's first fork prints what the copies share.
func TestForkNotesOnce(t *testing.T) {
	for _, first := range []bool{true, false} {
		f := newFake(t)
		f.on("GET /v1/vms/box", box)
		f.on("GET /v1/vms", api.VMList{})
		f.on("POST /v1/vms/box/fork", api.ForkedVM{VMID: box.ID, First: first, Forks: []api.Fork{{ID: "x", Name: "box-1"}}, Caveats: []string{"random state is the same"}})
		if r := run(t, f, Local{}, "", "fork", "box"); r.code != 0 || strings.Contains(r.stderr, "random state") != first {
			t.Errorf("first fork %v: %+v", first, r)
		}
		if r := run(t, f, Local{}, "", "fork", "box", "-q"); r.out != "box-1\n" || r.stderr != "" {
			t.Errorf("fork -q: %+v", r)
		}
	}
}

// TestRetentionBefore: how long a VM is kept is said before it is asked for, and
// that a sticky one may be evicted.
//
// 003-01
func TestRetentionBefore(t *testing.T) {
	for _, c := range []struct {
		line, want string
		evicted    bool
	}{
		{"up --name box", "box is kept until you remove it, and suspended after 5m without use.", true},
		{"up --name box --persist persistent --idle never", "box is kept until you remove it.", false},
		{"up --name box --persist ephemeral", "box is kept until it stops, is suspended or was idle for 5m.", false},
		{"up --name box --ttl 2h --on-idle stop --idle 60", "box is kept for 2h at most, and stopped after 60s without use.", true},
		{"up --profile untrusted", "the VM is kept for 60m at most, and suspended after 5m without use.", true},
	} {
		f := newFake(t)
		var errs bytes.Buffer
		before := ""
		f.mux.HandleFunc("POST /v1/vms", func(w http.ResponseWriter, _ *http.Request) {
			before = errs.String()
			reply(w, api.CreatedVM{ID: box.ID, VM: box})
		})
		env := map[string]string{"WARREN_API_KEY": "secret", "WARREN_API_URL": f.server.URL}
		var out bytes.Buffer
		if code := Main(t.Context(), strings.Fields(c.line), strings.NewReader(""), &out, &errs, func(k string) string { return env[k] }, Local{}); code != 0 {
			t.Errorf("%s: status %d: %s", c.line, code, errs.String())
		}
		if !strings.HasPrefix(before, c.want+"\n") {
			t.Errorf("%s says before: %q, want %q", c.line, before, c.want)
		}
		if strings.Contains(before, "may be evicted") != c.evicted {
			t.Errorf("%s warns of an eviction, want %v: %q", c.line, c.evicted, before)
		}
	}
}

// TestEphemeralEnds: a verb that ends an ephemeral VM reports that it is deleted,
// and not how to continue it.
func TestEphemeralEnds(t *testing.T) {
	for _, c := range []struct {
		line, event string
		deleted     bool
	}{
		{"suspend box", "", true},
		{"stop box", "", true},
		{"kill box", "onStop", true},
		{"suspend box", "onStop", false},
		{"stop box", "onSuspend", false},
	} {
		f := newFake(t)
		v := box
		v.Persistence = vm.Persistence{Type: vm.Ephemeral, DeleteEvent: c.event}
		f.on("GET /v1/vms/box", v)
		f.on("POST /v1/vms/box/suspend", api.SuspendedVM{ID: box.ID})
		f.on("POST /v1/vms/box/stop", api.StoppedVM{VMID: box.ID})
		f.on("POST /v1/vms/box/kill", map[string]any{})
		f.on("GET /v1/vms/"+string(box.ID)+"/remains", left)
		r := run(t, f, Local{}, "", strings.Fields(c.line)...)
		if r.code != 0 || strings.Contains(r.out, "it is deleted now") != c.deleted || strings.Contains(r.out, "continue  ") == c.deleted {
			t.Errorf("%s, deleted by %q: %+v", c.line, c.event, r)
		}
	}
}

// TestFold: no line is wider than the terminal, no word is broken, and
// continuation lines are indented.
func TestFold(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"note: a b", "note: a b"},
		{"note: one two three four", "note: one two\n  three four"},
		{"  hint: one two three", "  hint: one\n    two three"},
		{"word `ab c def` now", "word\n  `ab c def`\n  now"},
		{"wordwithoutanyspaceatall", "wordwithoutanyspaceatall"},
		{"a\nb", "a\nb"},
	} {
		if got := fold(c.text, 14); got != c.want {
			t.Errorf("%q is folded to %q, want %q", c.text, got, c.want)
		}
	}
	if long := strings.Repeat("word ", 40); fold(long, 0) != long {
		t.Error("what is no terminal is folded")
	}
}
