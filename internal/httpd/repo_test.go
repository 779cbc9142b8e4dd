// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// runGit runs git as a user would.
func runGit(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0", "GIT_AUTHOR_NAME=Ann", "GIT_AUTHOR_EMAIL=ann@example.com", "GIT_COMMITTER_NAME=Ann", "GIT_COMMITTER_EMAIL=ann@example.com")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// repoPaths gives a repository a commit, a tag and a trigger, and returns paths at which
// the routes with further names in their patterns answer.
func (b *bench) repoPaths(id string) map[string]string {
	b.t.Helper()
	at := "/git/v1/repo/" + id
	made := b.do("POST", at+"/commits", `{"message":"first","files":[{"path":"a/b.txt","content":"needle\n"}]}`).answers(b.t, 200)
	commit := made.json["commit"].(map[string]any)
	sha, tree := commit["sha"].(string), commit["tree"].(map[string]any)["sha"].(string)
	dir := b.site.Dir.Repo(id)
	tag, err := runGit(b.t, dir, "tag", "-m", "one", "v1", sha)
	if err != nil {
		b.t.Fatalf("git tag fails: %s", tag)
	}
	tag, _ = runGit(b.t, dir, "rev-parse", "v1")
	blob, _ := runGit(b.t, dir, "rev-parse", sha+":a/b.txt")
	trigger := b.do("POST", at+"/trigger", `{"trigger":{"event":"push"},"action":{"action":"webhook","endpoint":"http://203.0.113.1/x"}}`).answers(b.t, 200)
	const p = repoBase
	return map[string]string{
		p + "/git/refs/heads/{branch...}":   at + "/git/refs/heads/main",
		p + "/git/refs/tags/{tag...}":       at + "/git/refs/tags/v1",
		p + "/git/tags/{sha}":               at + "/git/tags/" + tag,
		p + "/git/commits":                  at + "/git/commits",
		p + "/git/commits/{sha}":            at + "/git/commits/" + sha,
		p + "/git/trees/{sha}":              at + "/git/trees/" + tree,
		p + "/git/blobs/{sha}":              at + "/git/blobs/" + blob,
		p + "/compare":                      at + "/compare?base=main&head=main",
		p + "/search":                       at + "/search?query=needle",
		p + "/search/files":                 at + "/search/files?query=b",
		p + "/search/commits":               at + "/search/commits?query=first",
		p + "/search/diffs":                 at + "/search/diffs?query=needle",
		p + "/trigger/{trigger}/deliveries": at + "/trigger/" + trigger.json["triggerId"].(string) + "/deliveries",
	}
}

// TestGitOverHTTP: git itself clones and pushes at /ID and /ID.git, also through the
// server as a proxy for another host's name; a stranger reads only what is public.
//
// 000-16, 001-51
func TestGitOverHTTP(t *testing.T) {
	b := newBench(t)
	id := b.do("POST", "/git/v1/repo", `{"name":"code"}`).answers(t, 200).json["repoId"].(string)
	at := "/git/v1/repo/" + id
	b.do("POST", at+"/commits", `{"message":"first","files":[{"path":"README.md","content":"hi\n"}]}`).answers(t, 200)
	u, _ := url.Parse(b.server.URL)
	with := func(secret, path string) string { return "http://x-access-token:" + secret + "@" + u.Host + path }
	dir := t.TempDir()

	stranger := b.as("", "GET", "/"+id+"/info/refs?service=git-upload-pack", nil)
	if stranger.status != 401 || stranger.header.Get("WWW-Authenticate") != `Basic realm="Warren"` {
		t.Errorf("a stranger gets %d, %q, want 401 with Basic", stranger.status, stranger.header.Get("WWW-Authenticate"))
	}
	if none := b.as("", "GET", "/00000000-0000-4000-8000-000000000000/info/refs?service=git-upload-pack", nil); none.status != 401 || string(none.body) != strings.ReplaceAll(string(stranger.body), id, "00000000-0000-4000-8000-000000000000") {
		t.Errorf("an unknown repository answers a stranger %d %s, want as a private one", none.status, none.body)
	}
	if out, err := runGit(t, dir, "clone", "-q", with(b.admin, "/"+id), "one"); err != nil {
		t.Fatalf("clone with a key: %v\n%s", err, out)
	}
	if out, err := runGit(t, dir, "clone", "-q", with(b.admin, "/code.git"), "two"); err != nil {
		t.Errorf("clone by name with .git: %v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(dir, "one", "new"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"add", "."}, {"commit", "-qm", "second"}, {"push", "-q", "origin", "HEAD:main"}} {
		if out, err := runGit(t, filepath.Join(dir, "one"), args...); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	b.do("GET", at+"/contents/new", nil).answers(t, 200).contains(t, `"content":"eA=="`)
	if out, err := runGit(t, dir, "clone", "-q", with("wrong", "/"+id), "three"); err == nil {
		t.Errorf("clone with a wrong password succeeds: %s", out)
	}
	if out, err := runGit(t, dir, "-c", "http.http://git.freestyle.sh/.proxy="+b.server.URL, "clone", "-q", "http://x-access-token:"+b.admin+"@git.freestyle.sh/"+id, "four"); err != nil {
		t.Errorf("clone through the proxy: %v\n%s", err, out)
	}
	b.as("", "GET", "/healthz", nil, "Host", "git.freestyle.sh").answers(t, 403)

	if out, err := runGit(t, dir, "clone", "-q", b.server.URL+"/"+id, "five"); err == nil {
		t.Errorf("a stranger clones a private repository: %s", out)
	}
	b.do("PUT", at+"/visibility", `{"visibility":"public"}`).answers(t, 200)
	if out, err := runGit(t, dir, "clone", "-q", b.server.URL+"/"+id, "six"); err != nil {
		t.Errorf("a stranger cannot clone a public repository: %v\n%s", err, out)
	}
	if out, err := runGit(t, filepath.Join(dir, "six"), "push", "-q", "origin", "HEAD:other"); err == nil {
		t.Errorf("a stranger pushes to a public repository: %s", out)
	}
}

// TestGitDoors: what the SDK expects of routes that it uses in its own way.
func TestGitDoors(t *testing.T) {
	b := newBench(t)
	id := b.do("POST", "/git/v1/repo", `{}`).answers(t, 200).json["repoId"].(string)
	at := "/git/v1/repo/" + id
	for _, method := range []string{"GET", "POST", "DELETE"} {
		sync := b.do(method, at+"/github-sync", nil)
		if sync.status != 404 || strings.Contains(string(sync.body), "{") {
			t.Errorf("%s github-sync answers %d %s, want 404 with plain text", method, sync.status, sync.body)
		}
		if !plainFailures[method+" /git/v1/repo/{repo}/github-sync"] {
			t.Errorf("the description says that %s github-sync fails with JSON only, and it fails with plain text", method)
		}
	}
	b.do("POST", at+"/git/refs/heads/%7B*branch%7D", `{}`).answers(t, 400).contains(t, `"GIT_INVALID_REQUEST"`)
	b.do("POST", "/git/v1/repo", `{"source":{"url":"https://example.com/x"},"import":{"type":"files"}}`).answers(t, 400).contains(t, `"SOURCE_IMPORT_CONFLICT"`)
	for body, code := range map[string]string{
		`{"message":"m","files":[{"path":"a"}]}`:                                                               "INVALID_FILE_CHANGE",
		`{"message":"m","files":[{"path":"a","content":"x","deleted":true}]}`:                                  "INVALID_FILE_CHANGE",
		`{"message":"m","files":[{"path":"a","content":"%","encoding":"base64"}]}`:                             "INVALID_BASE64_CONTENT",
		`{"message":"m","files":[{"path":".GIT/config","content":"x"}]}`:                                       "INVALID_FILE_PATH",
		`{"message":"m","files":[{"path":"git~1/config","content":"x"}]}`:                                      "INVALID_FILE_PATH",
		`{"message":"m","files":[{"path":"../x","content":"x"}]}`:                                              "INVALID_FILE_PATH",
		`{"message":"m","expectedSha":"` + strings.Repeat("1", 40) + `","files":[{"path":"a","content":"x"}]}`: "CONFLICTING_PARENT",
	} {
		b.do("POST", at+"/commits", body).contains(t, `"`+code+`"`)
	}
	b.do("GET", at+"/git/refs/heads/", nil).answers(t, 200).contains(t, `"branches":[`)
	b.do("GET", at+"/contents/", nil).answers(t, 404)
	text := base64.StdEncoding.EncodeToString([]byte("ü\x00"))
	b.do("POST", at+"/commits", `{"message":"m","files":[{"path":"src/a b.bin","content":"`+text+`","encoding":"base64"}]}`).answers(t, 200)
	b.do("GET", at+"/contents/src%2Fa%20b.bin", nil).answers(t, 200).contains(t, text)
	b.do("GET", at+"/contents/", nil).answers(t, 200).contains(t, `"type":"dir"`)
	b.do("GET", at+"/contents/nope", nil).answers(t, 404).contains(t, `"PATH_NOT_FOUND"`)
	b.do("GET", at+"/git/commits?since=main&offset=1", nil).answers(t, 400).contains(t, `"OFFSET_WITH_SELECTOR"`)
	b.do("GET", at+"/search?query=", nil).answers(t, 400).contains(t, `"EMPTY_QUERY"`)
	b.do("GET", at+"/search?query=(&isRegex=true", nil).answers(t, 400).contains(t, `"INVALID_REGEX"`)
	for _, endpoint := range []string{"http://127.0.0.1/x", "http://localhost/", "http://169.254.169.254/", "http://[::1]/", "http://10.0.0.1/"} {
		b.do("POST", at+"/trigger", `{"trigger":{"event":"push"},"action":{"action":"webhook","endpoint":"`+endpoint+`"}}`).answers(t, http.StatusForbidden)
	}
	b.do("POST", at+"/trigger", `{"trigger":{"event":"push"},"action":{"action":"webhook","endpoint":"file:///etc/passwd"}}`).answers(t, 400)

	other := b.do("POST", "/v1/accounts", `{"name":"other"}`).json
	secret, _ := other["secret"].(string)
	for _, path := range []string{"", "/git/commits", "/contents/", "/trigger", "/search?query=x", "/tarball"} {
		b.as(secret, "GET", at+path, nil).answers(t, 404).contains(t, `"REPOSITORY_NOT_FOUND"`)
	}
	b.as(secret, "DELETE", at, nil).answers(t, 404)
}

// ofRepository reports whether a route is one of git hosting.
func ofRepository(r route) bool {
	return strings.HasPrefix(r.pattern, "/git/v1/") || r.right == forGit
}

// TestRepoRights: every route of a repository refuses a stranger, another account, an
// identity without a permission, and one whose permission is not enough.
func TestRepoRights(t *testing.T) {
	b := newBench(t)
	id := b.do("POST", "/git/v1/repo", `{"name":"code"}`).answers(t, 200).json["repoId"].(string)
	other, _ := b.do("POST", "/v1/accounts", `{"name":"other"}`).json["secret"].(string)
	_, none := b.identity("none").token(nil)
	reader := b.identity("reader")
	reader.must("POST", "/permissions/git/"+id, `{"permission":"read"}`)
	_, read := reader.token(nil)
	writes := map[string]bool{"POST " + repoBase + "/commits": true, "POST " + repoBase + "/git/refs/heads/{branch...}": true, "DELETE " + repoBase + "/git/refs/heads/{branch...}": true, "POST " + repoBase + "/git/commits": true}
	for _, r := range (&server{}).repoTable() {
		path := strings.NewReplacer("{repo}", id, "{branch...}", "agent%2Fx", "{tag...}", "v1", "{sha}", strings.Repeat("1", 40), "{path...}", "a", "{trigger}", "x").Replace(r.pattern)
		if strings.HasSuffix(r.pattern, "/compare") {
			path += "?base=main&head=main"
		}
		if strings.Contains(r.pattern, "/search") {
			path += "?query=x"
		}
		body := `{"message":"m","visibility":"private","defaultBranch":"main","tree":"` + strings.Repeat("1", 40) + `","files":[{"path":"a","content":"x"}]}`
		if r.method == "GET" {
			body = ""
		}
		name := r.method + " " + r.pattern
		if got := b.as("", r.method, path, body); got.status != 401 {
			t.Errorf("%s answers a stranger %d, want 401", name, got.status)
		}
		if !strings.Contains(r.pattern, "{repo}") {
			continue
		}
		if got := b.as(other, r.method, path, body); got.status != 404 || got.json["code"] != "REPOSITORY_NOT_FOUND" {
			t.Errorf("%s answers another account %d %v, want 404 REPOSITORY_NOT_FOUND", name, got.status, got.json["code"])
		}
		want := "REPOSITORY_ACCESS_DENIED"
		if r.right == key {
			want = "FORBIDDEN"
		}
		if got := b.as(none, r.method, path, body); got.status != 403 || got.json["code"] != want {
			t.Errorf("%s answers an identity without permission %d %v, want 403 %s", name, got.status, got.json["code"], want)
		}
		if got := b.as(read, r.method, path, body); (got.status == 403) != (r.right == key || writes[name]) {
			t.Errorf("%s answers an identity that may read %d %v", name, got.status, got.json["code"])
		}
	}
}
