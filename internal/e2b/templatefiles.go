// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package e2b

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// Limits of the archives that clients upload for the COPY steps of a build.
const (
	maxUpload      = 1 << 30 // bytes of an archive, as it is sent
	maxAllUploads  = 8 << 30 // of the server
	uploadFileKept = time.Hour
	maxUploadFiles = 1000 // of the server
	uploadStall    = time.Minute
)

// fileHash is how SDKs name an archive: the SHA-256 of the files, not of the archive.
var fileHash = regexp.MustCompile(`^[0-9a-f]{64}$`)

type fileKey struct {
	account  vm.AccountID
	template string
	hash     string
}

// uploadStore keeps archives for the builds that copy from them.
type uploadStore struct {
	dir layout.Dir

	mu    sync.Mutex
	files map[fileKey]*storedUpload // guarded by mu
	timer *time.Timer               // removes what is old; nil = nothing is there; guarded by mu
}

// storedUpload is one archive; size is what it may become at most until it is whole.
type storedUpload struct {
	size  int64
	whole bool
	held  bool // a build that has begun needs it
	at    time.Time
}

// newUploadStore opens the store. Archives of an earlier server are removed: their builds ended with it.
func newUploadStore(dir layout.Dir) *uploadStore {
	if dir != "" {
		_ = os.RemoveAll(dir.TemplateFiles()) // what stays is overwritten, or removed at the next start
	}
	return &uploadStore{dir: dir, files: map[fileKey]*storedUpload{}}
}

func (s *uploadStore) path(k fileKey) string {
	sum := sha256.Sum256([]byte(string(k.account) + "\x00" + k.template + "\x00" + k.hash))
	return s.dir.TemplateFile(hex.EncodeToString(sum[:16]))
}

// has reports whether an archive is there.
func (s *uploadStore) has(k fileKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[k]
	return f != nil && f.whole
}

// hold keeps an archive until drop.
func (s *uploadStore) hold(k fileKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.files[k]; f != nil {
		f.held = true
	}
}

// expire removes archives that no build began to use in time.
func (s *uploadStore) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expireLocked()
}

func (s *uploadStore) expireLocked() {
	for k, f := range s.files {
		if f.whole && !f.held && time.Since(f.at) >= uploadFileKept {
			s.removeLocked(k)
		}
	}
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if len(s.files) > 0 {
		s.timer = time.AfterFunc(uploadFileKept/4, s.expire)
	}
}

// reserve makes room for an archive.
func (s *uploadStore) reserve(k fileKey, size int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expireLocked()
	all := size
	for _, f := range s.files {
		all += f.size
	}
	switch f := s.files[k]; {
	case f != nil && !f.whole:
		return vm.Errorf(vm.Busy, "", "the same files are being uploaded already").WithHint("wait for it")
	case all > maxAllUploads || len(s.files) >= maxUploadFiles:
		return vm.Errorf(vm.Limit, "", "the server holds the files of too many builds").WithHint("try again when other builds have ended, at the latest in an hour")
	}
	s.files[k] = &storedUpload{size: size, at: time.Now()}
	s.expireLocked()
	return nil
}

func (s *uploadStore) removeLocked(k fileKey) {
	delete(s.files, k)
	_ = os.Remove(s.path(k)) // a file that stays is removed at the next start
}

// put stores an archive of a known size.
func (s *uploadStore) put(k fileKey, r io.Reader, size int64) error {
	if err := s.reserve(k, size); err != nil {
		return err
	}
	err := os.MkdirAll(s.dir.TemplateFiles(), 0o700)
	if err == nil {
		err = layout.WriteFunc(s.path(k), 0o600, func(w io.Writer) error {
			n, err := io.Copy(w, io.LimitReader(r, size+1))
			if err == nil && n != size {
				err = invalid("body", "the archive has another length than was announced")
			}
			return err
		})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.removeLocked(k)
		return layout.Error(s.dir.TemplateFiles(), err)
	}
	f := s.files[k]
	f.whole, f.at = true, time.Now()
	return nil
}

// stalling reads a request's body, and fails with kind Timeout when nothing comes for that long. Until then a client
// that sends nothing would hold the room of its upload.
type stalling struct {
	connection *http.ResponseController
	body       io.Reader
	most       time.Duration
}

