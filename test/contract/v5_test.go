// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestV5 runs every row of Freestyle's current SDK, npm freestyle@0.2.17, against the simulator,
// or, where FREESTYLE_API_URL names one, against a real server.
func TestV5(t *testing.T) {
	needPackages(t)
	env := os.Environ()
	if os.Getenv("FREESTYLE_API_URL") == "" {
		s := newSite(t)
		env = append(env, "FREESTYLE_API_URL="+s.url, "FREESTYLE_API_KEY="+s.secret)
	}
	scripts, err := filepath.Glob("v5/*.test.mjs")
	if err != nil || len(scripts) < 4 {
		t.Fatalf("only %d scripts of /v5 were found: %v", len(scripts), err)
	}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".test.mjs"), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, "node", "--test", "--test-concurrency=1", script)
			cmd.Env = env
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("the SDK's script %s fails: %v\n%s", script, err, out)
			}
		})
	}
}
