// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"bytes"
	"context"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

// MaxResults is the largest page of a search.
const MaxResults = 1000

const (
	defaultResults = 100
	searchTime     = 15 * time.Second
	maxSearched    = 8 << 20 // bytes of a file; larger ones are not searched
	maxFileMatches = 1000    // lines of one file in an answer
	maxMatches     = 20_000  // lines in an answer
	maxShownLine   = 4 << 10 // bytes of a line in an answer
	contextLines   = 2
)

// SearchQuery describes a search. Include and Exclude are patterns of paths such as
// src/**/*.ts.
type SearchQuery struct {
	Query                           string
	Rev                             string // "" = the default branch
	Include, Exclude                string
	CaseSensitive, Regex, WholeWord bool
	Limit                           int // 0 = 100, at most MaxResults
	Offset                          int
}

// searched is a commit in which a search looks, and for what.
type searched struct {
	repo     vm.Repository
	commit   string
	finder   *finder
	patterns pathPatterns
}

// searchCodes are the codes of errors of a query. paths "" = it has no patterns of paths.
type searchCodes struct{ empty, query, paths string }

// searchIn checks a query, and finds the repository and the commit of the search, with a
// context that bounds its time. Call stop in any case.
func (r *Repo) searchIn(ctx context.Context, c *vm.Call, ref string, q *SearchQuery, codes searchCodes) (s searched, bounded context.Context, stop context.CancelFunc, err error) {
	stop = func() {}
	if s.finder, err = newFinder(*q, codes.empty, codes.query); err != nil {
		return s, ctx, stop, err
	}
	if codes.paths != "" {
		if s.patterns, err = newPathPatterns(*q, codes.paths); err != nil {
			return s, ctx, stop, err
		}
	}
	if q.Limit <= 0 {
		q.Limit = defaultResults
	}
	q.Limit, q.Offset = min(q.Limit, MaxResults), max(q.Offset, 0)
	if s.repo, err = r.Get(ctx, c, ref); err != nil {
		return s, ctx, stop, err
	}
	if s.commit, err = r.Resolve(ctx, c, s.repo.ID, q.Rev); err != nil {
		return s, ctx, stop, err
	}
	bounded, stop = context.WithTimeout(ctx, searchTime)
	return s, bounded, stop, nil
}

// tooSlow explains a search that was ended.
func tooSlow(ctx context.Context, err error) error {
	if err != nil && ctx.Err() == context.DeadlineExceeded {
		return vm.Errorf(vm.Timeout, "", "the search took longer than %s and was ended", searchTime).
			WithHint("search for a plain text, or in fewer files with pathPattern")
	}
	return err
}

// candidates lists the files of a commit that a search looks at.
func (r *Repo) candidates(ctx context.Context, s searched) ([]vm.TreeEntry, error) {
	all, err := r.files(ctx, s.repo.ID, s.commit)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(all, func(e vm.TreeEntry) bool { return e.Type != "blob" || !s.patterns.takes(e.Path) }), nil
}

// files lists everything in a tree except its directories, by path.
func (r *Repo) files(ctx context.Context, id, tree string) ([]vm.TreeEntry, error) {
	out, err := r.output(ctx, id, "ls-tree", "-r", "-z", "-l", "--full-tree", tree)
	if err != nil {
		return nil, err
	}
	var list []vm.TreeEntry
	for line := range bytes.SplitSeq(out, []byte{0}) {
		if len(line) == 0 {
			continue
		}
		meta, name, _ := bytes.Cut(line, []byte{'\t'})
		f := strings.Fields(string(meta))
		if len(f) != 4 {
			return nil, vm.Errorf(vm.Corrupt, tree, "git lists an entry that is not one")
		}
		mode, _ := strconv.ParseUint(f[0], 8, 32)
		size, _ := strconv.ParseInt(f[3], 10, 64) // "-" for a submodule
		list = append(list, vm.TreeEntry{Mode: uint32(mode), Type: f[1], SHA: f[2], Size: size, Path: string(name)})
	}
	return list, nil
}

