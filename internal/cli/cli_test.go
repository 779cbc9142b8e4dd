// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
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

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// fake is a server that answers as a test sets it up, and records the requests.
type fake struct {
	t      *testing.T
	server *httptest.Server
	mux    *http.ServeMux

	mu    sync.Mutex // guards asked
	asked []string
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{t: t, mux: http.NewServeMux()}
	f.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.asked = append(f.asked, r.Method+" "+r.URL.Path)
		f.mu.Unlock()
		if r.Header.Get("Authorization") != "Bearer secret" {
			refuse(w, vm.Errorf(vm.Unauthenticated, "", "no key"))
			return
		}
		f.mux.ServeHTTP(w, r)
	}))
	t.Cleanup(f.server.Close)
	return f
}

// on answers a pattern with a value, or, when it is an error, with that.
func (f *fake) on(pattern string, answer any) {
	f.mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
		if err, ok := answer.(error); ok {
			refuse(w, err)
			return
		}
		reply(w, answer)
	})
}

func (f *fake) requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.asked...)
}

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func refuse(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(api.Status(err))
	_ = json.NewEncoder(w).Encode(api.EncodeError(err, "ri-test"))
}

// ran is how a command line ended.
type ran struct {
	code        int
	out, stderr string
}

// run runs a command line against the fake; url "" = no server at all.
func run(t *testing.T, f *fake, local Local, stdin string, list ...string) ran {
	t.Helper()
	env := map[string]string{"WARREN_API_KEY": "secret", "WARREN_API_URL": "http://127.0.0.1:1"}
	if f != nil {
		env["WARREN_API_URL"] = f.server.URL
	}
	return runEnv(t, env, local, stdin, list...)
}

func runEnv(t *testing.T, env map[string]string, local Local, stdin string, list ...string) ran {
	t.Helper()
	var out, errs bytes.Buffer
	code := Main(t.Context(), list, strings.NewReader(stdin), &out, &errs, func(k string) string { return env[k] }, local)
	return ran{code, out.String(), errs.String()}
}

// wants fails unless status and stderr are as expected.
func (r ran) wants(t *testing.T, code int, text string) {
	t.Helper()
	if r.code != code || !strings.Contains(r.stderr, text) {
		t.Errorf("want status %d and %q on stderr, got %d\nstdout: %s\nstderr: %s", code, text, r.code, r.out, r.stderr)
	}
}

var box = api.VM{
	ID: "abcdefghij0123456789", Name: "box", State: vm.Running, Image: "base", Network: "closed", Accel: vm.TCG,
	Sizing: api.Sizing{VCPUCount: 1, MemSizeMib: 512, RootfsSizeMib: 16384}, Persistence: vm.DefaultPersistence(),
}

// TestExitStatuses: each kind of failure has its status, its message and its hint.
func TestExitStatuses(t *testing.T) {
	for _, k := range api.Kinds {
		f := newFake(t)
		f.on("GET /v1/vms/box/inspect", vm.Errorf(k.Kind, "box", "why it failed").WithHint("do that"))
		r := run(t, f, Local{}, "", "inspect", "box")
		if k.Kind == vm.Cancelled {
			r.wants(t, k.Exit, "interrupted")
			continue
		}
		if k.Kind == vm.Unauthenticated {
			r.wants(t, k.Exit, "WARREN_API_KEY") // whose key it was is known here
			continue
		}
		r.wants(t, k.Exit, "warren: ")
		r.wants(t, k.Exit, "why it failed")
		r.wants(t, k.Exit, "\n  hint: do that\n")
	}
}

