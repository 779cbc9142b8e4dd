// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/cli"
	"github.com/warren-vm/warren/internal/image"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// A recipe directory is asked about once, by what it holds. 001-08
func TestVerifyTrust(t *testing.T) {
	data, err := layout.Open(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	at := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var asked []cli.Trust
	answer := error(nil)
	verify := func(o cli.BuildOptions) error {
		t.Helper()
		o.Recipe = at
		r, err := image.FindRecipe(at)
		if err != nil {
			t.Fatal(err)
		}
		return verifyTrust(t.Context(), data, o, r)
	}
	asks := cli.BuildOptions{AskTrust: func(k cli.Trust) error { asked = append(asked, k); return answer }}
	write("warren.yaml", "name: mine\nfiles:\n  - path: /usr/bin/x\n    source: x.sh\nrun:\n  - echo hello\n")
	write("x.sh", "echo one\n")
	if err := verify(cli.BuildOptions{}); vm.AsError(err).Code != "UNTRUSTED" {
		t.Errorf("a new recipe that nobody can be asked about gives %v, want UNTRUSTED", err)
	}
	answer = vm.Errorf(vm.Denied, "", "no")
	if err := verify(asks); vm.KindOf(err) != vm.Denied {
		t.Errorf("an answer of no gives %v, want it denied", err)
	}
	answer = nil
	if err := verify(asks); err != nil || len(asked) != 2 {
		t.Fatalf("after a no and a yes %d questions were asked (%v), want 2", len(asked), err)
	}
	if says := strings.Join(asked[0].Says, "\n"); !strings.Contains(says, "echo hello") || !strings.Contains(says, "writes /usr/bin/x, 9 bytes") {
		t.Errorf("the question says %q, want the run step and the file", says)
	}
	if err := verify(cli.BuildOptions{}); err != nil {
		t.Errorf("a recipe that is trusted gives %v, want no question", err)
	}
	write("x.sh", "echo two\n") // only a file that it uses
	if err := verify(asks); err != nil || len(asked) != 3 {
		t.Errorf("after a change of a file %d questions were asked (%v), want a third", len(asked), err)
	}
	write("x.sh", "echo three\n")
	if err := verify(cli.BuildOptions{Trust: asked[2].Digest}); vm.AsError(err).Code != "UNTRUSTED" {
		t.Errorf("--trust with another digest gives %v, want UNTRUSTED", err)
	}
	digest := vm.AsError(verify(cli.BuildOptions{})).Fields["digest"].(string)
	if err := verify(cli.BuildOptions{Trust: digest}); err != nil {
		t.Errorf("--trust with its digest gives %v", err)
	}
	if st, err := os.Stat(data.Trust()); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the file of trusted recipes: %v, %v, want mode 0600", st, err)
	}
	shipped, err := image.FindRecipe("base")
	if err != nil {
		t.Fatal(err)
	}
	if err := verifyTrust(t.Context(), data, cli.BuildOptions{Recipe: "base"}, shipped); err != nil {
		t.Errorf("a shipped recipe gives %v, want no question", err)
	}
}
