// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// edit changes a file of a log.
func edit(t *testing.T, name string, damage func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, damage(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

func editLines(f func([][]byte) [][]byte) func([]byte) []byte {
	return func(data []byte) []byte {
		lines := bytes.SplitAfter(data, []byte("\n"))
		return bytes.Join(f(lines[:len(lines)-1]), nil)
	}
}

// forge changes a record and gives the line the hash that it then should have.
func forge(raw []byte, f func(*line)) []byte {
	_, record, err := split(bytes.TrimSuffix(raw, []byte("\n")))
	if err != nil {
		panic(err)
	}
	var ln line
	if err := json.Unmarshal(record, &ln); err != nil {
		panic(err)
	}
	f(&ln)
	out, _, err := appendLine(nil, &ln)
	if err != nil {
		panic(err)
	}
	return out
}

// TestTampering: what somebody does to the files is found, and where.
func TestTampering(t *testing.T) {
	remove := func(dir, name string) {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	inLog := func(f func([][]byte) [][]byte) func(string) {
		return func(dir string) { edit(t, filepath.Join(dir, segmentName(0)), editLines(f)) }
	}
	cases := []struct {
		name   string
		damage func(dir string)
		want   string
	}{
		{"changed", inLog(func(l [][]byte) [][]byte {
			l[4] = bytes.Replace(l[4], []byte(`"box"`), []byte(`"bax"`), 1)
			return l
		}), "record 5 was changed"},
		{"changed and hashed again", inLog(func(l [][]byte) [][]byte {
			l[4] = forge(l[4], func(ln *line) { ln.Subject = "bax" })
			return l
		}), "record 6 does not belong to the record before it"},
		{"last one changed and hashed again", inLog(func(l [][]byte) [][]byte {
			l[9] = forge(l[9], func(ln *line) { ln.Subject = "bax" })
			return l
		}), "record 10 is not the one that was signed"},
		{"removed", inLog(func(l [][]byte) [][]byte { return append(l[:4:4], l[5:]...) }), "record 5 is missing: record 6 is in its place"},
		{"first removed", inLog(func(l [][]byte) [][]byte { return l[1:] }), "record 1 is missing: record 2 is in its place"},
		{"put in", inLog(func(l [][]byte) [][]byte { return append(l[:4:4], append([][]byte{l[2]}, l[4:]...)...) }), "record 5 is not here: a line with the number 3"},
		{"reordered", inLog(func(l [][]byte) [][]byte { l[4], l[5] = l[5], l[4]; return l }), "record 5 is missing: record 6 is in its place"},
		{"no record", inLog(func(l [][]byte) [][]byte { l[4] = []byte("hello\n"); return l }), "record 5 is not a record"},
		{"empty line", inLog(func(l [][]byte) [][]byte { l[4] = []byte("\n"); return l }), "record 5 is not a record"},
		{"cut tail", inLog(func(l [][]byte) [][]byte { return l[:6] }), "the tail is cut: record 10 was signed, but the last one is 6"},
		{"cut in a line", inLog(func(l [][]byte) [][]byte { l[9] = l[9][:40]; return l }), "the tail is cut: record 10 was signed, but the last one is 9"},
		{"emptied", inLog(func([][]byte) [][]byte { return nil }), "the tail is cut: record 10 was signed, but the last one is 0"},
		{"log removed", func(dir string) { remove(dir, segmentName(0)) }, "the tail is cut"},
		{"signature changed", func(dir string) {
			edit(t, filepath.Join(dir, anchorsFile), func(b []byte) []byte { return bytes.Replace(b, []byte(`"seq":10`), []byte(`"seq":9`), 1) })
		}, "the signature of record 9 is wrong"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			l := mustOpen(t, dir)
			for range 10 {
				begin(t, l, vm.OpExec, "one")
			}
			mustClose(t, l)
			whole(t, dir, 10)
			c.damage(dir)
			r, err := Verify(dir, "", Head{})
			if err != nil || !strings.Contains(r.Problem, c.want) {
				t.Errorf("the damaged log's verification gives %+v (%v), want the problem %q", r, err, c.want)
			}
			l, err = Open(t.Context(), dir, Options{})
			if !errors.Is(err, vm.Corrupt) || vm.AsError(err).Hint == "" {
				t.Errorf("open: %v", err)
			}
			if err == nil {
				mustClose(t, l)
			}
		})
	}
}

// TestTamperingOfHistory: what is done to segments and signatures that a start
// does not read is found by Verify.
func TestTamperingOfHistory(t *testing.T) {
	cases := []struct {
		name   string
		damage func(t *testing.T, dir string)
		want   string
	}{
		{"old record changed", func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, segmentName(1)), func(b []byte) []byte { return bytes.Replace(b, []byte(`"box"`), []byte(`"bax"`), 1) })
		}, "000001.jsonl: record"},
		{"segment removed", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, segmentName(2))); err != nil {
				t.Fatal(err)
			}
		}, "000002.jsonl: the segment is missing"},
		{"end of a segment cut", func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, segmentName(1)), func(b []byte) []byte { return b[:len(b)-20] })
		}, "000001.jsonl: it ends in the middle of record"},
		{"last record of a segment removed", func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, segmentName(1)), editLines(func(l [][]byte) [][]byte { return l[:len(l)-1] }))
		}, "000002.jsonl: record"},
		{"signatures removed", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, anchorsFile)); err != nil {
				t.Fatal(err)
			}
		}, "signatures were removed, or the log is a forgery"},
		{"signatures in between removed", func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, anchorsFile), editLines(func(l [][]byte) [][]byte { return [][]byte{l[0], l[len(l)-1]} }))
		}, "are not signed: signatures were removed"},
	}
	origin := t.TempDir()
	l := mustOpenSized(t, origin, 300<<10)
	for i := range 30 { // the writer signs at least every anchorEvery lines and at Sync
		for range maxGap / 20 {
			l.queueForTest("box")
		}
		if err := l.Sync(); err != nil {
			t.Fatalf("sync number %d failed: %v", i, err)
		}
	}
	mustClose(t, l)
	whole(t, origin, -1)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "audit")
			if err := os.CopyFS(dir, os.DirFS(origin)); err != nil {
				t.Fatal(err)
			}
			c.damage(t, dir)
			if r, err := Verify(dir, "", Head{}); err != nil || !strings.Contains(r.Problem, c.want) {
				t.Errorf("the damaged log's verification gives %+v (%v), want the problem %q", r, err, c.want)
			}
		})
	}
}

