// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/warren-vm/warren/vm"
)

// streams are a command's standard streams and their properties.
type streams struct {
	in       io.Reader
	out, err io.Writer

	outTTY, errTTY bool
	colour         bool // stdout shows colours
	width          int  // of stdout's terminal; 0 = unlimited
	errWidth       int  // of stderr's
	quiet          bool // no notes, progress or confirmations; listings print only ids

	rename func(string) string // puts the name that the program was called by into a text; nil = the name is warren
}

// named returns a message with the name that the program was called by.
func (s *streams) named(text string) string {
	if s.rename == nil {
		return text
	}
	return s.rename(text)
}

func newStreams(in io.Reader, out, err io.Writer, getenv func(string) string) *streams {
	s := &streams{in: in, out: out, err: err}
	s.outTTY, s.width = screen(out)
	s.errTTY, s.errWidth = screen(err)
	s.colour = s.outTTY && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
	return s
}

func terminal(v any) (int, bool) {
	f, ok := v.(*os.File)
	if !ok {
		return 0, false
	}
	fd := int(f.Fd())
	return fd, term.IsTerminal(fd)
}

// screen reports whether a stream is a terminal, and how wide it is; 0 = unknown.
func screen(w io.Writer) (tty bool, width int) {
	fd, tty := terminal(w)
	if tty {
		if cols, _, err := term.GetSize(fd); err == nil {
			width = cols
		}
	}
	return tty, width
}

// printf writes to stdout. If stdout is closed, SIGPIPE ends the process;
// other failures cannot be reported.
func (s *streams) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, s.named(format), args...)
}

// notef writes a line for people to stderr, which -q silences.
func (s *streams) notef(format string, args ...any) {
	if !s.quiet {
		s.tellf(format, args...)
	}
}

// tellf writes to stderr even with -q: an error, a loss.
func (s *streams) tellf(format string, args ...any) {
	_, _ = fmt.Fprint(s.err, fold(s.named(fmt.Sprintf(format, args...)), s.errWidth)+"\n")
}

// fold breaks lines at spaces so that none is wider than width (0 = any);
// continuation lines are indented.
func fold(text string, width int) string {
	var out strings.Builder
	for i, line := range strings.Split(text, "\n") {
		if i > 0 {
			out.WriteByte('\n')
		}
		indent := "  " + line[:len(line)-len(strings.TrimLeft(line, " "))]
		for width > 2*len(indent) && utf8.RuneCountInString(line) > width {
			cut := strings.LastIndexByte(string([]rune(line)[:width+1]), ' ')
			for cut > 0 && strings.Count(line[:cut], "`")%2 == 1 { // a command stays on one line, to be copied
				cut = strings.LastIndexByte(line[:cut], ' ')
			}
			if cut <= len(indent) {
				break // a word that is wider than the terminal
			}
			out.WriteString(line[:cut] + "\n")
			line = indent + line[cut+1:]
		}
		out.WriteString(line)
	}
	return out.String()
}

// askf writes a question to stderr, without a line break.
func (s *streams) askf(format string, args ...any) {
	_, _ = fmt.Fprintf(s.err, s.named(format), args...)
}

// json writes a value to stdout.
func (s *streams) json(v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return vm.Errorf(vm.Internal, "", "output: %w", err)
	}
	if _, err := s.out.Write(append(data, '\n')); err != nil {
		return vm.Errorf(vm.Internal, "stdout", "cannot be written: %w", err)
	}
	return nil
}

// list writes a listing as JSON: an empty one is [], never null.
func list[T any](s *streams, l []T) error {
	if l == nil {
		l = []T{}
	}
	return s.json(l)
}

// state colours a state on a terminal; the word alone says the same.
func (s *streams) state(v vm.State) string {
	code := map[vm.State]string{vm.Running: "32", vm.Lost: "31", vm.Stopped: "2", vm.Suspended: "2"}[v]
	return paint(s.colour, code, string(v))
}

// paint gives a text a colour of a terminal, such as red, if colours are on.
func paint(on bool, code, text string) string {
	if !on || code == "" || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// table is rows of columns. Cells are printed as they are: quote what a guest
// has chosen.
type table struct {
	head []string
	rows [][]string
	// spare names the columns that a narrow terminal omits, the first ones
	// first.
	spare []string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// cellWidth counts characters, not colours.
func cellWidth(s string) int {
	n := utf8.RuneCountInString(s)
	if strings.HasPrefix(s, "\x1b[") {
		n -= strings.IndexByte(s, 'm') + 1 + len("\x1b[0m")
	}
	return n
}

// widths returns the widest cell of each column.
func (t *table) widths() []int {
	widths := make([]int, len(t.head))
	for _, r := range append([][]string{t.head}, t.rows...) {
		for i, c := range r {
			widths[i] = max(widths[i], cellWidth(c))
		}
	}
	return widths
}

// without returns the table without a column.
func (t *table) without(name string) *table {
	i := slices.Index(t.head, name)
	if i < 0 {
		return t
	}
	out := &table{head: slices.Delete(slices.Clone(t.head), i, i+1)}
	for _, r := range t.rows {
		out.rows = append(out.rows, slices.Delete(slices.Clone(r), i, i+1))
	}
	return out
}

// refs returns the column that identifies the rows: their ids, else their names.
// A table without either stays whole.
func (t *table) refs() *table {
	for _, name := range []string{"ID", "NAME"} {
		if slices.Contains(t.head, name) {
			out := t
			for _, other := range t.head {
				if other != name {
					out = out.without(other)
				}
			}
			return out
		}
	}
	return t
}

// fit leaves spare columns out until the table is no wider than a terminal.
func (t *table) fit(width int) *table {
	out := t
	for _, name := range t.spare {
		total := 2 * (len(out.head) - 1)
		for _, w := range out.widths() {
			total += w
		}
		if total <= width {
			break
		}
		out = out.without(name)
	}
	return out
}

// print writes the table. A terminal gets no more columns than it has room for,
// and the last of them is cut at its width; a pipe or a file gets all.
func (s *streams) print(t *table) {
	if s.quiet {
		t = t.refs()
	}
	if s.width > 0 {
		t = t.fit(s.width)
	}
	rows, widths := append([][]string{t.head}, t.rows...), t.widths()
	if s.quiet && len(t.head) == 1 {
		rows = rows[1:]
	}
	var b strings.Builder
	for _, r := range rows {
		at := 0
		for i, c := range r {
			if i == len(r)-1 {
				b.WriteString(s.cut(c, at))
				break
			}
			b.WriteString(c)
			b.WriteString(strings.Repeat(" ", widths[i]-cellWidth(c)+2))
			at += widths[i] + 2
		}
		b.WriteByte('\n')
	}
	s.printf("%s", b.String())
}

// cut shortens the last cell of a line, which begins at column at.
func (s *streams) cut(cell string, at int) string {
	room := s.width - at
	if s.width == 0 || room < 10 || cellWidth(cell) <= room || strings.HasPrefix(cell, "\x1b") {
		return cell
	}
	return string([]rune(cell)[:room-1]) + "…"
}

// line writes a value to stdout as one line of JSON.
func (s *streams) line(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return vm.Errorf(vm.Internal, "", "output: %w", err)
	}
	if _, err := s.out.Write(append(data, '\n')); err != nil {
		return vm.Errorf(vm.Internal, "stdout", "cannot be written: %w", err)
	}
	return nil
}
