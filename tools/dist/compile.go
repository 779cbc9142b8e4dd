// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// module is the path of this module.
const module = "github.com/warren-vm/warren"

// compile builds the program of an architecture, with its agent, monitor and reader inside.
func (r release) compile(ctx context.Context, arch, program string) error {
	dir := filepath.Dir(program)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // of the build only
		return err
	}
	files := filepath.Join(r.root, "internal/embedded/files")
	over := map[string]string{}
	for _, name := range []string{"warren-agent", "warren-monitor", "warren-reader"} {
		// Without a version: those whose code is that of the last release keep their digests, and with them the
		// warm generations of the images.
		if err := r.gobuild(ctx, arch, filepath.Join(dir, name), "", "-s -w", "./cmd/"+name); err != nil {
			return err
		}
		over[filepath.Join(files, name)] = filepath.Join(dir, name)
	}
	// The files of `make build`, which may be of another architecture, stay as they are.
	overlay, err := json.Marshal(map[string]any{"Replace": over})
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return err
	}
	return r.gobuild(ctx, arch, program, file, "-s -w -X "+module+"/api.Version="+r.program+" -X "+module+"/internal/start.Version="+r.program, "./cmd/warren")
}

func (r release) gobuild(ctx context.Context, arch, out, overlay, ldflags, pkg string) error {
	args := []string{"build", "-buildvcs=false", "-ldflags=" + ldflags, "-o", out}
	if overlay != "" {
		args = append(args, "-overlay", overlay)
	}
	cmd := r.gocmd(ctx, arch, append(args, pkg)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go build %s: %w", pkg, err)
	}
	return nil
}

// gocmd is a go command whose result nothing in the caller's environment changes.
func (r release) gocmd(ctx context.Context, arch string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = r.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOFLAGS=-trimpath", "GOAMD64=v1", "GOARM64=v8.0")
	return cmd
}

// texts has what the program prints about itself, by the paths of the files in a package.
type texts map[string][]byte

// texts returns manual pages and completions, which a program of this machine prints, and the licences.
func (r release) texts(ctx context.Context) (texts, error) {
	man := filepath.Join(r.work, "man")
	if err := os.MkdirAll(man, 0o755); err != nil { //nolint:gosec // of the build only
		return nil, err
	}
	native := filepath.Join(r.work, runtime.GOARCH, "warren")
	if _, err := os.Stat(native); err != nil {
		if err := r.compile(ctx, runtime.GOARCH, native); err != nil {
			return nil, err
		}
	}
	warren := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(ctx, native, args...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("warren %s: %w", args[0], err)
		}
		return out, nil
	}
	if _, err := warren("docs", "--man", man, "--made", fmt.Sprint(r.made.Unix())); err != nil {
		return nil, err
	}
	out := texts{}
	pages, err := os.ReadDir(man)
	if err != nil {
		return nil, err
	}
	for _, p := range pages {
		text, err := os.ReadFile(filepath.Join(man, p.Name()))
		if err != nil {
			return nil, err
		}
		if out["usr/share/man/man1/"+p.Name()+".gz"], err = gzipped(text); err != nil {
			return nil, err
		}
	}
	for shell, file := range map[string]string{
		"bash": "usr/share/bash-completion/completions/warren",
		"zsh":  "usr/share/zsh/vendor-completions/_warren",
		"fish": "usr/share/fish/vendor_completions.d/warren.fish",
	} {
		if out[file], err = warren("completion", shell); err != nil {
			return nil, err
		}
	}
	notices, err := r.notices(ctx)
	if err != nil {
		return nil, err
	}
	out["usr/share/doc/warren/third-party.gz"], err = gzipped(notices)
	return out, err
}

// notices are the licences of the modules in the programs, which the licences want to be passed on.
func (r release) notices(ctx context.Context) ([]byte, error) {
	cmd := r.gocmd(ctx, "amd64", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}\t{{.Dir}}{{end}}{{end}}", "./cmd/...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var b bytes.Buffer
	lines := slices.Compact(slices.Sorted(slices.Values(strings.Split(strings.TrimSpace(string(out)), "\n"))))
	for _, line := range lines {
		name, dir, _ := strings.Cut(line, "\t")
		if name == "" {
			continue
		}
		found, err := licences(dir)
		if err != nil {
			return nil, err
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s has no licence in %s", name, dir)
		}
		for _, file := range found {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&b, "==== %s: %s\n\n%s\n\n", name, filepath.Base(file), bytes.TrimSpace(text))
		}
	}
	return b.Bytes(), nil
}

// licences are the files of a module, or of the repository above it, that say under which terms it is passed on.
func licences(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		terms := strings.HasPrefix(name, "LICEN") || strings.HasPrefix(name, "NOTICE") || strings.HasPrefix(name, "COPYING") || strings.HasPrefix(name, "PATENTS")
		if terms && e.Type()&fs.ModeType == 0 && filepath.Ext(name) != ".GO" {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out, nil
}