// TestLongLine: a line that is longer than a log writes is a change, whatever reads it, and
// costs no more memory than a line may have.
func TestLongLine(t *testing.T) {
	dir := t.TempDir()
	l := mustOpen(t, dir)
	begin(t, l, vm.OpExec, "one")
	mustClose(t, l)
	long := bytes.Repeat([]byte("x"), 64<<20)
	for _, name := range []string{segmentName(0), anchorsFile} {
		changed := copied(t, dir)
		edit(t, filepath.Join(changed, name), func(b []byte) []byte { return append(b, append(long, '\n')...) })
		broken(t, changed, CodeChanged, "is longer than 1 MiB", Head{})
		if _, err := Open(t.Context(), changed, Options{}); vm.KindOf(err) != vm.Corrupt || !strings.Contains(err.Error(), "is longer than 1 MiB") {
			t.Errorf("with a long line in %s, the log opens with %v, want that", name, err)
		}
		var began, ended runtime.MemStats
		runtime.ReadMemStats(&began)
		_, err := backward(filepath.Join(changed, name), -1, func([]byte) error { return nil })
		runtime.ReadMemStats(&ended)
		if used := ended.TotalAlloc - began.TotalAlloc; !errors.Is(err, errLong) || used > 32<<20 {
			t.Errorf("%s is read backwards with %v and %d MiB, want that a line is too long, and little memory", name, err, used>>20)
		}
	}
}

