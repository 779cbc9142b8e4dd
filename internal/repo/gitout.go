// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import (
	"context"
	"io"
	"strconv"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// output returns what git prints about a repository. The kinds are those of run.
func (r *Repo) output(ctx context.Context, id string, args ...string) ([]byte, error) {
	return r.run(ctx, program{dir: r.cfg.Dir.Repo(id), args: args})
}

// reading lets read take what git prints, with in as its input. An error of read ends git
// and is returned.
func (r *Repo) reading(ctx context.Context, id string, args []string, in io.Reader, read func(io.Reader) error) error {
	outer := ctx
	ctx, release, err := r.enter(ctx)
	if err != nil {
		return err
	}
	defer release()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	p := program{dir: r.cfg.Dir.Repo(id), args: args}
	cmd := r.command(ctx, p.dir, nil, args...)
	said := keeper{limit: errorLimit, drop: true}
	cmd.Stdin, cmd.Stderr = in, &said
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return r.failed(p, "", err)
	}
	readErr := read(out)
	if readErr != nil {
		stop()
	}
	err = cmd.Wait()
	switch {
	case outer.Err() != nil:
		return vm.WithOp("", "", context.Cause(outer))
	case readErr != nil:
		return readErr
	case err != nil:
		return r.failed(p, said.String(), err)
	}
	return nil
}

// withSettings adds settings of git, as name=value, to an environment that has some.
// There they are in no process list.
func withSettings(env, more []string) []string {
	count := 0
	for i, kv := range env {
		if text, is := strings.CutPrefix(kv, "GIT_CONFIG_COUNT="); is {
			count, _ = strconv.Atoi(text)
			env[i] = "GIT_CONFIG_COUNT=" + strconv.Itoa(count+len(more))
		}
	}
	for i, s := range more {
		name, value, _ := strings.Cut(s, "=")
		n := strconv.Itoa(count + i)
		env = append(env, "GIT_CONFIG_KEY_"+n+"="+name, "GIT_CONFIG_VALUE_"+n+"="+value)
	}
	return env
}
