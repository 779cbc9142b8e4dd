// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Command runtests runs the suites of `make test`, each within its budget of minutes, and prints
// one line at the end that counts passed, failed and skipped tests. It stores every test's last
// result, with the tested commit, for tools/requirements, and ends a full run with its report.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/warren-vm/warren/tools/results"
)

// suite is one part of `make test`.
type suite struct {
	name   string
	budget time.Duration
	steps  []step
	// pairs is set for a suite that runs beside another one: a test on a VM mostly waits for the one virtual
	// CPU of that VM, and the machine has two. The suites before it run alone.
	pairs bool
}

// step is one command of a suite. The tests of a gotest step (`go test -json`)
// are counted one by one; any other step counts as one test, by its exit status.
type step struct {
	name   string
	argv   []string
	gotest bool
	// waits: after its test calls t.Parallel, this step only waits, and the following
	// steps run meanwhile. The runner waits for its end after the last suite.
	waits bool
}

// The tests of test/system that belong to later suites, by their names.
const (
	worlds   = "^(TestWorld[A-Z]|TestPool)"
	forks    = "^TestWorlds"
	readme   = "^TestReadme$"
	images   = "^TestImages$"
	crashes  = "^(TestFullDisk|TestDiskFillsUp|TestGuestMeetsFullDisk|TestKilledIn[A-Z][a-z]+|TestMovedDataDirectory|TestPowerCut|TestHungMachine|TestArguments|TestSoak|TestChain)$"
	entering = "^(TestContract|TestCoreState|TestCoreService|TestCoreTerminal|TestTerminal|TestDiagnose|TestSSH|TestIdle|TestPreview|TestRealDomain|TestEnter)"
	keeping  = "^(TestKeep|TestStorage|TestDrain|TestReview)"
	volumes  = "^TestVolume"
	objects  = "^TestObjects"
	shipping = "^TestObjects(Job|Publish|HostileTree|Ship|CopiedOut)" // of those
	archives = "^(TestBackup|TestBundle|TestBaseline)"
	inside   = "^(TestDocker|TestOCI|TestRecipe|TestDevcontainer|TestScreen|TestDesktop)"
	sdks     = "^(TestE2B|TestFreestyle|TestMCP|TestAgent|TestClients|TestExamples|TestStartPages)"
	control  = "^(TestNet|TestSecret|TestEvidence|TestAsk|TestPaths|TestGuestSide)"
)

