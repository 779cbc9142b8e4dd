// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Command requirements prints each sentence of docs/requirements.md, the tests
// that cite its number and how they ended at this commit. It reads sources and
// the results that tools/runtests keeps, and runs no test. It ends with status
// 1 where a test cites a number that there is not, where a citation belongs to
// no test, and where docs/requirements.md says otherwise than the citations.
package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/warren-vm/warren/tools/results"
)

func main() {
	gaps := flag.Bool("gaps", false, "print only what no passing test shows")
	flag.Parse()
	if err := run(os.Stdout, ".", *gaps); err != nil {
		fmt.Fprintln(os.Stderr, "requirements:", err)
		os.Exit(1)
	}
}

// run prints the report on the repository at root. The error names all that is
// wrong with its citations.
func run(out io.Writer, root string, gaps bool) error {
	lines, err := readRequirements(filepath.Join(root, "docs/requirements.md"))
	if err != nil {
		return err
	}
	cited, err := findCitations(root)
	if err != nil {
		return err
	}
	kept, err := results.Load(root)
	if err != nil {
		return err
	}
	now, err := results.Of(root)
	if err != nil {
		return err
	}
	valid := kept.Commit == now.Commit && !kept.Dirty && !now.Dirty
	shown, hold := 0, 0
	for _, l := range lines {
		tests, ok := outcomes(cited.of[l.number], kept, valid)
		if l.state == holds {
			hold++
		}
		if ok {
			shown++
		}
		if gaps && ok {
			continue
		}
		fmt.Fprintf(out, "%s  %s  [%s]\n", l.number, l.text, l.state)
		for _, t := range tests {
			fmt.Fprintln(out, "        "+t)
		}
	}
	switch {
	case kept.Commit == "":
		fmt.Fprintln(out, "no test has been run: `make test` keeps the results")
	case !valid:
		fmt.Fprintf(out, "the results are of %s and this is %s: none of them counts\n", named(kept.Source), named(now))
	}
	fmt.Fprintf(out, "%d of %d requirements hold by docs/requirements.md; every test that cites them passed at this commit for %d\n", hold, len(lines), shown)
	if wrong := faults(lines, cited); len(wrong) > 0 {
		return fmt.Errorf("%d citations are wrong:\n%s", len(wrong), strings.Join(wrong, "\n"))
	}
	return nil
}

// named is how a source is spoken of.
func named(s results.Source) string {
	if s.Dirty {
		return s.Commit + " with changes"
	}
	return s.Commit
}

// outcomes renders the tests that cite one number. It reports whether the
// number is shown: there is such a test, and every one of them passed whole.
// Results that are not valid are of another commit and count as not run.
func outcomes(cites []citation, kept results.Run, valid bool) (lines []string, shown bool) {
	shown = len(cites) > 0
	for _, c := range cites {
		outcome := outcome(c, kept.Tests)
		if outcome != "not run" && !valid {
			outcome = "stale"
		}
		shown = shown && outcome == "pass"
		lines = append(lines, fmt.Sprintf("%-7s %s %s", outcome, c.pkg, c.test))
	}
	return lines, shown
}

// outcome is how a citing test ended. One of which a subtest failed or was
// skipped did not pass: what it left out may be what the sentence says. A
// script is what runs it as a subtest: each of them counts, and it takes one
// on real machines.
func outcome(c citation, tests map[string]results.Test) string {
	var ended []string
	machines := !c.script
	for key, t := range tests {
		pkg, test, _ := strings.Cut(key, " ")
		switch {
		case c.script && path.Base(test) == c.test && (in(pkg, c.pkg) || in(pkg, machinesIn)):
			ended = append(ended, t.Outcome)
			machines = machines || in(pkg, machinesIn)
		case !c.script && in(pkg, c.pkg) && (test == c.test || strings.HasPrefix(test, c.test+"/")):
			ended = append(ended, t.Outcome)
		}
	}
	switch {
	case slices.Contains(ended, "fail"):
		return "fail"
	case slices.Contains(ended, "skip"):
		return "skip"
	case len(ended) == 0 || !machines:
		return "not run"
	}
	return "pass"
}

// machinesIn is the package whose tests run the scripts on real machines.
const machinesIn = "test/system"

// in says whether an import path is the package at dir of this module.
func in(pkg, dir string) bool { return pkg == dir || strings.HasSuffix(pkg, "/"+dir) }

// The states of a requirement in docs/requirements.md. All but the first are
// followed by what is missing.
const (
	holds    = "holds"
	notShown = "not shown: "
	planned  = "planned: "
)

type requirement struct{ number, state, text string }

var row = regexp.MustCompile(`^\| (00\d-\d\d) \| ([^|]+) \| ([^|]+) \|$`)

// readRequirements reads the rows of the table.
func readRequirements(name string) ([]requirement, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var out []requirement
	for line := range strings.Lines(string(data)) {
		if m := row.FindStringSubmatch(strings.TrimSuffix(line, "\n")); m != nil {
			out = append(out, requirement{m[1], m[2], m[3]})
		}
	}
	return out, nil
}

// faults says where the citations and the table contradict each other.
func faults(lines []requirement, cited citations) []string {
	wrong := slices.Clone(cited.stray)
	known := map[string]bool{}
	for _, l := range lines {
		if known[l.number] {
			wrong = append(wrong, l.number+" is there twice")
		}
		known[l.number] = true
		cites := cited.of[l.number]
		_, missing, reason := strings.Cut(l.state, ": ")
		other := reason && len(missing) > 2 && (strings.HasPrefix(l.state, notShown) || strings.HasPrefix(l.state, planned))
		switch {
		case l.state == holds && len(cites) == 0:
			wrong = append(wrong, l.number+" holds, says the table, but no test cites it")
		case other && len(cites) > 0:
			wrong = append(wrong, fmt.Sprintf("%s is %q, says the table, but %s cites it", l.number, l.state, cites[0].test))
		case l.state != holds && !other:
			wrong = append(wrong, fmt.Sprintf("%s: %q is no state", l.number, l.state))
		}
	}
	for _, n := range slices.Sorted(maps.Keys(cited.of)) {
		if !known[n] {
			c := cited.of[n][0]
			wrong = append(wrong, fmt.Sprintf("%s %s cites %s, which is no requirement", c.pkg, c.test, n))
		}
	}
	return wrong
}
