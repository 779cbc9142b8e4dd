//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// stack is a VM that runs the Compose stack of examples/docker-compose.
type stack struct{ *shown }

// TestDocker: a Compose stack in a VM, as a world.
func TestDocker(t *testing.T) {
	if os.Getenv("WARREN_SOAK") == "" {
		t.Skip("WARREN_SOAK is not set: emulated containers take minutes to start; `make soak` sets it")
	}
	t.Parallel()
	s := &stack{newGated(t)}
	s.ok("up", "docker", "--name", "stack", "--net", "closed")
	for _, c := range []struct {
		name string
		do   func(*stack, *testing.T)
	}{
		{"kernel", (*stack).kernel},
		{"compose", (*stack).compose},
		{"ports", (*stack).ports},
		{"logs", (*stack).logs},
		{"network", (*stack).network},
		{"fork", (*stack).fork},
		{"sleep", (*stack).sleeps},
		{"loopback", (*stack).loopback},
		{"build", (*stack).build},
	} {
		if (c.name == "loopback" || c.name == "build") && os.Getenv("WARREN_SOAK") == "" {
			t.Logf("%s: not run, since it starts more containers, which takes a minute in an emulated guest; `make soak` runs it", c.name)
			continue
		}
		began := time.Now()
		if !t.Run(c.name, func(t *testing.T) { c.do(s.in(t), t) }) {
			t.FailNow() // the rest stands on it
		}
		t.Logf("%s: %.1f s", c.name, time.Since(began).Seconds())
	}
}

// in is the same stack in a subtest.
func (s *stack) in(t *testing.T) *stack {
	sub := *s.shown
	sub.host, sub.t = s.on(t), t
	return &stack{&sub}
}

// long runs a shell line that takes more of an emulated guest's time than one of the tests'
// commands may take on a busy host, and returns its output.
func (s *stack) long(line string) string {
	s.t.Helper()
	s.sh("stack", "rm -f /srv/status")
	s.ok("exec", "-d", "stack", "--", "sh", "-c", "("+line+") >/srv/said 2>&1; echo $? >/srv/status")
	for deadline := time.Now().Add(6 * time.Minute); ; time.Sleep(time.Second) {
		if r := s.run("exec", "stack", "--", "cat", "/srv/status"); r.code == 0 && r.stdout != "" {
			out := s.sh("stack", "cat /srv/said")
			if r.stdout != "0\n" {
				s.t.Fatalf("%s: status %s%s", line, r.stdout, out)
			}
			return out
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: not done in six minutes", line)
		}
	}
}

// kernel runs moby's own check, as Debian ships it, on the configuration of the guest's
// kernel. It runs here because its 150 programs take minutes in an emulated guest.
func (s *stack) kernel(t *testing.T) {
	dir := t.TempDir()
	s.ok("cp", "stack:/usr/share/docker.io/contrib/check-config.sh", dir+"/check.sh")
	s.ok("cp", "stack:/boot/config-"+s.sh("stack", "uname -r"), dir+"/config")
	said, err := exec.Command("bash", dir+"/check.sh", dir+"/config").CombinedOutput()
	needed, _, whole := strings.Cut(string(said), "Optional Features")
	if !whole { // its status is not 0 when an optional feature is missing
		t.Fatalf("the check did not come to its end: %v\n%s", err, said)
	}
	if n := strings.Count(needed, "enabled"); n < 25 || strings.Contains(needed, "missing") {
		t.Errorf("of what Docker needs, %d are there, and not all:\n%s", n, needed)
	}
	if !regexp.MustCompile(`CONFIG_OVERLAY_FS\S*: \S*enabled`).Match(said) {
		t.Errorf("the check finds no overlay file system:\n%s", said)
	}
	info := s.sh("stack", "docker info --format '{{.Driver}} {{.CgroupVersion}} {{.CgroupDriver}}'")
	if info != "overlay2 2 systemd" {
		t.Errorf("Docker stands on %q, not on overlay2 and systemd's control groups", info)
	}
	if got := s.sh("stack", "stat -f -c %T /var/lib/docker; systemctl is-active docker"); got != "ext2/ext3\nactive" {
		t.Errorf("its data and its service: %q", got)
	}
}

// compose starts the example's stack, detached, with the VM's own Python as its image.
func (s *stack) compose(t *testing.T) {
	s.ok("cp", "-r", "../../examples/docker-compose", "stack:/srv/stack")
	s.ok("cp", "testdata/docker/compose.override.yaml", "stack:/srv/stack/compose.override.yaml")
	s.ok("cp", "testdata/docker/image.py", "stack:/srv/image.py")
	s.long("python3 /srv/image.py | docker import - python:3-slim")
	began := time.Now()
	s.long("cd /srv/stack && docker compose up -d")
	t.Logf("docker compose up -d: %.1f s", time.Since(began).Seconds())
	s.sh("stack", "until curl -sf -o /tmp/page localhost:8080; do sleep 0.2; done")
	if got := s.sh("stack", "cat /tmp/page"); got != "[]" {
		t.Errorf("the published port answers %q before anything is committed", got)
	}
	s.waits("stack", "job 1 waits")
	if got := s.sh("stack", "docker ps --format '{{.Names}}' | sort | tr '\\n' ' '"); got != "stack-database-1 stack-web-1 stack-worker-1" {
		t.Errorf("these containers run: %q", got)
	}
}

