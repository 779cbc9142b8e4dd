// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/warren-vm/warren/vm"
)

// RecipeFile is the name of a recipe in a directory.
const RecipeFile = "warren.yaml"

// A Recipe describes the contents of an image. The YAML file has the same
// keys in lower case; unknown ones are refused.
type Recipe struct {
	Name      string            `yaml:"name" json:"name"`
	From      string            `yaml:"from,omitempty" json:"from,omitempty"` // a shipped recipe, oci:NAME:TAG, or none; absent = base
	Packages  []string          `yaml:"packages,omitempty" json:"packages,omitempty"`
	Downloads []RecipeDownload  `yaml:"downloads,omitempty" json:"downloads,omitempty"`
	Files     []RecipeEntry     `yaml:"files,omitempty" json:"files,omitempty"`
	Users     []RecipeUser      `yaml:"users,omitempty" json:"users,omitempty"`
	Services  []RecipeService   `yaml:"services,omitempty" json:"services,omitempty"`
	Run       []string          `yaml:"run,omitempty" json:"run,omitempty"` // bash, as root, in the image
	Env       map[string]string `yaml:"env,omitempty" json:"env,omitempty"` // for every process of the guest
	Workdir   string            `yaml:"workdir,omitempty" json:"workdir,omitempty"`
	Memory    int               `yaml:"memory,omitempty" json:"memory,omitempty"` // MiB, of a VM whose size is not given

	// Dockerfile is the path of one in the recipe's directory. The image is then what BuildKit makes
	// of it, and of these keys only Name, Context, Args and Target may be set beside it.
	Dockerfile string            `yaml:"dockerfile,omitempty" json:"dockerfile,omitempty"`
	Context    string            `yaml:"context,omitempty" json:"context,omitempty"` // its build context; absent = the recipe's directory
	Args       map[string]string `yaml:"args,omitempty" json:"args,omitempty"`       // its ARGs
	Target     string            `yaml:"target,omitempty" json:"target,omitempty"`   // its stage to build; absent = the last
	// Dir is the directory of a loaded recipe, absolute. Instructions is the Dockerfile's text; Load reads it.
	Dir          string `yaml:"-" json:"-"`
	Instructions string `yaml:"-" json:"instructions,omitempty"`
}

// RecipeDownload is an archive whose files go into the image. The host
// downloads it, and refuses it unless it has the digest.
type RecipeDownload struct {
	From   string `yaml:"from" json:"from"`                     // npm:NAME@VERSION, pypi:FILE.whl or a URL
	Digest string `yaml:"digest" json:"digest"`                 // sha512-BASE64 or sha256:HEX
	Path   string `yaml:"path,omitempty" json:"path,omitempty"` // the directory of the archive to use; absent = all
	To     string `yaml:"to" json:"to"`                         // the directory for its files
}

// RecipeEntry is a file to put into the image.
type RecipeEntry struct {
	Path    string `yaml:"path" json:"path"`
	Content string `yaml:"content,omitempty" json:"content,omitempty"`
	Source  string `yaml:"source,omitempty" json:"-"` // relative to the recipe; Load reads it into Content
	Mode    string `yaml:"mode,omitempty" json:"mode,omitempty"`
	Owner   string `yaml:"owner,omitempty" json:"owner,omitempty"` // user or user:group; absent = root
}

// RecipeUser is a Linux user to create.
type RecipeUser struct {
	Name   string   `yaml:"name" json:"name"`
	UID    int      `yaml:"uid,omitempty" json:"uid,omitempty"`     // 0 = next free
	Shell  string   `yaml:"shell,omitempty" json:"shell,omitempty"` // absent = /bin/bash
	Groups []string `yaml:"groups,omitempty" json:"groups,omitempty"`
}

// RecipeService is a systemd unit to enable or disable, and to write first if
// Unit is given. A unit in a recipe is never masked.
type RecipeService struct {
	Name   string `yaml:"name" json:"name"` // with its suffix, e.g. web.service
	Unit   string `yaml:"unit,omitempty" json:"unit,omitempty"`
	Enable *bool  `yaml:"enable,omitempty" json:"enable,omitempty"` // absent = true
}

