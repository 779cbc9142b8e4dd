// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/warren-vm/warren/vm"
)

// Signature names an author or a committer; a zero Date = the time of the commit.
type Signature struct {
	Name, Email string
	Date        time.Time
}

// CommitRequest describes a commit to be made.
type CommitRequest struct {
	Branch  string // "" = the default branch
	Message string
	Author  *Signature // nil = the caller
	// Committer is the author if nil.
	Committer *Signature
	// Expected is the id that the branch's tip must have; "" = any, 40 zeros = there is
	// no such branch. With another tip the error is of kind Exists, code
	// CONFLICTING_PARENT.
	Expected string
	// Base is the revision on which a branch begins that does not exist; "" = none: the
	// commit has no parent then.
	Base     string
	Trailers []Trailer
	Files    []FileEdit // in the order in which their contents are read
	// Empty allows a commit that changes nothing.
	Empty bool
}

// Trailer is a line "Key: Value" at the end of a commit's message.
type Trailer struct{ Key, Value string }

// Modes of files in a commit.
const (
	ModeFile    = 0o100644
	ModeProgram = 0o100755
	ModeLink    = 0o120000
)

// FileEdit is what a commit does to one path.
type FileEdit struct {
	Path    string // relative, with slashes; see CheckPath
	Deleted bool   // remove the file, or the directory with all that is below it
	Mode    uint32 // 0 = as it was, or ModeFile if it is new
	// Size is that of the content in bytes. Open is called once, after those of all
	// earlier files were read and closed; it may block.
	Size int64
	Open func() (io.ReadCloser, error)
}

// Bytes is the Open of a content in memory.
func Bytes(data []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
}

const (
	maxMessage = 1 << 20 // bytes of a commit's message
	maxEdits   = 200_000 // files of one commit
)

// Commit makes a commit and moves the branch to it. All of it happens, or nothing; of
// commits on one tip at the same time, one wins and the others get kind Exists, code
// CONFLICTING_PARENT. It blocks while the contents are read. Other kinds: Invalid, Denied
// (a branch that the caller may not push to), Limit (the account's disk quota).
func (r *Repo) Commit(ctx context.Context, c *vm.Call, ref string, req CommitRequest) (out vm.Commit, err error) {
	defer func() { err = vm.WithOp(vm.OpCommit, ref, err) }()
	rec, right, dir, err := r.reach(c, ref, Write)
	if err != nil {
		return out, err
	}
	req.Branch = cmp.Or(req.Branch, rec.DefaultBranch)
	if err := checkBranch(req.Branch); err != nil {
		return out, err
	}
	full := "refs/heads/" + req.Branch
	if err := mayChange(&rec, right, full, false); err != nil {
		return out, err
	}
	m := &making{r: r, c: c, rec: &rec, req: req, full: full}
	if err := m.prepare(ctx); err != nil {
		return out, err
	}
	change := refChange{full, cmp.Or(m.tip, zeroID), ""}
	receipt, err := r.cfg.Journal.Begin(ctx, c, vm.AuditEntry{Op: vm.OpCommit, VM: c.Actor.VM, Subject: rec.ID, Detail: map[string]any{
		"branch": req.Branch, "parent": m.parent, "files": len(req.Files),
	}})
	if err != nil {
		return out, err
	}
	defer func() { receipt.End(err, map[string]any{"commit": out.SHA}) }()
	in, err := r.incoming(&rec)
	if err != nil {
		return out, err
	}
	defer in.remove()
	id, err := m.write(ctx, in)
	if err != nil {
		return out, err
	}
	if err := in.reserve(ctx); err != nil {
		return out, err
	}
	if _, again, err := r.find(c, rec.ID, Write); err != nil { // the right may have ended while the contents came
		return out, err
	} else if err := mayChange(&rec, again, full, false); err != nil {
		return out, err
	}
	if err := in.join(); err != nil {
		return out, err
	}
	change.now = id
	if err := r.move(ctx, dir, "commit by "+actorName(c.Actor), []refChange{change}); err != nil {
		if errors.Is(err, errMoved) {
			now, _ := r.tip(ctx, &rec, req.Branch)
			err = conflict(cmp.Or(req.Expected, m.tip), now)
		}
		return out, err
	}
	r.changed(ctx, c, &rec, []refChange{change})
	return r.CommitAt(context.WithoutCancel(ctx), c, rec.ID, id)
}

// conflict says that a branch's tip is not the expected one.
func conflict(expected, actual string) error {
	var now any
	if actual != "" {
		now = actual
	}
	return vm.Errorf(vm.Exists, "", "the branch's tip is %s, expected %s", cmp.Or(actual, "none"), cmp.Or(expected, "none")).
		WithCode("CONFLICTING_PARENT", "expected", expected, "actual", now).WithHint("read the branch again, and commit on its new tip")
}

