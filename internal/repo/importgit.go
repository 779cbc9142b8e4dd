// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// importGit makes the first commit from a directory of another repository.
func (r *Repo) importGit(ctx context.Context, c *vm.Call, rec *vm.Repository, dir string, in Import, room *space) error {
	from, err := parseSource(in.URL)
	if err != nil {
		return err
	}
	g, err := r.approach(ctx, dir, from, room)
	if err != nil {
		return err
	}
	defer g.tunnel.Close()
	refs, err := g.list(ctx)
	if err != nil {
		return err
	}
	w, err := g.want(refs, in.Rev, "")
	if err != nil {
		return err
	}
	if w.ask == "" {
		return vm.Errorf(vm.Invalid, from.url, "the source has no commit").WithCode("SOURCE_NOT_FOUND", "url", from.url)
	}
	if _, err := g.run(ctx, "fetch", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--quiet", "--no-recurse-submodules", "--depth=1", "--", from.url, "+"+w.ask+":refs/warren/import"); err != nil {
		return err
	}
	tree, err := r.run(ctx, program{dir: dir, args: []string{"rev-parse", "--verify", "--quiet", "--end-of-options", "refs/warren/import^{commit}:" + in.Dir}})
	id := strings.TrimSpace(string(tree))
	if err != nil {
		return noSubdir(from.url, in.Dir)
	}
	if kind, err := r.run(ctx, program{dir: dir, args: []string{"cat-file", "-t", id}}); err != nil || strings.TrimSpace(string(kind)) != "tree" {
		return noSubdir(from.url, in.Dir)
	}
	who := in.signature(c, r.cfg.Now())
	commit, err := r.run(ctx, program{dir: dir, args: []string{"commit-tree", "-F", "-", id}, in: strings.NewReader(in.Message), env: []string{
		"GIT_AUTHOR_NAME=" + who.Name, "GIT_AUTHOR_EMAIL=" + who.Email, "GIT_COMMITTER_NAME=" + who.Name, "GIT_COMMITTER_EMAIL=" + who.Email,
		"GIT_AUTHOR_DATE=" + gitDate(who.Date), "GIT_COMMITTER_DATE=" + gitDate(who.Date),
	}})
	if err != nil {
		return err
	}
	if err := r.setRefs(ctx, dir, [2]string{"refs/heads/" + rec.DefaultBranch, strings.TrimSpace(string(commit))}, [2]string{"refs/warren/import"}); err != nil {
		return err
	}
	return r.onlyNeeded(ctx, dir)
}

// onlyNeeded drops what no ref reaches: the history that came with the tree.
func (r *Repo) onlyNeeded(ctx context.Context, dir string) error {
	if err := os.Remove(filepath.Join(dir, "shallow")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return layout.Error(dir, err)
	}
	_, err := r.run(ctx, program{dir: dir, args: []string{"repack", "--quiet", "-a", "-d"}})
	return err
}

// firstCommit makes the first commit from files. git checks every object as it would at
// a push, so that no path in it is dangerous for those who check it out.
func (r *Repo) firstCommit(ctx context.Context, c *vm.Call, rec *vm.Repository, dir string, in Import, files *spool) error {
	list := files.edits()
	for _, f := range list {
		if err := CheckPath(f.Path); err != nil {
			return err
		}
		for d := parent(f.Path); d != ""; d = parent(d) {
			if _, both := files.at[d]; both {
				return badPath(f.Path, "a part of the path is a file or a link")
			}
		}
	}
	out, feed := io.Pipe()
	who := in.signature(c, r.cfg.Now())
	go func() { // ends with run, which closes out
		feed.CloseWithError(writeFastImport(feed, rec.DefaultBranch, in.Message, who, list))
	}()
	_, err := r.run(ctx, program{dir: dir, args: []string{"fast-import", "--quiet", "--done", "--date-format=raw"}, in: out})
	_ = out.Close()
	if err != nil {
		if exitOf(err) > 0 {
			return badImport("files", "git does not accept these files: %s", saidBy(err))
		}
		return err
	}
	if _, err := r.run(ctx, program{dir: dir, args: []string{"fsck", "--strict", "--no-dangling", "--no-progress"}}); err != nil {
		if exitOf(err) > 0 {
			return badImport("files", "git does not accept these files: %s", saidBy(err)).WithCode("INVALID_FILE_PATH", "path", "")
		}
		return err
	}
	return nil
}

// writeFastImport writes one commit in the format of git fast-import.
func writeFastImport(w io.Writer, branch, message string, who Signature, list []FileEdit) error {
	b := bufio.NewWriterSize(w, 256<<10)
	person := fmt.Sprintf("%s <%s> %s", who.Name, who.Email, gitDate(who.Date))
	fmt.Fprintf(b, "feature done\ncommit refs/heads/%s\nauthor %s\ncommitter %s\ndata %d\n%s\n", branch, person, person, len(message), message)
	for _, f := range list {
		fmt.Fprintf(b, "M %o inline %s\ndata %d\n", cmp.Or(f.Mode, ModeFile), quoteC(f.Path), f.Size)
		in, err := f.Open()
		if err != nil {
			return err
		}
		_, err = io.CopyN(b, in, f.Size)
		_ = in.Close()
		if err != nil {
			return err
		}
		_ = b.WriteByte('\n')
	}
	_, _ = b.WriteString("done\n")
	return b.Flush()
}

// quoteC quotes a path as git reads it.
func quoteC(name string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(name) {
		if c < ' ' || c == '"' || c == '\\' || c >= 0x7f {
			fmt.Fprintf(&b, "\\%03o", c)
		} else {
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func gitDate(t time.Time) string { return fmt.Sprintf("%d +0000", t.Unix()) }

// signature is the author of an import; without one it is the caller.
func (in *Import) signature(c *vm.Call, now time.Time) Signature {
	clean := func(s string) string {
		return strings.TrimSpace(strings.Map(func(r rune) rune {
			if r < ' ' || r == '<' || r == '>' || r == 0x7f {
				return -1
			}
			return r
		}, vm.Clip(s, 200)))
	}
	name, email := clean(in.AuthorName), clean(in.AuthorEmail)
	return Signature{Name: cmp.Or(name, email, actorName(c.Actor)), Email: cmp.Or(email, "warren@localhost"), Date: now}
}