// TestManyOpen: the first line of a segment names the open actions. With so many that no
// reader would take it, the segment before grows.
func TestManyOpen(t *testing.T) {
	dir := t.TempDir()
	l := mustOpenSized(t, dir, 2<<10)
	l.mu.Lock()
	for range maxOpen + 10 {
		id := vm.NewReceiptID()
		l.pending[id] = &Record{ID: id}
	}
	l.mu.Unlock()
	for range 20 {
		begin(t, l, vm.OpExec, "one")
	}
	if found, err := segments(dir); err != nil || len(found) != 1 {
		t.Errorf("with %d open actions, the log has the segments %v (%v), want one", maxOpen, found, err)
	}
	l.mu.Lock()
	for id := range l.pending {
		if len(l.pending) < maxOpen {
			break
		}
		delete(l.pending, id)
	}
	l.mu.Unlock()
	begin(t, l, vm.OpExec, "one")
	if found, err := segments(dir); err != nil || len(found) != 2 {
		t.Errorf("with fewer open actions, the log has the segments %v (%v), want two", found, err)
	}
	mustClose(t, l)
	whole(t, dir, -1)
}

// queueForTest puts a line into the queue without waiting for the disk.
func (l *Log) queueForTest(subject string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endLocked(Entry{Op: vm.OpExec}, "rc-none", nil, nil)
	l.queue[len(l.queue)-1].Subject = subject
}

// TestForgedAnchors: a chain that was rewritten as a whole needs the key.
func TestForgedAnchors(t *testing.T) {
	dir, forged := t.TempDir(), t.TempDir()
	for i, d := range []string{dir, forged} {
		l := mustOpen(t, d)
		for range 3 + i {
			begin(t, l, vm.OpExec, "one")
		}
		mustClose(t, l)
	}
	pub, err := os.ReadFile(filepath.Join(dir, publicFile))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := Verify(forged, string(pub), Head{}); err != nil || r.Code != CodeForeign || r.Fix == "" {
		t.Errorf("the forged log's verification gives %+v (%v), want code %s and what to do", r, err, CodeForeign)
	}
	if r, err := Verify(dir, string(pub), Head{}); err != nil || r.Problem != "" {
		t.Errorf("the genuine log's verification gives %+v (%v), want no problem", r, err)
	}
	if _, err := Verify(dir, "abc", Head{}); !errors.Is(err, vm.Invalid) {
		t.Errorf("a wrong key: %v", err)
	}
	if _, err := Verify(t.TempDir(), "", Head{}); !errors.Is(err, vm.NotFound) {
		t.Errorf("no log: %v", err)
	}
	if st, err := os.Stat(filepath.Join(dir, keyFile)); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("key file: %v, %v", st.Mode(), err)
	}
}

// TestVerifyWhileOpen: a log can be verified while it is written to.
func TestVerifyWhileOpen(t *testing.T) {
	dir := t.TempDir()
	l := mustOpenSized(t, dir, 20<<10)
	begin(t, l, vm.OpExec, "one")
	if err := l.Sync(); err != nil { // before the first signature, it is no log of this key
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 500 {
			begin(t, l, vm.OpExec, "one")
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		whole(t, dir, -1)
	}
	mustClose(t, l)
	whole(t, dir, -1)
}

// FuzzParse: no line makes the reader fail otherwise than by an error, and what
// it accepts is what was written.
func FuzzParse(f *testing.F) {
	ln := line{Seq: 1, Prev: genesis, ID: "rc-x", Phase: Begin, Subject: "box"}
	raw, _, err := appendLine(nil, &ln)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw[:len(raw)-1])
	f.Add([]byte(lineHead))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		ln, hash, err := parse(raw)
		if err == nil && !bytes.Contains(raw, []byte(hash)) {
			t.Errorf("%q gave %+v", raw, ln)
		}
	})
}
