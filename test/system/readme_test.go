//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// readmeLines are the command lines of a section of README.md, as written.
func readmeLines(t *testing.T, section string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(text), "\n## "+section+"\n")
	if !ok {
		t.Fatalf("README.md has no section %q", section)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	for line := range strings.Lines(rest) {
		if code, ok := strings.CutPrefix(line, "    "); ok {
			lines = append(lines, strings.TrimSpace(code))
		}
	}
	return lines
}

// reader is who follows the README: a directory, a home, and what PATH finds.
type reader struct {
	h    *host
	t    *testing.T
	dir  string
	env  []string
	port string // in the place of 8080, which another program of this host may have
}

// newReader gives a person what the README takes for granted: the binary in bin/,
// an SSH key, a file. OpenSSH reads the configuration of the user's real home: its
// clients are told the one of this home.
func newReader(t *testing.T, h *host) *reader {
	t.Helper()
	dir, home := t.TempDir(), t.TempDir()
	files := map[string]string{
		"data.csv": "a,b\n1,2\n",
		"bin/ssh":  "#!/bin/sh\nexec /usr/bin/ssh -F \"$HOME/.ssh/config\" -o BatchMode=yes \"$@\"\n",
		"bin/scp":  "#!/bin/sh\nexec /usr/bin/scp -F \"$HOME/.ssh/config\" -o BatchMode=yes \"$@\"\n",
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(h.binary, filepath.Join(dir, "bin", "warren")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(home, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(home, ".ssh", "id_ed25519")).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v\n%s", err, out)
	}
	_, port, _ := strings.Cut(vmtest.FreePort(t), ":")
	return &reader{h: h, t: t, dir: dir, port: port, env: append(h.environ(), "HOME="+home, "XDG_CONFIG_HOME="+filepath.Join(home, ".config"))}
}

func (r *reader) command(ctx context.Context, line string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-c", `export PATH="$PWD/bin:$PATH"; `+line)
	cmd.Dir, cmd.Env = r.dir, r.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// do types a line and returns what it prints.
func (r *reader) do(line string) string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Minute)
	defer cancel()
	out, err := r.command(ctx, line).CombinedOutput()
	if err != nil {
		r.t.Fatalf("README: %s\n%v\n%s", line, err, out)
	}
	return string(out)
}

// leave types a line that opens a terminal, and leaves that by Ctrl-].
func (r *reader) leave(line string) string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	cmd := r.command(ctx, "script -q -e -c '"+line+"' /dev/null")
	keys, err := cmd.StdinPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	left := make(chan error, 1)
	go func() { left <- cmd.Wait() }()
	for {
		select {
		case err := <-left:
			if err != nil {
				r.t.Fatalf("README: %s\n%v\n%s", line, err, out.String())
			}
			return out.String()
		case <-time.After(300 * time.Millisecond): // pressed again until it is heard
			_, _ = io.WriteString(keys, "\x1d") // it may have been heard
		}
	}
}

// forwards types a line that stays, until its port answers.
func (r *reader) forwards(line string) string {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	cmd := r.command(ctx, strings.Replace(line, "8080:", r.port+":", 1))
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	page := get(r.t, "http://127.0.0.1:"+r.port+"/")
	cancel()
	_ = cmd.Wait() // it was ended
	return page
}

// arranged are the lines that are not typed as they stand, and why. Each must be a
// line of the README.
var arranged = map[string]func(r *reader, line string) string{
	// The reader's shell has it already.
	`export PATH="$PWD/bin:$PATH"`: func(*reader, string) string { return "" },
	// A terminal is left by a key.
	`warren shell box`: (*reader).leave,
	// It stays until it is ended.
	`warren forward app 8080:3000`: (*reader).forwards,
	// TestImages builds the image dev and uses what is in it. Here a VM of the base
	// image has its place.
	`warren image build dev`: func(r *reader, _ string) string { return r.do("warren image build base --if-missing") },
	`warren up dev --name net --net packages`: func(r *reader, line string) string {
		return r.do(strings.Replace(line, "up dev", "up base", 1))
	},
	`warren exec net -- sh -c 'apt-get update && apt-get install -y tree && npm install is-number'`: func(r *reader, _ string) string {
		if got := r.h.sh("net", registry); got != "reached" {
			r.t.Errorf("the package registry is %s", got)
		}
		return ""
	},
}

