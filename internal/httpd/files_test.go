// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// open makes a GET whose body the test reads itself.
func (b *bench) open(ctx context.Context, path string, headers ...string) *http.Response {
	b.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.server.URL+path, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+b.admin)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// TestCutDownloads: when the guest fails in the middle, a client does not take
// the part for the whole: the answer breaks off, without digest or end mark.
func TestCutDownloads(t *testing.T) {
	for _, route := range []string{"raw", "tar"} {
		b := newBench(t)
		id := b.create(nil)
		b.do("PUT", "/v1/vms/"+id+"/raw/%2Fwork%2Fbig", strings.Repeat("x", 8<<20)).ok(t)
		resp := b.open(t.Context(), "/v1/vms/"+id+"/"+route+"/%2Fwork%2Fbig")
		if resp.StatusCode != 200 {
			t.Fatalf("a download as %s is answered %d, want 200", route, resp.StatusCode)
		}
		if _, err := io.CopyN(io.Discard, resp.Body, 100_000); err != nil {
			t.Fatal(err)
		}
		b.site.World.Fail("guest.read", vm.Errorf(vm.GuestFault, "", "the link broke"))
		n, err := io.Copy(io.Discard, resp.Body)
		if err == nil {
			t.Errorf("%s: %d more bytes came and the stream ended well", route, n)
		}
		if resp.Trailer.Get(api.HeaderDigest) != "" || resp.Trailer.Get(api.HeaderEnd) != "" {
			t.Errorf("%s: an end mark on a cut stream: %v", route, resp.Trailer)
		}
	}
}

// TestCutUploads: a body that ends too early changes nothing.
func TestCutUploads(t *testing.T) {
	b := newBench(t)
	id := b.create(nil)
	for _, length := range []int64{1 << 20, -1} {
		r, w := io.Pipe()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, b.server.URL+"/v1/vms/"+id+"/raw/%2Fwork%2Fnew", r)
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = length
		req.Header.Set("Authorization", "Bearer "+b.admin)
		go func() { // ends with the request, which closes the pipe
			_, _ = io.WriteString(w, strings.Repeat("y", 1000))
			w.CloseWithError(errors.New("cut"))
		}()
		if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
			resp.Body.Close()
			t.Errorf("length %d: a cut body is answered with %d", length, resp.StatusCode)
		}
		b.do("GET", "/v1/vms/"+id+"/fs/stat?path=/work/new", nil).wants(t, 404, "FILE_NOT_FOUND")
	}
}

