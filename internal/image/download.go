// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// The public registries, which npm and pip use by default.
const (
	publicNPM  = "https://registry.npmjs.org/"
	publicPyPI = "https://pypi.org/simple/"
)

const (
	maxDownload = 1 << 30  // bytes of one archive
	maxIndex    = 64 << 20 // bytes of a registry's file list
	// downloadStall is how long a server may send nothing.
	downloadStall = 60 * time.Second
)

var (
	npmFrom  = vm.NewPattern(`^npm:((?:@[a-z0-9._-]+/)?[a-z0-9._-]+)@([0-9A-Za-z.+-]+)$`)
	pypiFrom = vm.NewPattern(`^pypi:([A-Za-z0-9._]+)-([A-Za-z0-9._+-]+\.whl)$`)
)

// check describes what is wrong with a download; "" = nothing.
func (d RecipeDownload) check() string {
	switch u, err := url.Parse(d.From); {
	case strings.HasPrefix(d.From, "npm:"):
		if !npmFrom.MatchString(d.From) {
			return fmt.Sprintf("from %q: write npm:NAME@VERSION", d.From)
		}
	case strings.HasPrefix(d.From, "pypi:"):
		if !pypiFrom.MatchString(d.From) {
			return fmt.Sprintf("from %q: write pypi: and the name of the wheel's file", d.From)
		}
	case err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http":
		return fmt.Sprintf("from %q: write npm:NAME@VERSION, pypi:FILE.whl or a URL", d.From)
	case archiveKind(u.Path) == "":
		return fmt.Sprintf("from %q: an archive's name ends in .tgz, .tar.gz, .zip or .whl", d.From)
	}
	if _, _, err := d.sum(); err != nil {
		return fmt.Sprintf("digest %q: write sha512-BASE64, as npm does, or sha256:HEX", d.Digest)
	}
	if !cleanAbs(d.To) {
		return fmt.Sprintf("to %q is not an absolute path", d.To)
	}
	if d.Path != "" && (!filepath.IsLocal(d.Path) || filepath.Clean(d.Path) != d.Path) {
		return fmt.Sprintf("path %q is not inside the archive", d.Path)
	}
	return ""
}

// sum returns the expected digest of the archive, and its hash function.
func (d RecipeDownload) sum() (want []byte, h hash.Hash, err error) {
	if text, ok := strings.CutPrefix(d.Digest, "sha512-"); ok {
		h = sha512.New()
		want, err = base64.StdEncoding.DecodeString(text)
	} else if text, ok := strings.CutPrefix(d.Digest, "sha256:"); ok {
		h = sha256.New()
		want, err = hex.DecodeString(text)
	}
	if h == nil || err != nil || len(want) != h.Size() {
		return nil, nil, errors.Join(errors.New("no digest"), err)
	}
	return want, h, nil
}

// archiveKind returns tgz or zip, or "" for other names.
func archiveKind(name string) string {
	switch {
	case strings.HasPrefix(name, "npm:"), strings.HasSuffix(name, ".tgz"), strings.HasSuffix(name, ".tar.gz"):
		return "tgz"
	case strings.HasSuffix(name, ".whl"), strings.HasSuffix(name, ".zip"):
		return "zip"
	}
	return ""
}

// A downloader fetches the archives of recipes into a cache, which names them by digest.
type downloader struct {
	dir    string
	getenv func(string) string
	client *http.Client
	// watch is called with the address of each download before it starts.
	watch func(from string)
}

func newDownloader(dir layout.Dir, watch func(string)) downloader {
	return downloader{dir: dir.Downloads(), getenv: os.Getenv, client: http.DefaultClient, watch: watch}
}

// get returns the path of the archive after checking its digest. Kinds:
// NotFound, Unavailable, Corrupt (another digest), NoSpace.
func (f downloader) get(ctx context.Context, d RecipeDownload) (string, error) {
	want, h, err := d.sum()
	if err != nil {
		return "", vm.Errorf(vm.Invalid, d.From, "digest %q: %w", d.Digest, err)
	}
	path := filepath.Join(f.dir, hex.EncodeToString(want))
	if got, err := hashFile(path, h); err == nil && string(got) == string(want) {
		return path, os.Chtimes(path, time.Now(), time.Now()) // recently used archives are kept
	}
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return "", fileError(f.dir, err)
	}
	if f.watch != nil {
		f.watch(d.From)
	}
	addr, err := f.address(ctx, d.From)
	if err != nil {
		return "", err
	}
	h.Reset()
	err = layout.WriteFunc(path, 0o600, func(w io.Writer) error {
		if err := f.fetch(ctx, addr, maxDownload, io.MultiWriter(w, h)); err != nil {
			return err
		}
		if got := h.Sum(nil); string(got) != string(want) {
			return vm.Errorf(vm.Corrupt, d.From, "the data from %s does not have the digest in the recipe", addr.Redacted()).
				WithHint("the data was discarded; the recipe requires %s", d.Digest)
		}
		return nil
	})
	return path, err
}