// TestUsage: an invalid command line is refused before any request.
func TestUsage(t *testing.T) {
	for _, c := range []struct {
		line string
		code int
		text string
	}{
		{"nosuch", 2, "nosuch"},
		{"upp", 2, "did you mean `warren up`"},
		{"image nosuch", 2, "nosuch"},
		{"inspect", 2, "which VM"},
		{"ls extra", 2, "extra"},
		{"ls --nosuch", 2, "nosuch"},
		{"up --name Bad_Name", 2, "name"},
		{"up --ttl soon", 2, "soon"},
		{"up --mem lots", 2, "lots"},
		{"up --mem -1", 2, "-1"},
		{"up --disk 0", 2, "GiB"},
		{"up --cpu x", 2, "cpu"},
		{"up --persist sticky:11", 2, "sticky:11"},
		{"up --persist ephemeral:1", 2, "ephemeral:1"},
		{"up --idle 0", 2, "not a time"},
		{"cp a b", 2, "NAME:/path"},
		{"cp a:/x b:/y", 2, "both sides"},
		{"cp a:/x y --max-bytes much", 2, "much"},
		{"fs ls /etc", 2, "NAME:/path"},
		{"fs mv a:/x b:/y", 2, "different VMs"},
		{"fs mkdir box:/a --mode 999", 2, "octal"},
		{"net set box", 2, "closed|packages|open"},
		{"net allow box a.example.com --for soon", 2, "soon"},
		{"net allow box a.example.com --limit-bytes much", 2, "much"},
		{"net check box a.example.com:web", 2, "web"},
		{"on-boot box perhaps", 2, "perhaps"},
		{"on-boot box", 2, "resume|stay|default"},
		{"completion tcsh", 2, "tcsh"},
		{"exec", 125, "missing"},
		{"exec box", 125, "missing"},
		{"exec box ls -la", 125, "put --"},
		{"exec box --timeout never -- true", 125, "never"},
		{"exec box -e =x -- true", 125, "variable"},
		{"exec box -i -d -- true", 125, "input"},
		{"exec box -it -- true", 125, "standard input is not a terminal"},
		{"exec box -td -- true", 125, "no terminal"},
		{"exec box -t --timeout 9 -- true", 125, "timeout --foreground 9 CMD"},
		{"exec box -t --json -- true", 125, "omit -t"},
		{"run true", 125, "put it after --"},
		{"run a b -- true", 125, "unexpected"},
		{"run --", 125, "no command"},
		{"wait", 125, "which command"},
	} {
		f := newFake(t)
		r := run(t, f, Local{}, "", strings.Fields(c.line)...)
		r.wants(t, c.code, c.text)
		if n := len(f.requests()); n > 0 && !strings.Contains(c.line, "mkdir") && !strings.Contains(c.line, "fs mv") {
			t.Errorf("%s: %d requests were made", c.line, n)
		}
	}
}

// TestNoServer: an unreachable server is reported in one sentence, with what to do.
func TestNoServer(t *testing.T) {
	run(t, nil, Local{}, "", "ls").wants(t, 10, "warren serve")
	run(t, nil, Local{}, "", "exec", "box", "--", "true").wants(t, 125, "warren serve")
	run(t, nil, Local{}, "", "run", "--", "true").wants(t, 125, "warren serve")
}

