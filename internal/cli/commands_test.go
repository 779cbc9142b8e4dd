// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// testRoot is the whole command tree, without a server.
func testRoot() *cobra.Command {
	var out bytes.Buffer
	getenv := func(string) string { return "" }
	a := &app{io: newStreams(&out, &out, &out, getenv), getenv: getenv, signals: &signals{}}
	a.client = a.connect
	return newRoot(a)
}

// visit calls f with each command of the product.
func visit(c *cobra.Command, f func(*cobra.Command)) {
	if c.Name() == "help" {
		return
	}
	f(c)
	for _, sub := range c.Commands() {
		visit(sub, f)
	}
}

// words splits an example line as a shell would, as far as the examples go.
func words(line string) []string {
	var out []string
	var word strings.Builder
	quoted, any := false, false
	for _, r := range line {
		switch {
		case r == '\'':
			quoted, any = !quoted, true
		case r == ' ' && !quoted:
			if any {
				out = append(out, word.String())
			}
			word.Reset()
			any = false
		default:
			word.WriteRune(r)
			any = true
		}
	}
	if any {
		out = append(out, word.String())
	}
	return out
}

// TestExamples: every command has an example, and the examples parse.
func TestExamples(t *testing.T) {
	visit(testRoot(), func(c *cobra.Command) {
		if !c.HasParent() {
			return
		}
		if c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		for _, line := range strings.Split(c.Example, "\n") {
			_, line, ok := strings.Cut(line, "warren ")
			if !ok {
				t.Errorf("%s: the example %q calls no warren", c.CommandPath(), line)
				continue
			}
			line, _, _ = strings.Cut(strings.TrimSuffix(line, ")"), " | ")
			if err := parse(words(line)); err != nil {
				t.Errorf("%s: the example %q: %v", c.CommandPath(), line, err)
			}
		}
	})
}

// parse reads a command line as far as its flags and arguments.
func parse(line []string) error {
	cmd, rest, err := testRoot().Find(line)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// TestHelp: every command has a help text, all in the same form.
func TestHelp(t *testing.T) {
	visit(testRoot(), func(c *cobra.Command) {
		if c.Short == "" || strings.HasSuffix(c.Short, ".") || strings.ToUpper(c.Short[:1]) != c.Short[:1] {
			t.Errorf("%s: the short text %q", c.CommandPath(), c.Short)
		}
		if c.HasParent() && !c.Parent().HasParent() && !c.Hidden && c.GroupID == "" {
			t.Errorf("%s is in no group", c.CommandPath())
		}
		for _, line := range strings.Split(c.Long, "\n") {
			if len(line) > 120 {
				t.Errorf("%s: a line of its help has %d characters", c.CommandPath(), len(line))
			}
		}
	})
}

// TestReference: docs/cli.md is what `warren docs` prints.
func TestReference(t *testing.T) {
	data, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(data) != reference(testRoot()) {
		t.Error("docs/cli.md is not current: run `make docs`")
	}
	visit(testRoot(), func(c *cobra.Command) {
		if !c.Hidden && c.HasParent() && !bytes.Contains(data, []byte("### "+c.CommandPath()+"\n")) {
			t.Errorf("docs/cli.md lacks %s", c.CommandPath())
		}
	})
}
