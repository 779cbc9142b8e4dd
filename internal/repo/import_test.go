// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// room is the repositories of a server that may connect to 127.0.0.1.
type room struct {
	*repo.Repo
	t    *testing.T
	site *vmtest.Site

	house *vmtest.House
	call  *vm.Call
	web   *httptest.Server // serves files
	www   string           // its files
}

func newRoom(t *testing.T) *room {
	t.Helper()
	site, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	site.ReachPrivate = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	h, err := site.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	call, _, err := vmtest.Admin(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	www := t.TempDir()
	web := httptest.NewServer(http.FileServer(http.Dir(www)))
	t.Cleanup(web.Close)
	return &room{h.Repo, t, site, h, call, web, www}
}

// git runs git for the test itself, as a user.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.com", "GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func put(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// serve puts a bare copy of a repository on the web.
func (r *room) serve(work, name string) string {
	git(r.t, r.www, "clone", "-q", "--bare", work, name)
	git(r.t, filepath.Join(r.www, name), "update-server-info")
	return r.web.URL + "/" + name
}

// none wants no repository, and no files of one.
func (r *room) none(what string) {
	r.t.Helper()
	list, _, err := r.List(r.t.Context(), r.call, repo.Filter{})
	if err != nil || len(list) > 0 {
		r.t.Errorf("%s leaves %d repositories, %v", what, len(list), err)
	}
	for _, dir := range []string{r.site.Dir.Repos(), r.site.Dir.RepoIncoming()} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			r.t.Error(err)
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), ".") {
				r.t.Errorf("%s leaves %s", what, e.Name())
			}
		}
	}
}

// refused wants an error with a code, and nothing left.
func (r *room) refused(what string, err error, code string) {
	r.t.Helper()
	if e := vm.AsError(err); err == nil || e.Code != code {
		r.t.Errorf("%s: %v (code %s), want code %s", what, err, vm.AsError(err).Code, code)
	}
	r.none(what)
}

// TestImportHistory: a repository elsewhere is taken over with its history; what its
// default branch is called stays. A branch, a depth or everything can be chosen.
func TestImportHistory(t *testing.T) {
	r := newRoom(t)
	work := t.TempDir()
	git(t, work, "init", "-q", "-b", "trunk")
	put(t, work+"/a", "1\n")
	git(t, work, "add", ".")
	git(t, work, "commit", "-qm", "first")
	put(t, work+"/a", "2\n")
	git(t, work, "commit", "-qam", "second")
	git(t, work, "tag", "v1")
	git(t, work, "branch", "side", "HEAD~1")
	url := r.serve(work, "src.git")
	for _, c := range []struct {
		what     string
		src      repo.Source
		branch   string
		branches string
		commits  string
	}{
		{"the default branch", repo.Source{URL: url}, "trunk", "trunk", "2"},
		{"another branch", repo.Source{URL: url, Rev: "side"}, "side", "side", "1"},
		{"a tag", repo.Source{URL: url, Rev: "v1"}, "main", "main", "2"},
		{"all", repo.Source{URL: url, All: true}, "trunk", "side trunk", "2"},
	} {
		rec, err := r.CreateFrom(t.Context(), r.call, repo.CreateRequest{}, c.src)
		if err != nil {
			t.Errorf("the import of %s fails: %v", c.what, err)
			continue
		}
		dir := r.site.Dir.Repo(rec.ID)
		if rec.DefaultBranch != c.branch {
			t.Errorf("%s has the default branch %s, want %s", c.what, rec.DefaultBranch, c.branch)
		}
		if got := strings.Join(strings.Fields(git(t, dir, "for-each-ref", "--format=%(refname:short)", "refs/heads")), " "); got != c.branches {
			t.Errorf("%s has the branches %q, want %q", c.what, got, c.branches)
		}
		if got := git(t, dir, "rev-list", "--count", "HEAD"); got != c.commits {
			t.Errorf("%s has %s commits, want %s", c.what, got, c.commits)
		}
		if err := r.Remove(t.Context(), r.call, rec.ID); err != nil {
			t.Error(err)
		}
	}
	_, err := r.CreateFrom(t.Context(), r.call, repo.CreateRequest{}, repo.Source{URL: r.web.URL + "/none.git"})
	r.refused("a source that is not there", err, "SOURCE_NOT_FOUND")
	_, err = r.CreateFrom(t.Context(), r.call, repo.CreateRequest{}, repo.Source{URL: url, Rev: "nope"})
	r.refused("a branch that is not there", err, "INVALID_REVISION")
	for _, bad := range []string{"file://" + work, "ext::sh -c touch% /tmp/x", "ssh://git@127.0.0.1/x", work, "git@host:x", "--upload-pack=x"} {
		_, err := r.CreateFrom(t.Context(), r.call, repo.CreateRequest{}, repo.Source{URL: bad})
		r.refused(bad, err, "GIT_INVALID_REQUEST")
	}
}

