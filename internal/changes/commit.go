// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package changes

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/warren-vm/warren/internal/access"
	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/repo"
	"github.com/warren-vm/warren/internal/review"
	"github.com/warren-vm/warren/vm"
)

// Trailers of a commit that was made from a VM.
const (
	trailerVM         = "Warren-VM"
	trailerGeneration = "Warren-Generation"
	trailerManifest   = "Warren-Manifest"
)

// Commit makes a commit of a directory of a VM, from the bytes of a frozen state; with
// DryRun it only says what that commit would hold. The commit has the files that git
// would track there, as vm.CommitRequest says. Neither the guest's git nor its
// configuration takes part.
//
// An identity needs the right to read every file of the VM, and to push to the branch.
//
// Kinds beside those of Diff and of repo.Commit: Exists when the machine (code
// MACHINE_MOVED) or the base (CONFLICTING_PARENT) is no longer what was shown; Denied
// (SECRETS_FOUND) when a changed file has a secret that the request does not allow;
// Invalid for files that no commit may hold.
func (x *Changes) Commit(ctx context.Context, c *vm.Call, ref string, r vm.CommitRequest) (plan vm.CommitPlan, err error) {
	defer func() { err = vm.WithOp(vm.OpCommit, ref, err) }()
	rec, err := x.cfg.Engine.Find(c.Actor, ref)
	if err != nil {
		return plan, err
	}
	if err := x.cfg.Access.May(c.Actor, rec.ID, vm.OpDiff, ""); err != nil { // a commit shows every file
		return plan, err
	}
	if err := checkCommit(&r); err != nil {
		return plan, err
	}
	target, err := x.cfg.Repo.Get(ctx, c, r.Repo)
	if err != nil {
		return plan, err
	}
	frozen, release, err := x.cfg.Engine.FrozenDisk(ctx, c, ref, string(r.Generation))
	if err != nil {
		return plan, err
	}
	defer release()
	if err := frozen.OwnedBy(c.Actor, rec); err != nil {
		return plan, err
	}
	m := &committing{Changes: x, c: c, r: r, rec: rec, repo: target, frozen: frozen}
	defer m.close()
	if err := m.plan(ctx); err != nil {
		return m.out, err
	}
	if r.DryRun {
		return m.out, nil
	}
	if err := x.cfg.Access.Approve(ctx, c, rec, m.act()); err != nil {
		return m.out, err
	}
	return m.make(ctx)
}

// act describes the planned commit for the one who approves it.
func (m *committing) act() access.Act {
	var files []string
	for _, f := range m.out.Files {
		files = append(files, string(f.Verb)+" "+f.Path.String())
	}
	return access.Act{Verb: vm.OpCommit, All: m.out, What: "commit " + m.out.Path.String() + " to " + cmp.Or(m.out.RepoName, m.out.Repo) + ", branch " + m.out.Branch, Details: map[string]string{
		"message": m.r.Message, "author": m.r.Author, "tree": m.out.Tree, "base": m.out.Base, "manifest": m.out.Manifest, "files": strings.Join(files, "\n"),
		"files with secrets that are allowed": fmt.Sprint(m.r.AllowSecrets),
	}}
}

// committing is one commit in the making.
type committing struct {
	*Changes
	c      *vm.Call
	r      vm.CommitRequest
	rec    vm.VM
	repo   vm.Repository
	frozen engine.Frozen

	project  *projectRead
	expected string // tip of the branch; "" = there is no such branch
	edits    []repo.FileEdit
	out      vm.CommitPlan
}

func (m *committing) close() {
	if m.project != nil {
		_ = m.project.Close() // it was only read
	}
}