const (
	maxRecipe = 1 << 20  // bytes of YAML
	maxSource = 64 << 20 // bytes of all files of a recipe together
)

// fault is an error in a recipe.
type fault struct {
	line int // 0 = unknown
	msg  string
}

func recipeError(file string, f fault) *vm.Error {
	subject := file
	if f.line > 0 {
		subject = fmt.Sprintf("%s:%d", file, f.line)
	}
	return vm.Errorf(vm.Invalid, subject, "%s", f.msg).
		WithHint("keys of a recipe: name, from, packages, downloads, files, users, services, run, env, workdir, memory; or name, dockerfile, context, args, target")
}

// Parse parses a recipe; file is its name in errors. It does not read sources
// of files. The error has kind Invalid and names the line.
func Parse(file string, data []byte) (Recipe, error) {
	if len(data) > maxRecipe {
		return Recipe{}, recipeError(file, fault{0, fmt.Sprintf("larger than %d bytes", maxRecipe)})
	}
	var r Recipe
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&r); err != nil {
		return Recipe{}, recipeError(file, yamlFault(err))
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return Recipe{}, recipeError(file, fault{0, "more than one YAML document"})
	}
	if f, bad := r.check(); bad {
		var doc yaml.Node
		if yaml.Unmarshal(data, &doc) == nil {
			f.line = lineOf(&doc, f.path)
		}
		return Recipe{}, recipeError(file, fault{f.line, f.msg})
	}
	return r, nil
}

// Load reads the recipe dir/warren.yaml, or the file itself, and the sources
// of its files, which must be inside the recipe's directory.
func Load(name string) (Recipe, error) {
	if st, err := os.Stat(name); err == nil && st.IsDir() {
		name = filepath.Join(name, RecipeFile)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return Recipe{}, vm.Errorf(vm.NotFound, name, "there is no recipe: %w", err).
			WithHint("name a directory that holds a %s, or one of the shipped recipes: %s", RecipeFile, strings.Join(Names(), ", "))
	}
	r, err := Parse(name, data)
	if err != nil {
		return Recipe{}, err
	}
	root, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return Recipe{}, vm.Errorf(vm.Invalid, name, "directory not readable: %w", err)
	}
	total := 0
	for i := range r.Files {
		f := &r.Files[i]
		if f.Source == "" || err != nil {
			continue
		}
		var body []byte
		body, err = readSource(root, f.Source, maxSource-total)
		f.Content, f.Source = string(body), ""
		total += len(body)
	}
	if r.Dockerfile != "" && err == nil {
		err = r.loadDockerfile(root)
	}
	return r, errors.Join(err, root.Close())
}

func readSource(root *os.Root, name string, limit int) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, vm.Errorf(vm.Invalid, name, "is not a file in the recipe's directory: %w", err)
	}
	body, err := io.ReadAll(io.LimitReader(f, int64(limit)+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, vm.Errorf(vm.Invalid, name, "cannot be read: %w", err)
	}
	if len(body) > limit {
		return nil, vm.Errorf(vm.Invalid, name, "the files of the recipe are larger than %d MiB together", maxSource>>20).
			WithHint("fetch large files in a run step, or copy them into the machine with `warren cp`")
	}
	return body, nil
}

var yamlLine = vm.NewPattern(`line (\d+): (.*)`)

