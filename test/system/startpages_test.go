//go:build system

// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package system

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// pageCommands are the commands of a page, as written: its indented lines, where a here-document is one command with the
// line that it belongs to. Lines between ``` are shown only.
func pageCommands(t *testing.T, file string) (commands []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	document := regexp.MustCompile(`<<'(\w+)'`)
	fenced, end := false, ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		code, indented := strings.CutPrefix(line, "    ")
		switch {
		case end != "":
			commands[len(commands)-1] += "\n" + code
			if code == end {
				end = ""
			}
		case indented && !fenced:
			commands = append(commands, code)
			if m := document.FindStringSubmatch(code); m != nil {
				end = m[1]
			}
		}
	}
	return commands
}

// withoutRemark is the first line of a command without the remark at its end.
func withoutRemark(command string) string {
	line, _, _ := strings.Cut(command, "\n")
	line, _, _ = strings.Cut(line, "  #")
	return strings.TrimSpace(line)
}

// session types commands into one shell, one after the other, and returns what each prints. One whose remark begins with
// "refused" has to fail, every other one to succeed.
func (r *reader) session(commands []string, instead map[string]string) []string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Minute)
	defer cancel()
	script := "set -e\n"
	for i, c := range commands {
		run := c
		if other, ok := instead[withoutRemark(c)]; ok {
			run = other
		}
		if strings.Contains(c, "# refused") {
			run = "if\n" + run + "\nthen echo 'it was not refused'; exit 1; fi"
		}
		script += fmt.Sprintf("echo; echo \"@@ %d $EPOCHREALTIME\"\n%s\n", i, run)
	}
	out, err := r.command(ctx, script+"echo; echo \"@@ end $EPOCHREALTIME\"\n").CombinedOutput()
	if err != nil {
		r.t.Fatalf("the page's commands, in one shell: %v\n%s", err, out)
	}
	marks := regexp.MustCompile(`(?m)^@@ \w+ (\d+\.\d+)\n`)
	at := marks.FindAllStringSubmatchIndex(string(out), -1)
	if len(at) != len(commands)+1 {
		r.t.Fatalf("%d commands were typed, want %d:\n%s", len(at)-1, len(commands), out)
	}
	var all []string
	second := func(i int) float64 {
		s, err := strconv.ParseFloat(string(out[at[i][2]:at[i][3]]), 64)
		if err != nil {
			r.t.Fatalf("a time of the shell is no number: %v", err)
		}
		return s
	}
	for i, c := range commands {
		all = append(all, string(out[at[i][1]:at[i+1][0]]))
		r.t.Logf("%5.1f s  %s", second(i+1)-second(i), withoutRemark(c))
	}
	return all
}

// printed is what the commands of the first pages print, by their first lines without the remarks.
var printed = map[string][]string{
	"python3 first.py":  {"first\nbuy milk\n", "try-1 changed:\n", "+buy bread\n", "try-2 changed:\n", "+buy tea\n"},
	"python3 second.py": {"Hello from "},

	"warren up --name first && warren exec first -- uname -a":       {"Linux first"},
	"warren account create team-a":                                  {"team-a"},
	`WARREN_API_KEY=$TOKEN warren exec first -- id -un`:             {"root"},
	`WARREN_API_KEY=$TOKEN warren suspend first`:                    {"may"},
	"warren usage --all":                                            {"team-a"},
	"warren storage":                                                {"first"},
	"warren audit ls --limit 10":                                    {"exec"},
	"mkdir -p backups && warren backup create -o backups":           {"verified"},
	"warren backup inspect backups/*.tar.zst":                       {"signed by SHA256:"},
	"warren inspect suspect":                                        {"runs by"},
	"warren exec suspect -- curl -sS -m 20 https://example.com/":    {"the network policy is closed"},
	"warren exec suspect -- curl -sS -m 20 http://169.254.169.254/": {"refused"},
	"warren net log suspect --refused":                              {"example.com", "169.254.169.254"},
	"warren exec suspect -- grep -rs my-api-token /run /etc /root /workspace /tmp || echo \"the value is not in the VM\"": {"the value is not in the VM\n"},
	"warren audit ls --vm suspect":              {"exec", "secret-grant"},
	"warren audit verify":                       {"the chain is intact"},
	"warren receipt suspect -o suspect.receipt": {"signed up to record"},
	`warren receipt verify suspect.receipt --key "$(warren audit verify | grep -o 'SHA256:[^ ]*')"`: {"all in the log that was signed"},
}

// TestStartPages types the commands of the three first pages, each page into one shell, on a server with its defaults.
func TestStartPages(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	client := pythonWith(t, absolute("../../clients/python/tests/requirements.txt"))
	e2b := pythonWith(t, absolute("../contract/e2b/requirements.txt"))
	// Commands that are not typed as they stand, and what has their place.
	instead := map[string]string{
		// What the pages install, the tests have: see pythonWith.
		"sudo apt install -y python3-venv":              "true",
		"python3 -m venv .venv && . .venv/bin/activate": "true",
		"pip install ./clients/python":                  fmt.Sprintf("python3() { PYTHONPATH=%q %q \"$@\"; }", absolute("../../clients/python/src"), client),
		"pip install e2b":                               fmt.Sprintf("python3() { %q \"$@\"; }", e2b),
		// The host of a test may lack something that the tests do not need.
		"warren doctor": "warren doctor || test $? = 9",
	}
	var typed []string
	for _, name := range []string{"agent-builder", "operator", "security"} {
		t.Run(name, func(t *testing.T) {
			commands := pageCommands(t, "../../docs/start/"+name+".md")
			out := newReader(t, h).session(commands, instead)
			for i, c := range commands {
				first := withoutRemark(c)
				typed = append(typed, first)
				if strings.Contains(out[i], "my-api-token") || strings.Contains(first, `"$API"`) && strings.TrimSpace(out[i]) == "" {
					t.Errorf("%s\nprints %q, want a placeholder of the secret", first, out[i])
				}
				for _, want := range printed[first] {
					if !strings.Contains(out[i], want) {
						t.Errorf("%s\nprints %q, want %q in it", first, out[i], want)
					}
				}
			}
			if left := h.ok("ls", "-q"); name != "operator" && strings.Count(left, "\n") > 1 {
				t.Errorf("the page leaves the machines %q", left)
			}
		})
	}
	for line := range instead {
		if !slices.Contains(typed, line) {
			t.Errorf("no first page has the line %q any more", line)
		}
	}
	for line := range printed {
		if !slices.Contains(typed, line) {
			t.Errorf("no first page has the line %q any more", line)
		}
	}
	if log := h.log.String(); strings.Contains(log, "level=ERROR") {
		t.Errorf("the server logged an error:\n%s", log)
	}
}
