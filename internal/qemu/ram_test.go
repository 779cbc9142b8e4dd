// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package qemu

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// A fake machine is this test program, started again to map a memory file
// privately and to write what it is told to: "off n value" fills n pages from
// off on, and value -1 only reads them.
const fakeMachine = "WARREN_TEST_FAKE_MACHINE"

func TestMain(m *testing.M) {
	if path := os.Getenv(fakeMachine); path != "" {
		if err := beMachine(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 2 && os.Args[1] == "-name" {
		os.Exit(beProbe(os.Args))
	}
	os.Exit(m.Run())
}

func beMachine(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil {
		return err
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, int(st.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return err
	}
	seen := byte(0)
	for {
		var off, n, value int
		switch _, err := fmt.Scanln(&off, &n, &value); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		for i := off; i < off+n*page; i += page {
			if value < 0 {
				seen ^= mem[i]
				continue
			}
			copy(mem[i:i+page], bytes.Repeat([]byte{byte(value)}, page))
		}
		fmt.Println("ok", seen)
	}
}

type fake struct {
	tb   testing.TB
	cmd  *exec.Cmd
	in   io.Writer
	out  *bufio.Reader
	base string
	size int64
}

func startFake(tb testing.TB, base string) *fake {
	tb.Helper()
	st, err := os.Stat(base)
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fakeMachine+"="+base)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	f := &fake{tb: tb, cmd: cmd, in: in, out: bufio.NewReader(out), base: base, size: st.Size()}
	tb.Cleanup(f.kill)
	f.touch(0, 0, 0) // it has mapped the file
	return f
}

func (f *fake) kill() {
	_ = f.cmd.Process.Kill() // gone already at the second call
	_ = f.cmd.Wait()
}

func (f *fake) touch(page0, pages int64, value int) {
	f.tb.Helper()
	if _, err := fmt.Fprintln(f.in, page0*page, pages, value); err != nil {
		f.tb.Fatal(err)
	}
	if line, err := f.out.ReadString('\n'); err != nil || !strings.HasPrefix(line, "ok") {
		f.tb.Fatal(line, err)
	}
}

func (f *fake) memory() *memory {
	f.tb.Helper()
	m, err := openMemory(f.cmd.Process.Pid, f.base, f.size)
	if err != nil {
		f.tb.Fatal(err)
	}
	f.tb.Cleanup(m.close)
	return m
}

// baseFile is a memory file with data in places, a page of zeros among it.
func baseFile(t *testing.T, size int64) string {
	return sparse(t, size, map[int64][]byte{
		0:              bytes.Repeat([]byte{1}, 100*page),
		3 << 20:        bytes.Repeat([]byte{2}, 1<<20),
		size - 64*page: append(bytes.Repeat([]byte{3}, 32*page), make([]byte, 32*page)...),
	})
}

// Both ways to find the private pages find the same: what was written, and not
// what was only read, be it data or a hole.
func TestPrivatePages(t *testing.T) {
	const size = 64 << 20
	f := startFake(t, baseFile(t, size))
	m := f.memory()
	check := func(want ...run) {
		t.Helper()
		read, err := m.readPrivate()
		if err != nil {
			t.Fatal(err)
		}
		differ(t, "read", read, want)
		if !m.scan {
			t.Log("no PAGEMAP_SCAN here")
			return
		}
		scanned, err := m.scanPrivate()
		if err != nil {
			t.Fatal(err)
		}
		differ(t, "scanned", scanned, want)
	}
	check()
	f.touch(0, size/page, -1)
	check()
	f.touch(0, 1, 7)
	f.touch(10, 3, 0)
	f.touch(5000, 130, 9)
	f.touch(size/page-1, 1, 9)
	want := []run{{0, page}, {10 * page, 3 * page}, {5000 * page, piece}, {5000*page + piece, piece}, {5000*page + 2*piece, 2 * page}, {size - page, page}}
	check(want...)
	var every []run // more regions than one call takes
	f.touch(0, 5200, -1)
	for i := int64(6000); i < 16000; i += 2 {
		every = append(every, run{i * page, page})
		f.touch(i, 1, 4)
	}
	check(slices.Concat(want[:5], every, want[5:])...)
}

func differ(t *testing.T, how string, got, want []run) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Errorf("%s: %d ranges, want %d; from %d on %v, want %v", how, len(got), len(want), i, got[i:min(i+3, len(got))], want[i:min(i+3, len(want))])
			return
		}
	}
}

