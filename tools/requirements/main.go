// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Command requirements prints each sentence of docs/requirements.md with the
// tests that cite its number and their results at this commit. It reads sources
// and the results that tools/runtests keeps, and runs no test. It exits with
// status 1 if a test cites an unknown number, if a citation belongs to no test,
// or if docs/requirements.md and the citations contradict each other.
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

// run prints the report on the repository at root. The error names everything
// that is wrong with its citations.
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

// named returns a source's name for people.
func named(s results.Source) string {
	if s.Dirty {
		return s.Commit + " with changes"
	}
	return s.Commit
}

// outcomes describes the tests that cite one number. It reports whether the
// number is shown: at least one test cites it, and all of them passed.
// Results that are not valid belong to another commit and count as not run.
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

// outcome returns the result of a citing test. A test with a failed or skipped subtest
// did not pass, because the requirement may depend on that part. A script counts as
// the subtests that run it: all must pass, and at least one on real machines.
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

// in reports whether an import path is the package at dir of this module.
func in(pkg, dir string) bool { return pkg == dir || strings.HasSuffix(pkg, "/"+dir) }

// The states of a requirement in docs/requirements.md. After all except the
// first follows what is missing.
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

// faults lists contradictions between the citations and the table.
func faults(lines []requirement, cited citations) []string {
	wrong := slices.Clone(cited.stray)
	known := map[string]bool{}
	for _, l := range lines {
		if known[l.number] {
			wrong = append(wrong, l.number+" appears twice")
		}
		known[l.number] = true
		cites := cited.of[l.number]
		_, missing, reason := strings.Cut(l.state, ": ")
		other := reason && len(missing) > 2 && (strings.HasPrefix(l.state, notShown) || strings.HasPrefix(l.state, planned))
		switch {
		case l.state == holds && len(cites) == 0:
			wrong = append(wrong, l.number+" holds by the table, but no test cites it")
		case other && len(cites) > 0:
			wrong = append(wrong, fmt.Sprintf("%s is %q by the table, but %s cites it", l.number, l.state, cites[0].test))
		case l.state != holds && !other:
			wrong = append(wrong, fmt.Sprintf("%s: %q is not a state", l.number, l.state))
		}
	}
	for _, n := range slices.Sorted(maps.Keys(cited.of)) {
		if !known[n] {
			c := cited.of[n][0]
			wrong = append(wrong, fmt.Sprintf("%s %s cites %s, which is not a requirement", c.pkg, c.test, n))
		}
	}
	return wrong
}
