// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// A source is one entry of the host's apt sources, in deb822 format.
type source struct {
	URIs       []string
	Suites     []string
	Components []string
	SignedBy   string   // path of a keyring, an inline key block, or empty
	Options    []string // other relevant fields, as "Name: value"
}

// String renders the source as a deb822 stanza.
func (s source) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Types: deb\nURIs: %s\nSuites: %s\n", strings.Join(s.URIs, " "), strings.Join(s.Suites, " "))
	if len(s.Components) > 0 {
		fmt.Fprintf(&b, "Components: %s\n", strings.Join(s.Components, " "))
	}
	if s.SignedBy != "" {
		fmt.Fprintf(&b, "Signed-By: %s\n", s.SignedBy)
	}
	for _, o := range s.Options {
		fmt.Fprintf(&b, "%s\n", o)
	}
	return b.String()
}

// aptSources are the host's own Debian sources.
type aptSources struct {
	Codename string // the suite to build, e.g. bookworm
	Sources  []source
}

func (a aptSources) String() string {
	var parts []string
	for _, s := range a.Sources {
		parts = append(parts, s.String())
	}
	return strings.Join(parts, "\n")
}

// hostSources reads the apt sources below root ("/" outside tests) and keeps
// those of Debian itself: signed by a keyring of the Debian archive, or without a
// named keyring and for the host's own release. Kind Unsupported if none is left.
func hostSources(root string) (aptSources, error) {
	id, codename, err := osRelease(filepath.Join(root, "etc/os-release"))
	if err != nil {
		return aptSources{}, err
	}
	var all []source
	files, err := sourceFiles(root)
	if err != nil {
		return aptSources{}, err
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return aptSources{}, vm.Errorf(vm.Denied, name, "apt source not readable: %w", err)
		}
		if strings.HasSuffix(name, ".sources") {
			all = append(all, parseDeb822(data)...)
		} else {
			all = append(all, parseOneLine(data)...)
		}
	}
	out := aptSources{Codename: codename}
	if id != "debian" {
		out.Codename = "" // another distribution's codename is not Debian's
	}
	for _, s := range all {
		s.URIs = reachable(root, s.URIs)
		if len(s.URIs) > 0 && len(s.Suites) > 0 && s.debian(out.Codename) {
			out.Sources = append(out.Sources, s)
		}
	}
	if len(out.Sources) == 0 {
		return aptSources{}, vm.Errorf(vm.Unsupported, id, "this host has no apt source of Debian, so no Debian image can be built here").
			WithHint("build on a Debian host, or add its own sources to /etc/apt/sources.list.d")
	}
	if out.Codename == "" {
		out.Codename = out.Sources[0].Suites[0]
	}
	return out, nil
}

