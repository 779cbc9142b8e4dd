// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/internal/httpd"
	"github.com/warren-vm/warren/internal/vmtest"
	"github.com/warren-vm/warren/vm"
)

// simulated is the command line against the real API over a simulated host,
// with a VM "box" whose working directory is /work.
type simulated struct {
	t     *testing.T
	env   map[string]string
	c     *client.Client
	world *vmtest.World
}

func newSimulated(t *testing.T) *simulated {
	t.Helper()
	site, err := vmtest.NewSite(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	img := vmtest.NewImage("base")
	img.Workdir = "/work"
	site.World.RemoveImages()
	site.World.AddImage(img)
	e, err := site.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, secret, err := vmtest.Admin(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	lifetime, end := context.WithCancel(context.Background())
	h := httpd.New(httpd.Config{House: e.Rooms, Log: slog.New(slog.DiscardHandler), Lifetime: lifetime})
	server := httptest.NewServer(h)
	s := &simulated{t: t, env: map[string]string{"WARREN_API_URL": server.URL, "WARREN_API_KEY": secret}, c: client.New(server.URL, secret), world: site.World}
	t.Cleanup(func() {
		end()
		s.c.Close()
		server.Close()
		h.Wait()
		if err := e.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.c.Create(t.Context(), api.CreateVM{Name: "box"}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *simulated) run(list ...string) ran {
	s.t.Helper()
	return runEnv(s.t, s.env, Local{}, "", list...)
}

func (s *simulated) ok(list ...string) ran {
	s.t.Helper()
	r := s.run(list...)
	if r.code != 0 {
		s.t.Fatalf("%q failed: %+v", list, r)
	}
	return r
}

// write makes files of this host: content by path.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, data := range files {
		p := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(data), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// files are the regular files below dir: content by path.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := tree(t, dir)
	maps.DeleteFunc(out, func(_, what string) bool { return !strings.HasPrefix(what, "file ") })
	for name := range out {
		out[name] = strings.TrimPrefix(out[name], "file ")
	}
	return out
}

// guestFiles are the regular files below a directory of the guest.
func (s *simulated) guestFiles(dir string) map[string]string {
	s.t.Helper()
	to := filepath.Join(s.t.TempDir(), "guest")
	s.ok("cp", "-r", "box:"+dir, to)
	return files(s.t, to)
}

func same(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// TestCopyTree: cp -r has the same rules in both directions: the destination
// of the copy, and that an existing directory keeps its files.
func TestCopyTree(t *testing.T) {
	for _, tc := range []struct {
		name     string
		there    bool // dst is a directory, with a file of its own and one that the tree has too
		src, dst string
		want     map[string]string // below dst
	}{
		{"new", false, "src", "dst", map[string]string{"f": "new", "sub/g": "new"}},
		{"new, slashes", false, "src/", "dst/", map[string]string{"f": "new", "sub/g": "new"}},
		{"new, what is in it", false, "src/.", "dst", map[string]string{"f": "new", "sub/g": "new"}},
		{"there", true, "src", "dst", map[string]string{"f": "old", "own": "old", "src/f": "new", "src/sub/g": "new"}},
		{"there, slashes", true, "src/", "dst/", map[string]string{"f": "old", "own": "old", "src/f": "new", "src/sub/g": "new"}},
		{"there, what is in it", true, "src/.", "dst", map[string]string{"f": "new", "own": "old", "sub/g": "new"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, dir := newSimulated(t), t.TempDir()
			t.Chdir(dir)
			write(t, dir, map[string]string{"src/f": "new", "src/sub/g": "new"})
			old := map[string]string{"f": "old", "own": "old"}
			if tc.there {
				write(t, dir+"/old", old)
				s.ok("cp", "-r", "old", "box:dst")
			}
			s.ok("cp", "-r", tc.src, "box:"+tc.dst)
			same(t, "in", s.guestFiles("dst"), tc.want)

			s.ok("cp", "-r", "src", "box:")
			if tc.there {
				write(t, dir+"/dst", old)
			}
			s.ok("cp", "-r", "box:"+tc.src, tc.dst)
			same(t, "out", files(t, dir+"/dst"), tc.want)
		})
	}
}

// TestCopyTwice: the same tree again replaces its files and removes none, both
// ways.
func TestCopyTwice(t *testing.T) {
	s, dir := newSimulated(t), t.TempDir()
	t.Chdir(dir)
	write(t, dir, map[string]string{"src/d/f": "1", "src/d/gone": "1"})
	s.ok("cp", "-r", "src", "box:")
	s.ok("cp", "-r", "src", "box:")
	s.ok("cp", "-r", "box:src", "out")
	write(t, dir, map[string]string{"src/d/f": "2", "src/d/more": "2"})
	if err := os.Remove("src/d/gone"); err != nil {
		t.Fatal(err)
	}
	s.ok("cp", "-r", "src", "box:")
	want := map[string]string{"d/f": "2", "d/gone": "1", "d/more": "2"}
	same(t, "in", s.guestFiles("src"), want)
	s.ok("fs", "rm", "box:src/d/gone")
	s.ok("cp", "-r", "box:src/.", "out")
	same(t, "out", files(t, dir+"/out"), want)
}

// TestMergeRefuses: what is there and of another kind stops a copy before any
// of it is moved; a symlink that is there is replaced or refused, never followed.
//
// 003-24
func TestMergeRefuses(t *testing.T) {
	data := archive(t, dir("."), file("a", "new"), dir("d"), file("d/f", "new"))
	for name, prepare := range map[string]func(out, outside string) error{
		"a directory in the place of a file": func(out, _ string) error { return os.MkdirAll(out+"/a", 0o755) },
		"a file in the place of a directory": func(out, _ string) error { return os.WriteFile(out+"/d", []byte("old"), 0o644) },
		"a link in the place of a directory": func(out, outside string) error { return os.Symlink(outside, out+"/d") },
		"a pipe in the place of a file": func(out, _ string) error {
			return errors.Join(os.Mkdir(out+"/d", 0o755), syscall.Mkfifo(out+"/d/f", 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			outside, dest := arena(t)
			out := outside + "/dest/out"
			if err := errors.Join(os.Mkdir(out, 0o755), prepare(out, outside)); err != nil {
				t.Fatal(err)
			}
			before := names(t, outside)
			err := extractTar(bytes.NewReader(data), dest, "out", 0, newTransfer())
			if !errors.Is(err, vm.Exists) || vm.AsError(err).Hint == "" {
				t.Errorf("extracting over what is there: %v, want exists with a hint", err)
			}
			if got := names(t, outside); got != before {
				t.Errorf("changed to %s from %s", got, before)
			}
		})
	}
	outside, dest := arena(t)
	if err := errors.Join(os.Mkdir(outside+"/dest/out", 0o755), os.Symlink("../../secret", outside+"/dest/out/a")); err != nil {
		t.Fatal(err)
	}
	if err := extractTar(bytes.NewReader(data), dest, "out", 0, newTransfer()); err != nil {
		t.Error(err)
	}
	same(t, "a link in the place of a file", files(t, outside),
		map[string]string{"secret": "keep", "dest/neighbour": "keep", "dest/out/a": "new", "dest/out/d/f": "new"})
}

// names lists what is below dir, with kinds, without reading it.
func names(t *testing.T, dir string) string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil {
			out = append(out, p+" "+d.Type().String())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(out)
}

// TestCopyLinks: a tree is copied without the links that lead outside, in both
// directions, with a line for each of the first and exit status 0; --json counts
// all.
func TestCopyLinks(t *testing.T) {
	s, dir := newSimulated(t), t.TempDir()
	t.Chdir(dir)
	write(t, dir, map[string]string{"src/f": "x"})
	var links []string
	for i := range 7 {
		links = append(links, fmt.Sprint("out", i))
		if err := os.Symlink("../../secret", dir+"/src/"+links[i]); err != nil {
			t.Fatal(err)
		}
		if err := s.c.Symlink(t.Context(), "box", "", "/etc/passwd", "/tmp/"+links[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("f", dir+"/src/inside"); err != nil {
		t.Fatal(err)
	}
	for what, r := range map[string]ran{"in": s.ok("cp", "-r", "src", "box:dst"), "out": s.ok("cp", "-r", "box:/tmp", "got")} {
		if n := strings.Count(r.stderr, "\n"); n != maxLeftTold+1 || !strings.Contains(r.stderr, "left out: out0, a link that leads outside") ||
			!strings.Contains(r.stderr, "2 more") || r.out != "" {
			t.Errorf("%s: %d lines: %+v", what, n, r)
		}
	}
	s.ok("cp", "-r", "box:dst", "back")
	if got := fmt.Sprint(tree(t, dir+"/back")); got != fmt.Sprint(map[string]string{"f": "file x", "inside": "-> f"}) {
		t.Errorf("there and back: %s", got)
	}
	for _, list := range [][]string{{"src", "box:again"}, {"box:/tmp", "more"}} {
		var done copied
		r := s.ok("cp", "-r", "--json", list[0], list[1])
		if err := json.Unmarshal([]byte(r.out), &done); err != nil || done.From != list[0] || done.To != list[1] {
			t.Errorf("cp %q printed %q (%v), want both places", list, r.out, err)
		}
		if done.LeftOutCount != len(links) || len(done.LeftOut) != len(links) || done.LeftOut[0].Path != "out0" {
			t.Errorf("%v: left out %+v", list, done)
		}
	}
}

// TestCopyJSON: files and bytes of a copy, in both directions; --json is
// refused when the file goes to standard output.
func TestCopyJSON(t *testing.T) {
	s, dir := newSimulated(t), t.TempDir()
	t.Chdir(dir)
	write(t, dir, map[string]string{"src/f": "12345", "src/sub/g": "678"})
	for _, tc := range []struct {
		list  []string
		want  string
		bytes int64
		files int64
	}{
		{[]string{"src/f", "box:"}, "box:f", 5, 1},
		{[]string{"-r", "src", "box:tree"}, "box:tree", 8, 2},
		{[]string{"box:f", "."}, "f", 5, 1},
		{[]string{"-r", "box:tree", "back"}, "back", 8, 2},
		{[]string{"-r", "box:tree/.", "back"}, "back", 8, 2},
	} {
		var done copied
		r := s.ok(append([]string{"cp", "--json"}, tc.list...)...)
		if err := json.Unmarshal([]byte(r.out), &done); err != nil || done.To != tc.want || done.Bytes != tc.bytes || done.Files != tc.files {
			t.Errorf("cp %q copied %+v (%v), want %d bytes and %d files to %s", tc.list, done, err, tc.bytes, tc.files, tc.want)
		}
		if !strings.Contains(r.out, `"leftOut": []`) || r.stderr != "" {
			t.Errorf("cp %q: %+v, want nothing left out and an empty stderr", tc.list, r)
		}
	}
	s.run("cp", "--json", "box:f", "-").wants(t, 2, "--json")
}

// copyScreen is a terminal that says when it shows a part of a copy.
type copyScreen struct {
	bytes.Buffer
	once  sync.Once
	shown chan struct{}
}

func (s *copyScreen) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("32 KiB of ")) {
		s.once.Do(func() { close(s.shown) })
	}
	return s.Buffer.Write(p)
}

// TestCopyProgress: a copy that takes longer than a second shows bytes, total and rate
// on a terminal; the last line is the size. A pipe, or a terminal with -q, gets nothing.
func TestCopyProgress(t *testing.T) {
	const size = 64 << 10
	slow := func(w http.ResponseWriter, shown <-chan struct{}) {
		limit := 20 * time.Second
		if shown == nil {
			limit = progressAfter + 2*progressEvery // by then a line would be there
		}
		w.Header().Set(api.HeaderLength, fmt.Sprint(size))
		w.Header().Set("Trailer", api.HeaderDigest)
		_, _ = w.Write(make([]byte, size/2))
		w.(http.Flusher).Flush()
		select {
		case <-shown:
		case <-time.After(limit):
		}
		_, _ = w.Write(make([]byte, size/2))
		w.Header().Set(api.HeaderDigest, "de2f256064a0af797747c2b97505dc0b9f3df0de4f489eac731c23ae9ca9cc31")
	}
	for _, tc := range []struct {
		name       string
		tty, quiet bool
		want       bool
	}{{"a terminal", true, false, true}, {"a terminal, quiet", true, true, false}, {"a pipe", false, false, false}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.on("GET /v1/vms/box/fs/stat", vm.FileInfo{Name: "f", Path: "/f", Kind: vm.FileRegular, Mode: 0o644})
			errs := &copyScreen{shown: make(chan struct{})}
			shown := errs.shown
			if !tc.want {
				shown = nil
			}
			f.mux.HandleFunc("GET /v1/vms/box/raw/{path...}", func(w http.ResponseWriter, _ *http.Request) { slow(w, shown) })
			a := &app{io: &streams{out: io.Discard, err: errs, errTTY: tc.tty}}
			cp := copying{app: a, c: client.New(f.server.URL, "secret"), quiet: tc.quiet}
			to := filepath.Join(t.TempDir(), "f")
			done, err := cp.out(t.Context(), place{vm: "box", path: "/f"}, to)
			if err != nil || done.Bytes != size {
				t.Fatalf("copied %+v (%v), want %d bytes", done, err, size)
			}
			if !tc.want {
				if errs.Len() > 0 {
					t.Errorf("stderr has %q", errs)
				}
				return
			}
			if got := errs.String(); !strings.Contains(got, "32 KiB of 64 KiB, ") || !strings.Contains(got, "/s  box:/f to ") {
				t.Errorf("it shows %q", got)
			}
			if last := "\r\x1b[Kcopied 64 KiB to " + to + "\n"; !strings.HasSuffix(errs.String(), last) {
				t.Errorf("it ends with %q", errs)
			}
		})
	}
}

// TestCopyText: the text of the progress.
func TestCopyText(t *testing.T) {
	tr := newTransfer()
	tr.bytes.Store(3 << 20)
	if got := tr.progress(2 * time.Second); got != "3 MiB, 1.5 MiB/s" {
		t.Errorf("of unknown size: %q", got)
	}
	tr.size.Store(12 << 20)
	if got := tr.progress(2 * time.Second); got != "3 MiB of 12 MiB, 1.5 MiB/s" {
		t.Errorf("of known size: %q", got)
	}
	var errs bytes.Buffer
	p := &progress{io: &streams{err: &errs, errWidth: 20}, start: time.Now(), text: func() string { return "3 MiB of 12 MiB  a/long/name" }}
	p.show()
	if got := errs.String(); got != "\r\x1b[K3 MiB of 12 Mi…  0s" {
		t.Errorf("on a narrow terminal: %q", got)
	}
	if got := tr.progress(0); got != "3 MiB of 12 MiB" {
		t.Errorf("at the begin: %q", got)
	}
}

// TestCopyIsRemembered: `remains` names the copies of a VM's files, with their paths
// on this computer.
func TestCopyIsRemembered(t *testing.T) {
	s, dir := newSimulated(t), t.TempDir()
	t.Chdir(dir)
	write(t, dir, map[string]string{"f": "12345"})
	s.ok("cp", "f", "box:")
	s.ok("cp", "box:f", "a copy")
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	r := s.ok("stop", "box")
	if want := "f to " + host + ":" + filepath.Join(dir, "a copy"); !strings.Contains(r.out, want) {
		t.Errorf("stop lacks %q:\n%s", want, r.out)
	}
}
