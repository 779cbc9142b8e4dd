// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"google.golang.org/protobuf/proto"
)

// checkLog reads the log in etcd's directory before etcd does, and refuses what etcd would accept and lose changes by.
// It changes nothing. A nil error does not say that the files are whole: etcd refuses other damage itself.
//
//   - A record whose length is damaged looks like the write that a crash tore. etcd cuts the log there (wal.Repair), also
//     if later records follow.
//   - A database that has changes of which the log knows nothing, after such a cut or with a log of another day: etcd
//     gives new changes the numbers of those, takes them for done, and drops them.
func checkLog(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, "member", "wal", "*.wal"))
	if err != nil || len(names) == 0 {
		return err
	}
	slices.Sort(names)
	var last uint64
	for i, name := range names {
		index, err := readLog(name, i == len(names)-1)
		switch {
		case errors.Is(err, errUnread):
			return nil
		case err != nil:
			return err
		}
		last = max(last, index)
	}
	if known := databaseIndex(filepath.Join(dir, "member", "snap", "db")); known > last {
		return fmt.Errorf("corrupt: its database has change %d, its log ends at %d", known, last)
	}
	return nil
}

// errUnread is that of a log which etcd refuses, too, and about which it says more.
var errUnread = errors.New("the log cannot be read")

// readLog returns the number of the last change in a file of the log. A file that is the newest may end with a record
// that a crash tore. The error is errUnread if another record cannot be read.
func readLog(name string, newest bool) (index uint64, err error) {
	file, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	decoder, rec := wal.NewDecoder(logFile{file}), new(walpb.Record)
	for err == nil {
		if err = decoder.Decode(rec); err != nil {
			break
		}
		switch rec.GetType() {
		case wal.EntryType:
			index = wal.MustUnmarshalEntry(rec.Data).GetIndex()
		case wal.SnapshotType:
			var s walpb.Snapshot
			if err = proto.Unmarshal(rec.Data, &s); err == nil {
				index = max(index, s.GetIndex())
			}
		case wal.CrcType:
			decoder.UpdateCRC(rec.GetCrc())
		}
	}
	switch {
	case errors.Is(err, io.EOF):
		return index, nil
	case !newest || !errors.Is(err, io.ErrUnexpectedEOF):
		return 0, errUnread
	}
	at := decoder.LastOffset()
	text, err := io.ReadAll(io.NewSectionReader(file, at, 2*segment+maxChangeBytes))
	if err != nil {
		return 0, err
	}
	if next, found := recordsAfter(text); found {
		return 0, fmt.Errorf("corrupt: in %s the record at %d cannot be read, and others follow it at %d", filepath.Base(name), at, at+next)
	}
	return index, nil
}

// recordsAfter looks for two records of which the second's checksum continues the first's, in place of the record that
// text begins with, which cannot be read. A crash tears no length, because a sector of 512 bytes is written whole or
// not. So a length that reaches over other records, or over the end of the file, is damaged. Whole records behind a
// length that fits may belong to the same write, whose sectors the disk wrote in another order.
func recordsAfter(text []byte) (at int64, found bool) {
	end := len(text)
	if _, size, fits := frame(text); fits {
		end = size
	}
	for at := 8; at+8 <= end; at += 8 {
		first, size, ok := frame(text[at:])
		if !ok || !isRecord(first) {
			continue
		}
		second, _, ok := frame(text[at+size:])
		if ok && isRecord(second) && crc32.Update(first.GetCrc(), crc32.MakeTable(crc32.Castagnoli), second.Data) == second.GetCrc() {
			return int64(at), true
		}
	}
	return 0, false
}

func isRecord(r *walpb.Record) bool {
	return r != nil && r.GetType() >= wal.MetadataType && r.GetType() <= wal.SnapshotType && len(r.Data) > 0
}

// frame reads the record that text begins with: 8 bytes, of which the lower 56 bits are its length and the upper ones
// the bytes that fill it up, then the record. fits says whether all of it is in text; r is nil if it is no record.
func frame(text []byte) (r *walpb.Record, size int, fits bool) {
	if len(text) < 8 {
		return nil, 0, false
	}
	word := binary.LittleEndian.Uint64(text)
	length, pad := word&(1<<56-1), word>>56&7
	if length == 0 || length > uint64(len(text)) || 8+length+pad > uint64(len(text)) {
		return nil, 0, false
	}
	r = new(walpb.Record)
	if proto.Unmarshal(text[8:8+length], r) != nil {
		r = nil
	}
	return r, int(8 + length + pad), true
}

// databaseIndex returns the number of the last change in etcd's database; 0 if it cannot be read, which etcd says better.
func databaseIndex(path string) (index uint64) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return 0
	}
	defer func() { _ = db.Close() }() // nothing was written
	_ = db.View(func(tx *bbolt.Tx) error {
		if b := tx.Bucket(schema.Meta.Name()); b != nil {
			if v := b.Get(schema.MetaConsistentIndexKeyName); len(v) == 8 {
				index = binary.BigEndian.Uint64(v)
			}
		}
		return nil // always, so that View has no error
	})
	return index
}

// logFile is what etcd's decoder reads.
type logFile struct{ *os.File }

func (f logFile) FileInfo() (fs.FileInfo, error) { return f.Stat() }
