// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"
)

// GuestPath is an absolute path in a guest: any bytes but NUL, for programs of the
// guest choose them. Its JSON is a string for a path of UTF-8 without control
// characters; other paths are an object {"quoted": "...", "bytes": base64}.
type GuestPath string

// plain reports whether a path can be shown and stored as it is.
func (p GuestPath) plain() bool {
	if !utf8.ValidString(string(p)) {
		return false
	}
	for _, r := range string(p) {
		if !strconv.IsPrint(r) {
			return false
		}
	}
	return true
}

// String returns the path as it may be shown: quoted if it is not plain.
func (p GuestPath) String() string {
	if p.plain() {
		return string(p)
	}
	return strconv.QuoteToASCII(string(p))
}

// oddPath is the JSON of a path that is not plain.
type oddPath struct {
	Quoted string `json:"quoted"` // for people
	Bytes  []byte `json:"bytes"`
}

// MarshalJSON implements json.Marshaler.
func (p GuestPath) MarshalJSON() ([]byte, error) {
	if p.plain() {
		return json.Marshal(string(p))
	}
	return json.Marshal(oddPath{Quoted: strconv.QuoteToASCII(string(p)), Bytes: []byte(p)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *GuestPath) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, (*string)(p))
	}
	var odd oddPath
	if err := json.Unmarshal(data, &odd); err != nil {
		return err
	}
	*p = GuestPath(odd.Bytes)
	return nil
}

// DiffRequest asks what differs between two states of machines.
type DiffRequest struct {
	// From is the older state: a generation, a snapshot, the number of a turn, "image" (what the VM
	// was made from), "parent" (the state in which a fork left its parent), or another
	// VM as "vm:NAME", which means its state now. "" = the VM's last turn, else the
	// state it was made from.
	From string `json:"from,omitempty"`
	// To is the newer state, in the same forms; "" and "now" = the VM's disk now, for
	// which a running VM is paused for a moment.
	To    string      `json:"to,omitempty"`
	Paths []GuestPath `json:"paths,omitempty"` // only these and what is below them; none = the whole machine
	Hunks bool        `json:"hunks,omitempty"` // with changed lines
	Patch bool        `json:"patch,omitempty"` // with a patch of each change that git can apply
	All   bool        `json:"all,omitempty"`   // also the files that are else only counted
}

// DiffSide is one state that was compared.
type DiffSide struct {
	VM         ID           `json:"vm,omitempty"`
	VMName     string       `json:"vmName,omitempty"`
	Generation GenerationID `json:"generation,omitempty"` // "" = an image
	Image      ImageID      `json:"image"`
	Why        Why          `json:"why,omitempty"`
	Note       string       `json:"note,omitempty"`
	At         time.Time    `json:"at,omitzero"` // when it was captured
}

// Diff is what differs between two frozen disks. Names and contents in it are the
// guest's and must be treated as hostile.
type Diff struct {
	From DiffSide `json:"from"`
	To   DiffSide `json:"to"`
	// Manifest is a digest over the sides and all changes below Paths, shown or not.
	// A commit names it, so that it takes exactly what was shown.
	Manifest string `json:"manifest"`
	Workdir  string `json:"workdir,omitempty"`
	// PatchBase is the directory to which the paths of patches are relative.
	PatchBase GuestPath    `json:"patchBase,omitempty"`
	Stat      DiffStat     `json:"stat"`
	Groups    []DiffGroup  `json:"groups"`  // in the order in which they are shown
	Changes   []FileChange `json:"changes"` // by group, then by path
	Hidden    []HiddenDir  `json:"hidden,omitempty"`
	// System is what the files mean for the machine: packages, units, users, cron jobs.
	// Ports and processes are as the guest reported them at the captures.
	System []SystemChange `json:"system,omitempty"`
	Repos  []NestedRepo   `json:"repos,omitempty"`
	// Alerts are what a reviewer sees first: mass deletions, secrets, programs that
	// start by themselves, changes below the file system.
	Alerts []Alert `json:"alerts,omitempty"`
	// NotCompared lists parts of the machine that this diff says nothing about, and why.
	NotCompared []string `json:"notCompared,omitempty"`
}

// DiffStat counts changes.
type DiffStat struct {
	Added    int `json:"added"`
	Modified int `json:"modified"`
	Deleted  int `json:"deleted"`
	Renamed  int `json:"renamed"`
	// Lines that came and went in text files; bytes that came and went in all files.
	LinesAdded   int   `json:"linesAdded"`
	LinesRemoved int   `json:"linesRemoved"`
	BytesAdded   int64 `json:"bytesAdded"`
	BytesRemoved int64 `json:"bytesRemoved"`
}

// Files is the number of paths that differ.
func (s DiffStat) Files() int { return s.Added + s.Modified + s.Deleted + s.Renamed }

// Groups of paths, in the order in which they are shown.
const (
	GroupProject = "project" // below the working directory
	GroupHome    = "home"
	GroupSystem  = "system"
	GroupCaches  = "caches" // what a program makes again when it is missing
	GroupLogs    = "logs"   // and other records that services write by themselves
)

// DiffGroup counts the changes of one group.
type DiffGroup struct {
	Group string   `json:"group"`
	Stat  DiffStat `json:"stat"`
}

// ChangeVerb is what happened to a path.
type ChangeVerb string

