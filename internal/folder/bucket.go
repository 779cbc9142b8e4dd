// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warren-vm/warren/vm"
)

// Bucket reads objects of a bucket as the VM itself, by S3's protocol.
type Bucket struct {
	client *http.Client
	base   string // URL of the bucket
	prefix string
}

// NewBucket returns a reader of the keys with a prefix, which ends with a slash or is "".
// The client reaches S3 at the host vm.S3Host.
func NewBucket(client *http.Client, bucket, prefix string) *Bucket {
	return &Bucket{client: client, base: "http://" + vm.S3Host + "/" + url.PathEscape(bucket), prefix: prefix}
}

// object is an object as a list shows it. Two with the same fields have the same bytes.
type object struct {
	name string // "" for a directory that was looked up
	dir  bool
	size int64
	etag string
	at   time.Time
}

// patience is how long a request is repeated while the server restarts or an upload is
// scanned.
const patience = 20 * time.Second

// ask sends a request. The caller closes the body of an answer.
func (b *Bucket) ask(ctx context.Context, method, target string, header map[string]string) (*http.Response, error) {
	begun := time.Now()
	for rest := 50 * time.Millisecond; ; rest = min(2*rest, time.Second) {
		r, err := http.NewRequestWithContext(ctx, method, target, nil)
		if err != nil {
			return nil, unix.EINVAL
		}
		for name, value := range header {
			r.Header.Set(name, value)
		}
		resp, err := b.client.Do(r)
		if err == nil && resp.StatusCode != http.StatusServiceUnavailable {
			return resp, nil
		}
		if err == nil {
			resp.Body.Close()
		}
		if time.Since(begun) > patience {
			return nil, unix.EIO
		}
		select {
		case <-time.After(rest):
		case <-ctx.Done():
			return nil, unix.EINTR
		}
	}
}

// refusal is the number of an error for an answer's status; nil = none.
func refusal(status int) error {
	switch {
	case status < 300:
		return nil
	case status == http.StatusForbidden || status == http.StatusUnauthorized:
		return unix.EACCES
	case status == http.StatusNotFound:
		return unix.ENOENT
	case status == http.StatusPreconditionFailed:
		return unix.ESTALE
	case status == http.StatusBadRequest: // a name that is no key
		return unix.ENOENT
	}
	return unix.EIO
}

// target is the URL of a key below the prefix.
func (b *Bucket) target(key string) string {
	parts := strings.Split(b.prefix+key, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return b.base + "/" + strings.Join(parts, "/")
}

// maxNames bounds the names of a directory that can be listed.
const maxNames = 100_000

// list returns what is directly below a directory: "" or a path that ends with a slash. Of
// a key and a directory of one name, it returns the directory. Keys that are no names of
// files are left out.
func (b *Bucket) list(ctx context.Context, dir string, most int) (out []object, err error) {
	q := url.Values{"list-type": {"2"}, "delimiter": {"/"}, "encoding-type": {"url"}, "prefix": {b.prefix + dir}}
	if most > 0 {
		q.Set("max-keys", strconv.Itoa(most))
	}
	at := map[string]int{}
	for {
		var page struct {
			Contents []struct {
				Key, ETag    string
				Size         int64
				LastModified time.Time
			}
			CommonPrefixes        []struct{ Prefix string }
			NextContinuationToken string
			IsTruncated           bool
		}
		resp, err := b.ask(ctx, http.MethodGet, b.base+"?"+q.Encode(), nil)
		if err != nil {
			return nil, err
		}
		if err = refusal(resp.StatusCode); err == nil && xml.NewDecoder(io.LimitReader(resp.Body, 16<<20)).Decode(&page) != nil {
			err = unix.EIO
		}
		resp.Body.Close()
		if err != nil {
			return nil, err
		}
		add := func(key string, o object) {
			key, err := url.QueryUnescape(key)
			o.name = strings.TrimSuffix(strings.TrimPrefix(key, b.prefix+dir), "/")
			if err != nil || goodName(o.name) != nil || !strings.HasPrefix(key, b.prefix+dir) {
				return
			}
			if i, twice := at[o.name]; twice {
				if o.dir {
					out[i] = o
				}
				return
			}
			at[o.name] = len(out)
			out = append(out, o)
		}
		for _, p := range page.CommonPrefixes {
			add(p.Prefix, object{dir: true})
		}
		for _, c := range page.Contents {
			add(c.Key, object{size: c.Size, etag: c.ETag, at: c.LastModified.Truncate(time.Second)})
		}
		switch {
		case len(out) > maxNames:
			return nil, unix.EOVERFLOW
		case !page.IsTruncated || page.NextContinuationToken == "" || most > 0:
			return out, nil
		}
		q.Set("continuation-token", page.NextContinuationToken)
	}
}

// find looks a path up that is not "". A directory is more than a key of that name.
func (b *Bucket) find(ctx context.Context, at string) (object, error) {
	below, err := b.any(ctx, at+"/")
	if err != nil || below {
		return object{dir: true}, err
	}
	resp, err := b.ask(ctx, http.MethodHead, b.target(at), nil)
	if err != nil {
		return object{}, err
	}
	resp.Body.Close()
	if err := refusal(resp.StatusCode); err != nil {
		return object{}, err
	}
	o := object{size: resp.ContentLength, etag: resp.Header.Get("ETag")}
	if o.at, err = http.ParseTime(resp.Header.Get("Last-Modified")); err != nil || o.size < 0 {
		return object{}, unix.EIO
	}
	return o, nil
}

// any reports whether a key begins with a path.
func (b *Bucket) any(ctx context.Context, at string) (bool, error) {
	q := url.Values{"list-type": {"2"}, "max-keys": {"1"}, "prefix": {b.prefix + at}}
	resp, err := b.ask(ctx, http.MethodGet, b.base+"?"+q.Encode(), nil)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	var page struct {
		Contents []struct{ Key string }
	}
	if err := refusal(resp.StatusCode); err != nil {
		return false, err
	}
	if xml.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(&page) != nil {
		return false, unix.EIO
	}
	return len(page.Contents) > 0, nil
}

// read fills p from an offset of a version, or of the newest one with an etag if version is
// "". It returns the version. With an empty p it asks only whether it could be read.
func (b *Bucket) read(ctx context.Context, key, version, etag string, from int64, p []byte) (string, error) {
	method, header, target := http.MethodGet, map[string]string{}, b.target(key)
	if version != "" {
		target += "?versionId=" + url.QueryEscape(version)
	} else {
		header["If-Match"] = etag
	}
	if len(p) == 0 {
		method = http.MethodHead
	} else {
		header["Range"] = "bytes=" + strconv.FormatInt(from, 10) + "-" + strconv.FormatInt(from+int64(len(p))-1, 10)
	}
	resp, err := b.ask(ctx, method, target, header)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if err := refusal(resp.StatusCode); err != nil {
		if errors.Is(err, unix.ENOENT) {
			err = unix.ESTALE
		}
		return "", err
	}
	if _, err := io.ReadFull(resp.Body, p); err != nil {
		return "", unix.EIO
	}
	return resp.Header.Get("X-Amz-Version-Id"), nil
}
