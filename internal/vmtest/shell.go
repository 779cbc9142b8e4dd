// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"bytes"
	"context"
	"io"
	"path"
	"strconv"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// shell runs a small part of the shell language: words, quotes, variables,
// `;`, newlines, `&&`, `||`, `|`, redirections. It is enough for tests that
// need a guest and not a Linux.
type shell struct {
	disk *disk
	user string
	cwd  string
	env  map[string]string
	ctx  context.Context
	out  func(stderr bool, data []byte)
	net  func() vm.NetworkMode // nil = open

	last   int
	exited bool
}

// token is a word or an operator.
type token struct {
	text string
	op   bool
}

// operators, longest first.
var operators = []string{"2>&1", "2>>", "2>", ">&2", "1>&2", "&&", "||", ">>", ">", "<", "|", ";", "&", "\n"}

// lex splits a script, expanding variables.
func (sh *shell) lex(s string) []token {
	var list []token
	var word strings.Builder
	open := false
	flush := func() {
		if open {
			list = append(list, token{word.String(), false})
		}
		word.Reset()
		open = false
	}
scan:
	for i := 0; i < len(s); {
		if !open || strings.ContainsRune(";&|>\n", rune(s[i])) {
			for _, op := range operators {
				if strings.HasPrefix(s[i:], op) {
					flush()
					list = append(list, token{op, true})
					i += len(op)
					continue scan
				}
			}
		}
		switch ch := s[i]; {
		case ch == ' ' || ch == '\t':
			flush()
			i++
		case ch == '#' && !open:
			for i < len(s) && s[i] != '\n' {
				i++
			}
		case ch == '\'':
			end := strings.IndexByte(s[i+1:], '\'')
			if end < 0 {
				end = len(s) - i - 1
			}
			word.WriteString(s[i+1 : i+1+end])
			open, i = true, min(i+end+2, len(s))
		case ch == '"':
			i++
			for i < len(s) && s[i] != '"' {
				i = sh.char(s, i, &word)
			}
			open, i = true, min(i+1, len(s))
		default:
			i = sh.char(s, i, &word)
			open = true
		}
	}
	flush()
	return list
}

// char adds the character, escape or variable at i and returns what follows.
func (sh *shell) char(s string, i int, word *strings.Builder) int {
	switch {
	case s[i] == '\\' && i+1 < len(s):
		word.WriteByte(s[i+1])
		return i + 2
	case s[i] == '$' && i+1 < len(s) && s[i+1] == '?':
		word.WriteString(strconv.Itoa(sh.last))
		return i + 2
	case s[i] == '$':
		j := i + 1
		braced := j < len(s) && s[j] == '{'
		if braced {
			j++
		}
		k := j
		for k < len(s) && (s[k] == '_' || s[k] >= 'A' && s[k] <= 'Z' || s[k] >= 'a' && s[k] <= 'z' || s[k] >= '0' && s[k] <= '9') {
			k++
		}
		if k == j {
			word.WriteByte('$')
			return i + 1
		}
		word.WriteString(sh.env[s[j:k]])
		if braced && k < len(s) {
			k++
		}
		return k
	}
	word.WriteByte(s[i])
	return i + 1
}

// script runs a whole script and returns its exit status. Each statement is
// expanded when it is reached, as $? wants it.
func (sh *shell) script(text string, stdin io.Reader) int {
	skip := false
	for text != "" && !sh.exited && sh.ctx.Err() == nil {
		stmt, op, rest := cutStatement(text)
		if tokens := sh.lex(stmt); len(tokens) > 0 && !skip {
			sh.last = sh.pipeline(tokens, stdin)
		}
		switch op {
		case "&&":
			skip = sh.last != 0
		case "||":
			skip = sh.last == 0
		default:
			skip = false
		}
		text = rest
	}
	return sh.last
}