// TestAdminKeyStaysHere: the admin's key is sent only to servers of this host,
// and the error about a refused key names the server.
func TestAdminKeyStaysHere(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "admin.key")
	if err := os.WriteFile(file, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFake(t)
	f.on("GET /v1/vms", api.VMList{})
	here := map[string]string{"WARREN_API_URL": f.server.URL}
	if r := runEnv(t, here, Local{}, "", "ls", "--data", dir); r.code != 0 {
		t.Errorf("with the key in --data: %+v", r)
	}
	if err := os.WriteFile(file, []byte("other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := runEnv(t, here, Local{}, "", "ls", "--data", dir)
	r.wants(t, 4, f.server.URL+": this server does not know the key in "+file)
	r.wants(t, 4, "WARREN_API_KEY")
	here["WARREN_API_KEY"] = "wrong"
	runEnv(t, here, Local{}, "", "ls").wants(t, 4, f.server.URL+": this server does not know the key in WARREN_API_KEY")
}

// TestUp: the request, and the printed description of the VM.
func TestUp(t *testing.T) {
	f := newFake(t)
	var got api.CreateVM
	f.mux.HandleFunc("POST /v1/vms", func(w http.ResponseWriter, r *http.Request) {
		got = api.CreateVM{}
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		reply(w, api.CreatedVM{ID: box.ID, VM: box})
	})
	r := run(t, f, Local{}, "", "up", "dev", "--name", "box", "--net", "packages", "--ttl", "1h", "--idle", "90", "--persist", "sticky:3", "--cpu", "2", "--mem", "1G", "--disk", "32")
	for _, want := range []string{string(box.ID), "box", "base", "1 vCPU, 512 MiB, 16 GiB disk", "closed", "sticky:5: may be removed", "no time limit"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("up does not say %q:\n%s", want, r.out)
		}
	}
	r.wants(t, 0, vm.EmulatedWarning)
	if got.Image != "dev" || got.Name != "box" || !got.UniqueName || got.Network != "packages" || got.TTL.Value != vm.Seconds(time.Hour) || got.IdleTimeout.Value != vm.Seconds(90*time.Second) ||
		got.Persistence == nil || *got.Persistence.Priority != 3 || got.VCPUCount != 2 || got.MemSizeMib != 1024 || got.RootfsSizeGb != 32 {
		t.Errorf("asked for %+v", got)
	}
	if r := run(t, f, Local{}, "", "up", "-d"); r.out != string(box.ID)+"\n" {
		t.Errorf("up -d: %q", r.out)
	}
	if got.UniqueName || got.Name != "" || got.Persistence != nil || got.IdleTimeout.Set {
		t.Errorf("plain up asked for %+v", got)
	}
}

// TestUpBuilds: a shipped recipe that was not built yet, and a directory, are
// built and then used.
func TestUpBuilds(t *testing.T) {
	f := newFake(t)
	built := ""
	f.mux.HandleFunc("POST /v1/vms", func(w http.ResponseWriter, r *http.Request) {
		var in api.CreateVM
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			t.Error(err)
		}
		if built == "" || in.Image == "nosuch" {
			refuse(w, vm.Errorf(vm.NotFound, in.Image, "image not built yet"))
			return
		}
		reply(w, api.CreatedVM{ID: box.ID, VM: box})
	})
	local := Local{
		Recipes:   func() []string { return []string{"base", "dev"} },
		ImageList: func(context.Context, string) ([]vm.Image, error) { return nil, nil },
		ImageBuild: func(_ context.Context, o BuildOptions) (vm.Image, error) {
			built = o.Recipe
			o.Progress("a step", 1, 2)
			return vm.Image{ID: "im-0123456789abcdef", Name: "x"}, nil
		},
	}
	for _, c := range []struct{ arg, want string }{{"", "base"}, {"dev", "dev"}, {"./agent", "./agent"}} {
		built = ""
		line := []string{"up"}
		if c.arg != "" {
			line = append(line, c.arg)
		}
		if r := run(t, f, local, "", line...); r.code != 0 || built != c.want {
			t.Errorf("up %s built %q: %+v", c.arg, built, r)
		}
	}
	built = ""
	run(t, f, local, "", "up", "nosuch").wants(t, 3, "nosuch")
	if built != "" {
		t.Errorf("built %s", built)
	}
}

// TestListings: every listing is a table, and with --json an array, even if it is empty.
func TestListings(t *testing.T) {
	f := newFake(t)
	f.on("GET /v1/vms", api.VMList{VMs: []api.VM{box}})
	r := run(t, f, Local{}, "", "ls", "--json")
	var l []map[string]any
	if err := json.Unmarshal([]byte(r.out), &l); err != nil || len(l) != 1 {
		t.Fatalf("ls --json is no list of one VM: %v: %s", err, r.out)
	}
	for _, field := range []string{"id", "name", "state", "image", "network"} {
		if l[0][field] == nil {
			t.Errorf("ls --json lacks %s", field)
		}
	}
	if r := run(t, f, Local{}, "", "ls", "-q"); r.out != string(box.ID)+"\n" {
		t.Errorf("ls -q: %q", r.out)
	}
	empty := newFake(t)
	empty.on("GET /v1/vms", api.VMList{})
	empty.on("GET /v1/accounts", api.AccountList{})
	empty.on("GET /v1/keys", api.KeyList{})
	empty.on("GET /v1/audit", api.AuditList{})
	empty.on("GET /v1/vms/box/connections", api.Connections{})
	local := Local{ImageList: func(context.Context, string) ([]vm.Image, error) { return nil, nil }}
	for _, line := range []string{"ls", "account ls", "key ls", "audit ls", "net log box", "image ls"} {
		if r := run(t, empty, local, "", append(strings.Fields(line), "--json")...); r.code != 0 || r.out != "[]\n" {
			t.Errorf("%s --json: %+v", line, r)
		}
	}
}

