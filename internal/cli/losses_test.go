// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// losing is a server with a VM that has something of its own.
func losing(t *testing.T) *fake {
	f := newFake(t)
	f.on("GET /v1/vms/app/truth", sampleTruth())
	f.on("GET /v1/vms/app/remains", vm.Remaining{VM: box.ID, Name: "app", State: vm.Running})
	f.on("DELETE /v1/vms/app", api.DeletedVM{ID: box.ID})
	f.on("POST /v1/vms/app/done", vm.Job{VM: box.ID, Complete: true})
	return f
}

func (f *fake) removed() bool { return slices.Contains(f.requests(), "DELETE /v1/vms/app") }

// Without a terminal, rm says on standard error what is lost, removes the VM, and prints
// the same on standard output as for any VM. -q says nothing, and asks the server nothing.
func TestRmSaysWhatIsLost(t *testing.T) {
	f := losing(t)
	r := run(t, f, Local{}, "", "rm", "app", "--json")
	r.wants(t, 0, "only in app, and lost when it is removed:")
	for _, want := range []string{"/work/x: 7 files (2 KiB): /work/x/a.go", `"/work/x/b\nad\x1b"`, "at least 3 commits", "an older state stays: generation sl-0000000000000001: snapshot before"} {
		if !strings.Contains(r.stderr, want) {
			t.Errorf("rm of a VM with work of its own does not say %q:\n%s", want, r.stderr)
		}
	}
	if strings.ContainsRune(r.stderr, 0x1b) || !strings.HasPrefix(r.out, "[") || !f.removed() {
		t.Errorf("rm --json: %+v, want a list and no escape, and the VM removed", r)
	}
	f = losing(t)
	if r := run(t, f, Local{}, "", "rm", "app", "-q"); r.out+r.stderr != "" || !f.removed() || slices.Contains(f.requests(), "GET /v1/vms/app/truth") {
		t.Errorf("rm -q: %+v, want no output, no look at the disk and the VM removed", r)
	}
	f = losing(t)
	if r := run(t, f, Local{}, "", "rm", "app", "--yes"); strings.Contains(r.stderr, "lost") || !f.removed() || slices.Contains(f.requests(), "GET /v1/vms/app/truth") {
		t.Errorf("rm --yes: %+v, want no look at the disk and the VM removed at once", r)
	}
	f = losing(t)
	if r := run(t, f, Local{}, "", "done", "app", "--rm"); !strings.Contains(r.stderr, "only in app, and lost") {
		t.Errorf("done --rm does not say what is lost: %+v", r)
	}
	f = losing(t)
	if r := run(t, f, Local{}, "", "done", "app", "--stop"); strings.Contains(r.stderr, "lost") || slices.Contains(f.requests(), "GET /v1/vms/app/truth") {
		t.Errorf("done --stop, which keeps the disk, speaks of a loss: %+v", r)
	}
}

// When the server cannot say in time what is lost, rm says that and continues.
func TestRmWaitsForAFewSeconds(t *testing.T) {
	f := newFake(t)
	f.on("DELETE /v1/vms/app", api.DeletedVM{ID: box.ID})
	f.mux.HandleFunc("GET /v1/vms/app/truth", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	begun := time.Now()
	run(t, f, Local{}, "", "rm", "app").wants(t, 0, "what exists only in app was not determined within 5s")
	if took := time.Since(begun); took < lossLimit || took > 2*lossLimit || !f.removed() {
		t.Errorf("rm took %s, want little more than %s and the VM removed", took, lossLimit)
	}
	broken := newFake(t)
	broken.on("DELETE /v1/vms/app", api.DeletedVM{ID: box.ID})
	broken.on("GET /v1/vms/app/truth", vm.Errorf(vm.Corrupt, "app", "its disk is damaged"))
	run(t, broken, Local{}, "", "rm", "app").wants(t, 0, "what exists only in app was not determined: app: its disk is damaged")
}

// On a terminal rm asks before something is lost, and only then. An answer other than yes
// keeps the VM.
func TestRmAsksOnATerminal(t *testing.T) {
	for _, c := range []struct {
		answer  string
		args    []string
		lost    vm.Truth
		asks    bool
		removed bool
	}{
		{"n\n", []string{"rm", "app"}, sampleTruth(), true, false},
		{"\n", []string{"rm", "app"}, sampleTruth(), true, false},
		{"y\n", []string{"rm", "app"}, sampleTruth(), true, true},
		{"n\n", []string{"rm", "app", "--yes"}, sampleTruth(), false, true},
		{"n\n", []string{"rm", "app"}, vm.Truth{}, false, true},
	} {
		f := newFake(t)
		f.on("GET /v1/vms/app/truth", c.lost)
		f.on("DELETE /v1/vms/app", api.DeletedVM{ID: box.ID})
		keyboard, tty := openTerminal(t, 80)
		if _, err := keyboard.WriteString(c.answer); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		env := map[string]string{"WARREN_API_KEY": "secret", "WARREN_API_URL": f.server.URL}
		code := Main(t.Context(), c.args, tty, &out, &errs, func(k string) string { return env[k] }, Local{})
		_, _ = tty.Close(), keyboard.Close()
		if asked := strings.Contains(errs.String(), "remove app? [y/N]"); asked != c.asks || f.removed() != c.removed || (code == 0) != c.removed {
			t.Errorf("%v with the answer %q: asked %v, removed %v, status %d; want %v and %v\n%s", c.args, c.answer, asked, f.removed(), code, c.asks, c.removed, errs.String())
		}
	}
}