// making is a commit in the making.
type making struct {
	r    *Repo
	c    *vm.Call
	rec  *vm.Repository
	req  CommitRequest
	full string // name of the ref

	tip    string // of the branch; "" = there is no such branch
	parent string // "" = none
	tree   string // the parent's
	author string // as git writes it
	maker  string // the committer
	modes  []uint32
}

// prepare checks the request, and finds the parent.
func (m *making) prepare(ctx context.Context) error {
	o, err := m.r.objectsOf(ctx, m.rec.ID)
	if err != nil {
		return err
	}
	defer o.close()
	got, err := o.info(m.full)
	if err != nil {
		return err
	}
	m.tip, m.parent = got.id, got.id
	if e := m.req.Expected; e != "" && e != cmp.Or(m.tip, zeroID) {
		if e != zeroID && !objectID.MatchString(e) {
			return checkID(e)
		}
		return conflict(e, m.tip)
	}
	if m.parent == "" && m.req.Base != "" {
		if got, err = o.resolve(m.rec, m.req.Base, "commit"); err != nil {
			return err
		}
		m.parent = got.id
	}
	if m.parent != "" {
		if got, err = o.info(m.parent + "^{tree}"); err != nil {
			return err
		}
		m.tree = got.id
	}
	if err := m.words(); err != nil {
		return err
	}
	return m.edits(o)
}

// words checks the message and the people.
func (m *making) words() error {
	var err error
	if m.req.Message, err = message(m.req.Message, m.req.Trailers); err != nil {
		return err
	}
	m.author, m.maker, err = m.r.people(m.c, m.req.Author, m.req.Committer)
	return err
}

var trailerKey = vm.NewPattern(`^[A-Za-z0-9][A-Za-z0-9-]{0,63}$`)

// message returns a commit's message with its trailers.
func message(text string, trailers []Trailer) (string, error) {
	switch {
	case len(text) > maxMessage:
		return "", vm.Errorf(vm.Limit, "message", "the message has more than %d bytes", maxMessage).WithCode("GIT_INVALID_REQUEST")
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return "", vm.Errorf(vm.Invalid, "message", "the message is not UTF-8 text").WithCode("GIT_INVALID_REQUEST")
	}
	text = strings.TrimRight(text, " \t\r\n") + "\n"
	for i, t := range trailers {
		if !trailerKey.MatchString(t.Key) || strings.ContainsAny(t.Value, "\n\r\x00") || !utf8.ValidString(t.Value) {
			return "", vm.Errorf(vm.Invalid, "trailer", "a trailer is a word and a line of text").WithCode("GIT_INVALID_REQUEST")
		}
		if i == 0 {
			text += "\n"
		}
		text += t.Key + ": " + t.Value + "\n"
	}
	return text, nil
}

// people returns author and committer as git writes them.
func (r *Repo) people(c *vm.Call, author, committer *Signature) (string, string, error) {
	if author == nil {
		name := r.nameOf(c.Actor)
		author = &Signature{Name: name, Email: "noreply@warren.localhost"}
	}
	if committer == nil {
		committer = author
	}
	var out [2]string
	for i, s := range []*Signature{author, committer} {
		for _, text := range []string{s.Name, s.Email} {
			if strings.TrimSpace(text) == "" || strings.ContainsAny(text, "<>\n\r\x00") || !utf8.ValidString(text) || len(text) > 500 {
				return "", "", vm.Errorf(vm.Invalid, vm.GuestPath(vm.Clip(text, 100)).String(), "is not a name or an address of an author").
					WithCode("GIT_INVALID_REQUEST").WithHint("use a name and an email address in one line, without < and >")
			}
		}
		at := s.Date
		if at.IsZero() {
			at = r.cfg.Now().UTC()
		}
		if at.Unix() < 0 {
			return "", "", vm.Errorf(vm.Invalid, "date", "git has no dates before 1970").WithCode("GIT_INVALID_REQUEST")
		}
		out[i] = fmt.Sprintf("%s <%s> %d %s", strings.TrimSpace(s.Name), strings.TrimSpace(s.Email), at.Unix(), at.Format("-0700"))
	}
	return out[0], out[1], nil
}

// nameOf is the name of a caller who names no author.
func (r *Repo) nameOf(who vm.Actor) string {
	name := ""
	if who.Identity == "" && who.VM == "" {
		if a, ok := r.cfg.Access.Lookup(who.Account); ok {
			name = a.Name
		}
	}
	name = strings.Map(func(c rune) rune {
		if c == '<' || c == '>' || c < ' ' {
			return -1
		}
		return c
	}, strings.ToValidUTF8(name, ""))
	return cmp.Or(strings.TrimSpace(name), actorName(who))
}