// promised is what lines print, where the README says so.
var promised = map[string]string{
	`warren exec box -- sh -c 'echo hi; uname -a'`:                       "hi\nLinux",
	`warren start box && warren exec box -- cat /work/in.txt`:            "data",
	`warren fork app -n 3 --name try`:                                    "try-3",
	`ssh app.warren hostname && scp in.txt app.warren:/work/`:            "app",
	`warren forward app 8080:3000`:                                       "Directory listing",
	`warren run -- python3 -c 'print(6*7)'`:                              "42",
	`warren run --add data.csv -- wc -l /work/data.csv`:                  "2 /work/data.csv",
	`warren preview app 3000`:                                            "3000-app.warren.localhost",
	`warren exec app -- rm -rf /usr/lib/python3 && warren rollback app`:  "app",
	`warren publish app:/work/in.txt s3://results/`:                      "s3://results/in.txt@",
	`curl -s "$(warren artifact sign -q s3://results/in.txt --for 1h)"`:  "data",
	`warren run --publish lines=s3://results/ -- sh -c 'seq 100 >lines'`: "published s3://results/lines@",
}

// TestReadme types the lines of the README's first five minutes, one after the
// other, on a server with its defaults, and leaves its VMs alone until they sleep.
// Each VM comes from the warm pool.
func TestReadme(t *testing.T) {
	h := newHost(t)
	r := newReader(t, h)
	lines := readmeLines(t, "The first five minutes")
	var typed []string
	for _, line := range lines {
		line, _, _ = strings.Cut(line, "   #") // a remark; Go's side needs it gone, bash would not
		line = strings.TrimSpace(line)
		typed = append(typed, line)
		hits := h.pool().Hits
		fromPool := strings.HasPrefix(line, "warren up ") && !strings.Contains(line, "--net")
		if fromPool {
			h.poolReady()
		}
		begin := time.Now()
		do := arranged[line]
		if do == nil {
			do = (*reader).do
		}
		out := do(r, line)
		t.Logf("%5.1f s  %s", time.Since(begin).Seconds(), line)
		if want := promised[line]; !strings.Contains(out, want) {
			t.Errorf("%s\nprints %q, want %q in it", line, out, want)
		}
		if fromPool && h.pool().Hits != hits+1 {
			t.Errorf("%s: the VM does not come from the pool", line)
		}
		switch line {
		case `warren fork app -n 3 --name try`:
			for _, name := range []string{"try-1", "try-2", "try-3"} {
				h.eventually(name+" answers on 3000", func() bool { // it was copied while its server began
					return h.sh(name, "curl -s localhost:3000/ | head -c 9") == "<!DOCTYPE"
				})
			}
		case `warren exec app -- rm -rf /usr/lib/python3 && warren rollback app`:
			h.sh("app", "ls -d /usr/lib/python3")
		}
	}
	for line := range arranged {
		if !slices.Contains(typed, line) {
			t.Errorf("the README has no line %q any more", line)
		}
	}
	for line := range promised {
		if !slices.Contains(typed, line) {
			t.Errorf("the README has no line %q any more", line)
		}
	}
	fiveIdleMinutes(t, h)
	if log := h.log.String(); strings.Contains(log, "level=ERROR") {
		t.Errorf("the server logged an error:\n%s", log)
	}
}

// fiveIdleMinutes leaves the README's VMs alone for the five minutes of the
// default, until each sleeps, and wakes one by a command.
func fiveIdleMinutes(t *testing.T, h *host) {
	t.Helper()
	const timeout, atLatest = 5 * time.Minute, 8 * time.Minute
	server := h.sh("app", "pgrep -x python3")
	if server == "" {
		t.Fatal("no web server in app")
	}
	left := time.Now()
	// `make test` runs other tests meanwhile: this line tells it that here only time
	// has to pass.
	t.Parallel()
	awake := func(v listed) bool { return v.State == string(vm.Running) || v.State == string(vm.Suspending) }
	for slices.ContainsFunc(h.list(), awake) && time.Since(left) < atLatest {
		<-time.After(time.Second)
	}
	all := h.list()
	if len(all) < 4 {
		t.Errorf("too few VMs are left: %+v", all)
	}
	for _, v := range all {
		i := h.idle(v.ID)
		if v.State != string(vm.Suspended) || i.AsleepFor != "idle" {
			t.Errorf("%s is not asleep by itself: %+v", v.Name, i)
			continue
		}
		slept := i.Asleep.Sub(i.LastActivity)
		if slept < timeout {
			t.Errorf("%s fell asleep %v after its last use", v.Name, slept)
		}
		t.Logf("%s fell asleep %.1f s after its last use, which was %s", v.Name, slept.Seconds(), i.LastKind)
	}
	if again := h.sh("app", "pgrep -x python3"); again != server {
		t.Errorf("app woke with the web server %q, it fell asleep with %q", again, server)
	}
	if got := h.sh("app", "curl -s localhost:3000/ | head -c 9"); got != "<!DOCTYPE" {
		t.Errorf("after its sleep the web server says %q", got)
	}
}
