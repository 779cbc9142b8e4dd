// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package dockerfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"

	"github.com/warren-vm/warren/vm"
)

// maxSource is the most bytes that a Dockerfile may have.
const maxSource = 1 << 20

// A Source is a parsed Dockerfile.
type Source struct {
	// Images are the images outside of the Dockerfile that it names, sorted: those of FROM, of
	// --from, and the frontend of a `# syntax=` line.
	Images []string

	name  string // in errors
	steps []step
}

// step is one instruction.
type step struct {
	line int    // of its beginning, from 1
	text string // as written, on one line
}

// Read parses the Dockerfile at name, a path inside the directory dir. args are the build's
// arguments, which FROM may use. Kinds: NotFound, Invalid; an error in the Dockerfile has the
// code DOCKERFILE_INVALID and names the line.
func Read(dir, name string, args map[string]string) (*Source, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, vm.Errorf(vm.NotFound, dir, "is not a directory that can be read: %w", err)
	}
	defer root.Close() // read only
	f, err := root.Open(filepath.Clean(name))
	if err != nil {
		return nil, vm.Errorf(vm.NotFound, name, "there is no such Dockerfile in %s: %w", dir, err).
			WithHint("the path of a Dockerfile is relative to its directory, and stays inside it")
	}
	defer f.Close() // read only
	text, err := io.ReadAll(io.LimitReader(f, maxSource+1))
	if err != nil {
		return nil, vm.Errorf(vm.Invalid, name, "cannot be read: %w", err)
	}
	return Parse(name, text, args)
}

// Parse parses a Dockerfile; name is its name in errors. See Read.
func Parse(name string, text []byte, args map[string]string) (*Source, error) {
	if len(text) > maxSource {
		return nil, invalid(name, 0, fmt.Sprintf("is larger than %d bytes", maxSource))
	}
	tree, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		var at *parser.LocationError
		line := 0
		if errors.As(err, &at) && len(at.Locations) > 0 && len(at.Locations[0]) > 0 {
			line = at.Locations[0][0].Start.Line
		}
		return nil, invalid(name, line, err.Error())
	}
	s := &Source{name: name}
	w := &walk{env: map[string]string{}, args: args, stages: map[string]bool{}, lex: shell.NewLex(tree.EscapeToken)}
	if image, _, _, ok := parser.DetectSyntax(text); ok {
		w.add(image)
	}
	for _, n := range tree.AST.Children {
		s.steps = append(s.steps, step{n.StartLine, flat(n.Original)})
		if msg := w.instruction(n); msg != "" {
			return nil, invalid(name, n.StartLine, msg)
		}
	}
	if w.count == 0 {
		return nil, invalid(name, 0, "has no FROM")
	}
	slices.Sort(w.images)
	s.Images = slices.Compact(w.images)
	return s, nil
}

func invalid(name string, line int, msg string) *vm.Error {
	subject := name
	if line > 0 {
		subject = fmt.Sprintf("%s:%d", name, line)
	}
	return vm.Errorf(vm.Invalid, subject, "%s", msg).WithCode("DOCKERFILE_INVALID").
		WithHint("see https://docs.docker.com/reference/dockerfile/ for the instructions")
}

// walk collects the images that the instructions name.
type walk struct {
	env    map[string]string // ARGs before the first FROM
	args   map[string]string
	stages map[string]bool // names of stages so far
	count  int             // of stages
	images []string
	lex    *shell.Lex
}

// instruction looks at one instruction. It returns what is wrong with it, or "".
func (w *walk) instruction(n *parser.Node) string {
	switch strings.ToLower(n.Value) {
	case "arg":
		if w.count == 0 {
			w.arg(n)
		}
	case "from":
		return w.from(n)
	case "copy", "run":
		for _, flag := range n.Flags {
			if msg := w.flag(flag); msg != "" {
				return msg
			}
		}
	}
	if w.count == 0 && !strings.EqualFold(n.Value, "arg") {
		return fmt.Sprintf("%s comes before the first FROM", strings.ToUpper(n.Value))
	}
	return ""
}

func (w *walk) arg(n *parser.Node) {
	for a := n.Next; a != nil; a = a.Next {
		name, value, _ := strings.Cut(a.Value, "=")
		if v, err := w.expand(value); err == nil {
			value = v
		}
		if given, ok := w.args[name]; ok {
			value = given
		}
		w.env[name] = value
	}
}

func (w *walk) from(n *parser.Node) string {
	if n.Next == nil {
		return "FROM needs the name of an image"
	}
	image, err := w.expand(n.Next.Value)
	if err != nil || image == "" {
		return fmt.Sprintf("FROM %s: a variable in it has no value", n.Next.Value)
	}
	if !w.stages[strings.ToLower(image)] && image != "scratch" {
		w.add(image)
	}
	w.stages[strconv.Itoa(w.count)] = true
	w.count++
	if as := n.Next.Next; as != nil && strings.EqualFold(as.Value, "as") && as.Next != nil {
		w.stages[strings.ToLower(as.Next.Value)] = true
	}
	return ""
}

// flag looks for an image in --from=IMAGE and in --mount=...,from=IMAGE.
func (w *walk) flag(flag string) string {
	name, value, _ := strings.Cut(flag, "=")
	switch name {
	case "--from":
	case "--mount":
		from := ""
		for _, part := range strings.Split(value, ",") {
			if v, ok := strings.CutPrefix(part, "from="); ok {
				from = v
			}
		}
		value = from
	default:
		return ""
	}
	if value != "" && !w.stages[strings.ToLower(value)] {
		w.add(value)
	}
	return ""
}

func (w *walk) add(image string) { w.images = append(w.images, image) }

func (w *walk) expand(word string) (string, error) {
	var env []string
	for k, v := range w.env {
		env = append(env, k+"="+v)
	}
	slices.Sort(env)
	out, _, err := w.lex.ProcessWord(word, shell.EnvsFromSlice(env))
	return out, err
}

// flat puts an instruction on one line, as BuildKit names it.
func flat(s string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(s, "\\\n", " ")), " ")
}

var (
	failedStep = regexp.MustCompile(`(?m)^ > \[[^\]]*\] (.*):\s*$`)
	failedLine = regexp.MustCompile(`(?m)(?:dockerfile parse error (?:on )?line |^Dockerfile:)(\d+)`)
)

// Locate finds the instruction that failed in BuildKit's output. line is 0 if the output
// names none.
func (s *Source) Locate(output string) (line int, text string) {
	if m := failedLine.FindStringSubmatch(output); m != nil {
		line, _ = strconv.Atoi(m[1]) // digits by the expression
		for _, st := range s.steps {
			if st.line <= line {
				text = st.text
			}
		}
		return line, text
	}
	m := failedStep.FindStringSubmatch(output)
	if m == nil {
		return 0, ""
	}
	said := flat(m[1])
	for _, st := range s.steps {
		if strings.EqualFold(st.text, said) {
			return st.line, st.text
		}
	}
	// BuildKit leaves out flags, and puts in the values of variables.
	verb, _, _ := strings.Cut(said, " ")
	found := 0
	for _, st := range s.steps {
		if first, _, _ := strings.Cut(st.text, " "); strings.EqualFold(first, verb) {
			line, text = st.line, st.text
			found++
		}
	}
	if found == 1 {
		return line, text
	}
	return 0, said
}