// sourceFiles lists the files that apt reads, in its order.
func sourceFiles(root string) ([]string, error) {
	var out []string
	if list := filepath.Join(root, "etc/apt/sources.list"); exists(list) {
		out = append(out, list)
	}
	dir := filepath.Join(root, "etc/apt/sources.list.d")
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, vm.Errorf(vm.Denied, dir, "apt sources not readable: %w", err)
	}
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext == ".list" || ext == ".sources" {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// debian reports whether the source is Debian's own archive.
func (s source) debian(codename string) bool {
	if s.SignedBy != "" {
		return !strings.Contains(s.SignedBy, "\n") && strings.HasPrefix(filepath.Base(s.SignedBy), "debian-archive-")
	}
	ours := func(suite string) bool {
		return suite == codename || strings.HasPrefix(suite, codename+"-") || strings.HasPrefix(suite, codename+"/")
	}
	return codename != "" && !slices.ContainsFunc(s.Suites, func(suite string) bool { return !ours(suite) })
}

// reachable keeps the URIs that a guest can use, too, and expands mirror lists.
func reachable(root string, uris []string) []string {
	var out []string
	for _, u := range uris {
		scheme, rest, _ := strings.Cut(u, ":")
		switch {
		case scheme == "http" || scheme == "https" || strings.HasPrefix(scheme, "tor+"):
			out = append(out, u)
		case scheme == "mirror+file":
			data, err := os.ReadFile(filepath.Join(root, strings.TrimPrefix(rest, "//")))
			if err != nil {
				continue
			}
			for _, line := range strings.Split(string(data), "\n") {
				if f := strings.Fields(line); len(f) > 0 && strings.HasPrefix(f[0], "http") {
					out = append(out, f[0])
				}
			}
		}
	}
	return out
}

// parseDeb822 parses the .sources format. It skips entries that it does not
// understand, because Debian's own are simple.
func parseDeb822(data []byte) []source {
	var out []source
	for _, stanza := range strings.Split(stripComments(data), "\n\n") {
		fields := map[string]string{}
		last := ""
		for _, line := range strings.Split(stanza, "\n") {
			if strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t") {
				fields[last] += "\n" + line
				continue
			}
			if k, v, ok := strings.Cut(line, ":"); ok {
				last = strings.ToLower(strings.TrimSpace(k))
				fields[last] = strings.TrimSpace(v)
			}
		}
		if !slices.Contains(strings.Fields(fields["types"]), "deb") || isNo(fields["enabled"]) {
			continue
		}
		s := source{
			URIs: strings.Fields(fields["uris"]), Suites: strings.Fields(fields["suites"]),
			Components: strings.Fields(fields["components"]), SignedBy: fields["signed-by"],
		}
		for _, o := range []string{"Trusted", "Check-Valid-Until"} {
			if v := fields[strings.ToLower(o)]; v != "" {
				s.Options = append(s.Options, o+": "+v)
			}
		}
		out = append(out, s)
	}
	return out
}

// stripComments removes comment lines, and white space from empty lines.
func stripComments(data []byte) string {
	var b strings.Builder
	sc := bufio.NewScanner(bytes.NewReader(data))
	sc.Buffer(nil, maxRecipe)
	for sc.Scan() {
		line := strings.TrimRight(sc.Text(), " \t\r")
		if !strings.HasPrefix(strings.TrimLeft(line, " \t"), "#") {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

func isNo(v string) bool {
	switch strings.ToLower(v) {
	case "no", "false", "0", "off", "without", "disable":
		return true
	}
	return false
}

// parseOneLine parses the sources.list format.
func parseOneLine(data []byte) []source {
	var out []source
	for _, line := range strings.Split(stripComments(data), "\n") {
		line, _, _ = strings.Cut(line, "#")
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if kind != "deb" {
			continue
		}
		var s source
		rest = strings.TrimSpace(rest)
		if strings.HasPrefix(rest, "[") {
			opts, after, ok := strings.Cut(rest[1:], "]")
			if !ok {
				continue
			}
			rest = after
			for _, o := range strings.Fields(opts) {
				k, v, _ := strings.Cut(o, "=")
				switch k {
				case "signed-by":
					s.SignedBy = v
				case "trusted":
					s.Options = append(s.Options, "Trusted: "+v)
				case "check-valid-until":
					s.Options = append(s.Options, "Check-Valid-Until: "+v)
				}
			}
		}
		f := strings.Fields(rest)
		if len(f) < 2 {
			continue
		}
		s.URIs, s.Suites, s.Components = f[:1], f[1:2], f[2:]
		out = append(out, s)
	}
	return out
}

// osRelease returns ID and VERSION_CODENAME.
func osRelease(path string) (id, codename string, err error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", "", vm.Errorf(vm.Unsupported, path, "cannot be read, so this host's release is unknown: %w", err)
	}
	for _, line := range strings.Split(string(data), "\n") {
		k, v, _ := strings.Cut(line, "=")
		v = strings.Trim(v, `"'`)
		switch k {
		case "ID":
			id = v
		case "VERSION_CODENAME":
			codename = v
		}
	}
	return id, codename, nil
}
