// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// switchedOff finds a default of serve that a line switches off: the warm pool, or
// one of the gateways.
var switchedOff = regexp.MustCompile(`--pool[", =]+0\b|--(ssh|preview)[", =]+off\b|\bPool(:| =|",) *"?0\b`)

// withReason finds the comment that says why, on the same line.
var withReason = regexp.MustCompile(`(//|\s#) *\S+ +\S+ +\S+`)

// offWithoutReason returns the lines of a text that switch a default off and do
// not say why.
func offWithoutReason(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if switchedOff.MatchString(line) && !withReason.MatchString(line) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// TestDefaultsAreTested: what users run is what is tested. A test, a benchmark or a
// script that switches a default of serve off says why on that line.
func TestDefaultsAreTested(t *testing.T) {
	for line, bad := range map[string]bool{
		`newHost(t, "--pool", "0")`:                                 true,
		`newHost(t, "--pool", "0") // it counts processes`:          false,
		`newHost(t, "--pool", "0") // off`:                          true,
		`h.serve("--preview", "off")`:                               true,
		`warren serve --ssh off --pool=0`:                           true,
		`warren serve --pool 0 # it measures without a pool`:        false,
		`Settings{Pool: 0}`:                                         true,
		`s.Settings.Pool = 0`:                                       true,
		`newHost(t, "--pool", "10")`:                                false,
		`set("WARREN_POOL", "0")`:                                   false, // no flag: of the environment's own test
		`h.serve("--ssh", ssh, "--preview", web)`:                   false,
		`t.Errorf("%s: the pool is 0", name)`:                       false,
		`c := Config{Pool: "0"} // what the check of it is made of`: false,
	} {
		if got := len(offWithoutReason(line)) > 0; got != bad {
			t.Errorf("%s: found %v, want %v", line, got, bad)
		}
	}
	for _, dir := range []string{"../../test", "../../scripts", "../../bench", "../../tools", "../../deploy", "../../internal", "../../client", "../../cmd"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && d.Name() == "node_modules" {
				return filepath.SkipDir
			}
			name := d.Name()
			test := strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".sh") || strings.HasSuffix(name, ".mjs")
			harness := strings.HasSuffix(name, ".go") && (strings.HasPrefix(path, "../../bench") || strings.HasPrefix(path, "../../internal/vmtest"))
			if d.IsDir() || name == "defaults_test.go" || !test && !harness {
				return nil
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for _, line := range offWithoutReason(string(text)) {
				t.Errorf("%s switches a default off without saying why on the line: %s", path, line)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}