// A budget is at least 1.5 times what the suite takes on a quiet machine with two cores, because
// the same machine may take 1.3 times as long on another day. The budgets of suites with real VMs
// include the warm pool: servers run with their defaults, and each fills its pool beside the test.
func suites() []suite {
	// The step lint has run `go vet` on all of it.
	gotest := func(name string, args ...string) step {
		return step{name: name, argv: append([]string{"go", "test", "-json", "-count=1", "-vet=off"}, args...), gotest: true}
	}
	waiting := func(s step) step {
		s.waits = true
		return s
	}
	return []suite{
		{name: "build+lint", budget: 25 * time.Minute, steps: []step{
			{name: "host packages", argv: []string{"deploy/install-deps.sh", "--tests"}},
			{name: "build", argv: []string{"make", "-s", "build"}},
			{name: "lint", argv: []string{"make", "-s", "lint"}},
			{name: "image", argv: []string{"scripts/test-image.sh"}},
			// Those that take longest begin first, else the others would be over long before them.
			gotest("packages", "-p=3", "./internal/warm", "./internal/engine", "./test/contract", "./internal/powercut", "./..."),
		}},
		{name: "foundation", budget: 20 * time.Minute, steps: []step{
			waiting(gotest("README", "-tags=system", "-timeout=12m", "-run="+readme, "./test/system/...")),
			gotest("real VMs", "-tags=system", "-timeout=14m", "-skip="+readme+"|"+images+"|"+worlds+"|"+forks+"|"+crashes+"|"+entering+"|"+keeping+"|"+volumes+"|"+objects+"|"+archives+"|"+control+"|"+sdks+"|"+inside, "./test/system/..."),
			gotest("forks under KVM", "-tags=kvm", "-timeout=5m", "./test/kvm/..."),
		}},
		{name: "worlds", budget: 20 * time.Minute, steps: []step{
			gotest("real VMs", "-tags=system", "-timeout=12m", "-run="+worlds, "./test/system/..."),
			gotest("fork correctness", "-tags=system", "-timeout=14m", "-run="+forks, "./test/system/..."),
		}},
		{name: "entering", budget: 12 * time.Minute, steps: []step{
			gotest("real VMs", "-tags=system", "-timeout=14m", "-run="+entering, "./test/system/..."),
		}},
		// Two of these at a time, the longest first. The suites above have tests that run in pairs, and what
		// they time is too short for four at once.
		{name: "control", pairs: true, budget: 20 * time.Minute, steps: []step{
			gotest("networks, secrets, approvals and evidence with real VMs", "-tags=system", "-timeout=20m", "-run="+control, "./test/system/..."),
		}},
		{name: "crashes", pairs: true, budget: 18 * time.Minute, steps: []step{
			gotest("images", "-tags=system", "-timeout=8m", "-run="+images, "./test/system/..."),
			gotest("crashes and full disks", "-tags=system", "-timeout=12m", "-run="+crashes, "./test/system/..."),
			{name: "real VMs, unprivileged", argv: []string{"scripts/test-unprivileged.sh"}, gotest: true},
		}},
		{name: "volumes", pairs: true, budget: 18 * time.Minute, steps: []step{
			gotest("real VMs", "-tags=system", "-timeout=18m", "-parallel=1", "-run="+volumes, "./test/system/..."),
		}},
		{name: "objects", pairs: true, budget: 15 * time.Minute, steps: []step{
			gotest("S3 clients", "-tags=system", "-timeout=18m", "-run="+objects, "-skip="+shipping, "./test/system/..."),
		}},
		{name: "sdks", pairs: true, budget: 20 * time.Minute, steps: []step{
			gotest("SDKs, MCP clients and coding agents with real VMs", "-tags=system", "-timeout=20m", "-parallel=1", "-run="+sdks, "./test/system/..."),
		}},
		{name: "keeping", pairs: true, budget: 15 * time.Minute, steps: []step{
			gotest("real VMs", "-tags=system", "-timeout=18m", "-run="+keeping, "./test/system/..."),
		}},
		{name: "safety", pairs: true, budget: 15 * time.Minute, steps: []step{
			gotest("what agents do to machines", "-tags=system", "-timeout=20m", "./test/safety/...", "-args", "-some"), // each third of the cases in a guest; `make test-safety` and `make soak` run all
		}},
		{name: "shipping", pairs: true, budget: 12 * time.Minute, steps: []step{
			gotest("between VMs and objects", "-tags=system", "-timeout=14m", "-run="+shipping, "./test/system/..."),
		}},
		{name: "containers", pairs: true, budget: 15 * time.Minute, steps: []step{
			gotest("Docker, container images and screens with real VMs", "-tags=system", "-timeout=15m", "-parallel=1", "-run="+inside, "./test/system/..."),
		}},
		{name: "archives", pairs: true, budget: 12 * time.Minute, steps: []step{
			gotest("backups and bundles with real VMs", "-tags=system", "-timeout=18m", "-run="+archives, "./test/system/..."),
		}},
	}
}

// event has the relevant fields of `go test -json`.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

type runner struct {
	out                     io.Writer
	paused                  func() // called when a test calls t.Parallel; may be nil
	results                 results.Run
	passed, failed, skipped int
	failures                []string // names, and below each, with spaces before it, what the test said
	lines                   []string // a suite each: its time and its budget
	waiting                 []func() // the ends of steps that wait
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout)
	stop()
	os.Exit(code)
}

// run runs the named suites, or all, and returns the exit status.
func run(ctx context.Context, names []string, out io.Writer) int {
	r := &runner{out: out}
	source, err := results.Of(".")
	if err != nil {
		fmt.Fprintln(out, "the results do not count for any commit:", err)
	}
	r.results.Source = source
	chosen := slices.DeleteFunc(suites(), func(s suite) bool { return len(names) > 0 && !slices.Contains(names, s.name) })
	pairs := slices.IndexFunc(chosen, func(s suite) bool { return s.pairs })
	if pairs < 0 {
		pairs = len(chosen)
	}
	for _, s := range chosen[:pairs] {
		r.suite(ctx, s)
	}
	r.two(ctx, chosen[pairs:])
	for _, end := range r.waiting {
		end()
	}
	if ctx.Err() != nil {
		r.fail("interrupted")
	}
	if err := r.save(); err != nil {
		r.fail("results: " + err.Error())
	}
	if len(names) == 0 && ctx.Err() == nil {
		r.step(ctx, suite{name: "requirements"}, step{name: "what no passing test shows", argv: []string{"go", "run", "./tools/requirements", "-gaps"}})
	}
	fmt.Fprintln(out)
	for _, f := range r.failures {
		if !strings.HasPrefix(f, " ") {
			f = "FAIL " + f
		}
		fmt.Fprintln(out, f)
	}
	fmt.Fprintln(out, strings.Join(r.lines, "\n"))
	r.longest(30)
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
	if r.failed > 0 || r.passed == 0 {
		return 1
	}
	return 0
}