func (s stalling) Read(p []byte) (int, error) {
	if err := s.connection.SetReadDeadline(time.Now().Add(s.most)); err != nil && !errors.Is(err, errors.ErrUnsupported) { // a request that is no connection's cannot stall
		return 0, vm.Errorf(vm.Internal, "body", "the connection has no deadline: %w", err)
	}
	n, err := s.body.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = vm.Errorf(vm.Timeout, "body", "nothing of the upload came for %v", s.most).WithHint("send it again")
	}
	return n, err
}

// open opens an archive.
func (s *uploadStore) open(k fileKey) (*os.File, error) {
	f, err := os.Open(s.path(k))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, invalid("files", "the files were not uploaded")
	}
	return f, layout.Error(filepath.Base(s.path(k)), err)
}

// drop ends what hold began: it removes an archive, unless another build may still use it.
func (s *uploadStore) drop(k fileKey, used bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.files[k]
	switch {
	case f == nil || !f.whole:
	case used:
		f.held, f.at = false, time.Now()
	default:
		s.removeLocked(k)
	}
}

// uploadToken is what opens the address of one upload: the SDKs send no key there.
func (d *Door) uploadToken(k fileKey, by vm.KeyID, until string) string {
	mac := hmac.New(sha256.New, d.Secret)
	_, _ = mac.Write([]byte(strings.Join([]string{"e2b upload", string(k.account), k.template, k.hash, string(by), until}, "\x00"))) // documented never to fail
	return hex.EncodeToString(mac.Sum(nil))
}

// fileLink answers whether the files of a COPY are there, and else where to put them.
func (c *caller) fileLink() error {
	k := fileKey{c.call.Actor.Account, c.PathValue("id"), c.PathValue("hash")}
	if !fileHash.MatchString(k.hash) {
		return invalid("hash", "not 64 hexadecimal digits")
	}
	if !c.d.waits(k.account, k.template) {
		return vm.Errorf(vm.NotFound, vm.Clip(k.template, 64), "no build of this template waits for files").WithHint("request a build first")
	}
	until := strconv.FormatInt(time.Now().Add(uploadFileKept).Unix(), 10)
	q := url.Values{"account": {string(k.account)}, "key": {string(c.call.Actor.Key)}, "until": {until}, "token": {c.d.uploadToken(k, c.call.Actor.Key, until)}}
	return c.send(http.StatusCreated, map[string]any{
		"present": c.d.files.has(k), "url": c.base() + "/templates/" + k.template + "/files/" + k.hash + "?" + q.Encode(),
	})
}

// base is the address of the control API by which the client reached it.
func (c *caller) base() string {
	scheme := "http"
	if c.TLS != nil || c.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	out := scheme + "://" + c.Host
	if strings.HasPrefix(c.RequestURI, Prefix+"/") {
		out += Prefix
	}
	return out
}

// putFiles stores the archive of a COPY.
func (d *Door) putFiles(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	k := fileKey{vm.AccountID(q.Get("account")), r.PathValue("id"), r.PathValue("hash")}
	by, until := vm.KeyID(q.Get("key")), q.Get("until")
	if subtle.ConstantTimeCompare([]byte(q.Get("token")), []byte(d.uploadToken(k, by, until))) != 1 {
		d.brake.Wait(r.Context())
		d.fail(w, r, vm.Errorf(vm.Unauthenticated, "", "this is no address of an upload"))
		return
	}
	n, err := strconv.ParseInt(until, 10, 64)
	if err != nil || time.Now().Unix() > n {
		d.fail(w, r, vm.Errorf(vm.Unauthenticated, "", "the address of the upload has expired"))
		return
	}
	if err := d.Access.Valid(vm.Actor{Account: k.account, Key: by}); err != nil {
		d.fail(w, r, err)
		return
	}
	switch size := r.ContentLength; {
	case size < 0:
		err = invalid("body", "an upload says its length first")
	case size > maxUpload:
		err = vm.Errorf(vm.Limit, "body", "the files of one COPY have at most %d MiB, as they are sent", maxUpload>>20).WithHint("name what is not needed in .dockerignore")
	default:
		err = d.files.put(k, stalling{http.NewResponseController(w), r.Body, uploadStall}, size)
	}
	if err != nil {
		d.fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusOK)
}