// waits waits until the worker's log has a line.
func (s *stack) waits(name, line string) {
	s.t.Helper()
	s.eventually("the worker of "+name+" says "+line, func() bool { return strings.Contains(s.sh(name, "docker logs stack-worker-1"), line) })
}

// rows asks the stack of a VM, through its own preview, what is committed.
func (s *stack) rows(name string) string {
	s.t.Helper()
	resp, body := s.get(s.client(true), s.url("8080-"+name, "/"), keyName, s.key)
	if resp.StatusCode != 200 {
		s.t.Errorf("the preview of %s answers %d %s", name, resp.StatusCode, body)
	}
	return body
}

// ports: a published port is one of the VM's.
func (s *stack) ports(t *testing.T) {
	var list struct{ Ports []vm.ListeningPort }
	if err := json.Unmarshal([]byte(s.ok("ps", "stack", "--json")), &list); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(list.Ports, func(p vm.ListeningPort) bool { return p.Port == 8080 && strings.Contains(p.Command, "docker-proxy") }) {
		t.Errorf("ps does not list the published port: %+v", list.Ports)
	}
	if got := s.rows("stack"); got != "[]" {
		t.Errorf("the preview shows %q", got)
	}
	_, port, _ := net.SplitHostPort(vmtest.FreePort(t))
	s.forwards(t, "stack", port+":8080", func() {
		if got := get(t, "http://127.0.0.1:"+port+"/"); got != "[]" {
			t.Errorf("forward leads to %q", got)
		}
	})
}

// logs: the engine's own log is followed as it grows.
func (s *stack) logs(t *testing.T) {
	v := s.view("logs", "stack", "--service", "docker", "--follow")
	s.eventually("the log of the start is shown", func() bool { return strings.Contains(v.out.String(), "API listen on") })
	s.sh("stack", "systemctl reload docker")
	s.eventually("what is new is shown", func() bool { return strings.Contains(v.out.String(), "reload configuration") })
	_ = v.cmd.Process.Signal(os.Interrupt)
	if err := v.cmd.Wait(); err != nil {
		t.Errorf("following ended with %v", err)
	}
}

// tries makes a name and an address be asked for in a container.
const tries = `import socket
try: socket.getaddrinfo("example.com", 80); print("found")
except OSError as e: print("unknown")
s = socket.socket(); s.settimeout(20)
try: s.connect(("192.0.2.1", 80)); print("connected")
except OSError as e: print(e.errno)
`

// network: what containers ask for is what their VM asks for.
func (s *stack) network(t *testing.T) {
	s.runIn("", []byte(tries), "exec", "-i", "stack", "--", "tee", "/srv/tries.py")
	try := func() string {
		return s.sh("stack", "docker exec -i stack-web-1 python3 - </srv/tries.py | tr '\\n' ' '")
	}
	if got := try(); !strings.HasPrefix(got, "unknown 1") { // an error's number, and no time-out
		t.Errorf("a container of a closed VM says %q", got)
	}
	refused := s.ok("net", "log", "stack", "--refused")
	for _, want := range []string{"example.com", "192.0.2.1"} {
		if !strings.Contains(refused, want) {
			t.Errorf("the refused connections lack %s:\n%s", want, refused)
		}
	}
}

// loopback: a port that is published on the loopback alone is reached by the guest's agent.
func (s *stack) loopback(t *testing.T) {
	// Not `-m http.server`: the image holds only the modules that image.py has seen.
	s.sh("stack", `docker run -d --init --name near -p 127.0.0.1:9090:8000 python:3-slim python3 -c 'import http.server as h; h.test(h.SimpleHTTPRequestHandler, port=8000)'`)
	s.sh("stack", "until curl -sf -o /dev/null localhost:9090; do docker top near >/dev/null || { docker logs near; exit 1; }; sleep 0.2; done")
	if resp, body := s.get(s.client(true), s.url("9090-stack", "/etc/"), keyName, s.key); resp.StatusCode != 200 || !strings.Contains(body, "resolv.conf") {
		t.Errorf("a port on the loopback is shown as %d %s", resp.StatusCode, body)
	}
	s.sh("stack", "docker rm -f near")
}

// dockerfile has a step that takes time, so that a cached one is seen.
const dockerfile = `FROM python:3-slim
RUN python3 -c "open('/made', 'w').write('step')"
COPY hello /hello
CMD ["python3", "-c", "print(open('/made').read(), open('/hello').read())"]
`