// suite runs the steps of a suite and compares its time with its budget.
func (r *runner) suite(ctx context.Context, s suite) {
	start := time.Now()
	for _, st := range s.steps {
		switch {
		case ctx.Err() != nil:
		case st.waits:
			r.waiting = append(r.waiting, r.beside(ctx, s, st))
		default:
			r.step(ctx, s, st)
		}
	}
	took := time.Since(start)
	verdict := "within budget"
	if took > s.budget {
		verdict = "OVER BUDGET"
		r.fail("suite " + s.name + " over its budget")
	}
	r.lines = append(r.lines, fmt.Sprintf("%-12s %6.0f s of %4.0f s  %s", s.name, took.Seconds(), s.budget.Seconds(), verdict))
}

// two runs suites, two at a time, each with a runner of its own. It prints and counts each at its end.
func (r *runner) two(ctx context.Context, all []suite) {
	var mu sync.Mutex // of r
	next := make(chan suite)
	var lanes sync.WaitGroup
	for range 2 {
		lanes.Go(func() {
			for s := range next {
				mu.Lock()
				fmt.Fprintf(r.out, "== %s begins beside others; its output follows at its end\n", s.name)
				mu.Unlock()
				var out bytes.Buffer
				b := &runner{out: &out}
				b.suite(ctx, s)
				mu.Lock()
				r.add(b, &out)
				mu.Unlock()
			}
		})
	}
	for _, s := range all {
		next <- s
	}
	close(next)
	lanes.Wait()
}

// add prints and counts what another runner has printed and counted.
func (r *runner) add(b *runner, out *bytes.Buffer) {
	fmt.Fprint(r.out, out.String())
	r.passed, r.failed, r.skipped = r.passed+b.passed, r.failed+b.failed, r.skipped+b.skipped
	r.failures = append(r.failures, b.failures...)
	r.lines = append(r.lines, b.lines...)
	r.waiting = append(r.waiting, b.waiting...)
	for key, t := range b.results.Tests {
		r.results.Add(key, t)
	}
}

// longest prints the n tests that took longest, a few on each line: where a run's time can be saved.
func (r *runner) longest(n int) {
	type timed struct {
		name    string
		seconds float64
	}
	var all []timed
	for key, t := range r.results.Tests {
		if name := key[strings.LastIndex(key, " ")+1:]; !strings.Contains(name, "/") {
			all = append(all, timed{name, t.Seconds})
		}
	}
	slices.SortFunc(all, func(a, b timed) int { return cmp.Or(cmp.Compare(b.seconds, a.seconds), cmp.Compare(a.name, b.name)) })
	var words []string
	for _, t := range all[:min(n, len(all))] {
		words = append(words, fmt.Sprintf("%s %.0f s", t.name, t.seconds))
	}
	for line := range slices.Chunk(words, 4) {
		fmt.Fprintln(r.out, "longest:", strings.Join(line, ", "))
	}
}

func (r *runner) fail(what string) {
	r.failed++
	r.failures = append(r.failures, what)
}

// beside runs a step and returns when its test waits or has ended. The returned
// function waits for the step's end, prints its output and counts it.
func (r *runner) beside(ctx context.Context, s suite, st step) (end func()) {
	var out bytes.Buffer
	waits := make(chan struct{})
	b := &runner{out: &out, paused: sync.OnceFunc(func() { close(waits) })}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b.step(ctx, s, st)
	}()
	select {
	case <-waits:
		fmt.Fprintf(r.out, "== %s: %s waits; the next steps run meanwhile\n", s.name, st.name)
	case <-ended:
	}
	return func() {
		<-ended
		r.add(b, &out)
	}
}