// What the process sees is what the file holds, whatever was there before.
func TestCopyPrivate(t *testing.T) {
	const size = 32 << 20
	f := startFake(t, baseFile(t, size))
	m := f.memory()
	out := filepath.Join(t.TempDir(), "ram")
	r, err := createRAM(t.Context(), out, f.base, size)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	same(t, out, f.base)
	rnd := rand.New(rand.NewSource(1))
	for range 300 {
		f.touch(rnd.Int63n(size/page-20), rnd.Int63n(20), rnd.Intn(5))
	}
	for range 2 {
		if n, err := m.copyPrivate(t.Context(), r, nil); err != nil || n == 0 {
			t.Fatal(n, err)
		}
		same(t, out, fmt.Sprintf("/proc/%d/mem", m.pid), m.start)
		f.touch(0, 200, 0) // between the passes
		f.touch(4000, 100, 6)
	}
	if _, err := m.copyPrivate(t.Context(), r, nil); err != nil {
		t.Fatal(err)
	}
	before := r.dataBytes()
	same(t, out, fmt.Sprintf("/proc/%d/mem", m.pid), m.start)
	if _, err := m.copyPrivate(t.Context(), r, nil); err != nil || r.dataBytes() != before || before > size/2 {
		t.Errorf("%d bytes of data, then %d, %v", before, r.dataBytes(), err)
	}
	m.scan = false // the old way copies the same
	old := filepath.Join(t.TempDir(), "ram")
	r2, err := createRAM(t.Context(), old, f.base, size)
	if err != nil {
		t.Fatal(err)
	}
	defer r2.close()
	if _, err := m.copyPrivate(t.Context(), r2, nil); err != nil {
		t.Fatal(err)
	}
	same(t, old, out)
}

// same compares a file with another, which may begin at an offset.
func same(t *testing.T, path, with string, at ...int64) {
	t.Helper()
	a, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	g, err := os.Open(with)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	b := make([]byte, len(a))
	if _, err := g.ReadAt(b, append(at, 0)[0]); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(a); i += page {
		if !bytes.Equal(a[i:i+page], b[i:i+page]) {
			t.Fatalf("%s and %s differ in page %d: %d, %d", path, with, i/page, a[i], b[i])
		}
	}
}

// Memory of a process that has gone is an error, never an empty copy.
func TestCopyOfTheDead(t *testing.T) {
	f := startFake(t, baseFile(t, 32<<20))
	m := f.memory()
	f.touch(0, 100, 9)
	r, err := createRAM(t.Context(), filepath.Join(t.TempDir(), "ram"), f.base, f.size)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.copyPrivate(ctx, r, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	runs, err := m.private()
	if err != nil || len(runs) == 0 {
		t.Fatal(runs, err)
	}
	f.kill()
	for _, m.scan = range []bool{true, false} {
		if runs, err := m.private(); err == nil {
			t.Errorf("scan %v: the dead has the pages %v", m.scan, runs)
		}
		if _, err := m.copyPrivate(t.Context(), r, nil); err == nil {
			t.Errorf("scan %v: copied", m.scan)
		}
	}
	if err := m.read(runs, make([]byte, piece)); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("read of the dead: %v", err)
	}
}

// While QEMU needs a processor one copier works; another begins when it is done.
func TestShareLeavesAProcessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 20
		free := make(chan struct{})
		var now, early, late atomic.Int64
		err := share(t.Context(), n, free, func(i int, _ []byte) error {
			most := &early
			if i > n/2 {
				most = &late
			}
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(time.Millisecond)
			now.Add(-1)
			if i == n/2 {
				close(free)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		if early.Load() != 1 {
			t.Errorf("%d copiers while there is one processor", early.Load())
		}
		if late.Load() != copyWays {
			t.Errorf("%d copiers afterwards", late.Load())
		}
	})
}

// A page of the new file that the disk does not give back is an error.
func TestUnreadablePage(t *testing.T) {
	f := startFake(t, baseFile(t, 32<<20))
	f.touch(0, 100, 9)
	r, err := createRAM(t.Context(), filepath.Join(t.TempDir(), "ram"), f.base, f.size)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	if err := r.file.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if _, err := f.memory().copyPrivate(t.Context(), r, nil); err == nil || !strings.Contains(err.Error(), "read back") {
		t.Errorf("copying memory that cannot be read back: %v, want an error", err)
	}
}

// A running QEMU, too, has the same private pages by both ways.
func TestPrivatePagesOfQEMU(t *testing.T) {
	ctx := deadline(t)
	p := spawn(ctx, t, newSpec(t))
	counting(ctx, t, p, 0)
	if err := p.QMP.Execute(ctx, "stop", nil, nil); err != nil {
		t.Fatal(err)
	}
	m, err := openMemory(p.Ident.PID, RAMPath(p.Spec), int64(p.Spec.Size.MemoryMiB)<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer m.close()
	if !m.scan {
		t.Skip("no PAGEMAP_SCAN here")
	}
	read, err := m.readPrivate()
	if err != nil {
		t.Fatal(err)
	}
	scanned, err := m.scanPrivate()
	if err != nil || len(read) == 0 {
		t.Fatal(len(read), err)
	}
	differ(t, "scanned", scanned, read)
}