// TestDown says what remains and how to erase it.
func TestDown(t *testing.T) {
	f := newFake(t)
	f.on("POST /v1/vms/box/stop", api.StoppedVM{VMID: box.ID, Remains: api.Remains{DiskBytes: 3 << 20, LogBytes: 4096}})
	r := run(t, f, Local{}, "", "down", "box")
	for _, want := range []string{"disk 3 MiB", "logs 4 KiB", "warren rm box", "warren start box"} {
		if r.code != 0 || !strings.Contains(r.out, want) {
			t.Errorf("down does not say %q: %+v", want, r)
		}
	}
}

// TestRmGoesOn: one failure does not keep the others, and decides the status.
func TestRmGoesOn(t *testing.T) {
	f := newFake(t)
	f.on("DELETE /v1/vms/a", map[string]string{"id": "a"})
	f.on("DELETE /v1/vms/b", vm.Errorf(vm.Busy, "b", "in use"))
	f.on("DELETE /v1/vms/c", map[string]string{"id": "c"})
	r := run(t, f, Local{}, "", "rm", "a", "b", "c")
	r.wants(t, api.ExitCode(vm.Errorf(vm.Busy, "b", "")), "b: in use")
	if strings.Count(r.stderr, "in use") != 1 || !strings.Contains(r.out, "a is removed") || !strings.Contains(r.out, "c is removed") {
		t.Errorf("rm of three VMs, one of them in use: %+v, want one error and two removals", r)
	}
}

// A verb whose work is already done reports that and succeeds.
func TestAlready(t *testing.T) {
	f := newFake(t)
	stopped := box
	stopped.State = vm.Stopped
	f.on("POST /v1/vms/off/stop", vm.Errorf(vm.WrongState, "off", "the VM is stopped"))
	f.on("GET /v1/vms/off", stopped)
	f.on("POST /v1/vms/dead/stop", vm.Errorf(vm.WrongState, "dead", "the VM is lost"))
	f.on("GET /v1/vms/dead", api.VM{ID: "d", State: vm.Lost})
	f.on("POST /v1/vms/box/start", api.StartedVM{VM: box})
	f.on("GET /v1/vms/box", box)
	f.on("DELETE /v1/vms/gone", vm.Errorf(vm.NotFound, "gone", "no such VM"))
	for _, c := range []struct{ verb, name, said string }{
		{"stop", "off", "off is stopped already"}, {"start", "box", "box is running already"}, {"rm", "gone", "gone does not exist: nothing to remove"},
	} {
		r := run(t, f, Local{}, "", c.verb, c.name)
		if r.code != 0 || !strings.Contains(r.out+r.stderr, c.said) {
			t.Errorf("%s %s: want %q: %+v", c.verb, c.name, c.said, r)
		}
	}
	run(t, f, Local{}, "", "stop", "dead").wants(t, api.ExitCode(vm.Errorf(vm.WrongState, "", "")), "the VM is lost")
}

// A typo is never answered by suggesting a verb that destroys something.
func TestNoDestructiveSuggestion(t *testing.T) {
	for _, typo := range []string{"rn", "mr", "kil", "kll", "dwon", "stpo", "prun", "rollbak", "dran"} {
		r := run(t, nil, Local{}, "", typo)
		r.wants(t, 2, "no such command")
		for _, verb := range destructive {
			if strings.Contains(r.stderr, "warren "+verb+"`") {
				t.Errorf("%s: %s is suggested", typo, verb)
			}
		}
	}
	if r := run(t, nil, Local{}, "", "inspct"); !strings.Contains(r.stderr, "did you mean `warren inspect`") {
		t.Errorf("a harmless verb is not suggested: %+v", r)
	}
}

// TestEvents: without --after only new events come.
func TestEvents(t *testing.T) {
	f := newFake(t)
	var from []string
	f.mux.HandleFunc("GET /v1/events", func(w http.ResponseWriter, r *http.Request) {
		from = append(from, r.Header.Get("Last-Event-ID"))
	})
	run(t, f, Local{}, "", "events")
	run(t, f, Local{}, "", "events", "--after", "0")
	if len(from) != 2 || from[0] != "" || from[1] != "0" {
		t.Errorf("asked from %q, want now and the beginning", from)
	}
}

