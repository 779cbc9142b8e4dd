// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"cmp"
	"context"
	"encoding/base64"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/outside"
	"github.com/warren-vm/warren/vm"
)

const (
	importTime = 10 * time.Minute
	maxImport  = 4 << 30 // bytes that one import takes from outside
)

// Source is a repository elsewhere whose history is taken over.
type Source struct {
	URL   string
	Rev   string // a branch, tag or commit; "" = the branch that a clone checks out
	Depth int    // 0 = the whole history
	All   bool   // every branch and tag
}

// Import is content that becomes the first commit.
type Import struct {
	Type                    string // files, tar, zip or git
	Files                   map[string]string
	URL                     string
	Dir                     string // take only what is below it
	Rev                     string // of type git
	Message                 string // "" = "Import"
	AuthorName, AuthorEmail string // "" = the caller
}

// CreateFrom makes a repository with the history of another one. Nothing is left of it
// if that fails. Kinds Invalid (codes SOURCE_NOT_FOUND, SOURCE_UNAUTHORIZED), Denied for
// an address that the server does not connect to, and Limit.
func (r *Repo) CreateFrom(ctx context.Context, c *vm.Call, req CreateRequest, src Source) (vm.Repository, error) {
	from, err := parseSource(src.URL)
	if err != nil {
		return vm.Repository{}, vm.WithOp(vm.OpRepoCreate, "", err)
	}
	if src.Depth < 0 || !plainRev(src.Rev) {
		return vm.Repository{}, vm.WithOp(vm.OpRepoCreate, "", badImport(src.Rev, "not a revision or depth to import"))
	}
	return r.createFilled(ctx, c, req, from.url, func(ctx context.Context, rec *vm.Repository, dir string, room *space) error {
		return r.fetchHistory(ctx, rec, dir, from, src, req.DefaultBranch, room)
	})
}

func badImport(subject, format string, args ...any) *vm.Error {
	return vm.Errorf(vm.Invalid, subject, format, args...).WithCode("GIT_INVALID_REQUEST")
}

// plainRev reports whether a revision is a name that git cannot take for anything else.
func plainRev(rev string) bool {
	return len(rev) <= 255 && !strings.HasPrefix(rev, "-") && !strings.ContainsAny(rev, ":^~?*[\\ \x00\n@{") && !strings.Contains(rev, "..")
}

// remote is the address of a repository elsewhere, with its password apart.
type remote struct {
	url   string // without credentials
	basic string // Basic authentication; "" = none
}

func parseSource(raw string) (remote, error) {
	u, err := outside.CheckURL(raw)
	if err != nil {
		return remote{}, vm.AsError(err).WithCode("GIT_INVALID_REQUEST")
	}
	var from remote
	if u.User != nil {
		password, _ := u.User.Password()
		from.basic = base64.StdEncoding.EncodeToString([]byte(u.User.Username() + ":" + password))
		u.User = nil
	}
	u.Fragment = ""
	from.url = u.String()
	return from, nil
}

// settings are git's for a fetch through a tunnel. The password is sent to the source's
// own server only.
func (f remote) settings(t *outside.Tunnel) []string {
	out := append(t.GitConfig(),
		"fetch.fsckObjects=true", "transfer.fsckObjects=true", "fetch.recurseSubmodules=false", "fetch.unpackLimit=1", "remote.origin.promisor=false",
		"fetch.fsck.zeroPaddedFilemode=ignore", "fetch.fsck.missingSpaceBeforeDate=ignore", "fetch.fsck.badTimezone=ignore", "fetch.fsck.gitmodulesMissing=ignore")
	if u, err := url.Parse(f.url); err == nil && f.basic != "" {
		out = append(out, "http."+u.Scheme+"://"+u.Host+"/.extraHeader=Authorization: Basic "+f.basic)
	}
	return out
}

// remoteRefs are the refs of a source.
type remoteRefs struct {
	head string            // the branch that HEAD names, short; "" = none
	refs map[string]string // full name to id
}

// remoteGit runs git against a source.
type remoteGit struct {
	r      *Repo
	dir    string
	from   remote
	tunnel *outside.Tunnel
}

// approach opens the way to a source.
func (r *Repo) approach(ctx context.Context, dir string, from remote, room *space) (*remoteGit, error) {
	t, err := r.cfg.Net.Tunnel(ctx, room.left(maxImport), room.take)
	if err != nil {
		return nil, err
	}
	return &remoteGit{r, dir, from, t}, nil
}

func (g *remoteGit) run(ctx context.Context, args ...string) ([]byte, error) {
	out, err := g.r.run(ctx, program{dir: g.dir, env: withSettings(environment(g.dir), g.from.settings(g.tunnel)), args: args})
	switch refused := g.tunnel.Refused(); {
	case err == nil:
		return out, nil
	case refused != nil:
		return nil, refused
	case ctx.Err() != nil:
		return nil, vm.Errorf(vm.Timeout, g.from.url, "the import took too long").WithHint("import with a depth, or push the repository instead")
	case exitOf(err) < 0:
		return nil, err
	}
	return nil, g.explain(saidBy(err))
}

var (
	notThere  = vm.NewPattern(`(?i)not found|error: 404|does not appear to be a git|not valid: is this a git|could ?n.t (resolve|connect|find)|unable to access`)
	unreached = vm.NewPattern(`(?i)error: 502|response 502`) // of the tunnel, which has no connection
	forbidden = vm.NewPattern(`(?i)authentication failed|could not read (username|password)|error: 40[13]|terminal prompts disabled`)
)