// TestImportFromPrivateAddress: no import connects to an address that is private, in
// whatever way it is named.
func TestImportFromPrivateAddress(t *testing.T) {
	r := newRoom(t)
	port := r.web.URL[strings.LastIndex(r.web.URL, ":"):]
	away := httptest.NewServer(http.RedirectHandler("http://127.0.0.2"+port+"/src.git/info/refs?service=git-upload-pack", http.StatusFound))
	defer away.Close()
	for _, url := range []string{"http://127.0.0.2" + port + "/src.git", "http://[::1]" + port + "/x", "http://169.254.169.254/latest", "http://10.0.0.1/x", away.URL + "/src.git"} {
		for _, kind := range []string{"", "git", "tar", "zip"} {
			var err error
			if kind == "" {
				_, err = r.CreateFrom(t.Context(), r.call, repo.CreateRequest{}, repo.Source{URL: url})
			} else {
				_, err = r.CreateImport(t.Context(), r.call, repo.CreateRequest{}, repo.Import{Type: kind, URL: url})
			}
			if vm.KindOf(err) != vm.Denied {
				t.Errorf("an import (%s) from %s ends with %v, want refused", kind, url, err)
			}
			r.none(url)
		}
	}
}

// entry is one entry of a test's archive.
type entry struct {
	name, text, link string
	mode             int64
}

