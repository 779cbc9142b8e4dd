// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/client"
	"github.com/warren-vm/warren/internal/devcontainer"
	"github.com/warren-vm/warren/vm"
)

// recipeFile is the file for which a devcontainer.json is not looked for.
const recipeFile = "warren.yaml"

// project is a directory with a devcontainer.json.
type project struct {
	dir string
	devcontainer.Config
}

// findProject reads the devcontainer.json of a directory that has no recipe; nil = it has none.
func findProject(source string) (*project, error) {
	if st, err := os.Stat(source); !isDir(source) || err != nil || !st.IsDir() {
		return nil, nil
	}
	if _, err := os.Stat(filepath.Join(source, recipeFile)); err == nil {
		return nil, nil
	}
	root, err := os.OpenRoot(source)
	if err != nil {
		return nil, fileFailed(source, err)
	}
	defer root.Close()
	for _, place := range devcontainer.Places {
		f, err := root.Open(place)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		file := filepath.Join(source, place)
		if err != nil {
			return nil, fileFailed(file, err)
		}
		text, err := io.ReadAll(io.LimitReader(f, maxProjectFile))
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fileFailed(file, err)
		}
		cfg, err := devcontainer.Parse(file, projectName(source), text)
		if err != nil {
			return nil, err
		}
		return &project{dir: source, Config: cfg}, nil
	}
	return nil, nil
}

// maxProjectFile is more than devcontainer.Parse accepts.
const maxProjectFile = 2 << 20

var notInName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// projectName is the name of a project's directory in the VM.
func projectName(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	name := strings.Trim(notInName.ReplaceAllString(filepath.Base(dir), "-"), ".-")
	return or(vm.Clip(name, 60), "project")
}

// request makes the request one for the project's image.
func (p *project) request(r *api.CreateVM) {
	r.Image, r.Workdir = "oci:"+p.Image, p.Folder
	if p.Build != nil {
		r.Image = p.dir // the host finds its Dockerfile
	}
}

// tellIgnored says what of the file has no meaning here, before the VM is made.
func (a *app) tellIgnored(p *project) {
	for _, what := range p.Ignored {
		a.io.notef("devcontainer.json: ignored: %s", printable(what))
	}
}

// setUp copies the project into its new VM and runs its commands. What a command prints goes
// to standard error. When one fails, the VM stays, so that one can see why.
func (a *app) setUp(ctx context.Context, c *client.Client, v api.VM, p *project) error {
	if err := a.prepareProject(ctx, c, v, p); err != nil {
		return errors.Join(err, a.removeAfter(ctx, c, string(v.ID), err))
	}
	env := maps.Clone(p.Env)
	maps.Copy(env, p.RemoteEnv)
	for _, hook := range p.Hooks {
		for _, cmd := range hook.Commands {
			a.io.notef("%s: %s", hook.Key, printable(vm.Clip(cmd.String(), 200)))
			spec := vm.ExecSpec{Command: cmd.Shell, Argv: cmd.Argv, User: p.User, Cwd: p.Folder, Env: env}
			code, err := a.runQuietly(ctx, c, v, spec)
			if err == nil && code != 0 {
				err = vm.Errorf(vm.GuestFault, hook.Key, "the command ended with status %d", code)
			}
			if err != nil {
				return vm.Errorf(vm.KindOf(err), hook.Key, "the project's command failed, and the VM %s is kept as it is: %w", ref(v), err).
					WithHint("look with `warren shell %s`; a command that downloads needs --net, such as --net packages", ref(v))
			}
		}
	}
	return nil
}

// prepareProject writes the project's variables, and copies its files.
func (a *app) prepareProject(ctx context.Context, c *client.Client, v api.VM, p *project) error {
	id := string(v.ID)
	var vars strings.Builder
	for _, name := range slices.Sorted(maps.Keys(p.Env)) {
		if strings.ContainsAny(p.Env[name], "\n\r") {
			a.io.notef("devcontainer.json: containerEnv.%s has several lines: only the project's own commands get it", name)
			continue
		}
		fmt.Fprintf(&vars, "%s=\"%s\"\n", name, p.Env[name])
	}
	owner := or(p.User, "root")
	// The shell gets the texts as arguments and never reads them as commands.
	script := `set -e; printf %s "$1" >>/etc/environment; mkdir -p -- "$2"; chown -- "$3" "$2"`
	code, err := a.runQuietly(ctx, c, v, vm.ExecSpec{Argv: []string{"/bin/sh", "-c", script, "sh", vars.String(), p.Folder, owner}, Cwd: "/"})
	if err == nil && code != 0 {
		err = vm.Errorf(vm.GuestFault, p.Folder, "the directory of the project could not be made for the user %s", owner)
	}
	if err != nil {
		return err
	}
	cp := copying{app: a, c: c, user: p.User, recursive: true}
	done, err := cp.in(ctx, filepath.Clean(p.dir)+"/.", place{vm: id, path: p.Folder})
	if err == nil {
		a.io.tellLeftOut(done)
	}
	return err
}

// runQuietly runs a command to its end; its output goes to standard error.
func (a *app) runQuietly(ctx context.Context, c *client.Client, v api.VM, spec vm.ExecSpec) (int, error) {
	e, err := c.Exec(ctx, string(v.ID), spec)
	if err != nil {
		return 0, err
	}
	_, out := a.guestStreams()
	status, err := e.Run(out, out)
	return status.Code, err
}

// tellProject says how to use the VM of a project.
func (a *app) tellProject(v api.VM, p *project) {
	a.io.printf("%-9s%s\n", "files", p.Folder)
	if p.User != "" {
		a.io.printf("%-9s%s\n", "user", p.User)
		a.io.notef("commands as that user: warren exec --user %s %s -- COMMAND", p.User, ref(v))
	}
	for _, port := range p.Ports {
		a.io.printf("%-9s%d\n", "port", port)
	}
	if len(p.Ports) > 0 {
		a.io.notef("reach a port from here: warren forward %s %d", ref(v), p.Ports[0])
	}
}
