// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package folder

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// transport answers requests without a network.
type transport func(*http.Request) (*http.Response, error)

// RoundTrip answers a request.
func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func answered(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(body)), Header: http.Header{"X-Amz-Version-Id": {"v1"}}, ContentLength: int64(len(body))}
}

// TestObjectsPatience: while nobody answers, a reading waits. It succeeds if the server is
// back within twenty seconds, and fails after them.
//
// 001-32
func TestObjectsPatience(t *testing.T) {
	for _, down := range []time.Duration{0, 15 * time.Second, time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			b := NewBucket(&http.Client{Transport: transport(func(*http.Request) (*http.Response, error) {
				if time.Since(begun) < down {
					return nil, errors.New("nobody listens")
				}
				return answered(http.StatusPartialContent, "bytes"), nil
			})}, "data", "in/")
			p := make([]byte, 5)
			version, err := b.read(t.Context(), "a", "", `"etag"`, 0, p)
			took := time.Since(begun)
			if down < patience && (err != nil || version != "v1" || string(p) != "bytes" || took < down || took > down+time.Second) {
				t.Errorf("a server that is away for %v: %q, %v after %v, want the bytes when it is back", down, p, err, took)
			}
			if down > patience && (!errors.Is(err, unix.EIO) || took > patience+time.Second) {
				t.Errorf("a server that stays away: %v after %v, want an input/output error after %v", err, took, patience)
			}
		})
	}
}

// TestObjectsManyNames: a directory with more than 100,000 names is not listed, and a name
// in it is found.
//
// 001-32
func TestObjectsManyNames(t *testing.T) {
	names := 0
	b := NewBucket(&http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodHead {
			resp := answered(http.StatusOK, "")
			resp.Header.Set("Last-Modified", "Mon, 02 Jan 2006 15:04:05 GMT")
			return resp, nil
		}
		var page strings.Builder
		if r.URL.Query().Get("delimiter") != "" {
			for range 1000 {
				fmt.Fprintf(&page, "<Contents><Key>in/%d</Key><Size>1</Size></Contents>", names)
				names++
			}
		}
		return answered(http.StatusOK, fmt.Sprintf("<ListBucketResult>%s<IsTruncated>%v</IsTruncated><NextContinuationToken>next</NextContinuationToken></ListBucketResult>", page.String(), names < maxNames+1000)), nil
	})}, "data", "in/")
	if list, err := b.list(t.Context(), "", 0); !errors.Is(err, unix.EOVERFLOW) {
		t.Errorf("a directory of %d names: a list of %d, %v, want %v", names, len(list), err, unix.EOVERFLOW)
	}
	if o, err := b.find(t.Context(), "7"); err != nil || o.dir {
		t.Errorf("a name in it is not found: %v", err)
	}
	names = 1000
	if list, err := b.list(t.Context(), "", 0); err != nil || len(list) != maxNames {
		t.Errorf("a directory of %d names: a list of %d, %v", maxNames, len(list), err)
	}
}
