// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Command site turns the pages of this repository (README.md, ARCHITECTURE.md, docs/, the READMEs of the examples and
// of the clients) into a static web site with a search. The site asks for nothing from other hosts, works from a
// directory on disk, and has the same bytes for the same pages. A link that leads nowhere is an error. It runs in the
// top directory of the repository.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

func main() {
	out := flag.String("out", "dist/site", "directory of the site")
	version := flag.String("version", "", "version of Warren, for the foot of each page")
	flag.Parse()
	if err := run(*out, *version); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(filepath.Join(*out, "index.html"))
}

func run(out, version string) error {
	files, err := build(os.DirFS("."), version)
	if err != nil {
		return err
	}
	return write(out, files)
}

// write replaces the site in a directory. It removes nothing but an earlier site.
func write(out string, files map[string][]byte) error {
	old, err := os.ReadDir(out)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(old) > 0 {
		if _, err := os.Stat(filepath.Join(out, indexFile)); err != nil {
			return fmt.Errorf("%s has files that are no site: name an empty directory with -out", out)
		}
		if err := os.RemoveAll(out); err != nil {
			return err
		}
	}
	for name, data := range files {
		to := filepath.Join(out, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}
