// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package powercut_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/powercut"
)

// operation is something that is durable when it returns. It runs in a process
// of its own, which is killed at the cut.
type operation struct {
	name   string
	before func(dir layout.Dir) error // what is there for long
	do     func(dir layout.Dir) error
	check  func(dir layout.Dir) error // what do promised is there; dir may be changed
	// whole, where not nil, holds at each sync of do, too: the files are those
	// from before or those from after.
	whole func(dir layout.Dir) error
	// renames says that whole also holds at each change of a name.
	renames bool
	// spare names files whose sync the promise does not need, each with why.
	spare map[string]string
	// each says that each sync of a file that is synced more than once is needed,
	// not only one of them.
	each bool
	// coarse says that the syncs are those of a database, whose order nobody
	// here knows: without any of them the promise is broken.
	coarse bool
}

func TestMain(m *testing.M) {
	if name := os.Getenv("POWERCUT_DO"); name != "" {
		if err := child(name, layout.Dir(os.Getenv("POWERCUT_DIR"))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if dir := os.Getenv("POWERCUT_STORED"); dir != "" {
		if err := stored(layout.Dir(dir)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if dir := os.Getenv("POWERCUT_RESTORED"); dir != "" {
		if err := restored(layout.Dir(dir)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// elsewhere is stored in a process of its own.
func elsewhere(dir layout.Dir) error { return another("POWERCUT_STORED=" + string(dir)) }

// another is a process of its own with a variable that says what it does.
func another(env string) error {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), env)
	out, err := cmd.CombinedOutput()
	if err != nil {
		line, _, _ := strings.Cut(string(out), "\n")
		return fmt.Errorf("%w: %s", err, line)
	}
	return nil
}

// child is the process of one operation: a line of input starts each part, a
// line of output tells its end.
func child(name string, dir layout.Dir) error {
	i := slices.IndexFunc(operations, func(o operation) bool { return o.name == name })
	in := bufio.NewReader(os.Stdin)
	for _, part := range []func(layout.Dir) error{operations[i].before, operations[i].do} {
		if _, err := in.ReadString('\n'); err != nil {
			return err
		}
		if part != nil {
			if err := part(dir); err != nil {
				return err
			}
		}
		fmt.Println("done")
	}
	_, err := in.ReadString('\n')
	return err
}

// TestDurable does each operation, cuts the power, and looks. Then it does the
// operation again with each of its syncs left out, and wants that to be seen:
// an fsync that nothing here misses could go, and one that goes is missed here.
func TestDurable(t *testing.T) {
	for _, o := range operations {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			syncs, problem := o.run(t, nil)
			if problem != nil {
				t.Fatalf("the operation failed: %v", problem)
			}
			t.Logf("%d syncs", len(syncs))
			if o.coarse {
				o.wantMissed(t, "all", func(int, int) bool { return true })
				return
			}
			var seen fileNumbers
			times := map[int]int{}
			for _, s := range syncs {
				times[seen.of(s)]++
			}
			done := map[int]bool{}
			for n, s := range syncs {
				file := seen.of(s)
				if o.spare[label(syncs, n)] != "" {
					continue
				}
				if !done[file] {
					o.wantMissed(t, label(syncs, n), func(_, f int) bool { return f == file })
				}
				done[file] = true
				if o.each && times[file] > 1 {
					o.wantMissed(t, fmt.Sprintf("%s (sync %d)", label(syncs, n), n), func(i, _ int) bool { return i == n })
				}
			}
		})
	}
}

// fileNumbers numbers files in the order in which they are synced first: what
// comes before may make a file more or fewer each time.
type fileNumbers []uint64

func (f *fileNumbers) of(s powercut.Sync) int {
	if i := slices.Index(*f, s.File); i >= 0 {
		return i
	}
	*f = append(*f, s.File)
	return len(*f) - 1
}

// label is the path of a sync; temporary names are numbered.
func label(syncs []powercut.Sync, n int) string {
	path := syncs[n].Path
	if !layout.IsTemp(filepath.Base(path)) {
		return path
	}
	before := map[uint64]bool{}
	for _, s := range syncs[:n] {
		if s.File != syncs[n].File && layout.IsTemp(filepath.Base(s.Path)) {
			before[s.File] = true
		}
	}
	return filepath.Join(filepath.Dir(path), fmt.Sprintf(".tmp%d", len(before)+1))
}

// wantMissed wants a problem without some syncs.
func (o operation) wantMissed(t *testing.T, what string, without func(n, file int) bool) {
	t.Helper()
	if _, problem := o.run(t, without); problem == nil {
		t.Errorf("nobody misses the sync of %s", what)
	} else {
		t.Logf("without the sync of %s: %v", what, problem)
	}
}

// run does the operation on a disk of its own and says what is wrong after a
// cut. without says of each sync of do, by its number and its file's, whether it
// is left out.
func (o operation) run(t *testing.T, without func(n, file int) bool) (syncs []powercut.Sync, problem error) {
	d := powercut.Mount(t)
	c := startChild(t, o.name, d.Dir)
	defer c.end() // the cut
	c.part(t)
	d.SyncAll()
	begin := len(d.Syncs())
	if without != nil {
		var files fileNumbers
		d.Ignore(func(n int, s powercut.Sync) bool { return n >= begin && without(n-begin, files.of(s)) })
	}
	if o.whole != nil {
		d.BeforeSync(func(path string) {
			problem = errors.Join(problem, o.look(t, d, "before the sync of "+path, o.whole))
		})
	}
	if o.renames {
		d.BeforeRename(func(path string) {
			problem = errors.Join(problem, o.look(t, d, "before the name "+path+" changes", o.whole))
		})
	}
	c.part(t)
	d.BeforeSync(nil)
	d.BeforeRename(nil)
	return d.Syncs()[begin:], errors.Join(problem, o.look(t, d, "at the end", o.check))
}

// process is the child of one operation.
type process struct {
	cmd    *exec.Cmd
	in     io.Writer
	out    *bufio.Reader
	stderr bytes.Buffer
}

// startChild starts the process of an operation, which ends with the test.
func startChild(t *testing.T, name, dir string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), "POWERCUT_DO="+name, "POWERCUT_DIR="+dir)
	p.cmd.Stderr = &p.stderr
	in, err := p.cmd.StdinPipe()
	must(t, err)
	out, err := p.cmd.StdoutPipe()
	must(t, err)
	p.in, p.out = in, bufio.NewReader(out)
	must(t, p.cmd.Start())
	t.Cleanup(p.end)
	return p
}

// part has the process do the next part of the operation.
func (p *process) part(t *testing.T) {
	t.Helper()
	_, err := p.in.Write([]byte("\n"))
	must(t, err)
	if _, err := p.out.ReadString('\n'); err != nil {
		p.end()
		t.Fatalf("the process ended: %v: %s", err, p.stderr.Bytes())
	}
}

func (p *process) end() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // it was killed, or says why in stderr
}

// look applies a check to what each cut leaves.
func (o operation) look(t *testing.T, d *powercut.Disk, when string, check func(layout.Dir) error) (problem error) {
	for _, l := range powercut.Losses {
		if err := check(layout.Dir(d.Cut(t, l))); err != nil {
			problem = errors.Join(problem, fmt.Errorf("a cut %s, %s: %w", when, l, err))
		}
	}
	return problem
}