// build: BuildKit builds an image, and the second time it finds the steps done.
func (s *stack) build(t *testing.T) {
	s.sh("stack", "mkdir -p /srv/app && echo hello >/srv/app/hello")
	s.runIn("", []byte(dockerfile), "exec", "-i", "stack", "--", "tee", "/srv/app/Dockerfile")
	build := func() string {
		return s.long("docker build --progress=plain -t app /srv/app")
	}
	if out := build(); strings.Contains(out, "CACHED") || !strings.Contains(out, "load build definition") {
		t.Errorf("the first build is not one by BuildKit with every step:\n%s", out)
	}
	if out := build(); strings.Count(out, "CACHED") < 2 {
		t.Errorf("the second build finds too few steps done:\n%s", out)
	}
}

// surroundings are what a container sees of the machine around it.
type surroundings struct {
	Machine, Random string
	Time            float64
}

func (s *stack) look(name string) (v surroundings) {
	s.t.Helper()
	out := s.sh(name, `docker exec stack-worker-1 python3 -c 'import json, os, time
print(json.dumps({"machine": open("/etc/machine-id").read().strip(), "random": os.urandom(16).hex(), "time": time.time()}))'`)
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		s.t.Fatalf("the container of %s says %q: %v", name, out, err)
	}
	return v
}

// fork copies the stack while its worker has a transaction open.
func (s *stack) fork(t *testing.T) {
	s.ok("pty", "stack", "--session", "in", "--exec", "docker exec -it stack-web-1 python3 -q", "-d")
	s.eventually("a prompt in the container", func() bool { return strings.Contains(s.screen("stack", "in").Text, ">>>") })
	s.ok("pty", "send", "stack", "in", "x = 6 * 7", "--wait", "0.5")
	s.ok("snapshot", "create", "stack", "--name", "open")
	s.ok("fork", "stack", "--name", "copy", "-n", "2")
	began := time.Now()
	for _, name := range []string{"copy-1", "copy-2", "stack"} {
		if got := s.rows(name); got != "[]" {
			t.Errorf("%s has committed %s, and nothing was", name, got)
		}
	}
	t.Logf("all three answer %.1f s after the fork", time.Since(began).Seconds())
	one := s.view("exec", "copy-1", "--", "docker", "logs", "-f", "stack-worker-1")
	two := s.view("exec", "copy-2", "--", "docker", "logs", "-f", "stack-worker-1")
	s.sh("copy-1", "docker kill -s USR1 stack-worker-1")
	s.sh("copy-2", "docker kill -s USR2 stack-worker-1")
	s.eventually("the first copy's log says that it commits", func() bool { return strings.Contains(one.out.String(), "job 1: COMMIT") })
	s.eventually("the second copy's log says that it rolls back", func() bool { return strings.Contains(two.out.String(), "job 1: ROLLBACK") })
	for name, want := range map[string]string{"copy-1": `["job 1"]`, "copy-2": "[]", "stack": "[]"} {
		if got := s.rows(name); got != want {
			t.Errorf("%s has committed %s, not %s", name, got, want)
		}
	}
	for _, name := range []string{"copy-1", "stack"} {
		if got := s.ok("pty", "send", name, "in", "print(x, x)", "--wait", "1"); !strings.Contains(got, "\n42 42\n") {
			t.Errorf("the terminal into a container of %s says %q", name, got)
		}
	}
	a, b := s.look("copy-1"), s.look("copy-2")
	if a.Machine == b.Machine || a.Random == b.Random {
		t.Errorf("containers of two copies see one machine: %+v and %+v", a, b)
	}
	if got := s.sh("copy-1", "cat /etc/machine-id; hostname"); got != a.Machine+"\ncopy-1" {
		t.Errorf("the machine of copy-1 is %q, and its container says %s", got, a.Machine)
	}
	s.ok("rm", "copy-1", "copy-2")
}

// sleeps suspends the stack, wakes it by its preview, and rolls it back.
func (s *stack) sleeps(t *testing.T) {
	s.ok("suspend", "stack")
	time.Sleep(5 * time.Second) // which the container's clock is to know of
	if got := s.rows("stack"); got != "[]" {
		t.Errorf("it wakes with %s committed", got)
	}
	before := time.Now()
	if said := time.UnixMilli(int64(s.look("stack").Time * 1000)); said.Before(before) || said.After(time.Now()) {
		t.Errorf("between %v and now the container's clock says %v", before, said)
	}
	if got := s.ok("pty", "send", "stack", "in", "print(x, x)", "--wait", "1"); !strings.Contains(got, "\n42 42\n") {
		t.Errorf("after the sleep the terminal into the container says %q", got)
	}
	s.sh("stack", "docker kill -s USR1 stack-worker-1")
	s.waits("stack", "job 2 waits")
	if got := s.rows("stack"); got != `["job 1"]` {
		t.Errorf("%s is committed, not the first job", got)
	}
	s.ok("rollback", "stack", "open")
	if got := s.rows("stack"); got != "[]" {
		t.Errorf("after the rollback %s is committed", got)
	}
	s.sh("stack", "docker kill -s USR1 stack-worker-1")
	s.waits("stack", "job 1: COMMIT")
	if n := strconv.Itoa(strings.Count(s.sh("stack", "docker ps -q"), "\n") + 1); n != "3" {
		t.Errorf("%s containers run after the rollback", n)
	}
}
