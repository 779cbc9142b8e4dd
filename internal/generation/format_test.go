// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package generation

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// The manifest of a newer Warren is refused as such, and stays what it is.
func TestNewerManifest(t *testing.T) {
	s := Store{Dir: layout.Dir(t.TempDir())}
	id := vm.NewGenerationID()
	path := layout.GenerationDir(s.Dir.Generation(id)).Manifest()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	for format, want := range map[string]vm.Kind{"1": "", "2": vm.Unsupported, "99": vm.Unsupported} {
		text := `{"format":` + format + `,"id":"` + string(id) + `","to come":{}}`
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := s.Load(id)
		if want == "" && err != nil || want != "" && (vm.KindOf(err) != want || vm.AsError(err).Hint == "" || !strings.Contains(err.Error(), format)) {
			t.Errorf("format %s: %v", format, err)
		}
		if data, err := os.ReadFile(path); err != nil || string(data) != text {
			t.Errorf("format %s: it was touched: %s, %v", format, data, err)
		}
	}
}