// plan reads the directory and says what the commit would hold.
func (m *committing) plan(ctx context.Context) error {
	o := review.ProjectOptions{Root: m.r.Path, Find: m.r.Path == ""}
	if o.Root == "" {
		o.Root = vm.GuestPath(m.frozen.Workdir)
	}
	if o.Root == "" || o.Root == "/" {
		return vm.Errorf(vm.Invalid, m.rec.Name, "the VM has no working directory").WithHint("name the directory: `warren commit %s /path --repo %s`", cmp.Or(m.rec.Name, string(m.rec.ID)), m.r.Repo)
	}
	// The summary first: the base depends on what the guest's repository came from.
	hints, err := m.hints(ctx, o)
	if err != nil {
		return err
	}
	o = review.ProjectOptions{Root: hints.Root}
	m.out = vm.CommitPlan{
		VM: m.rec.ID, VMName: m.rec.Name, Generation: m.frozen.Side.Generation, Path: hints.Root, Prefix: m.r.Prefix,
		Repo: m.repo.ID, RepoName: m.repo.Name, Message: m.r.Message, Files: []vm.PlannedFile{},
	}
	if err := m.findBase(ctx, hints); err != nil {
		return err
	}
	base, err := m.tracked(ctx)
	if err != nil {
		return err
	}
	if m.project, err = m.readProject(ctx, m.frozen.Layers, o, base); err != nil {
		return err
	}
	return m.describe(ctx, base)
}

// hints reads only what the guest says about its repository.
func (m *committing) hints(ctx context.Context, o review.ProjectOptions) (vm.ProjectSummary, error) {
	o.HintsOnly = true
	p, err := newProjectRead(m.cfg.Scratch, nil)
	if err != nil {
		return vm.ProjectSummary{}, err
	}
	err = m.projectTar(ctx, m.frozen.Layers, o, p)
	if cerr := p.Close(); err == nil {
		err = cerr
	}
	return p.sum, err
}

// tracked lists the files of the base below the prefix, relative to it.
func (m *committing) tracked(ctx context.Context) (map[string]tracked, error) {
	base := map[string]tracked{}
	if m.out.Base == "" {
		return base, nil
	}
	_, entries, err := m.cfg.Repo.Tree(ctx, m.c, m.repo.ID, m.out.Base, true)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name, in := strings.CutPrefix(e.Path, m.prefix())
		if in && e.Type == "blob" {
			base[name] = tracked{mode: e.Mode, blob: e.SHA}
		}
	}
	return base, nil
}

// prefix is the prefix with a slash at its end, or "".
func (m *committing) prefix() string {
	if m.out.Prefix == "" {
		return ""
	}
	return m.out.Prefix + "/"
}

// describe fills in the plan and the edits.
func (m *committing) describe(ctx context.Context, base map[string]tracked) error {
	p, out := m.project, &m.out
	if err := m.refuseFiles(); err != nil {
		return err
	}
	out.Total, out.LeftOut, out.Flags = len(p.files), p.sum.LeftOut, p.flags
	for _, s := range p.secrets {
		s.Path = vm.GuestPath(path.Join(string(out.Path), string(s.Path)))
		out.Secrets = append(out.Secrets, s)
	}
	tree := sha256.New()
	for name, t := range base {
		if p.files[name] == nil {
			m.edits = append(m.edits, repo.FileEdit{Path: m.prefix() + name, Deleted: true})
			if err := m.shown(ctx, name, t, nil); err != nil {
				return err
			}
		}
	}
	slices.SortFunc(m.edits, func(a, b repo.FileEdit) int { return strings.Compare(a.Path, b.Path) })
	for _, f := range p.sorted() {
		fmt.Fprintf(tree, "%o %x %s\x00", f.mode, f.sum, f.path)
		if f.off < 0 {
			continue
		}
		m.edits = append(m.edits, repo.FileEdit{Path: m.prefix() + f.path, Mode: f.mode, Size: f.size, Open: p.open(f)})
		if err := m.shown(ctx, f.path, base[f.path], f); err != nil {
			return err
		}
	}
	slices.SortFunc(out.Files, func(a, b vm.PlannedFile) int { return strings.Compare(string(a.Path), string(b.Path)) })
	if len(out.Files) > mostShown {
		out.More, out.Files = len(out.Files)-mostShown, out.Files[:mostShown]
	}
	if n := out.Stat.Deleted; n > 0 && !p.sum.Repo && n*2 > len(base) {
		if m.r.Path == "" && m.r.Prefix == "" || len(p.files) == 0 { // nobody meant this directory
			return vm.Errorf(vm.Invalid, out.Path.String(), "it is not a clone of the repository: the commit would delete %d of its %d files", n, len(base)).
				WithHint("name the directory of the work: `warren commit %s /path --repo %s`", cmp.Or(m.rec.Name, string(m.rec.ID)), cmp.Or(m.repo.Name, m.repo.ID))
		}
		out.Flags = append(out.Flags, fmt.Sprintf("%s is not a clone of the repository: the commit deletes %d of its %d files", out.Path, n, len(base)))
	}
	out.Tree = hex.EncodeToString(tree.Sum(nil))
	out.Manifest = planManifest(out)
	return nil
}

