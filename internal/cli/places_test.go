// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// formatOfADisk are the only sentences of the help with "file system": each is about the
// format in which a disk keeps its files. The places where work is have names of their own:
// working directory, object storage, repository.
var formatOfADisk = []string{
	"the file system is frozen at the capture", "services, file systems, and whether a file", "gets a file system at the first mount",
	"Its file system grows at the next mount", "as the file system counts it",
	"--filesystem-md", "filesystem-md write FILESYSTEM.md", // a file with that name
}

var fileSystem = regexp.MustCompile(`(?i)file-?\s?system`)

// TestHelpNamesPlaces: no text of the help calls a place of work a file system.
//
// 001-01
func TestHelpNamesPlaces(t *testing.T) {
	used := map[string]bool{}
	visit(testRoot(), func(c *cobra.Command) {
		texts := []string{c.Use, c.Short, c.Long, c.Example}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) { texts = append(texts, f.Name+" "+f.Usage) })
		for _, text := range texts {
			text = strings.Join(strings.Fields(text), " ")
			for _, at := range fileSystem.FindAllStringIndex(text, -1) {
				i := slices.IndexFunc(formatOfADisk, func(s string) bool {
					from := strings.Index(text, s)
					return from >= 0 && from <= at[0] && at[1] <= from+len(s)+1
				})
				if i < 0 {
					t.Errorf("the help of %s says %q: name the working directory, object storage or the repository, or say that a disk's format is meant", c.CommandPath(), text[max(0, at[0]-30):min(len(text), at[1]+30)])
					continue
				}
				used[formatOfADisk[i]] = true
			}
		}
	})
	for _, s := range formatOfADisk {
		if !used[s] {
			t.Errorf("no help says %q any more: remove it from the test", s)
		}
	}
}
