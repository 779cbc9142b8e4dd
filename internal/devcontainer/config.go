// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package devcontainer

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// Places are the paths below a project at which the file may be, the first that exists.
var Places = []string{".devcontainer/devcontainer.json", ".devcontainer.json"}

// Config is what a devcontainer.json says.
type Config struct {
	Name  string
	Image string // a reference of a container image; "" = it is built
	Build *Build // nil = nothing is built
	// Hooks are the commands to run in a new VM, in this order.
	Hooks []Hook
	Ports []int  // that the project listens on
	User  string // runs the commands; "" = the image's
	// Env is for every process, RemoteEnv for commands of the user.
	Env, RemoteEnv map[string]string
	Folder         string // for the project's files; an absolute path
	// Ignored says what has no meaning here, in words, sorted.
	Ignored []string
}

// Build describes an image that a Dockerfile makes. Paths are relative to the file.
type Build struct {
	Dockerfile, Context, Target string
	Args                        map[string]string
}

// Hook is one of the lifecycle's keys. Its commands may run at the same time.
type Hook struct {
	Key      string
	Commands []Command
}

// Command is one command line: of the shell, or a program with its arguments.
type Command struct {
	Name  string // within an object; "" = it has none
	Shell string
	Argv  []string
}

// String is the command as people write it.
func (c Command) String() string {
	if c.Shell != "" {
		return c.Shell
	}
	return strings.Join(c.Argv, " ")
}

const (
	maxText = 1 << 20 // bytes of the file
	maxDeep = 32      // objects and lists within each other
	maxList = 200     // members of a list or object
	maxWord = 32 << 10
)

var (
	imageRef = vm.NewPattern(`^[a-z0-9][A-Za-z0-9._/:@-]{0,400}$`)
	userName = vm.NewPattern(`^([a-z_][a-z0-9_-]{0,31}|[0-9]{1,9})$`)
	envName  = vm.NewPattern(`^[A-Za-z_][A-Za-z0-9_]{0,100}$`)
	variable = vm.NewPattern(`\$\{([A-Za-z]+)(?::([^}:]*))?(?::([^}]*))?\}`)
)

// hookKeys are the lifecycle's keys whose commands run in the VM, in their order.
var hookKeys = []string{"onCreateCommand", "updateContentCommand", "postCreateCommand", "postStartCommand"}

// Parse reads a devcontainer.json; file is its name in errors, and project the name of the
// directory that it is about. Kinds: Invalid (with the line), Limit, Unsupported.
func Parse(file, project string, text []byte) (Config, error) {
	if len(text) > maxText {
		return Config{}, vm.Errorf(vm.Limit, file, "it has %d bytes, at most %d are read", len(text), maxText)
	}
	plain, err := strip(text)
	if err != nil {
		return Config{}, invalid(file, text, err)
	}
	keys, err := members(plain)
	if err != nil {
		return Config{}, invalid(file, text, err)
	}
	r := &reader{project: project, cfg: Config{Env: map[string]string{}, RemoteEnv: map[string]string{}}}
	for _, k := range keys {
		if err := r.key(k.name, k.value); err != nil {
			if e := vm.AsError(err); e.Kind == vm.Unsupported {
				return Config{}, err
			}
			return Config{}, invalid(file, text, fault{k.at, fmt.Sprintf("%s: %v", k.name, err)})
		}
	}
	if err := r.finish(); err != nil {
		return Config{}, invalid(file, text, err)
	}
	return r.cfg, nil
}

// reader collects the keys of one file.
type reader struct {
	project       string
	cfg           Config
	hooks         map[string][]Command
	containerUser string
}

// key takes one key.
func (r *reader) key(name string, value json.RawMessage) (err error) {
	c := &r.cfg
	switch name {
	case "name":
		c.Name, err = word(value)
	case "image":
		if c.Image, err = word(value); err == nil && !imageRef.MatchString(c.Image) {
			err = fmt.Errorf("%q is not the reference of an image", c.Image)
		}
	case "build":
		err = r.build(value)
	case "dockerFile":
		c.Build = orNew(c.Build)
		c.Build.Dockerfile, err = word(value)
	case "context":
		c.Build = orNew(c.Build)
		c.Build.Context, err = word(value)
	case "onCreateCommand", "updateContentCommand", "postCreateCommand", "postStartCommand":
		if r.hooks == nil {
			r.hooks = map[string][]Command{}
		}
		r.hooks[name], err = commands(value)
	case "forwardPorts":
		err = r.ports(value)
	case "remoteUser":
		c.User, err = user(value)
	case "containerUser":
		r.containerUser, err = user(value)
	case "containerEnv":
		c.Env, err = env(value)
	case "remoteEnv":
		c.RemoteEnv, err = env(value)
	case "workspaceFolder":
		c.Folder, err = word(value)
	case "dockerComposeFile":
		return vm.Errorf(vm.Unsupported, name, "a project of several containers is not made into one VM").
			WithHint("start a VM of the recipe docker, copy the project into it, and run `docker compose up -d` there")
	case "$schema":
	default:
		r.ignore(name)
	}
	return err
}