// TestGuestNames: a name that a guest chose cannot control the terminal.
func TestGuestNames(t *testing.T) {
	f := newFake(t)
	evil := "a\x1b]0;owned\x07\u202eb"
	f.on("GET /v1/vms/box/fs/list", api.FileList{Files: []vm.FileInfo{{Name: evil, Kind: vm.FileSymlink, Target: evil}}})
	f.on("GET /v1/vms/box/processes", api.ProcessList{Processes: []vm.Process{{ID: "p1", Argv: []string{evil, "x y"}, User: evil}}})
	f.on("GET /v1/vms/box/stats", vm.Stats{
		Processes: []vm.SystemProcess{{PID: 1, Command: evil, User: evil}},
		Ports:     []vm.ListeningPort{{Proto: evil, Address: evil, Port: 80, Command: evil}},
	})
	f.on("GET /v1/vms/box/connections", api.Connections{Connections: []vm.Connection{{Dest: evil, Name: evil, Reason: evil}}})
	f.on("GET /v1/vms/box/inspect", vm.Errorf(vm.GuestFault, evil, "said %s", evil))
	for _, line := range []string{"fs ls box:/", "ps box", "net log box", "inspect box"} {
		r := run(t, f, Local{}, "", strings.Fields(line)...)
		if text := r.out + r.stderr; strings.ContainsAny(text, "\x1b\x07\u202e") || !strings.Contains(text, `\x1b`) {
			t.Errorf("%s printed %q", line, text)
		}
	}
}

// TestHost: commands that need no server.
func TestHost(t *testing.T) {
	local := Local{
		Doctor: func(context.Context, string) ([]Check, bool, error) {
			return []Check{{Name: "qemu", Status: "fail", Detail: "not found", Fix: "apt-get install qemu-system-x86"}}, false, nil
		},
		Config: func(context.Context, string) (string, []Setting, error) {
			return "/data", []Setting{{Name: "listen", Value: "127.0.0.1:8787", Origin: "default"}}, nil
		},
	}
	if r := run(t, nil, local, "", "doctor"); r.code != 9 || !strings.Contains(r.out, "-> apt-get install qemu-system-x86") {
		t.Errorf("doctor: %+v", r)
	}
	var checks []Check
	if r := run(t, nil, local, "", "doctor", "--json"); json.Unmarshal([]byte(r.out), &checks) != nil || len(checks) != 1 {
		t.Errorf("doctor --json: %+v", r)
	}
	var e effective
	if r := run(t, nil, local, "", "config", "show", "--json"); json.Unmarshal([]byte(r.out), &e) != nil || e.Data != "/data" || len(e.Settings) != 1 {
		t.Errorf("config show --json: %+v", r)
	}
	if r := run(t, nil, local, "", "version"); r.out != "warren "+api.Version+"\n" {
		t.Errorf("version: %+v", r)
	}
	for _, line := range []string{"serve", "doctor", "config show", "image ls", "image build", "image rm x", "image inspect x"} {
		run(t, nil, Local{}, "", strings.Fields(line)...).wants(t, 9, "cannot do that")
	}
}

// TestServeFlags: the flags of serve.
func TestServeFlags(t *testing.T) {
	var got ServeOptions
	local := Local{Serve: func(_ context.Context, o ServeOptions, _, _ io.Writer) error { got = o; return nil }}
	r := run(t, nil, local, "", "serve", "--listen", "127.0.0.1:1", "--ssh", "off", "--data", "/d", "--require-kvm", "--etcd-endpoints", "a,b", "--net-default", "open", "--preview-domain", "a.example", "--preview-domain", "b.example") // nothing is served: flags are read
	if r.code != 0 || got.Listen != "127.0.0.1:1" || got.SSH != "off" || got.Data != "/d" || !got.RequireKVM || len(got.EtcdEndpoints) != 2 || got.NetDefault != "open" || !slices.Equal(got.PreviewDomain, []string{"a.example", "b.example"}) {
		t.Errorf("serve ended with %+v and got the options %+v, want those of the line", r, got)
	}
}
