// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// otherName is another name of the program, a symbolic link, for users of that
// command line.
const otherName = "mvmctl"

// calledBy makes help and messages use the name that the program was called by:
// before the name of a command, and at the beginning of a message.
func (s *streams) calledBy(program string, root *cobra.Command) {
	if filepath.Base(program) != otherName {
		return
	}
	words := []string{"COMMAND", "help"}
	for _, c := range root.Commands() {
		words = append(append(words, c.Name()), c.Aliases...)
	}
	old := regexp.MustCompile(`(^|[^\w/.-])warren(: | (?:` + strings.Join(words, "|") + `)\b)`)
	s.rename = func(text string) string { return old.ReplaceAllString(text, "${1}"+otherName+"${2}") }
	root.Use = otherName
	rename(root, s.named)
}

func rename(c *cobra.Command, named func(string) string) {
	c.Short, c.Long, c.Example = named(c.Short), named(c.Long), named(c.Example)
	c.LocalFlags().VisitAll(func(f *pflag.Flag) { f.Usage = named(f.Usage) })
	for _, sub := range c.Commands() {
		rename(sub, named)
	}
}