func orNew(b *Build) *Build {
	if b == nil {
		return &Build{}
	}
	return b
}

func (r *reader) ignore(what string) { r.cfg.Ignored = append(r.cfg.Ignored, clip(what)) }

// build reads the key of that name.
func (r *reader) build(value json.RawMessage) error {
	var in map[string]json.RawMessage
	if err := json.Unmarshal(value, &in); err != nil || in == nil {
		return wanted("an object with dockerfile")
	}
	b := orNew(r.cfg.Build)
	for _, name := range slices.Sorted(maps.Keys(in)) {
		var err error
		switch name {
		case "dockerfile":
			b.Dockerfile, err = word(in[name])
		case "context":
			b.Context, err = word(in[name])
		case "target":
			b.Target, err = word(in[name])
		case "args":
			b.Args, err = env(in[name])
		default:
			r.ignore("build." + name)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", clip(name), err)
		}
	}
	r.cfg.Build = b
	return nil
}

// ports reads numbers, and texts with a host of this machine.
func (r *reader) ports(value json.RawMessage) error {
	var in []json.RawMessage
	if err := json.Unmarshal(value, &in); err != nil || len(in) > maxList {
		return wanted("a list of ports")
	}
	for _, v := range in {
		var port int
		var text string
		if json.Unmarshal(v, &port) != nil {
			if err := json.Unmarshal(v, &text); err != nil {
				return wanted("a list of ports")
			}
			host, number, _ := strings.Cut(text, ":")
			if host != "localhost" && host != "127.0.0.1" {
				r.ignore("forwardPorts " + text + ": it is the port of another container")
				continue
			}
			if _, err := fmt.Sscanf(number, "%d", &port); err != nil || fmt.Sprint(port) != number {
				return wanted("a list of ports")
			}
		}
		if port < 1 || port > 65535 {
			return fmt.Errorf("%d is not a port", port)
		}
		if !slices.Contains(r.cfg.Ports, port) {
			r.cfg.Ports = append(r.cfg.Ports, port)
		}
	}
	return nil
}

// finish checks the whole, and puts in what its variables mean.
func (r *reader) finish() error {
	c := &r.cfg
	switch {
	case c.Build != nil && c.Build.Dockerfile == "":
		return fault{0, "build names no dockerfile"}
	case c.Build == nil && c.Image == "":
		return fault{0, "it names neither an image nor a Dockerfile"}
	}
	if c.User == "" {
		c.User = r.containerUser
	}
	folder := path.Join("/workspaces", r.project)
	if c.Folder != "" {
		folder = r.expand("workspaceFolder", c.Folder, folder)
	}
	if c.Folder = folder; !path.IsAbs(folder) || path.Clean(folder) != folder || folder == "/" || strings.ContainsRune(folder, 0) {
		return fault{0, fmt.Sprintf("workspaceFolder %q is not an absolute path in its shortest form", clip(folder))}
	}
	for _, set := range []struct {
		key string
		m   map[string]string
	}{{"containerEnv", c.Env}, {"remoteEnv", c.RemoteEnv}} {
		for _, name := range slices.Sorted(maps.Keys(set.m)) {
			if set.m[name] = r.expand(set.key+"."+name, set.m[name], folder); strings.Contains(set.m[name], "${containerEnv:") {
				r.ignore(set.key + "." + name + ": it refers to a variable of the image")
				delete(set.m, name)
			}
		}
	}
	for _, key := range hookKeys {
		list := r.hooks[key]
		for i := range list {
			list[i].Shell = r.expand(key, list[i].Shell, folder)
			for n := range list[i].Argv {
				list[i].Argv[n] = r.expand(key, list[i].Argv[n], folder)
			}
		}
		if len(list) > 0 {
			c.Hooks = append(c.Hooks, Hook{Key: key, Commands: list})
		}
	}
	slices.Sort(c.Ignored)
	c.Ignored = slices.Compact(c.Ignored)
	return nil
}

// expand replaces the variables of a text. Those of this host stay outside: a project may not
// read them.
func (r *reader) expand(where, text, folder string) string {
	return variable.Regexp().ReplaceAllStringFunc(text, func(s string) string {
		m := variable.FindStringSubmatch(s)
		switch m[1] {
		case "containerWorkspaceFolder", "localWorkspaceFolder":
			return folder
		case "containerWorkspaceFolderBasename", "localWorkspaceFolderBasename":
			return path.Base(folder)
		case "localEnv":
			r.ignore(where + ": it refers to a variable of this host, which no VM sees")
			return m[3]
		case "containerEnv":
			if v, ok := r.cfg.Env[m[2]]; ok && !strings.Contains(v, "${") {
				return v
			}
		}
		return s
	})
}