// SearchText finds lines in the files of a commit. Links, binary files and files above 8
// MiB are left out. Kind Timeout after 15 seconds.
func (r *Repo) SearchText(ctx context.Context, c *vm.Call, ref string, q SearchQuery) (vm.RepoSearch, error) {
	out := vm.RepoSearch{Files: []vm.FoundText{}}
	s, ctx, stop, err := r.searchIn(ctx, c, ref, &q, searchCodes{"EMPTY_QUERY", "INVALID_REGEX", "INVALID_PATH_PATTERN"})
	defer stop()
	if err != nil {
		return out, err
	}
	list, err := r.candidates(ctx, s)
	if err != nil {
		return out, tooSlow(ctx, err)
	}
	list = slices.DeleteFunc(list, func(e vm.TreeEntry) bool { return e.Mode == ModeLink || e.Size > maxSearched })
	counts, err := r.countMatches(ctx, s, q, list)
	if err != nil {
		return out, tooSlow(ctx, err)
	}
	var page []vm.TreeEntry
	for i, e := range list {
		if counts[i] == 0 {
			continue
		}
		out.TotalMatches += counts[i]
		if out.TotalFiles++; out.TotalFiles > q.Offset && len(page) < q.Limit {
			page = append(page, e)
		}
	}
	out.HasMore = out.TotalFiles > q.Offset+len(page)
	left := maxMatches
	err = r.eachBlob(ctx, s.repo.ID, page, func(i int, data []byte) error {
		one := vm.FoundText{FoundFile: foundFile(page[i]), Matches: matchesIn(data, s.finder, min(left, maxFileMatches))}
		left -= len(one.Matches)
		out.Files = append(out.Files, one)
		return nil
	})
	return out, tooSlow(ctx, err)
}

// countMatches returns how many lines match in each file. git grep counts plain texts;
// it compares without regard to case only in ASCII.
func (r *Repo) countMatches(ctx context.Context, s searched, q SearchQuery, list []vm.TreeEntry) ([]int, error) {
	if q.Regex || strings.ContainsAny(q.Query, "\n\x00") || !q.CaseSensitive && !isASCII(q.Query) {
		return r.countByReading(ctx, s.repo.ID, s.finder, list)
	}
	args := []string{"grep", "--full-name", "-F", "-I", "-c", "-z", "--no-textconv", "--no-color"}
	if !q.CaseSensitive {
		args = append(args, "-i")
	}
	if q.WholeWord {
		args = append(args, "-w")
	}
	args = append(args, "-e", q.Query, s.commit)
	out, err := r.output(ctx, s.repo.ID, args...)
	if err != nil && exitOf(err) != 1 { // 1: nothing matches
		return nil, err
	}
	found := map[string]int{}
	for len(out) > 0 {
		name, rest, ok := bytes.Cut(out, []byte{0})
		n, after, ok2 := bytes.Cut(rest, []byte{'\n'})
		if !ok || !ok2 {
			return nil, vm.Errorf(vm.Internal, "", "git grep answers what is not a count")
		}
		count, _ := strconv.Atoi(string(n))
		found[strings.TrimPrefix(string(name), s.commit+":")] = count
		out = after
	}
	counts := make([]int, len(list))
	for i, e := range list {
		counts[i] = found[e.Path]
	}
	return counts, nil
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > 127 })
}

// isBinary says what git says: a file with a NUL in its first 8,000 bytes is not text.
func isBinary(data []byte) bool { return bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 }