func hashFile(path string, h hash.Hash) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // read only
	_, err = io.Copy(h, f)
	return h.Sum(nil), err
}

// address returns the URL of a download. It uses the registries that npm and
// pip would use on this host, by their environment variables.
func (f downloader) address(ctx context.Context, from string) (*url.URL, error) {
	if m := npmFrom.FindStringSubmatch(from); m != nil {
		base, err := f.registry(publicNPM, "npm_config_registry", "NPM_CONFIG_REGISTRY")
		if err != nil {
			return nil, err
		}
		return base.JoinPath(m[1], "-", m[1][strings.LastIndex(m[1], "/")+1:]+"-"+m[2]+".tgz"), nil
	}
	m := pypiFrom.FindStringSubmatch(from)
	if m == nil {
		return url.Parse(from)
	}
	base, err := f.registry(publicPyPI, "PIP_INDEX_URL", "UV_DEFAULT_INDEX")
	if err != nil {
		return nil, err
	}
	return f.wheel(ctx, base, m[1], m[1]+"-"+m[2])
}

// registry returns the address in the first variable that is set.
func (f downloader) registry(fallback string, variables ...string) (*url.URL, error) {
	for _, name := range variables {
		if v := f.getenv(name); v != "" {
			u, err := url.Parse(v)
			if err != nil || u.Host == "" {
				return nil, vm.Errorf(vm.Invalid, name, "is not the URL of a registry")
			}
			return u, nil
		}
	}
	return url.Parse(fallback)
}

var separators = vm.NewPattern(`[-_.]+`)

// wheel finds a file in the project's page of a Python package index
// (https://packaging.python.org/specifications/simple-repository-api).
func (f downloader) wheel(ctx context.Context, index *url.URL, project, file string) (*url.URL, error) {
	page := index.JoinPath(separators.Regexp().ReplaceAllString(strings.ToLower(project), "-"), "/")
	var html strings.Builder
	if err := f.fetch(ctx, page, maxIndex, &html); err != nil {
		return nil, err
	}
	link := vm.NewPattern(`href="([^"#]*` + regexp.QuoteMeta(file) + `)[#"]`).FindStringSubmatch(html.String())
	if link == nil {
		return nil, vm.Errorf(vm.NotFound, file, "%s has no such file", page.Redacted())
	}
	return page.Parse(strings.ReplaceAll(link[1], "&amp;", "&"))
}

// fetch writes a server's answer to w.
func (f downloader) fetch(ctx context.Context, addr *url.URL, limit int64, w io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := time.AfterFunc(downloadStall, func() { cancel(fmt.Errorf("no data came for %v", downloadStall)) })
	defer stall.Stop()
	failed := func(err error) error {
		if why := context.Cause(ctx); why != nil {
			err = why
		}
		var e *url.Error
		if errors.As(err, &e) {
			err = e.Err // the URL error repeats the address
		}
		return vm.Errorf(vm.Unavailable, addr.Redacted(), "not downloaded: %w", err).
			WithHint("the same command continues where it stopped; npm_config_registry and PIP_INDEX_URL name other registries")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, addr.String(), nil)
	if err != nil {
		return failed(err)
	}
	req.Header.Set("User-Agent", "warren")
	res, err := f.client.Do(req)
	if err != nil {
		return failed(err)
	}
	defer res.Body.Close() // read only
	switch {
	case res.StatusCode == http.StatusNotFound:
		return vm.Errorf(vm.NotFound, addr.Redacted(), "the server has no such file")
	case res.StatusCode != http.StatusOK:
		return failed(errors.New(res.Status))
	}
	body := &stallReader{r: io.LimitReader(res.Body, limit+1), stall: stall}
	n, err := io.Copy(w, body)
	switch {
	case body.err != nil:
		return failed(body.err)
	case err != nil:
		return err // an error of the file being written
	case n > limit:
		return vm.Errorf(vm.Invalid, addr.Redacted(), "larger than %d MiB", limit>>20)
	}
	return nil
}

// stallReader restarts the timer at each read.
type stallReader struct {
	r     io.Reader
	stall *time.Timer
	err   error // the reader's error, except io.EOF
}

func (s *stallReader) Read(p []byte) (int, error) {
	n, err := s.r.Read(p)
	if err == nil {
		s.stall.Reset(downloadStall)
	} else if !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}
