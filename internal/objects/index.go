// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"bytes"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"runtime"
	"sync"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// The trees of the index. Keys of one bucket begin with its id, which has a fixed length;
// an object's key has no byte below 0x20, so that 0 ends it.
var (
	inVersions = []byte("versions") // bucket, key, 0, inverted sequence -> stored
	inBodies   = []byte("bodies")   // body -> the bytes of a small one
	inSegments = []byte("segments") // body -> segments of a multipart upload
	inRefs     = []byte("refs")     // body -> how many versions more than one have it
	inUploads  = []byte("uploads")  // bucket, key, 0, upload -> upload
	inParts    = []byte("parts")    // upload, number -> part
	inTags     = []byte("tags")     // bucket, tag, 0, value, 0, key, 0, inverted sequence -> ""
	inGarbage  = []byte("garbage")  // account, 0, body -> "": files to delete
	inScans    = []byte("scans")    // sequence -> bucket, key
	inUse      = []byte("use")      // bucket -> vm.BucketUse
	inTrees    = [][]byte{inVersions, inBodies, inSegments, inRefs, inUploads, inParts, inTags, inGarbage, inScans, inUse}
)

// index is the database of versions. Changes that arrive while the disk writes are
// committed together.
type index struct {
	db    *bolt.DB
	queue chan *change
	quit  chan struct{}
	done  chan struct{}
	once  sync.Once
}

// change is one transaction of a caller.
type change struct {
	do     func(*tx) error
	after  func() error // waits until the change may be made; nil = it may
	result chan error
}

// mapped is the address space for the index. As long as the index is smaller, a long read,
// such as a backup's, does not block writes.
const mapped = 16 << 30

// maxTogether bounds how many changes one commit has.
const maxTogether = 256

// yields is how often the processor is left to other goroutines before a commit: on a busy
// host more changes share it, on an idle one it takes no time.
const yields = 4

func openIndex(path string) (*index, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: time.Second, FreelistType: bolt.FreelistMapType, NoFreelistSync: true, InitialMmapSize: mapped})
	if err != nil {
		return nil, vm.Errorf(vm.Corrupt, path, "the index of objects cannot be opened: %w", err).WithHint("put it back from a backup")
	}
	err = db.Update(func(t *bolt.Tx) error {
		for _, name := range inTrees {
			if _, err := t.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(diskError(path, err), db.Close())
	}
	x := &index{db: db, queue: make(chan *change, maxTogether), quit: make(chan struct{}), done: make(chan struct{})}
	go x.write() // ends with close
	return x, nil
}

// close waits for the changes in progress. Nothing may be submitted afterwards.
func (x *index) close() error {
	x.once.Do(func() { close(x.quit) })
	<-x.done
	return x.db.Close()
}

// view reads. What fn gets is valid until it returns.
func (x *index) view(fn func(*tx) error) error {
	return x.db.View(func(t *bolt.Tx) error { return fn(&tx{Tx: t}) })
}

// update commits a change durably. fn checks first and then writes: after it has written
// it fails only for a reason that ends the transaction. It may be called twice.
func (x *index) update(fn func(*tx) error) error { return x.updateAfter(nil, fn) }

// updateAfter is update for a change that may be made only once after has returned nil: it
// waits for that in the queue, while others are committed. after is called once, by another
// goroutine, if the index is open.
func (x *index) updateAfter(after func() error, fn func(*tx) error) error {
	c := &change{do: fn, after: after, result: make(chan error, 1)}
	select {
	case x.queue <- c:
	case <-x.quit:
		return closed()
	}
	select {
	case err := <-c.result:
		return err
	case <-x.done:
		select {
		case err := <-c.result:
			return err
		default:
			return closed()
		}
	}
}

func closed() error { return vm.Errorf(vm.Unavailable, "", "object storage is closed") }

// write is the one goroutine that writes.
func (x *index) write() {
	defer close(x.done)
	for {
		var batch []*change
		select {
		case c := <-x.queue:
			batch = append(batch, c)
		case <-x.quit:
			return
		}
		for range yields { // those who are about to submit a change do it first
			runtime.Gosched()
		}
	more:
		for len(batch) < maxTogether {
			select {
			case c := <-x.queue:
				batch = append(batch, c)
			default:
				break more
			}
		}
		x.commit(allowed(batch))
	}
}

// allowed waits until the changes of a batch may be made, and answers those that may not.
func allowed(batch []*change) []*change {
	out := batch[:0]
	for _, c := range batch {
		if c.after != nil {
			if err := c.after(); err != nil {
				c.result <- err
				continue
			}
		}
		out = append(out, c)
	}
	return out
}

// commit makes changes in one transaction. If one fails after it wrote, each is made
// alone.
func (x *index) commit(batch []*change) {
	if len(batch) == 0 {
		return
	}
	results := make([]error, len(batch))
	err := x.db.Update(func(t *bolt.Tx) error {
		for i, c := range batch {
			one := &tx{Tx: t}
			if results[i] = safely(c.do, one); results[i] != nil && one.dirty {
				return results[i]
			}
		}
		return nil
	})
	if err != nil && len(batch) > 1 {
		for _, c := range batch {
			x.commit([]*change{c})
		}
		return
	}
	for i, c := range batch {
		if results[i] == nil && err != nil {
			results[i] = diskError(x.db.Path(), err)
		}
		c.result <- results[i]
	}
}

// safely turns a panic of a change into its error, so that the others are made.
func safely(do func(*tx) error, t *tx) (err error) {
	defer func() {
		if r := recover(); r != nil {
			t.dirty = true
			err = vm.Errorf(vm.Internal, "", "a change of the index failed: %v", r)
		}
	}()
	return do(t)
}

// diskError is an error of a file, with kind NoSpace for a full disk.
func diskError(path string, err error) error {
	var known *vm.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return vm.Errorf(vm.NoSpace, "", "the disk is full: %w", err).WithHint("free space: `warren storage` shows who uses what")
	}
	return layout.Error(path, err)
}

