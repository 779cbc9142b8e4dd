// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

const (
	maxWalked   = 200_000 // commits that a search looks at
	maxDiffLine = 1 << 20 // bytes of a changed line that are searched
)

// SearchCommits finds commits by their message, the newest first.
func (r *Repo) SearchCommits(ctx context.Context, c *vm.Call, ref string, q SearchQuery) (vm.FoundCommits, error) {
	out := vm.FoundCommits{Commits: []vm.FoundCommit{}}
	s, ctx, stop, err := r.searchIn(ctx, c, ref, &q, searchCodes{"COMMIT_EMPTY_QUERY", "COMMIT_INVALID_REGEX", ""})
	defer stop()
	if err != nil {
		return out, err
	}
	err = r.reading(ctx, s.repo.ID, []string{"log", "-z", "--max-count=" + strconv.Itoa(maxWalked), "--format=%H%n%an%n%ae%n%at%n%B", s.commit}, nil, func(in io.Reader) error {
		return records(in, func(rec []byte) error {
			parts := strings.SplitN(string(rec), "\n", 5)
			if len(parts) != 5 {
				return vm.Errorf(vm.Internal, "", "git log answers what is not a commit")
			}
			message := strings.TrimRight(parts[4], "\n")
			if !found(s.finder, message) {
				return nil
			}
			if out.TotalCommits++; out.TotalCommits <= q.Offset || len(out.Commits) == q.Limit {
				return nil
			}
			subject, _, _ := strings.Cut(message, "\n")
			out.Commits = append(out.Commits, vm.FoundCommit{
				SHA: parts[0], Message: valid(subject), FullMessage: valid(message), AuthorName: valid(parts[1]), AuthorEmail: valid(parts[2]), Timestamp: unixTime(parts[3]),
			})
			return nil
		})
	})
	out.HasMore = out.TotalCommits > q.Offset+len(out.Commits)
	return out, tooSlow(ctx, err)
}

func valid(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

func unixTime(s string) time.Time {
	n, _ := strconv.ParseInt(s, 10, 64)
	return time.Unix(n, 0).UTC()
}

// found reports whether any line of a text matches.
func found(f *finder, text string) (ok bool) {
	f.lines([]byte(text), func(int, int, int, int, int) bool { ok = true; return false })
	return ok
}

// records calls each for every text that ends with NUL.
func records(in io.Reader, each func([]byte) error) error {
	b := bufio.NewReaderSize(in, 64<<10)
	for {
		rec, err := readUntil(b, 0, maxMessage)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = each(rec)
		}
		if err != nil {
			return err
		}
	}
}

// readUntil reads up to an end and leaves the end away; of a longer text it returns only
// the first bytes, a buffer more than most at the utmost. After the last one it returns
// io.EOF.
func readUntil(in *bufio.Reader, end byte, most int) ([]byte, error) {
	var text []byte
	for {
		part, err := in.ReadSlice(end)
		if len(text) < most {
			text = append(text, part...)
		}
		switch {
		case err == nil:
			return bytes.TrimSuffix(text, []byte{end}), nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(text) > 0:
			return text, nil
		default:
			return nil, err
		}
	}
}

// errEnough ends a stream that has given enough.
var errEnough = errors.New("enough")

// SearchDiffs finds commits that added or removed lines that match, the newest first.
// Merges are left out. It ends with the first commit after the page, or after 15 seconds
// with what it has found: then TotalCommits counts only as far as it looked.
func (r *Repo) SearchDiffs(ctx context.Context, c *vm.Call, ref string, q SearchQuery) (vm.FoundDiffs, error) {
	out := vm.FoundDiffs{Commits: []vm.FoundDiff{}}
	s, ctx, stop, err := r.searchIn(ctx, c, ref, &q, searchCodes{"DIFF_EMPTY_QUERY", "DIFF_INVALID_REGEX", "DIFF_INVALID_PATH_PATTERN"})
	defer stop()
	if err != nil {
		return out, err
	}
	args := []string{
		"log", "-p", "-U0", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv", "--full-index", "--src-prefix=a/", "--dst-prefix=b/",
		"--max-count=" + strconv.Itoa(maxWalked), "--format=%x00%H%x00%an%x00%ae%x00%at%x00%s",
	}
	if !q.Regex && isASCII(q.Query) && !strings.ContainsAny(q.Query, "\n\x00") {
		args = append(args, "--extended-regexp", "-G"+quoteERE(q.Query)) // git leaves out what cannot match
		if !q.CaseSensitive {
			args = append(args, "-i")
		}
	}
	left := maxMatches
	err = r.reading(ctx, s.repo.ID, append(args, s.commit), nil, func(in io.Reader) error {
		p := diffParser{in: bufio.NewReaderSize(in, 256<<10), f: s.finder, paths: s.patterns, left: &left}
		return p.commits(func(d vm.FoundDiff) error {
			if out.TotalCommits++; out.TotalCommits <= q.Offset {
				return nil
			}
			if len(out.Commits) == q.Limit {
				return errEnough
			}
			out.Commits = append(out.Commits, d)
			return nil
		})
	})
	late := ctx.Err() == context.DeadlineExceeded
	out.HasMore = late || out.TotalCommits > q.Offset+len(out.Commits)
	if late || errors.Is(err, errEnough) {
		err = nil
	}
	return out, err
}

