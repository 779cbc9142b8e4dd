// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"bytes"
	"strings"
	"testing"
)

// TestShell holds what other tests rely on.
func TestShell(t *testing.T) {
	for script, want := range map[string]struct {
		out, err string
		code     int
	}{
		"echo hi":                          {"hi\n", "", 0},
		"echo 'a  b' \"c $X\" d\\ e":       {"a  b c val d e\n", "", 0},
		"false; echo $?":                   {"1\n", "", 0},
		"true && echo y || echo n":         {"y\n", "", 0},
		"false && echo y || echo n":        {"n\n", "", 0},
		"echo one\necho two; exit 3; echo": {"one\ntwo\n", "", 3},
		"echo data | cat":                  {"data\n", "", 0},
		"cat":                              {"input", "", 0},
		"echo x > /tmp/f; echo y >> /tmp/f; cat /tmp/f": {"x\ny\n", "", 0},
		"echo oops >&2":                    {"", "oops\n", 0},
		"nope 2>/dev/null || echo 127=$?":  {"127=127\n", "", 0},
		"nope":                             {"", "bash: line 1: nope: command not found\n", 127},
		"sh -c 'echo in; exit 4'; echo $?": {"in\n4\n", "", 0},
		"A=1; echo $A${A}2":                {"112\n", "", 0},
		"mkdir -p \"/tmp/d/e\" && test -d /tmp/d; echo $?": {"0\n", "", 0},
		"cat /nope": {"", "cat: /nope: No such file or directory\n", 1},
		"stat -c '%s|%F|%a|%U|%G|%y' \"/nope\" 2>/dev/null || false": {"", "", 1},
		"echo a 2>&1 # comment; exit 9":                              {"a\n", "", 0},
	} {
		var out, errOut bytes.Buffer
		sh := &shell{
			disk: newDisk(1 << 20), cwd: "/root", env: map[string]string{"X": "val"}, ctx: t.Context(),
			stdin: strings.NewReader("input"), stdout: &out, stderr: &errOut,
		}
		code := sh.script(script)
		if out.String() != want.out {
			t.Errorf("%q: the output is %q, want %q", script, out.String(), want.out)
		}
		if errOut.String() != want.err {
			t.Errorf("%q: the error output is %q, want %q", script, errOut.String(), want.err)
		}
		if code != want.code {
			t.Errorf("%q: the exit status is %d, want %d", script, code, want.code)
		}
	}
}