// What happened to a path.
const (
	FileAdded    ChangeVerb = "added"
	FileModified ChangeVerb = "modified"
	FileDeleted  ChangeVerb = "deleted"
	FileRenamed  ChangeVerb = "renamed" // and perhaps modified, too
)

// FileChange is one path that differs.
type FileChange struct {
	Verb  ChangeVerb `json:"verb"`
	Path  GuestPath  `json:"path"`
	From  GuestPath  `json:"from,omitempty"` // the path before, of a rename
	Group string     `json:"group"`
	Type  string     `json:"type"` // file, dir, link, fifo, socket, block, char: now, or before if it is deleted
	// Changed lists what differs in a path that was there before: content, type, mode,
	// owner, attrs, links.
	Changed []string   `json:"changed,omitempty"`
	Was     *FileState `json:"was,omitempty"` // nil = it was not there
	Now     *FileState `json:"now,omitempty"` // nil = it is not there
	// Binary names the kind of content of a file that is no text, e.g. "ELF program".
	Binary       string `json:"binary,omitempty"`
	LinesAdded   int    `json:"linesAdded,omitempty"`
	LinesRemoved int    `json:"linesRemoved,omitempty"`
	// Hunks are the changed lines in unified form, without a header. Cut says why they
	// are missing or incomplete.
	Hunks string `json:"hunks,omitempty"`
	Cut   string `json:"cut,omitempty"`
	// Patch is the change as git writes it, with its header: "git apply" takes the
	// patches of all changes one after the other. Paths in it are relative to the
	// diff's PatchBase. Empty = left out, and Cut says why.
	Patch []byte `json:"patch,omitempty"`
	// Git is how the nested repository around it sees it: tracked, untracked, ignored.
	Git      string        `json:"git,omitempty"`
	Concerns []string      `json:"concerns,omitempty"` // why it is shown first
	Secrets  []FoundSecret `json:"secrets,omitempty"`
}

// FileState is one side of a path.
type FileState struct {
	Size   int64             `json:"size"`
	Mode   uint32            `json:"mode"` // permissions with set-id and sticky bits
	UID    uint32            `json:"uid"`
	GID    uint32            `json:"gid"`
	Links  uint32            `json:"links"`
	Target GuestPath         `json:"target,omitempty"` // of a link
	Attrs  map[string][]byte `json:"attrs,omitempty"`  // extended attributes, if they differ
	Digest string            `json:"digest,omitempty"` // SHA-256 of a changed file's content, in hex
	Inode  uint32            `json:"inode"`
}

// HiddenDir is a directory whose changes are only counted.
type HiddenDir struct {
	Path   GuestPath `json:"path"`
	Group  string    `json:"group"`
	Stat   DiffStat  `json:"stat"`
	Reason string    `json:"reason"` // e.g. "files below node_modules"
	// Own says that Warren or the system writes these files at every start. They are in
	// no other count of the diff.
	Own bool `json:"own,omitempty"`
}

// SystemChange is a difference of the machine in the words of its system.
type SystemChange struct {
	Kind string     `json:"kind"` // package, unit, user, group, cron, port, process
	Verb ChangeVerb `json:"verb"`
	Name string     `json:"name"` // as it may be shown
	Was  string     `json:"was,omitempty"`
	Now  string     `json:"now,omitempty"`
	// Guest says that only the guest reported it; the rest stands on the disk.
	Guest bool `json:"guestReported,omitempty"`
}

// NestedRepo is a git repository on the disk. Warren reads its files and runs no git.
type NestedRepo struct {
	Path      GuestPath `json:"path"`
	Submodule bool      `json:"submodule,omitempty"`
	Bare      bool      `json:"bare,omitempty"`
	HeadWas   string    `json:"headWas,omitempty"` // branch or commit
	HeadNow   string    `json:"headNow,omitempty"`
	Untracked int       `json:"untracked,omitempty"` // changes to files that its index does not name
	Ignored   int       `json:"ignored,omitempty"`
	Notes     []string  `json:"notes,omitempty"` // e.g. "its configuration changed"
}

// FoundSecret is text that looks like a secret. Its value is never shown.
type FoundSecret struct {
	Kind string    `json:"kind"` // e.g. "AWS access key"
	Path GuestPath `json:"path"`
	Line int       `json:"line"`
}

// Alert is one thing that a reviewer sees first.
type Alert struct {
	Kind  string      `json:"kind"` // e.g. deleted-tree, secret, starts-by-itself, git-config, hidden-write, oddity
	Text  string      `json:"text"` // one line, safe to show
	Paths []GuestPath `json:"paths,omitempty"`
}

// Turn is a generation that marks one attempt of an agent.
type Turn struct {
	ID      GenerationID `json:"id"`
	VM      ID           `json:"vm"`
	Number  int          `json:"number"` // 1 = the first turn of the VM; it never changes
	Note    string       `json:"note"`   // what it tries
	Actor   string       `json:"actor"`  // who marked it, as in audit records
	At      time.Time    `json:"at"`
	PauseMs float64      `json:"pauseMs"`
	Memory  bool         `json:"memory"` // undo brings processes back, too
	// Stat is what changed until the next turn, or until now; nil = not compared yet, or
	// StatError says why it could not be.
	Stat       *DiffStat `json:"stat"`
	StatError  string    `json:"statError,omitempty"`
	CommitRepo string    `json:"commitRepo,omitempty"` // repository and
	Commit     string    `json:"commit,omitempty"`     // id of the commit made from it
}