// TestTar: a tree goes out and comes in again, with an end mark.
func TestTar(t *testing.T) {
	b := newBench(t)
	base := "/v1/vms/" + b.create(nil)
	for name, text := range map[string]string{"a": "1", "sub/b": "2"} {
		b.do("PUT", base+"/files/%2Fwork%2Ftree%2F"+strings.ReplaceAll(name, "/", "%2F"), api.FileContent{Content: text})
	}
	down := b.do("GET", base+"/tar/%2Fwork%2Ftree", nil)
	if end := down.trailer.Get(api.HeaderEnd); end != "ok" {
		t.Errorf("the tree's download ends with the mark %q, want ok", end)
	}
	if kind := down.header.Get("Content-Type"); kind != "application/x-tar" {
		t.Errorf("the tree's download is of type %q, want application/x-tar", kind)
	}
	files := 0
	for tr := tar.NewReader(bytes.NewReader(down.body)); ; files++ {
		if _, err := tr.Next(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if files != 4 {
		t.Errorf("%d entries", files)
	}
	if a := b.do("PUT", base+"/tar/%2Fwork%2Fcopy", string(down.body)); a.status != 200 || a.header.Get(api.HeaderReceipt) == "" {
		t.Errorf("up: %d %s", a.status, a.body)
	}
	if a := b.do("PUT", base+"/tar/%2Fwork%2Fcopy", "no tar at all, but long enough to be looked at"); a.status != 400 {
		t.Errorf("nonsense: %d %s", a.status, a.body)
	}
	b.do("GET", base+"/tar/%2Fnone", nil).wants(t, 404, "FILE_NOT_FOUND")
}

// TestFiles: the contract's two routes.
func TestFiles(t *testing.T) {
	b := newBench(t)
	base := "/v1/vms/" + b.create(map[string]any{"workdir": "/work"})
	raw := []byte{0, 0xff, 'x'}
	for path, in := range map[string]api.FileContent{
		"%2Fwork%2Fa%20%24b%2F%C3%BC": {Content: base64.StdEncoding.EncodeToString(raw), Encoding: "base64"},
		"relative":                    {Content: string("text"), Encoding: "utf8"},
		"also/relative":               {Content: "text"},
		"/work/unescaped":             {Content: "text", Encoding: "utf-8"},
	} {
		if a := b.do("PUT", base+"/files/"+path, in); a.status != 200 || string(a.body) != "{}\n" {
			t.Errorf("put %s: %d %s", path, a.status, a.body)
		}
	}
	for path, want := range map[string]string{"/work/a%20$b/ü": string(raw), "/work/relative": "text", "%2Fwork%2Falso%2Frelative": "text", "unescaped": "text"} {
		if a := b.do("GET", base+"/files/"+path, nil); a.json["content"] != base64.StdEncoding.EncodeToString([]byte(want)) || a.json["encoding"] != "base64" {
			t.Errorf("get %s: %s", path, a.body)
		}
	}
	if a := b.do("GET", base+"/files/%2Fwork", nil); !strings.Contains(string(a.body), `{"name":"also","kind":"directory"}`) || !strings.Contains(string(a.body), `{"name":"relative","kind":"file"}`) {
		t.Errorf("directory: %s", a.body)
	}
	// A symlink is followed, to a file and to a directory.
	b.do("POST", base+"/fs/symlink", `{"target":"/work/relative","path":"/work/l1"}`)
	b.do("POST", base+"/fs/symlink", `{"target":"/work/also","path":"/work/l2"}`)
	if a := b.do("GET", base+"/files/%2Fwork%2Fl1", nil); a.json["content"] == nil {
		t.Errorf("link to a file: %s", a.body)
	}
	if a := b.do("GET", base+"/files/%2Fwork%2Fl2", nil); a.json["files"] == nil {
		t.Errorf("link to a directory: %s", a.body)
	}
	missing := b.do("GET", base+"/files/%2Fno%2Fsuch", nil)
	missing.wants(t, 404, "FILE_NOT_FOUND")
	missing.has(t, "path", "/no/such")
	b.do("PUT", base+"/files/x", `{"content":"?","encoding":"base64"}`).wants(t, 400, "FILES_BAD_REQUEST")
	b.do("PUT", base+"/files/x", `{"content":"x","encoding":"latin1"}`).wants(t, 400, "FILES_BAD_REQUEST")
	b.do("POST", base+"/fs/rename", `{"path":"/x"}`).wants(t, 400, "INVALID_REQUEST")
	b.do("POST", base+"/fs/symlink", `{"path":"/x"}`).wants(t, 400, "INVALID_REQUEST")
	b.do("POST", base+"/fs/remove", nil).wants(t, 400, "INVALID_REQUEST")
	b.do("PUT", base+"/raw/x?mode=9", "").wants(t, 400, "INVALID_REQUEST")
	b.do("PUT", base+"/raw/x?parents=perhaps", "").wants(t, 400, "INVALID_REQUEST")
	b.do("GET", base+"/raw/x?maxBytes=-1", nil).wants(t, 400, "INVALID_REQUEST")
}

// TestMeasured: files of the kernel say no length; they are read before the
// answer begins, up to a bound.
func TestMeasured(t *testing.T) {
	for _, c := range []struct {
		st      vm.FileInfo
		content string
		size    int64
	}{
		{vm.FileInfo{Path: "/work/a", Size: 3}, "abcdef", 3},
		{vm.FileInfo{Path: "/work/empty"}, "", 0},
		{vm.FileInfo{Path: "/proc/version"}, "Linux", 5},
		{vm.FileInfo{Path: "/sys/x", Size: 4096}, "on\n", 3},
	} {
		size, _, err := measured(c.st, strings.NewReader(c.content))
		if err != nil || size != c.size {
			t.Errorf("%s measures %d bytes (%v), want %d", c.st.Path, size, err, c.size)
		}
	}
	endless := io.LimitReader(zeros{}, maxUnmeasured+1)
	if _, _, err := measured(vm.FileInfo{Path: "/proc/kmsg"}, endless); vm.KindOf(err) != vm.Limit {
		t.Errorf("a file without end: %v", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestWatch: a line for each change at once, and a last line that says why a
// watch ended.
func TestWatch(t *testing.T) {
	b := newBench(t)
	id := b.create(nil)
	resp := b.open(t.Context(), "/v1/vms/"+id+"/fs/watch?path=/work&recursive=true")
	if kind := resp.Header.Get("Content-Type"); kind != "application/x-ndjson" {
		t.Errorf("a watch is of type %q, want application/x-ndjson", kind)
	}
	lines := bufio.NewScanner(resp.Body)
	for i := range 3 {
		name := fmt.Sprintf("/work/f%d", i)
		b.do("PUT", "/v1/vms/"+id+"/files/"+name, `{"content":"x"}`)
		for seen := false; !seen && lines.Scan(); {
			var ev vm.FileEvent
			if err := json.Unmarshal(lines.Bytes(), &ev); err != nil {
				t.Fatalf("the watch's line %q is no event: %v", lines.Bytes(), err)
			}
			seen = ev.Path == name && ev.Type != ""
		}
	}
	b.site.World.End(vm.ID(id), "qemu-crash")
	var last api.ErrorBody
	for lines.Scan() {
		_ = json.Unmarshal(lines.Bytes(), &last)
	}
	if last.Kind != vm.GuestFault || last.Code == "" || lines.Err() != nil {
		t.Errorf("the last line: %+v, %v", last, lines.Err())
	}
	b.until("the VM is stopped", func() bool { return b.do("GET", "/v1/vms/"+id, nil).json["state"] == "stopped" })
}

// watchFiles begins a watch; next returns the path of its next change.
func (b *bench) watchFiles(id, query string) (next func() string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.server.URL+"/v1/vms/"+id+"/watch-files"+query, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+b.admin)
	resp, err := http.DefaultTransport.RoundTrip(r) // returns: the headers are flushed at once
	if err != nil || resp.StatusCode != http.StatusOK {
		b.t.Fatalf("the watch does not begin: %v %v", resp, err)
	}
	b.t.Cleanup(func() { resp.Body.Close() })
	lines := bufio.NewScanner(resp.Body)
	return func() string {
		var e struct{ EventType, Filename string }
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &e) != nil || e.EventType == "" {
			b.t.Errorf("the watch's line %q is no event: %v", lines.Text(), lines.Err())
		}
		return e.Filename
	}
}

// TestContractWatch needs neither body nor parameters: the working directory is
// watched, which is the home where the VM has none.
func TestContractWatch(t *testing.T) {
	b := newBench(t)
	for want, body := range map[string]map[string]any{"/root/here": nil, "/work/here": {"workdir": "/work"}} {
		id := b.create(body)
		next := b.watchFiles(id, "")
		b.do("PUT", "/v1/vms/"+id+"/files/"+url.PathEscape(want), `{"content":"x"}`)
		if got := next(); got != want {
			t.Errorf("%q, want %s", got, want)
		}
	}
}

// TestWatchPaths: several paths are one stream, and a relative one begins at the
// working directory.
func TestWatchPaths(t *testing.T) {
	b := newBench(t)
	id := b.create(map[string]any{"workdir": "/work"})
	b.do("PUT", "/v1/vms/"+id+"/files/sub%2Fold", `{"content":"x"}`)
	next := b.watchFiles(id, "?path=sub&path=/etc")
	for _, name := range []string{"/work/sub/a", "/etc/b", "/work/sub/c"} {
		b.do("PUT", "/v1/vms/"+id+"/files/"+url.PathEscape(name), `{"content":"x"}`)
		if got := next(); got != name {
			t.Errorf("%q, want %s", got, name)
		}
	}
	many := "?" + strings.Repeat("path=/etc&", maxWatched+1)
	if a := b.do("POST", "/v1/vms/"+id+"/watch-files"+many, nil); a.status != http.StatusBadRequest {
		t.Errorf("%d paths: %d", maxWatched+1, a.status)
	}
	if a := b.do("POST", "/v1/vms/"+id+"/watch-files?path=/etc&path=/none", nil); a.status != http.StatusNotFound {
		t.Errorf("a path that is not there: %d", a.status)
	}
}