// edits checks the paths of a commit against each other and against the tree, and sets
// the modes of the files.
func (m *making) edits(o *objects) error {
	if len(m.req.Files) > maxEdits {
		return vm.Errorf(vm.Limit, "", "a commit changes at most %d files", maxEdits).WithCode("GIT_INVALID_REQUEST")
	}
	v := overlayOn(o, m.tree)
	m.modes = make([]uint32, len(m.req.Files))
	seen := make(map[string]bool, len(m.req.Files))
	for i, f := range m.req.Files {
		if err := m.edit(v, seen, i, f); err != nil {
			return err
		}
	}
	for i, f := range m.req.Files { // what is deleted makes room for what is added
		if f.Deleted {
			continue
		}
		if err := v.put(f.Path, m.modes[i]); err != nil {
			return err
		}
	}
	return v.collide()
}

// edit checks one edit, notes the file's mode, and deletes.
func (m *making) edit(v *overlay, seen map[string]bool, i int, f FileEdit) error {
	if err := CheckPath(f.Path); err != nil {
		return err
	}
	shown := vm.GuestPath(vm.Clip(f.Path, 1000)).String()
	bad := func(why string) error {
		return vm.Errorf(vm.Invalid, shown, "%s", why).WithCode("INVALID_FILE_CHANGE", "path", shown)
	}
	switch {
	case seen[f.Path]:
		return bad("the commit names this path twice")
	case f.Deleted && f.Open != nil:
		return bad("the file is deleted and has content")
	case !f.Deleted && f.Open == nil:
		return bad("the file has no content and is not deleted")
	case f.Size < 0:
		return bad("the size of the file is negative")
	}
	seen[f.Path] = true
	there, err := v.find(f.Path)
	if err != nil {
		return err
	}
	if f.Deleted {
		if there == nil {
			return vm.Errorf(vm.NotFound, shown, "the file to delete is not in the branch").WithCode("PATH_NOT_FOUND", "path", shown)
		}
		_, err := v.remove(f.Path)
		return err
	}
	mode := f.Mode
	if mode == 0 {
		mode = ModeFile
		if there != nil && there.kind() == "blob" {
			mode = there.mode
		}
	}
	base := f.Path[strings.LastIndexByte(f.Path, '/')+1:]
	switch mode {
	case ModeFile, ModeProgram:
	case ModeLink:
		if modules(base) {
			return badPath(f.Path, "git's list of submodules cannot be a link")
		}
	default:
		return bad("a file has mode 100644, 100755 or 120000")
	}
	m.modes[i] = mode
	return nil
}

// write makes the objects of the commit in quarantine and returns the commit's id.
func (m *making) write(ctx context.Context, in *incoming) (string, error) {
	left, err := m.r.left(ctx, m.rec.Account)
	if err != nil {
		return "", err
	}
	from, to := io.Pipe()
	failed := make(chan error, 1)
	go func() { // ends with git, or when all contents are read
		w := bufio.NewWriterSize(to, 256<<10)
		err := m.script(ctx, w, left)
		if err == nil {
			err = w.Flush()
		}
		_ = to.CloseWithError(err) // git then sees no "done", and fails
		failed <- err
	}()
	out, err := m.r.run(ctx, program{
		dir: in.dir, env: in.env()[2:], args: []string{"fast-import", "--quiet", "--done", "--date-format=raw-permissive"}, in: from,
	})
	_ = from.CloseWithError(io.ErrClosedPipe)
	if cause := <-failed; cause != nil && !errors.Is(cause, io.ErrClosedPipe) {
		return "", cause
	}
	if err != nil {
		return "", err
	}
	f := strings.Fields(string(out))
	if len(f) != 1 || !objectID.MatchString(f[0]) {
		return "", vm.Errorf(vm.Internal, "", "git fast-import names no commit").WithCode("GIT_ERROR")
	}
	return f[0], m.differs(ctx, in, f[0])
}

// differs refuses a commit that changes nothing, unless it may.
func (m *making) differs(ctx context.Context, in *incoming, id string) error {
	if m.req.Empty || m.tree == "" {
		return nil
	}
	out, err := m.r.run(ctx, program{dir: in.dir, env: in.env(), args: []string{"rev-parse", "--verify", id + "^{tree}"}})
	if err != nil {
		return err
	}
	if strings.TrimSpace(string(out)) == m.tree {
		return vm.Errorf(vm.Invalid, "", "the commit changes nothing: the branch has these files already").WithCode("INVALID_FILE_CHANGE", "path", "")
	}
	return nil
}