// yamlFault converts an error of the YAML package to a fault.
func yamlFault(err error) fault {
	if errors.Is(err, io.EOF) {
		return fault{0, "empty"}
	}
	m := yamlLine.FindStringSubmatch(err.Error())
	if m == nil {
		return fault{0, strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	line, _ := strconv.Atoi(m[1]) // digits by the expression
	msg := strings.ReplaceAll(m[2], "image.Recipe", "recipe ")
	if key, _, ok := strings.Cut(strings.TrimPrefix(msg, "field "), " not found in type "); ok {
		msg = fmt.Sprintf("unknown key %q", key)
	} else if m := yamlType.FindStringSubmatch(msg); m != nil {
		msg = fmt.Sprintf("%s: %s is wanted here", m[1], wantedYAML(m[2]))
	}
	return fault{line, msg}
}

// yamlType matches the package's error about a value of the wrong type.
var yamlType = vm.NewPattern("^cannot unmarshal !!\\w+ (`.*`) into (.*)$")

// wantedYAML describes a Go type in terms of YAML.
func wantedYAML(goType string) string {
	switch {
	case strings.HasPrefix(goType, "[]"):
		return "a list (`- ...` on lines of its own, or [...])"
	case strings.HasPrefix(goType, "map"), strings.HasPrefix(goType, "recipe "):
		return "keys with values"
	case goType == "string":
		return "text"
	case goType == "bool":
		return "true or false"
	}
	return "a number"
}

// badValue is a fault and its position in the document.
type badValue struct {
	path []any // keys and indices
	line int
	msg  string
}

var (
	recipeName  = vm.NewPattern(`^[a-z][a-z0-9-]{0,40}$`)
	packageName = vm.NewPattern(`^[a-z0-9][a-z0-9+.-]+(=[A-Za-z0-9.+~:-]+)?$`)
	userName    = vm.NewPattern(`^[a-z_][a-z0-9_-]{0,31}$`)
	ownerName   = vm.NewPattern(`^[a-z_][a-z0-9_-]{0,31}(:[a-z_][a-z0-9_-]{0,31})?$`)
	unitName    = vm.NewPattern(`^[A-Za-z0-9:_.@-]+\.(service|socket|timer|target|path|mount)$`)
	fileMode    = vm.NewPattern(`^[0-7]{3,4}$`)
	envName     = vm.NewPattern(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// check returns the first error in the values of r.
func (r *Recipe) check() (badValue, bool) {
	bad := func(msg string, path ...any) (badValue, bool) { return badValue{path: path, msg: msg}, true }
	if !recipeName.MatchString(r.Name) {
		return bad(fmt.Sprintf("name %q: a name starts with a-z and has at most 41 characters of a-z, 0-9 and -", r.Name), "name")
	}
	if _, ok := r.containerSource(); r.From != "" && !ok && !recipeName.MatchString(r.From) {
		return bad(fmt.Sprintf("from %q: use one of %s, oci:NAME:TAG, or none", r.From, strings.Join(Names(), ", ")), "from")
	}
	for i, p := range r.Packages {
		if !packageName.MatchString(p) {
			return bad(fmt.Sprintf("%q is not the name of a Debian package", p), "packages", i)
		}
	}
	for i, s := range r.Run {
		if strings.TrimSpace(s) == "" || strings.ContainsRune(s, 0) {
			return bad("an empty run step", "run", i)
		}
	}
	for k, v := range r.Env {
		if !envName.MatchString(k) || strings.ContainsAny(v, "\n\x00\"'\\`$") {
			return bad(fmt.Sprintf("env %q: a name has letters, digits and _; a value has one line without quotes, $ and \\", k), "env", k)
		}
	}
	if b, wrong := r.checkDockerfile(); wrong {
		return b, true
	}
	if r.Workdir != "" && !cleanAbs(r.Workdir) {
		return bad(fmt.Sprintf("workdir %q is not an absolute path", r.Workdir), "workdir")
	}
	if m := r.Memory; m != 0 && (m < vm.MinMemoryMiB || m > vm.MaxMemoryMiB || bits.OnesCount(uint(m)) != 1) {
		return bad(fmt.Sprintf("memory %d: give a power of two of MiB, from %d to %d", m, vm.MinMemoryMiB, vm.MaxMemoryMiB), "memory")
	}
	for _, f := range []func() (badValue, bool){r.checkDownloads, r.checkFiles, r.checkUsers, r.checkServices} {
		if b, wrong := f(); wrong {
			return b, true
		}
	}
	return badValue{}, false
}

func (r *Recipe) checkDownloads() (badValue, bool) {
	for i, d := range r.Downloads {
		if msg := d.check(); msg != "" {
			return badValue{path: []any{"downloads", i}, msg: msg}, true
		}
	}
	return badValue{}, false
}

func (r *Recipe) checkFiles() (badValue, bool) {
	seen := map[string]bool{}
	for i, f := range r.Files {
		msg := ""
		switch {
		case !cleanAbs(f.Path) || f.Path == "/":
			msg = fmt.Sprintf("path %q is not the absolute path of a file", f.Path)
		case f.Path == "/.warren" || strings.HasPrefix(f.Path, "/.warren/"):
			msg = fmt.Sprintf("path %q is used by the build", f.Path)
		case seen[f.Path]:
			msg = fmt.Sprintf("path %q appears twice", f.Path)
		case f.Source != "" && f.Content != "":
			msg = "give content or source, not both"
		case f.Source != "" && !filepath.IsLocal(f.Source):
			msg = fmt.Sprintf("source %q is not inside the recipe's directory", f.Source)
		case f.Mode != "" && !fileMode.MatchString(f.Mode):
			msg = fmt.Sprintf("mode %q: write it in quotes with octal digits, e.g. \"0755\"", f.Mode)
		case f.Owner != "" && !ownerName.MatchString(f.Owner):
			msg = fmt.Sprintf("owner %q: write user or user:group", f.Owner)
		default:
			seen[f.Path] = true
			continue
		}
		return badValue{path: []any{"files", i}, msg: msg}, true
	}
	return badValue{}, false
}

func (r *Recipe) checkUsers() (badValue, bool) {
	for i, u := range r.Users {
		msg := ""
		switch {
		case !userName.MatchString(u.Name) || u.Name == "root":
			msg = fmt.Sprintf("%q cannot be the name of a new user", u.Name)
		case u.UID != 0 && (u.UID < 1000 || u.UID > 59999):
			msg = fmt.Sprintf("uid %d: choose one from 1000 to 59999", u.UID)
		case u.Shell != "" && (!cleanAbs(u.Shell) || strings.ContainsAny(u.Shell, " \t")):
			msg = fmt.Sprintf("shell %q is not an absolute path", u.Shell)
		}
		for _, g := range u.Groups {
			if !userName.MatchString(g) {
				msg = fmt.Sprintf("%q cannot be the name of a group", g)
			}
		}
		if msg != "" {
			return badValue{path: []any{"users", i}, msg: msg}, true
		}
	}
	return badValue{}, false
}

func (r *Recipe) checkServices() (badValue, bool) {
	for i, s := range r.Services {
		if !unitName.MatchString(s.Name) {
			return badValue{path: []any{"services", i}, msg: fmt.Sprintf("%q is not the name of a unit, e.g. web.service", s.Name)}, true
		}
	}
	return badValue{}, false
}

// cleanAbs reports whether p is an absolute path without oddities.
func cleanAbs(p string) bool {
	return path.IsAbs(p) && path.Clean(p) == p && !strings.ContainsAny(p, "\n\x00")
}

// lineOf returns the line of the value at path, or of the last part of the
// path that is there; 0 if none is.
func lineOf(n *yaml.Node, path []any) int {
	line := 0
	for n != nil && n.Kind == yaml.DocumentNode && len(n.Content) > 0 {
		n = n.Content[0]
	}
	for _, p := range path {
		var next *yaml.Node
		switch key := p.(type) {
		case string:
			for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == key {
					line, next = n.Content[i].Line, n.Content[i+1]
				}
			}
		case int:
			if n.Kind == yaml.SequenceNode && key < len(n.Content) {
				next = n.Content[key]
				line = next.Line
			}
		}
		if next == nil {
			return line
		}
		n = next
	}
	return line
}