// countByReading counts in Go, in two halves at once.
func (r *Repo) countByReading(ctx context.Context, id string, f *finder, list []vm.TreeEntry) ([]int, error) {
	counts := make([]int, len(list))
	half := func(from, to int) error {
		return r.eachBlob(ctx, id, list[from:to], func(i int, data []byte) error {
			if !isBinary(data) {
				f.lines(data, func(int, int, int, int, int) bool { counts[from+i]++; return ctx.Err() == nil })
			}
			return ctx.Err()
		})
	}
	middle, other := len(list)/2, make(chan error, 1)
	go func() { other <- half(middle, len(list)) }()
	err := half(0, middle)
	if second := <-other; err == nil {
		err = second
	}
	return counts, err
}

func foundFile(e vm.TreeEntry) vm.FoundFile {
	out := vm.FoundFile{Path: e.Path, Size: e.Size}
	if ext := strings.TrimPrefix(path.Ext(e.Path), "."); ext != "" && ext != path.Base(e.Path) {
		out.Extension = &ext
	}
	return out
}

// matchesIn returns at most limit lines that match, with the lines around them.
func matchesIn(data []byte, f *finder, limit int) []vm.LineMatch {
	out := []vm.LineMatch{}
	if limit <= 0 {
		return out
	}
	f.lines(data, func(number, from, to, start, end int) bool {
		out = append(out, vm.LineMatch{
			LineNumber: number, Line: shownLine(data[from:to]), StartColumn: start, EndColumn: end,
			ContextBefore: linesBefore(data[:from]), ContextAfter: linesAfter(data[to:]),
		})
		return len(out) < limit
	})
	return out
}

// shownLine cuts a line that is very long.
func shownLine(line []byte) string {
	return strings.ToValidUTF8(string(line[:min(len(line), maxShownLine)]), "\ufffd")
}

func linesBefore(text []byte) []string {
	out := []string{}
	for len(out) < contextLines && len(text) > 0 {
		text = text[:len(text)-1] // its line end
		begin := bytes.LastIndexByte(text, '\n') + 1
		out = append(out, shownLine(bytes.TrimSuffix(text[begin:], []byte{'\r'})))
		text = text[:begin]
	}
	slices.Reverse(out)
	return out
}

func linesAfter(text []byte) []string {
	out := []string{}
	for len(out) < contextLines {
		end := bytes.IndexByte(text, '\n')
		if end < 0 || end+1 == len(text) {
			break
		}
		text = text[end+1:]
		line, _, _ := bytes.Cut(text, []byte{'\n'})
		out = append(out, shownLine(bytes.TrimSuffix(line, []byte{'\r'})))
	}
	return out
}

// SearchFiles finds files by their path: a part of it, a pattern with * or ?, or an
// expression.
func (r *Repo) SearchFiles(ctx context.Context, c *vm.Call, ref string, q SearchQuery) (vm.RepoFiles, error) {
	out := vm.RepoFiles{Files: []vm.FoundFile{}}
	s, ctx, stop, err := r.searchIn(ctx, c, ref, &q, searchCodes{"FILENAME_EMPTY_QUERY", "FILENAME_INVALID_PATTERN", "FILENAME_INVALID_PATTERN"})
	defer stop()
	if err != nil {
		return out, err
	}
	matches := func(p string) bool { _, _, ok := s.finder.in([]byte(p)); return ok }
	if !q.Regex && strings.ContainsAny(q.Query, "*?[{") {
		glob, err := globExpression(q.Query, q.CaseSensitive)
		if err != nil {
			return out, vm.Errorf(vm.Invalid, q.Query, "not a pattern: %w", err).WithCode("FILENAME_INVALID_PATTERN", "reason", err.Error())
		}
		matches = glob.MatchString
	}
	list, err := r.candidates(ctx, s)
	if err != nil {
		return out, tooSlow(ctx, err)
	}
	for _, e := range list {
		if !matches(e.Path) {
			continue
		}
		if out.TotalFiles++; out.TotalFiles > q.Offset && len(out.Files) < q.Limit {
			out.Files = append(out.Files, foundFile(e))
		}
	}
	out.HasMore = out.TotalFiles > q.Offset+len(out.Files)
	return out, nil
}
