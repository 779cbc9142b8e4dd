// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every command has a manual page, with all that is below it; no line of a page is taken for a request of troff.
func TestManPages(t *testing.T) {
	dir := t.TempDir()
	run(t, nil, Local{}, "", "docs", "--man", dir, "--made", "1790000000").wants(t, 0, "")
	page := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name+".1"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	root := newRoot(&app{io: &streams{}, getenv: func(string) string { return "" }})
	for _, c := range root.Commands() {
		if c.Hidden || c.GroupID == "" {
			continue
		}
		text := page(manName(c))
		if usedAlone(c) && !strings.Contains(text, roff(c.UseLine())) {
			t.Errorf("the page of %s does not say how it is used without a command below it", c.Name())
		}
		for _, below := range c.Commands() {
			if !below.Hidden && !strings.Contains(text, roff(below.CommandPath())) {
				t.Errorf("the page of %s does not describe %s", c.Name(), below.Name())
			}
		}
		for _, line := range strings.Split(text, "\n") {
			request, _, _ := strings.Cut(line, " ")
			if strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !strings.Contains(" .TH .SH .SS .PP .TP .BR .B .I .nf .fi ", " "+request+" ") {
				t.Errorf("%s: troff takes this for a request: %s", c.Name(), line)
			}
		}
	}
	if text := page("warren"); !strings.Contains(text, ".BR warren\\-up (1)\nMake a VM and start it\n") || !strings.Contains(text, "2026\\-09\\-21") {
		t.Errorf("the page of the program lacks a command, or the date it was made for:\n%.600s", text)
	}
}