func tarOf(t *testing.T, list ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range list {
		h := &tar.Header{Name: e.name, Mode: max(e.mode, 0o644), Size: int64(len(e.text)), Typeflag: tar.TypeReg}
		if e.link != "" {
			h.Typeflag, h.Linkname = tar.TypeSymlink, e.link
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(w, e.text)
	}
	_ = w.Close()
	return b.Bytes()
}

func zipOf(t *testing.T, list ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, e := range list {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(os.FileMode(max(e.mode, 0o644)))
		text := e.text
		if e.link != "" {
			h.SetMode(os.ModeSymlink | 0o777)
			text = e.link
		}
		w, err := z.CreateHeader(h)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(w, text)
	}
	_ = z.Close()
	return b.Bytes()
}

func gzipOf(data []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(data)
	_ = w.Close()
	return b.Bytes()
}

// TestImportArchives: an archive becomes one commit, with the modes of its files, links
// kept as links, and only what is below a directory if one is named.
func TestImportArchives(t *testing.T) {
	r := newRoom(t)
	list := []entry{{name: "top/a.txt", text: "hello\n"}, {name: "top/run.sh", text: "#!/bin/sh\n", mode: 0o755}, {name: "top/in/link", link: "/etc/passwd"}, {name: "other", text: "x"}}
	for name, data := range map[string][]byte{"x.tar": tarOf(t, list...), "x.tar.gz": gzipOf(tarOf(t, list...)), "x.zip": zipOf(t, list...)} {
		put(t, r.www+"/"+name, string(data))
		kind := "tar"
		if strings.HasSuffix(name, "zip") {
			kind = "zip"
		}
		rec, err := r.CreateImport(t.Context(), r.call, repo.CreateRequest{DefaultBranch: "trunk"}, repo.Import{
			Type: kind, URL: r.web.URL + "/" + name, Dir: "top", Message: "Start", AuthorName: "Ann <x>", AuthorEmail: "ann@example.com",
		})
		if err != nil {
			t.Errorf("the import of %s fails: %v", name, err)
			continue
		}
		dir := r.site.Dir.Repo(rec.ID)
		tree := git(t, dir, "ls-tree", "-r", "--format=%(objectmode) %(path)", "trunk")
		if want := "100644 a.txt\n120000 in/link\n100755 run.sh"; tree != want {
			t.Errorf("%s becomes\n%s\nwant\n%s", name, tree, want)
		}
		if got := git(t, dir, "log", "--format=%s|%an|%ae", "trunk"); got != "Start|Ann x|ann@example.com" {
			t.Errorf("%s becomes the commit %s", name, got)
		}
		if got := git(t, dir, "cat-file", "blob", "trunk:in/link"); got != "/etc/passwd" {
			t.Errorf("%s: the link leads to %q", name, got)
		}
		if err := r.Remove(t.Context(), r.call, rec.ID); err != nil {
			t.Error(err)
		}
	}
	_, err := r.CreateImport(t.Context(), r.call, repo.CreateRequest{}, repo.Import{Type: "tar", URL: r.web.URL + "/x.tar", Dir: "nope"})
	r.refused("a directory that is not there", err, "IMPORT_SUBDIR_NOT_FOUND")
}

// TestHostileArchives: an archive that leads out of itself, names git's own directory or
// grows too much is refused, and nothing is left of it.
func TestHostileArchives(t *testing.T) {
	r := newRoom(t)
	bad := map[string]struct {
		list []entry
		code string
	}{
		"traversal":        {[]entry{{name: "ok", text: "x"}, {name: "../../etc/cron.d/x", text: "x"}}, "INVALID_FILE_PATH"},
		"absolute":         {[]entry{{name: "/etc/passwd", text: "x"}}, "INVALID_FILE_PATH"},
		"inside traversal": {[]entry{{name: "a/../../b", text: "x"}}, "INVALID_FILE_PATH"},
		"git directory":    {[]entry{{name: "a/.git/hooks/post-checkout", text: "x"}}, "INVALID_FILE_PATH"},
		"GIT directory":    {[]entry{{name: ".GIT/config", text: "x"}}, "INVALID_FILE_PATH"},
		"short name":       {[]entry{{name: "git~1/config", text: "x"}}, "INVALID_FILE_PATH"},
		"hidden character": {[]entry{{name: ".g\u200cit/config", text: "x"}}, "INVALID_FILE_PATH"},
		"backslash":        {[]entry{{name: `..\..\x`, text: "x"}}, "INVALID_FILE_PATH"},
		"link as .git":     {[]entry{{name: ".git", link: "/tmp"}}, "INVALID_FILE_PATH"},
		"below a link":     {[]entry{{name: "d", link: "/tmp"}, {name: "d/x", text: "x"}}, "INVALID_FILE_PATH"},
	}
	for name, c := range bad {
		put(t, r.www+"/x.tar", string(tarOf(t, c.list...)))
		_, err := r.CreateImport(t.Context(), r.call, repo.CreateRequest{}, repo.Import{Type: "tar", URL: r.web.URL + "/x.tar"})
		r.refused("tar with "+name, err, c.code)
		put(t, r.www+"/x.zip", string(zipOf(t, c.list...)))
		_, err = r.CreateImport(t.Context(), r.call, repo.CreateRequest{}, repo.Import{Type: "zip", URL: r.web.URL + "/x.zip"})
		r.refused("zip with "+name, err, c.code)
	}
	bomb := []entry{{name: "zeros", text: strings.Repeat("\x00", 100<<20)}}
	for name, data := range map[string][]byte{"b.tar": gzipOf(tarOf(t, bomb...)), "b.zip": zipOf(t, bomb...)} {
		put(t, r.www+"/"+name, string(data))
		kind := strings.TrimPrefix(filepath.Ext(name), ".")
		_, err := r.CreateImport(t.Context(), r.call, repo.CreateRequest{}, repo.Import{Type: kind, URL: r.web.URL + "/" + name})
		if vm.KindOf(err) != vm.Limit {
			t.Errorf("a %s that grows a thousandfold ends with %v", kind, err)
		}
		r.none(name)
	}
	for name, data := range map[string]string{"n.tar": "not an archive", "n.zip": "PK nothing", "e.tar": "", "cut.tar": string(gzipOf(tarOf(t, entry{name: "a", text: strings.Repeat("x", 9999)}))[:40])} {
		put(t, r.www+"/"+name, data)
		kind := strings.TrimPrefix(filepath.Ext(name), ".")
		_, err := r.CreateImport(t.Context(), r.call, repo.CreateRequest{}, repo.Import{Type: kind, URL: r.web.URL + "/" + name})
		r.refused(name, err, "GIT_INVALID_REQUEST")
	}
}

// TestImportDirectoryOfGit: one directory of another repository becomes one commit; the
// history that it came from is not kept.
func TestImportDirectoryOfGit(t *testing.T) {
	r := newRoom(t)
	work := t.TempDir()
	git(t, work, "init", "-q", "-b", "main")
	put(t, work+"/lib/a", "1\n")
	put(t, work+"/secret", "s\n")
	git(t, work, "add", ".")
	git(t, work, "commit", "-qm", "first")
	url := r.serve(work, "src.git")
	// The dumb protocol has no depth: serve it by a program.
	rec, err := r.CreateImport(t.Context(), r.call, repo.CreateRequest{}, repo.Import{Type: "git", URL: smart(t, r.www) + "/src.git", Dir: "lib", Message: "Lib"})
	if err != nil {
		t.Fatal(err)
	}
	dir := r.site.Dir.Repo(rec.ID)
	if got := git(t, dir, "ls-tree", "-r", "--name-only", "main"); got != "a" {
		t.Errorf("the repository has %q, want only what is below lib", got)
	}
	if got := git(t, dir, "rev-list", "--all", "--count"); got != "1" {
		t.Errorf("the repository has %s commits, want 1", got)
	}
	all := git(t, dir, "cat-file", "--batch-all-objects", "--batch-check=%(objecttype)")
	if kinds := strings.Fields(all); len(kinds) != 3 || !slices.Contains(kinds, "blob") {
		t.Errorf("the repository has the objects %q, want a commit, a tree and a blob", kinds)
	}
	if err := r.Remove(t.Context(), r.call, rec.ID); err != nil {
		t.Fatal(err)
	}
	_, err = r.CreateImport(t.Context(), r.call, repo.CreateRequest{}, repo.Import{Type: "git", URL: smart(t, r.www) + "/src.git", Dir: "nope"})
	r.refused("a directory that is not there", err, "IMPORT_SUBDIR_NOT_FOUND")
	_ = url
}

// TestImportFiles: texts become one commit.
func TestImportFiles(t *testing.T) {
	r := newRoom(t)
	rec, err := r.CreateImport(t.Context(), r.call, repo.CreateRequest{Name: "f"}, repo.Import{Type: "files", Files: map[string]string{"README.md": "# Hi\n", "src/ü \"x\".txt": "text"}, Message: "Start"})
	if err != nil {
		t.Fatal(err)
	}
	if got := git(t, r.site.Dir.Repo(rec.ID), "-c", "core.quotePath=false", "ls-tree", "-r", "-z", "--name-only", "main"); got != "README.md\x00src/ü \"x\".txt\x00" {
		t.Errorf("the repository has %q", got)
	}
	if _, err := r.CreateImport(t.Context(), r.call, repo.CreateRequest{Name: "f"}, repo.Import{Type: "files"}); vm.AsError(err).Code != "REPO_ALREADY_EXISTS" {
		t.Errorf("a second repository of the same name is %v", err)
	}
	if err := r.Remove(t.Context(), r.call, "f"); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"../x", "/x", ".git/config", "a//b", "", "GIT~1/x", "a/./b", ".git "} {
		_, err := r.CreateImport(t.Context(), r.call, repo.CreateRequest{}, repo.Import{Type: "files", Files: map[string]string{bad: "x"}})
		r.refused(bad, err, "INVALID_FILE_PATH")
	}
}