// step runs one command. If it fails without a failed test, the failure is counted once.
func (r *runner) step(ctx context.Context, s suite, st step) {
	fmt.Fprintf(r.out, "== %s: %s\n", s.name, st.name)
	start, at := time.Now(), readLoad()
	before := r.failed
	cmd := exec.CommandContext(ctx, st.argv[0], st.argv[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		r.fail(st.name + ": " + err.Error())
		return
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		r.fail(st.name + ": " + err.Error())
		return
	}
	if st.gotest {
		r.read(s, pipe)
	} else if _, err := io.Copy(r.out, pipe); err != nil {
		r.fail(st.name + ": " + err.Error())
	}
	err = cmd.Wait()
	switch {
	case err == nil && !st.gotest:
		r.passed++
	case err != nil && r.failed == before:
		r.fail(s.name + ": " + st.name + ": " + err.Error())
	}
	fmt.Fprintf(r.out, "== %s: %s: %.0f s, processors %.0f %% busy\n", s.name, st.name, time.Since(start).Seconds(), readLoad().since(at))
}

// load is what all processors of this machine have done since it started, in ticks.
type load struct{ busy, all float64 }

// readLoad reads the first line of /proc/stat (proc_stat(5)).
func readLoad() (l load) {
	data, _ := os.ReadFile("/proc/stat") // without it the figure is 0
	line, _, _ := strings.Cut(string(data), "\n")
	for i, word := range strings.Fields(line) {
		var ticks float64
		if _, err := fmt.Sscan(word, &ticks); err != nil || i > 8 { // the columns from the ninth on are counted in others
			continue
		}
		l.all += ticks
		if i != 4 && i != 5 { // idle, and idle while a disk works
			l.busy += ticks
		}
	}
	return l
}

// since returns the part of the processors' time that was used since then, in percent.
func (l load) since(then load) float64 {
	if l.all == then.all {
		return 0
	}
	return 100 * (l.busy - then.busy) / (l.all - then.all)
}

// read counts the tests of a `go test -json` stream. It prints failed and
// skipped tests with their output, and one line per package.
func (r *runner) read(s suite, in io.Reader) {
	output := map[string][]string{}
	sc := bufio.NewScanner(in)
	sc.Buffer(make([]byte, 1<<20), 16<<20)
	for sc.Scan() {
		var e event
		if json.Unmarshal(sc.Bytes(), &e) != nil {
			fmt.Fprintln(r.out, sc.Text())
			continue
		}
		key := e.Package + " " + e.Test
		switch e.Action {
		case "pause":
			if r.paused != nil {
				r.paused()
			}
		case "output":
			output[key] = append(output[key], e.Output)
		case "build-output":
			fmt.Fprint(r.out, e.Output)
		case "pass", "fail", "skip":
			lines := output[key]
			delete(output, key)
			r.ended(s, e, key, lines, output)
		}
	}
	if err := sc.Err(); err != nil {
		r.fail("reading test output: " + err.Error())
	}
}

// ended counts a test or a package that has ended. unended has what the others have printed, by test.
func (r *runner) ended(s suite, e event, key string, output []string, unended map[string][]string) {
	if e.Test == "" {
		if e.Action != "skip" {
			fmt.Fprintf(r.out, "%-4s %s %.1f s\n", e.Action, e.Package, e.Elapsed)
		}
		if e.Action == "fail" {
			fmt.Fprint(r.out, strings.Join(output, ""))
			r.fail(e.Package)
			for _, key := range slices.Sorted(maps.Keys(unended)) {
				if strings.HasPrefix(key, e.Package+" ") { // a test that ran when its package's time was over
					fmt.Fprint(r.out, strings.Join(unended[key], ""))
				}
			}
		}
		return
	}
	r.results.Add(key, results.Test{Outcome: e.Action, Seconds: e.Elapsed, Suite: s.name})
	switch e.Action {
	case "pass":
		r.passed++
	case "skip":
		r.skipped++
		fmt.Fprint(r.out, strings.Join(output, ""))
	case "fail":
		r.fail(key)
		fmt.Fprint(r.out, strings.Join(output, ""))
		r.failures = append(r.failures, said(output)...)
	}
}

// said returns the lines of a failed test that calls in test files printed, shortened: they are repeated at the run's
// end, because whoever reads a long log may see only that. Of many lines it returns the first and the last ones, and
// how many it left out: the failure may come after much that the test only logged.
func said(output []string) (lines []string) {
	const most, width = 6, 300
	for _, text := range output {
		text = strings.TrimSpace(text)
		if place, _, found := strings.Cut(text, ": "); found && strings.Contains(place, "_test.go:") {
			lines = append(lines, "    "+strings.ToValidUTF8(text[:min(width, len(text))], ""))
		}
	}
	if n := len(lines); n > most {
		lines = slices.Replace(lines, most/2, n-most/2, fmt.Sprintf("    (%d lines left out)", n-most))
	}
	return lines
}

// save stores the results. Results of a tree that was changed while its tests
// ran count for no commit.
func (r *runner) save() error {
	now, err := results.Of(".")
	if err != nil || now != r.results.Source {
		r.results.Dirty = true
	}
	return results.Save(".", r.results)
}
