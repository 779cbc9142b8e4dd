// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"bytes"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

// entry is one entry of a tree.
type entry struct {
	mode uint32
	name string
	id   string
}

// The modes of entries of trees that are no files.
const (
	modeTree   = 0o040000
	modeModule = 0o160000
)

func (e entry) kind() string {
	switch e.mode {
	case modeTree:
		return "tree"
	case modeModule:
		return "commit"
	}
	return "blob"
}

const maxEntries = 1 << 20 // of one tree

// parseTree reads a tree object.
func parseTree(data []byte) ([]entry, error) {
	var out []entry
	for len(data) > 0 {
		head, rest, ok := bytes.Cut(data, []byte{0})
		mode, name, named := strings.Cut(string(head), " ")
		n, err := strconv.ParseUint(mode, 8, 32)
		if !ok || !named || err != nil || len(rest) < 20 || len(out) >= maxEntries {
			return nil, vm.Errorf(vm.Corrupt, "", "a tree of the repository is damaged").WithCode("GIT_ERROR")
		}
		out = append(out, entry{uint32(n), name, hex.EncodeToString(rest[:20])})
		data = rest[20:]
	}
	return out, nil
}

// headers splits a commit or a tag into its headers and its message. Of a header that
// occurs often, it calls f for each; lines that continue a header are left out.
func headers(data []byte, f func(key, value string)) (message string) {
	for len(data) > 0 {
		line, rest, _ := bytes.Cut(data, []byte("\n"))
		data = rest
		if len(line) == 0 {
			return strings.ToValidUTF8(string(data), "\uFFFD")
		}
		if line[0] == ' ' {
			continue
		}
		key, value, _ := strings.Cut(string(line), " ")
		f(key, value)
	}
	return ""
}

// parseCommit reads a commit object.
func parseCommit(id string, data []byte) vm.Commit {
	c := vm.Commit{SHA: id, Parents: []string{}}
	c.Message = headers(data, func(key, value string) {
		switch key {
		case "tree":
			c.Tree = value
		case "parent":
			c.Parents = append(c.Parents, value)
		case "author":
			c.Author = parsePerson(value)
		case "committer":
			c.Committer = parsePerson(value)
		}
	})
	return c
}

// parseTag reads a tag object, of the tag with a short name.
func parseTag(id string, data []byte) vm.Tag {
	t := vm.Tag{SHA: id}
	t.Message = headers(data, func(key, value string) {
		switch key {
		case "object":
			t.Target = value
		case "tag":
			t.Name = strings.ToValidUTF8(value, "\uFFFD")
		case "tagger":
			p := parsePerson(value)
			t.Tagger = &p
		}
	})
	return t
}

// parsePerson reads "Name <email> seconds zone".
func parsePerson(s string) vm.Person {
	s = strings.ToValidUTF8(s, "\uFFFD")
	var p vm.Person
	open, end := strings.Index(s, "<"), strings.LastIndex(s, ">")
	if open < 0 || end < open {
		return vm.Person{Name: strings.TrimSpace(s)}
	}
	p.Name, p.Email = strings.TrimSpace(s[:open]), s[open+1:end]
	f := strings.Fields(s[end+1:])
	if len(f) == 0 {
		return p
	}
	seconds, err := strconv.ParseInt(f[0], 10, 64)
	if err != nil || seconds < 0 || seconds > 253402300799 { // the year 9999
		return p
	}
	zone := time.UTC
	if len(f) > 1 {
		if at, err := time.Parse("-0700", f[1]); err == nil {
			zone = at.Location()
		}
	}
	p.Date = time.Unix(seconds, 0).In(zone)
	return p
}
