// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package devcontainer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// fault is what is wrong with a file, and where.
type fault struct {
	at  int64 // offset in the text; 0 = the whole
	msg string
}

// Error is the message.
func (f fault) Error() string { return f.msg }

// invalid is the error for people: it names the line.
func invalid(file string, text []byte, err error) error {
	subject, f := file, fault{}
	if errors.As(err, &f) && f.at > 0 {
		line := 1 + bytes.Count(text[:min(int(f.at), len(text))], []byte("\n"))
		subject = fmt.Sprintf("%s:%d", file, line)
	}
	return vm.Errorf(vm.Invalid, subject, "%s", err.Error()).WithHint("https://containers.dev/implementors/json_reference says what may be in it")
}

func wanted(what string) error { return errors.New(what + " is wanted here") }

// clip bounds a text of the file for a message.
func clip(s string) string { return vm.Clip(s, 100) }

// strip replaces comments, and commas before a closing bracket, by spaces. Every byte keeps
// its place.
func strip(text []byte) ([]byte, error) {
	out := bytes.Clone(text)
	if bytes.HasPrefix(out, []byte("\xef\xbb\xbf")) {
		copy(out, "   ")
	}
	comma, deep := -1, 0
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case c == '"':
			comma = -1
			for i++; i < len(out) && out[i] != '"'; i++ {
				if out[i] == '\\' {
					i++
				}
			}
		case c == '/' && i+1 < len(out) && (out[i+1] == '/' || out[i+1] == '*'):
			end, err := comment(out, i)
			if err != nil {
				return nil, err
			}
			i = end - 1
		case c == ',':
			comma = i
		case c == '{' || c == '[':
			comma = -1
			if deep++; deep > maxDeep {
				return nil, fault{int64(i), fmt.Sprintf("more than %d objects and lists are within each other", maxDeep)}
			}
		case c == '}' || c == ']':
			if deep--; comma >= 0 {
				out[comma] = ' '
			}
			comma = -1
		case c != ' ' && c != '\t' && c != '\n' && c != '\r':
			comma = -1
		}
	}
	return out, nil
}

// comment blanks the comment at i, and returns where it ends.
func comment(out []byte, i int) (end int, err error) {
	if out[i+1] == '/' {
		end = len(out)
		if n := bytes.IndexByte(out[i:], '\n'); n >= 0 {
			end = i + n
		}
	} else {
		n := bytes.Index(out[i+2:], []byte("*/"))
		if n < 0 {
			return 0, fault{int64(i), "a comment has no end"}
		}
		end = i + 2 + n + 2
	}
	for ; i < end; i++ {
		if out[i] != '\n' {
			out[i] = ' '
		}
	}
	return end, nil
}

// member is one key of the file.
type member struct {
	name  string
	value json.RawMessage
	at    int64
}

// members reads the keys of the one object in a text.
func members(text []byte) (list []member, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	syntax := func(err error) error {
		at := dec.InputOffset()
		var s *json.SyntaxError
		if errors.As(err, &s) {
			at = s.Offset
		}
		return fault{max(1, at), "it is not JSON with comments: " + err.Error()}
	}
	first, err := dec.Token()
	if err != nil {
		return nil, syntax(err)
	}
	if first != json.Delim('{') {
		return nil, fault{1, "an object is wanted here"}
	}
	seen := map[string]bool{}
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, syntax(err)
		}
		name, ok := t.(string)
		m := member{name: name, at: dec.InputOffset()}
		if err := dec.Decode(&m.value); err != nil || !ok {
			return nil, syntax(err)
		}
		if seen[name] {
			return nil, fault{m.at, fmt.Sprintf("the key %q appears twice", clip(name))}
		}
		if seen[name] = true; len(seen) > maxList {
			return nil, fault{m.at, fmt.Sprintf("it has more than %d keys", maxList)}
		}
		list = append(list, m)
	}
	if _, err := dec.Token(); err != nil {
		return nil, syntax(err)
	}
	if dec.More() {
		return nil, fault{dec.InputOffset(), "something follows the object"}
	}
	return list, nil
}

// word reads a text.
func word(value json.RawMessage) (s string, err error) {
	if err := json.Unmarshal(value, &s); err != nil {
		return "", wanted("text")
	}
	if len(s) > maxWord || strings.ContainsRune(s, 0) {
		return "", fmt.Errorf("the text is longer than %d bytes, or has a zero byte", maxWord)
	}
	return s, nil
}

func user(value json.RawMessage) (string, error) {
	s, err := word(value)
	if err == nil && s != "" && !userName.MatchString(s) {
		err = fmt.Errorf("%q is not the name of a user", clip(s))
	}
	return s, err
}

// env reads an object of texts.
func env(value json.RawMessage) (map[string]string, error) {
	var in map[string]json.RawMessage
	if err := json.Unmarshal(value, &in); err != nil || len(in) > maxList {
		return nil, wanted("an object of texts")
	}
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(in)) {
		if !envName.MatchString(name) {
			return nil, fmt.Errorf("%q is not the name of a variable", clip(name))
		}
		if string(in[name]) == "null" {
			continue // unset
		}
		s, err := word(in[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out[name] = s
	}
	return out, nil
}

// commands reads a command: a text for the shell, a list, or an object of such.
func commands(value json.RawMessage) ([]Command, error) {
	if c, err := command(value); err == nil {
		if c.Shell == "" && len(c.Argv) == 0 {
			return nil, nil
		}
		return []Command{c}, nil
	}
	var in map[string]json.RawMessage
	if err := json.Unmarshal(value, &in); err != nil || len(in) > maxList {
		return nil, wanted("a text, a list of texts, or an object of those")
	}
	var out []Command
	for _, name := range slices.Sorted(maps.Keys(in)) {
		c, err := command(in[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", clip(name), err)
		}
		if c.Name = clip(name); c.Shell != "" || len(c.Argv) > 0 {
			out = append(out, c)
		}
	}
	return out, nil
}

func command(value json.RawMessage) (c Command, err error) {
	if c.Shell, err = word(value); err == nil {
		return c, nil
	}
	var list []json.RawMessage
	if json.Unmarshal(value, &list) != nil || len(list) > maxList {
		return c, wanted("a text or a list of texts")
	}
	for _, v := range list {
		s, err := word(v)
		if err != nil {
			return c, err
		}
		c.Argv = append(c.Argv, s)
	}
	return c, nil
}
