// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// holdEnv makes the test program hold a program, print its pid, and wait to be killed: "shut",
// or "open" to let it run before.
const holdEnv = "WARREN_TEST_HOLD"

func holdAndWait(how string) {
	cmd := exec.Command("/bin/sleep", "3600")
	gate, err := Hold(cmd, Plan{Read: []string{"/bin", "/usr", "/lib", "/lib64"}, Root: os.Getenv("WARREN_TEST_ROOT")})
	if err != nil {
		panic(err)
	}
	if how == "open" {
		if err := gate.Open(); err != nil {
			panic(err)
		}
	}
	fmt.Println(cmd.Process.Pid)
	_, _ = io.Copy(io.Discard, os.Stdin) // the test kills this process
}

// held starts the test program, kills it once it holds a program, and returns that program's
// process and how its command line is read.
func held(t *testing.T, how string) (pid int, line func() string) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), holdEnv+"="+how, "WARREN_TEST_ROOT="+t.TempDir())
	cmd.Stderr = os.Stderr
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscan(bufio.NewReader(out), &pid); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Kill(pid, unix.SIGKILL) }) // it may have ended
	line = func() string {
		data, err := os.ReadFile(filepath.Join("/proc", fmt.Sprint(pid), "cmdline"))
		if err != nil {
			return ""
		}
		return string(data)
	}
	if how == "open" {
		awaitLine(t, "the program runs", func() bool { return strings.HasPrefix(line(), "/bin/sleep") })
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	return pid, line
}

func awaitLine(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

// A program that is held ends with who holds it, without having run.
func TestHoldEnds(t *testing.T) {
	_, line := held(t, "shut")
	awaitLine(t, "the shim ends", func() bool {
		if strings.HasPrefix(line(), "/bin/sleep") {
			t.Fatal("the program runs although nobody opened its gate")
		}
		return line() == ""
	})
}

// A program whose gate was opened outlives who started it.
func TestHoldOpened(t *testing.T) {
	pid, line := held(t, "open")
	if err := unix.Kill(pid, 0); err != nil || !strings.HasPrefix(line(), "/bin/sleep") {
		t.Errorf("after its parent was killed: %v, its command line is %q", err, line())
	}
}