// script writes the commit in the language of git fast-import. left is how many bytes
// the contents may have together; negative = any.
func (m *making) script(ctx context.Context, w *bufio.Writer, left int64) error {
	for i, f := range m.req.Files {
		if f.Deleted {
			continue
		}
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if left >= 0 && f.Size > left { // an empty file takes none
			return overQuota(left)
		}
		if left >= 0 {
			left -= f.Size
		}
		fmt.Fprintf(w, "blob\nmark :%d\ndata %d\n", i+1, f.Size)
		if err := m.content(ctx, w, f); err != nil {
			return err
		}
		if err := w.WriteByte('\n'); err != nil {
			return err
		}
	}
	commit := len(m.req.Files) + 1
	fmt.Fprintf(w, "commit refs/heads/new\nmark :%d\nauthor %s\ncommitter %s\ndata %d\n%s", commit, m.author, m.maker, len(m.req.Message), m.req.Message)
	if m.parent != "" {
		fmt.Fprintf(w, "from %s\n", m.parent)
	}
	for _, f := range m.req.Files {
		if f.Deleted {
			fmt.Fprintf(w, "D %s\n", quoted(f.Path))
		}
	}
	for i, f := range m.req.Files {
		if !f.Deleted {
			fmt.Fprintf(w, "M %o :%d %s\n", m.modes[i], i+1, quoted(f.Path))
		}
	}
	_, err := fmt.Fprintf(w, "\nget-mark :%d\ndone\n", commit)
	return err
}

// content copies a file's content, which has exactly the size that it was said to have.
func (m *making) content(ctx context.Context, w io.Writer, f FileEdit) error {
	shown := vm.GuestPath(vm.Clip(f.Path, 1000)).String()
	in, err := f.Open()
	if err != nil {
		return vm.WithOp(vm.OpCommit, shown, err)
	}
	defer in.Close()
	var list *keeper
	if modules(f.Path[strings.LastIndexByte(f.Path, '/')+1:]) {
		list = &keeper{limit: 1 << 20, drop: true}
		w = io.MultiWriter(w, list)
	}
	n, err := io.Copy(w, io.LimitReader(in, f.Size))
	if err != nil {
		return err
	}
	more, _ := io.CopyN(io.Discard, in, 1)
	if n != f.Size || more > 0 {
		return vm.Errorf(vm.Invalid, shown, "the content does not have the %d bytes that were announced", f.Size).WithCode("INVALID_FILE_CHANGE", "path", shown)
	}
	if list != nil {
		return m.submodules(ctx, shown, list)
	}
	return nil
}

// quoted is a path as git fast-import reads it.
func quoted(p string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(p) {
		switch c := p[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, "\\%03o", c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

var dangerous = vm.NewPattern(`(?i)^submodule\..*\.(url|path|update|branch)$`)

// submodules refuses a list of submodules that would make a clone run something: values
// that begin like an option, names that leave the directory of submodules, and commands.
func (m *making) submodules(ctx context.Context, shown string, list *keeper) error {
	bad := func(why string) error {
		return badPath(shown, "the list of submodules is refused: %s", why).WithHint("remove this submodule")
	}
	if list.over {
		return bad("it is too long")
	}
	out, err := m.r.run(ctx, program{
		dir: m.r.cfg.Dir.Repo(m.rec.ID), args: []string{"config", "--no-includes", "-z", "-f", "-", "--list"}, in: bytes.NewReader(list.Bytes()),
	})
	if exitOf(err) > 0 {
		return bad("git cannot read it")
	}
	if err != nil {
		return err
	}
	for one := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		key, value, _ := strings.Cut(one, "\n")
		name := strings.TrimPrefix(key, "submodule.")
		if i := strings.LastIndexByte(name, '.'); i >= 0 {
			name = name[:i]
		}
		for part := range strings.SplitSeq(strings.ReplaceAll(name, `\`, "/"), "/") {
			if part == ".." {
				return bad("the name of a submodule leaves its directory")
			}
		}
		if !dangerous.MatchString(key) {
			continue
		}
		decoded := strings.ToLower(value)
		if strings.HasPrefix(value, "-") || strings.HasPrefix(value, "!") || strings.ContainsAny(value, "\n\r") || strings.Contains(decoded, "%0a") || strings.Contains(decoded, "%0d") || strings.HasPrefix(decoded, "ext::") {
			return bad(strconv.Quote(vm.Clip(key, 100)) + " is an option or a command")
		}
	}
	return nil
}
