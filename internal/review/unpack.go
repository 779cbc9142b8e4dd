// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"path"

	"github.com/warren-vm/warren/internal/ext4"
	"github.com/warren-vm/warren/vm"
)

const (
	maxUnpack    = 16 << 20 // bytes that all compressed data may become
	maxUnpackOne = 4 << 20  // and those of one file
	maxMembers   = 1000     // of an archive
)

// searchWhole searches a file for secrets whose lines were not compared: a long text,
// or data that is compressed. Secrets that the older content has, too, did not come.
func (r *report) searchWhole(it *item, fc *vm.FileChange, was, now *content) error {
	if now.file == nil || it.group == Logs {
		return nil
	}
	if now.size() > maxSearch || was.size() > maxSearch || now.size()+was.size() > r.left.search {
		if fc.Cut == "" && now.kind == "" {
			fc.Cut = "too large to be searched for secrets"
		}
		r.notCompared("secrets in files of more than %s, and in more than %s of them together", size(maxSearch), size(maxAllSearch))
		return nil
	}
	r.left.search -= now.size() + was.size()
	known := map[string]bool{}
	for _, x := range []*content{was, now} {
		if x.file == nil {
			continue
		}
		data, err := readAll(x.file)
		if err != nil {
			return err
		}
		texts, note := r.unpack(x.kind, data)
		if x == now && note != "" {
			fc.Cut = note
			r.notCompared("secrets in archives that are encrypted, damaged or too large")
		}
		for _, text := range texts {
			found, _ := findSecrets(it.Path, text)
			for _, f := range found {
				key := f.kind + "\x00" + string(text[f.from:f.to])
				if x == was {
					known[key] = true
				} else if !known[key] && f.kind != hashKind && (x.kind == "" || f.kind != named.kind) {
					line := f.line
					if x.kind != "" {
						line = 0
					}
					r.secret(it, fc, vm.FoundSecret{Kind: f.kind, Path: fc.Path, Line: line})
				}
			}
		}
	}
	return nil
}

// unpack returns the texts that are in data of a kind. note says why some are not.
func (r *report) unpack(kind string, data []byte) (texts [][]byte, note string) {
	switch kind {
	case "", "tar archive", "data", "SQLite database", "SQLite write-ahead log", "UTF-16 text":
		return [][]byte{data}, ""
	case "gzip data":
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, "it is damaged, and was not searched for secrets"
		}
		return r.inflate(nil, z)
	case "Zip archive":
		return r.unzip(data)
	}
	return nil, ""
}

// inflate appends what a stream becomes.
func (r *report) inflate(texts [][]byte, z io.Reader) ([][]byte, string) {
	most := min(maxUnpackOne, r.left.unpack)
	text, err := io.ReadAll(io.LimitReader(z, most))
	r.left.unpack -= int64(len(text))
	texts = append(texts, text)
	switch {
	case err != nil:
		return texts, "it is damaged, and only its beginning was searched for secrets"
	case int64(len(text)) == most:
		return texts, "only its beginning was searched for secrets"
	}
	return texts, ""
}

// unzip reads the members of an archive.
func (r *report) unzip(data []byte) (texts [][]byte, note string) {
	const encrypted = 0x1
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, "it is damaged, and was not searched for secrets"
	}
	for i, f := range z.File {
		if i == maxMembers {
			return texts, "only its first members were searched for secrets"
		}
		if f.Flags&encrypted != 0 {
			note = "it is encrypted, and cannot be searched for secrets"
			continue
		}
		m, err := f.Open()
		if err != nil {
			note = "not all of its members could be searched for secrets"
			continue
		}
		var why string
		texts, why = r.inflate(texts, m)
		m.Close()
		if why != "" {
			note = why
		}
	}
	return texts, note
}

// searchObjects searches the objects that came into repositories: what was committed
// once stays in the history. Packs are not searched, and the report says so: most of
// their objects are differences from others.
func (r *report) searchObjects() error {
	const maxObjects = 5000
	looked := 0
	r.notePacks()
	for i := range r.items {
		it := &r.items[i]
		if !it.gitOwn || it.Verb != Added || it.Now.Type != ext4.Regular || it.Now.Size > 1<<20 {
			continue
		}
		if !isObject(it.inGit) {
			continue
		}
		if looked++; looked > maxObjects || r.left.unpack <= 0 {
			r.notCompared("secrets in the history of repositories: more objects came than are searched")
			return nil
		}
		data, err := r.now.read(it.Now, 1<<20)
		if err != nil {
			return err
		}
		z, err := zlib.NewReader(bytes.NewReader(data))
		if err != nil {
			continue // git refuses it, too
		}
		texts, _ := r.inflate(nil, z)
		if !bytes.HasPrefix(texts[0], []byte("blob ")) && !bytes.HasPrefix(texts[0], []byte("commit ")) {
			continue
		}
		if kindOf(texts[0][bytes.IndexByte(texts[0], 0)+1:]) != "" {
			continue
		}
		found, _ := findSecrets("", texts[0])
		for _, f := range found {
			if f.kind != hashKind && f.kind != named.kind {
				r.objects = append(r.objects, vm.FoundSecret{Kind: f.kind + ", in the history of " + safe(it.repo.path()), Path: vm.GuestPath(it.Path)})
				break
			}
		}
	}
	return nil
}

// notePacks says how many packs came, for they are not searched.
func (r *report) notePacks() {
	packs, bytes := 0, int64(0)
	for i := range r.items {
		it := &r.items[i]
		if it.gitOwn && it.Now != nil && it.Now.Type == ext4.Regular && isPack(it.inGit) && (it.Verb == Added || it.Content) {
			packs++
			bytes += it.Now.Size
		}
	}
	if packs > 0 {
		r.notCompared("secrets in the history that %s of git (%s) brought", count(packs, "new pack"), size(bytes))
	}
}

// isPack reports whether a path in a repository is that of a pack.
func isPack(rel string) bool {
	return path.Dir(rel) == "objects/pack" && path.Ext(rel) == ".pack"
}

// isObject reports whether a path in a repository is that of a loose object.
func isObject(rel string) bool {
	return len(rel) >= 8+2+1+38 && rel[:8] == "objects/" && rel[10] == '/'
}
