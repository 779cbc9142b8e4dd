// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSystemCallsOfArm64: every system call that code for all processors names exists on arm64, which lacks the old
// ones, such as poll. `make dist` compiles the rest for arm64; this needs no compiler.
func TestSystemCallsOfArm64(t *testing.T) {
	said := func(args ...string) string {
		cmd := exec.Command("go", args...)
		cmd.Dir = root(t)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go %s: %v", args[0], err)
		}
		return strings.TrimSpace(string(out))
	}
	known := map[string]string{}
	for name, file := range map[string]string{
		"syscall": filepath.Join(said("env", "GOROOT"), "src/syscall/zsysnum_linux_arm64.go"),
		"unix":    filepath.Join(said("list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys"), "unix/zsysnum_linux_arm64.go"),
	} {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		known[name] = string(data)
	}
	call := regexp.MustCompile(`\b(syscall|unix)\.(SYS_[A-Z0-9_]+)\b`)
	found := 0
	sources(t, func(name string, data []byte) {
		if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, "_amd64.go") {
			return
		}
		for _, m := range call.FindAllStringSubmatch(string(data), -1) {
			found++
			if !regexp.MustCompile(`(?m)^\s+` + m[2] + `\s`).MatchString(known[m[1]]) {
				t.Errorf("%s uses %s, which arm64 does not have: use a wrapper of golang.org/x/sys/unix", name, m[0])
			}
		}
	})
	if found == 0 {
		t.Error("no system call was found in the sources, so nothing was checked")
	}
}