// tx is a transaction of the index.
type tx struct {
	*bolt.Tx
	dirty bool // it has written
}

func (t *tx) get(tree, key []byte) []byte { return t.Bucket(tree).Get(key) }

func (t *tx) put(tree, key, value []byte) error {
	t.dirty = true
	return t.Bucket(tree).Put(key, value)
}

// putInline writes the bytes of a small body.
func (t *tx) putInline(body string, data []byte) error {
	t.dirty = true
	b := t.Bucket(inBodies)
	b.FillPercent = 0.95 // new bodies come last: full pages are not written again
	return b.Put([]byte(body), data)
}

func (t *tx) putJSON(tree, key []byte, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return t.put(tree, key, data)
}

func (t *tx) drop(tree, key []byte) error {
	t.dirty = true
	return t.Bucket(tree).Delete(key)
}

// getJSON decodes a record; false if there is none.
func (t *tx) getJSON(tree, key []byte, v any) (bool, error) {
	data := t.get(tree, key)
	if data == nil {
		return false, nil
	}
	return true, decode(data, v)
}

func decode(data []byte, v any) error {
	if err := json.Unmarshal(data, v); err != nil {
		return vm.Errorf(vm.Corrupt, "", "a record of the index of objects cannot be read: %w", err).WithHint("put the index back from a backup")
	}
	return nil
}

// stored is a version in the index. Object has no bucket and no key: those are in the key.
type stored struct {
	vm.Object
	Body   string `json:"body,omitempty"`
	Inline bool   `json:"inline,omitempty"` // the body is in the index
	seq    uint64
}

// segment is one file of the body of a multipart upload.
type segment struct {
	Body   string `json:"b"`
	Inline bool   `json:"i,omitempty"`
	Size   int64  `json:"n"`
	ETag   string `json:"e,omitempty"` // of the part, for those who ask for one part
	Number int    `json:"p,omitempty"`
}

const (
	seqSize      = 8
	bucketIDSize = len("bk-0123456789abcdef") // of vm.NewBucketID
)