// cutStatement cuts text at the first separator outside of quotes.
func cutStatement(text string) (stmt, op, rest string) {
	quote := byte(0)
	for i := 0; i < len(text); i++ {
		switch ch := text[i]; {
		case quote != 0:
			if ch == '\\' && quote == '"' {
				i++
			} else if ch == quote {
				quote = 0
			}
		case ch == '\\':
			i++
		case ch == '\'' || ch == '"':
			quote = ch
		case ch == '#' && (i == 0 || strings.IndexByte(" \t\n", text[i-1]) >= 0):
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		default:
			for _, sep := range []string{"&&", "||", ";", "\n", "&"} {
				if strings.HasPrefix(text[i:], sep) && !(sep == "&" && i > 0 && text[i-1] == '>') && !(sep == "&" && strings.HasPrefix(text[i:], "&1")) {
					return text[:i], sep, text[i+len(sep):]
				}
			}
		}
	}
	return text, "", ""
}

// pipeline runs commands joined by |, one after the other.
func (sh *shell) pipeline(tokens []token, stdin io.Reader) int {
	for {
		n := 0
		for n < len(tokens) && !(tokens[n].op && tokens[n].text == "|") {
			n++
		}
		if n == len(tokens) {
			return sh.simple(tokens, stdin, streamWriter{sh.out, false})
		}
		var buf bytes.Buffer
		sh.simple(tokens[:n], stdin, &buf)
		stdin, tokens = &buf, tokens[n+1:]
	}
}

// simple runs one command with its redirections.
func (sh *shell) simple(tokens []token, stdin io.Reader, stdout io.Writer) int {
	var argv []string
	var stderr io.Writer = streamWriter{sh.out, true}
	var files []func() error
	for i := 0; i < len(tokens); i++ {
		t := tokens[i]
		if !t.op {
			argv = append(argv, t.text)
			continue
		}
		arg := ""
		if strings.HasSuffix(t.text, ">") || t.text == "<" {
			if i++; i >= len(tokens) {
				return sh.complain(stderr, "syntax error")
			}
			arg = tokens[i].text
		}
		switch t.text {
		case "2>&1":
			stderr = stdout
		case ">&2", "1>&2":
			stdout = stderr
		case "2>", "2>>":
			stderr = io.Discard
		case "<":
			data, err := sh.read(arg)
			if err != nil {
				return sh.complain(stderr, arg+": No such file or directory")
			}
			stdin = bytes.NewReader(data)
		case ">", ">>":
			if arg == "/dev/null" {
				stdout = io.Discard
				continue
			}
			var buf bytes.Buffer
			if t.text == ">>" {
				old, _ := sh.read(arg) // a missing file is empty
				buf.Write(old)
			}
			stdout = &buf
			files = append(files, func() error {
				_, err := sh.disk.put(sh.user, sh.abs(arg), buf.Bytes(), 0, false)
				return err
			})
		}
	}
	for len(argv) > 0 {
		k, v, ok := strings.Cut(argv[0], "=")
		if !ok || k == "" || strings.ContainsAny(k, "/-. ") {
			break
		}
		sh.env[k] = v
		argv = argv[1:]
	}
	code := 0
	if len(argv) > 0 {
		code = sh.command(argv, stdin, stdout, stderr)
	}
	for _, write := range files {
		if err := write(); err != nil {
			return sh.complain(stderr, err.Error())
		}
	}
	return code
}

func (sh *shell) complain(w io.Writer, msg string) int {
	_, _ = io.WriteString(w, "sh: "+msg+"\n") // what cannot be written is lost, as in a shell
	return 1
}

func (sh *shell) abs(p string) string {
	if path.IsAbs(p) {
		return p
	}
	return path.Join(sh.cwd, p)
}

func (sh *shell) read(p string) ([]byte, error) {
	sh.disk.mu.Lock()
	defer sh.disk.mu.Unlock()
	p = sh.disk.follow(sh.user, sh.abs(p))
	n := sh.disk.nodes[p]
	if n == nil || n.kind != vm.FileRegular {
		return nil, noFile(p)
	}
	return bytes.Clone(n.data), nil
}
