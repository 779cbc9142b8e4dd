// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"io"
	"net/http"
	"slices"
	"testing"
)

// TestWatchFiles: the server gets the paths as typed, no path is the working
// directory, and each change is one line.
func TestWatchFiles(t *testing.T) {
	f := newFake(t)
	var asked [][]string
	f.mux.HandleFunc("POST /v1/vms/box/watch-files", func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Query()["path"])
		_, _ = io.WriteString(w, "\n{\"eventType\":\"create\",\"filename\":\"/work/a\\u001bb\"}\n")
	})
	if r := run(t, f, Local{}, "", "watch-files", "box"); r.code != 0 || r.out != `create  "/work/a\x1bb"`+"\n" {
		t.Errorf("watch-files: %+v, want one quoted event", r)
	}
	if r := run(t, f, Local{}, "", "watch-files", "box", "src", "/etc", "--json"); r.code != 0 || r.out != `{"eventType":"create","filename":"/work/a\u001bb"}`+"\n" {
		t.Errorf("watch-files --json: %+v, want the event as it is", r)
	}
	if len(asked) != 2 || len(asked[0]) != 0 || !slices.Equal(asked[1], []string{"src", "/etc"}) {
		t.Errorf("asked for %q", asked)
	}
	run(t, f, Local{}, "", "watch-files").wants(t, 2, "which VM")
}