// explain turns git's words into an error of the contract.
func (g *remoteGit) explain(said string) error {
	said = strings.TrimSpace(strings.ReplaceAll(said, g.tunnel.URL(), "proxy"))
	last := strings.TrimSpace(said[strings.LastIndex(said, "; ")+1:])
	switch {
	case forbidden.MatchString(said):
		return vm.Errorf(vm.Invalid, g.from.url, "the source wants other credentials").WithCode("SOURCE_UNAUTHORIZED", "url", g.from.url).
			WithHint("put a token into the URL: https://x-access-token:TOKEN@HOST/REPO")
	case unreached.MatchString(said):
		return vm.Errorf(vm.Invalid, g.from.url, "the server cannot connect to this host, or gets no answer from it").WithCode("SOURCE_NOT_FOUND", "url", g.from.url).
			WithHint("check the name and the port in the URL; the server's host must reach them")
	case notThere.MatchString(said):
		return vm.Errorf(vm.Invalid, g.from.url, "there is no repository: %s", last).WithCode("SOURCE_NOT_FOUND", "url", g.from.url)
	}
	return vm.Errorf(vm.Invalid, g.from.url, "git does not accept this source: %s", last).WithCode("GIT_INVALID_REQUEST")
}

// list asks for the refs of the source.
func (g *remoteGit) list(ctx context.Context) (remoteRefs, error) {
	out, err := g.run(ctx, "ls-remote", "--symref", "--", g.from.url)
	refs := remoteRefs{refs: map[string]string{}}
	for line := range strings.Lines(string(out)) {
		id, name, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		switch {
		case !ok:
		case strings.HasPrefix(id, "ref: ") && name == "HEAD":
			refs.head = strings.TrimPrefix(strings.TrimPrefix(id, "ref: "), "refs/heads/")
		case len(refs.refs) < 100_000:
			refs.refs[name] = id
		}
	}
	return refs, err
}

// wanted is what a revision of a source means: what to ask for, and where to put it.
type wanted struct {
	ask    string // a full ref or an id
	branch string // the branch that it becomes
}

// want finds a revision among the refs of a source; "" = the branch of HEAD.
func (g *remoteGit) want(refs remoteRefs, rev, branch string) (wanted, error) {
	if rev == "" {
		rev = refs.head
	}
	short := strings.TrimPrefix(rev, "refs/heads/")
	switch {
	case rev == "" && refs.refs["HEAD"] != "":
		return wanted{refs.refs["HEAD"], cmp.Or(branch, "main")}, nil
	case refs.refs["refs/heads/"+short] != "" && short != "":
		return wanted{"refs/heads/" + short, cmp.Or(branch, short)}, nil
	case refs.refs["refs/tags/"+rev] != "":
		return wanted{"refs/tags/" + rev, cmp.Or(branch, "main")}, nil
	case objectID.MatchString(rev):
		return wanted{rev, cmp.Or(branch, "main")}, nil
	case rev == refs.head: // the source is empty
		return wanted{branch: cmp.Or(branch, rev, "main")}, nil
	}
	return wanted{}, vm.Errorf(vm.Invalid, rev, "the source has no such branch, tag or commit").WithCode("INVALID_REVISION", "revision", rev)
}

// fetchHistory fills a new repository from a source.
func (r *Repo) fetchHistory(ctx context.Context, rec *vm.Repository, dir string, from remote, src Source, branch string, room *space) error {
	ctx, stop := context.WithTimeout(ctx, importTime)
	defer stop()
	g, err := r.approach(ctx, dir, from, room)
	if err != nil {
		return err
	}
	defer g.tunnel.Close()
	refs, err := g.list(ctx)
	if err != nil {
		return err
	}
	w, err := g.want(refs, src.Rev, branch)
	if err != nil {
		return err
	}
	rec.DefaultBranch = w.branch
	if w.ask == "" {
		return nil
	}
	args := []string{"fetch", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--quiet", "--no-recurse-submodules"}
	if src.Depth > 0 {
		args = append(args, "--depth="+strconv.Itoa(src.Depth))
	}
	args = append(args, "--", from.url)
	if src.All {
		args = append(args, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
	}
	if !src.All || w.ask != "refs/heads/"+w.branch {
		args = append(args, "+"+w.ask+":refs/warren/import")
	}
	if _, err := g.run(ctx, args...); err != nil {
		return err
	}
	if slices.Contains(args, "+"+w.ask+":refs/warren/import") {
		return r.adopt(ctx, dir, w.branch)
	}
	return nil
}

// adopt gives the imported commit its branch.
func (r *Repo) adopt(ctx context.Context, dir, branch string) error {
	out, err := r.run(ctx, program{dir: dir, args: []string{"rev-parse", "--verify", "--end-of-options", "refs/warren/import^{commit}"}})
	if err != nil {
		return badImport("rev", "the revision is not a commit")
	}
	return r.setRefs(ctx, dir, [2]string{"refs/heads/" + branch, strings.TrimSpace(string(out))}, [2]string{"refs/warren/import"})
}

// setRefs sets refs of a repository that is being made; an empty id deletes one.
func (r *Repo) setRefs(ctx context.Context, dir string, refs ...[2]string) error {
	var in strings.Builder
	for _, one := range refs {
		if one[1] == "" {
			in.WriteString("delete " + one[0] + "\x00\x00")
		} else {
			in.WriteString("update " + one[0] + "\x00" + one[1] + "\x00\x00")
		}
	}
	_, err := r.run(ctx, program{dir: dir, args: []string{"update-ref", "--stdin", "-z"}, in: strings.NewReader(in.String())})
	return err
}