// quoteERE quotes a text for git's -G, which takes POSIX extended expressions.
func quoteERE(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if strings.IndexByte(`\.+*?()|[]{}^$`, c) >= 0 {
			b.WriteByte('\\')
		}
		b.WriteByte(c)
	}
	return b.String()
}

// diffParser reads the output of git log -p -U0. Lines of files are counted by the heads
// of their hunks, so that none of them is taken for a head.
type diffParser struct {
	in    *bufio.Reader
	f     *finder
	paths pathPatterns
	left  *int // lines that may still be kept

	now  vm.FoundDiff // the commit being read
	path string       // of the file being read
}

// commits calls each for every commit with a line that matches.
func (p *diffParser) commits(each func(vm.FoundDiff) error) error {
	flush := func() error {
		d := p.now
		p.now = vm.FoundDiff{}
		if len(d.Files) == 0 {
			return nil
		}
		return each(d)
	}
	for {
		line, err := p.line()
		if errors.Is(err, io.EOF) {
			return flush()
		}
		if err != nil {
			return err
		}
		switch text := string(line); {
		case strings.HasPrefix(text, "\x00"):
			if err := flush(); err != nil {
				return err
			}
			h := strings.SplitN(text[1:], "\x00", 5)
			if len(h) != 5 {
				return vm.Errorf(vm.Internal, "", "git log answers what is not a commit")
			}
			p.now = vm.FoundDiff{SHA: h[0], AuthorName: valid(h[1]), AuthorEmail: valid(h[2]), Timestamp: unixTime(h[3]), Message: valid(h[4])}
			p.path = ""
		case strings.HasPrefix(text, "--- "):
			if name, ok := diffName(text[4:], "a/"); ok {
				p.path = name
			}
		case strings.HasPrefix(text, "+++ "):
			if name, ok := diffName(text[4:], "b/"); ok {
				p.path = name
			}
		case strings.HasPrefix(text, "@@ "):
			if err := p.hunk(text); err != nil {
				return err
			}
		}
	}
}

// line reads a line without its end; of a longer one, only maxDiffLine bytes.
func (p *diffParser) line() ([]byte, error) { return readUntil(p.in, '\n', maxDiffLine) }

var hunkHead = vm.NewPattern(`^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@`)

// hunk reads the lines of one hunk.
func (p *diffParser) hunk(head string) error {
	m := hunkHead.FindStringSubmatch(head)
	if m == nil {
		return vm.Errorf(vm.Internal, "", "git log answers what is not a hunk")
	}
	number := func(i, def int) int {
		if n, err := strconv.Atoi(m[i]); err == nil {
			return n
		}
		return def
	}
	old, fresh := number(1, 0), number(3, 0)
	removed, added := number(2, 1), number(4, 1)
	for removed+added > 0 {
		line, err := p.line()
		if err != nil {
			return err
		}
		switch {
		case len(line) == 0:
			return vm.Errorf(vm.Internal, "", "git log answers what is not a hunk")
		case line[0] == '-':
			p.keep(line[1:], old, false)
			old, removed = old+1, removed-1
		case line[0] == '+':
			p.keep(line[1:], fresh, true)
			fresh, added = fresh+1, added-1
		}
	}
	return nil
}

// keep keeps a changed line that matches.
func (p *diffParser) keep(line []byte, number int, added bool) {
	line = bytes.TrimSuffix(line, []byte{'\r'})
	start, end, ok := p.f.in(line)
	if !ok || !p.paths.takes(p.path) {
		return
	}
	if n := len(p.now.Files); n == 0 || p.now.Files[n-1].Path != p.path {
		p.now.Files = append(p.now.Files, vm.FoundDiffFile{Path: p.path, Matches: []vm.DiffLine{}})
	}
	file := &p.now.Files[len(p.now.Files)-1]
	if *p.left > 0 && len(file.Matches) < maxFileMatches {
		*p.left--
		file.Matches = append(file.Matches, vm.DiffLine{Line: shownLine(line), LineNumber: number, StartColumn: start, EndColumn: end, IsAddition: added})
	}
}

// diffName reads the name of a file in a diff, which git quotes as C does if it has
// unusual characters; /dev/null gives false.
func diffName(text, prefix string) (string, bool) {
	text = strings.TrimSuffix(text, "\t") // after a name with a space
	if strings.HasPrefix(text, `"`) {
		text = unquoteC(text)
	}
	return strings.CutPrefix(text, prefix)
}

// unquoteC reads a name that git has quoted.
func unquoteC(text string) string {
	text = strings.TrimSuffix(strings.TrimPrefix(text, `"`), `"`)
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' || i+1 == len(text) {
			b.WriteByte(text[i])
			continue
		}
		i++
		if at := strings.IndexByte(`abtnvfr`, text[i]); at >= 0 {
			b.WriteByte("\a\b\t\n\v\f\r"[at])
			continue
		}
		if i+3 <= len(text) {
			if n, err := strconv.ParseUint(text[i:i+3], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 2
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