// mostShown is the number of files that a plan names.
const mostShown = 1000

// planManifest is the digest over what a commit would be. Another capture of the same
// files has the same digest.
func planManifest(p *vm.CommitPlan) string {
	data, err := json.Marshal([]string{"warren commit 1", string(p.VM), string(p.Path), p.Prefix, p.Repo, p.Branch, p.Base, p.Tree})
	if err != nil {
		panic(err) // strings
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// refuseFiles refuses what no commit may hold.
func (m *committing) refuseFiles() error {
	p := m.project
	inVM := func(name vm.GuestPath) string {
		return vm.GuestPath(path.Join(string(m.out.Path), string(name))).String()
	}
	if len(p.sum.Special) > 0 {
		return vm.Errorf(vm.Invalid, inVM(p.sum.Special[0]), "it is a device, a pipe or a socket, and %d files of this kind are here", len(p.sum.Special)).
			WithHint("remove it in the VM, or list it in .gitignore")
	}
	if len(p.sum.TooLarge) > 0 {
		return vm.Errorf(vm.Limit, inVM(p.sum.TooLarge[0]), "it is larger than %d MiB, with its holes", mostFile>>20).
			WithHint("keep it outside of the repository, or list it in .gitignore")
	}
	folded := map[string]string{}
	for _, f := range p.sorted() {
		for at := f.path; at != "."; at = path.Dir(at) {
			low := strings.ToLower(at)
			if other, ok := folded[low]; ok && other != at {
				return vm.Errorf(vm.Invalid, vm.GuestPath(at).String(), "its name differs only in case from %s", vm.GuestPath(other)).
					WithHint("rename one of them in the VM: other systems cannot hold both")
			}
			if folded[low] == at {
				break
			}
			folded[low] = at
		}
	}
	return nil
}

// watched are files that act by themselves wherever the repository is used.
var watched = regexp.MustCompile(`^(\.github/workflows/|\.gitlab-ci\.yml$|\.husky/|\.gitattributes$|\.gitmodules$|\.vscode/tasks\.json$|\.envrc$)|/(\.gitattributes|\.envrc)$`)

// shown counts one file that differs from the base; f nil = it is deleted.
func (m *committing) shown(ctx context.Context, name string, was tracked, f *projectFile) error {
	file := vm.PlannedFile{Path: vm.GuestPath(m.prefix() + name), Verb: vm.FileModified}
	stat := &m.out.Stat
	switch {
	case f == nil:
		file.Verb = vm.FileDeleted
		stat.Deleted++
	case was.blob == "":
		file.Verb = vm.FileAdded
		stat.Added++
	default:
		stat.Modified++
	}
	if len(m.out.Files) < 2*mostShown {
		var err error
		if file.Additions, file.Deletions, file.Binary, err = m.lines(ctx, was, f); err != nil {
			return err
		}
	}
	stat.LinesAdded, stat.LinesRemoved = stat.LinesAdded+file.Additions, stat.LinesRemoved+file.Deletions
	if watched.MatchString(m.prefix() + name) {
		m.project.flag("%s acts by itself where the repository is used", file.Path)
	}
	m.out.Flags = m.project.flags
	m.out.Files = append(m.out.Files, file)
	return nil
}

// checkCommit refuses requests without a meaning.
func checkCommit(r *vm.CommitRequest) error {
	if r.Repo == "" {
		return vm.Errorf(vm.Invalid, "repo", "no repository is named").WithHint("`warren repo ls` lists them; `warren repo create NAME` makes one")
	}
	if len(r.Message) > 64<<10 || len(r.AllowSecrets) > mostSecrets {
		return vm.Errorf(vm.Invalid, "message", "the request is too long")
	}
	if r.Path != "" {
		if err := checkPaths([]vm.GuestPath{r.Path}); err != nil {
			return err
		}
	}
	if r.Prefix = strings.Trim(r.Prefix, "/"); r.Prefix != "" && checkTreePath(r.Prefix) != nil {
		return vm.Errorf(vm.Invalid, vm.GuestPath(r.Prefix).String(), "it is not a directory of a repository")
	}
	return nil
}