func seqBytes(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

// keyPrefix begins the index keys of all versions of a key.
func keyPrefix(bucket, key string) []byte {
	out := make([]byte, 0, len(bucket)+len(key)+1+seqSize)
	return append(append(append(out, bucket...), key...), 0)
}

// versionKey is the index key of a version: the newest of a key comes first.
func versionKey(bucket, key string, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(keyPrefix(bucket, key), math.MaxUint64-seq)
}

// splitKey takes an index key apart.
func splitKey(bucket string, k []byte) (key string, seq uint64) {
	rest := k[len(bucket):]
	if len(rest) < seqSize+1 {
		return "", 0
	}
	return string(rest[:len(rest)-seqSize-1]), math.MaxUint64 - binary.BigEndian.Uint64(rest[len(rest)-seqSize:])
}

var versionText = base32.NewEncoding("0123456789abcdefghijklmnopqrstuv").WithPadding(base32.NoPadding)

// newVersion makes a version's id: its sequence number, and 64 random bits by which nobody
// guesses it.
func newVersion(seq uint64) string {
	id := seqBytes(seq)
	id = append(id, make([]byte, 8)...)
	_, _ = rand.Read(id[8:])
	return versionText.EncodeToString(id)
}

// versionSeq is the sequence number in a version's id.
func versionSeq(version string) (uint64, bool) {
	id, err := versionText.DecodeString(version)
	if err != nil || len(id) != 16 {
		return 0, false
	}
	return binary.BigEndian.Uint64(id), true
}

// load decodes a version.
func load(bucket vm.Bucket, k, value []byte) (stored, error) {
	var s stored
	if err := decode(value, &s); err != nil {
		return s, err
	}
	s.Bucket = bucket.Name
	s.Key, s.seq = splitKey(bucket.ID, k)
	return s, nil
}

// latest returns the newest version of a key, which may be a delete marker.
func (t *tx) latest(bucket vm.Bucket, key string) (stored, bool, error) {
	prefix := keyPrefix(bucket.ID, key)
	k, v := t.Bucket(inVersions).Cursor().Seek(prefix)
	if k == nil || !bytes.HasPrefix(k, prefix) || len(k) != len(prefix)+seqSize {
		return stored{}, false, nil
	}
	s, err := load(bucket, k, v)
	s.Latest = true
	return s, err == nil, err
}

// version returns one version of a key; "" = the newest. Kind NotFound.
func (t *tx) version(bucket vm.Bucket, key, version string) (stored, error) {
	last, ok, err := t.latest(bucket, key)
	switch {
	case err != nil:
		return last, err
	case !ok:
		return last, noObject(bucket.Name, key)
	case version == "" || version == last.Version:
		return last, nil
	}
	seq, ok := versionSeq(version)
	if !ok {
		return stored{}, vm.Errorf(vm.Invalid, vm.GuestPath(vm.Clip(version, 60)).String(), "is not the id of a version").WithCode("OBJECT_INVALID_VERSION")
	}
	k := versionKey(bucket.ID, key, seq)
	v := t.get(inVersions, k)
	if v == nil {
		return stored{}, noVersion(bucket.Name, key, version)
	}
	s, err := load(bucket, k, v)
	if err == nil && s.Version != version {
		return stored{}, noVersion(bucket.Name, key, version)
	}
	return s, err
}

func shownKey(bucket, key string) string {
	return vm.GuestPath("s3://" + bucket + "/" + vm.Clip(key, 200)).String()
}

func noObject(bucket, key string) *vm.Error {
	return vm.Errorf(vm.NotFound, shownKey(bucket, key), "no such object").WithCode("OBJECT_NOT_FOUND").WithHint("`warren artifact ls` lists objects")
}

func noVersion(bucket, key, version string) *vm.Error {
	return vm.Errorf(vm.NotFound, shownKey(bucket, key), "it has no version %s", version).WithCode("OBJECT_VERSION_NOT_FOUND").
		WithHint("`warren artifact versions` lists them")
}

// use changes what a bucket holds.
func (t *tx) use(bucket vm.Bucket, f func(*vm.BucketUse)) error {
	var u vm.BucketUse
	if _, err := t.getJSON(inUse, []byte(bucket.ID), &u); err != nil {
		return err
	}
	f(&u)
	return t.putJSON(inUse, []byte(bucket.ID), u)
}
