// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package devcontainer

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

const whole = `// For this project.
{
	"name": "shop", /* a comment */
	"image": "mcr.microsoft.com/devcontainers/python:3.12",
	"forwardPorts": [8000, "localhost:5432", "db:3306", 8000,],
	"remoteUser": "vscode",
	"containerEnv": {"APP": "shop", "URL": "http://x/ // no comment", "GONE": null},
	"remoteEnv": {"PATH": "${containerEnv:PATH}:/opt", "KEY": "${localEnv:KEY:none}", "AT": "${containerWorkspaceFolder}/src", "COPY": "${containerEnv:APP}"},
	"onCreateCommand": "apt-get update",
	"postCreateCommand": {"web": "npm ci", "py": ["pip", "install", "-e", "."],},
	"postStartCommand": ["echo", "${localWorkspaceFolderBasename}"],
	"features": {"ghcr.io/devcontainers/features/node:1": {}},
	"customizations": {"vscode": {}},
}
`

// TestDevcontainer reads every key that has a meaning, and names the others.
func TestDevcontainer(t *testing.T) {
	got, err := Parse("devcontainer.json", "shop", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Name: "shop", Image: "mcr.microsoft.com/devcontainers/python:3.12", Ports: []int{8000, 5432}, User: "vscode",
		Env:       map[string]string{"APP": "shop", "URL": "http://x/ // no comment"},
		RemoteEnv: map[string]string{"KEY": "none", "AT": "/workspaces/shop/src", "COPY": "shop"},
		Folder:    "/workspaces/shop",
		Hooks: []Hook{
			{"onCreateCommand", []Command{{Shell: "apt-get update"}}},
			{"postCreateCommand", []Command{{Name: "py", Argv: []string{"pip", "install", "-e", "."}}, {Name: "web", Shell: "npm ci"}}},
			{"postStartCommand", []Command{{Argv: []string{"echo", "shop"}}}},
		},
		Ignored: []string{
			"customizations", "features", "forwardPorts db:3306: it is the port of another container",
			"remoteEnv.KEY: it refers to a variable of this host, which no VM sees", "remoteEnv.PATH: it refers to a variable of the image",
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the file is read as\n%+v, want\n%+v", got, want)
	}
	built, err := Parse("f", "p", []byte(`{"build": {"dockerfile": "Dockerfile", "context": "..", "args": {"A": "b"}, "cacheFrom": "x"}, "containerUser": "dev", "workspaceFolder": "/src"}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := (&Build{Dockerfile: "Dockerfile", Context: "..", Args: map[string]string{"A": "b"}}); !reflect.DeepEqual(built.Build, want) {
		t.Errorf("the build is read as %+v, want %+v", built.Build, want)
	}
	if built.User != "dev" || built.Folder != "/src" || !slices.Equal(built.Ignored, []string{"build.cacheFrom"}) {
		t.Errorf("user %q, folder %q, ignored %q, want dev, /src and build.cacheFrom", built.User, built.Folder, built.Ignored)
	}
}

// TestDevcontainerRefused names the line of what is wrong.
func TestDevcontainerRefused(t *testing.T) {
	for _, c := range []struct {
		name, text, subject, says string
		kind                      vm.Kind
	}{
		{"nothing", "", "f:1", "not JSON", vm.Invalid},
		{"a list", "[1]", "f:1", "an object", vm.Invalid},
		{"no image", `{"name": "x"}`, "f", "neither an image", vm.Invalid},
		{"no Dockerfile", `{"build": {"context": "."}}`, "f", "no dockerfile", vm.Invalid},
		{"syntax", "{\n\"image\": \"a\"\n\"name\": \"b\"}", "f:3", "not JSON", vm.Invalid},
		{"twice", "{\"image\": \"a\",\n\"image\": \"b\"}", "f:2", "twice", vm.Invalid},
		{"more", `{"image": "a"} {}`, "f:1", "follows", vm.Invalid},
		{"an open comment", "{\n/* \"image\": \"a\"}", "f:2", "no end", vm.Invalid},
		{"a type", "{\"image\": \"a\",\n\"remoteUser\": 5}", "f:2", "remoteUser: text", vm.Invalid},
		{"a flag as image", `{"image": "--help"}`, "f:1", "reference", vm.Invalid},
		{"a user", `{"image": "a", "remoteUser": "a b"}`, "f:1", "user", vm.Invalid},
		{"a port", `{"image": "a", "forwardPorts": [70000]}`, "f:1", "port", vm.Invalid},
		{"a variable", `{"image": "a", "containerEnv": {"A B": "c"}}`, "f:1", "variable", vm.Invalid},
		{"a folder", `{"image": "a", "workspaceFolder": "/a/../etc"}`, "f", "absolute", vm.Invalid},
		{"a command", `{"image": "a", "postCreateCommand": 1}`, "f:1", "a text, a list", vm.Invalid},
		{"compose", `{"dockerComposeFile": "compose.yaml"}`, "dockerComposeFile", "several containers", vm.Unsupported},
		{"deep", strings.Repeat("[", 100), "f:1", "within each other", vm.Invalid},
		{"large", strings.Repeat(" ", maxText+1), "f", "at most", vm.Limit},
	} {
		_, err := Parse("f", "p", []byte(c.text))
		if !errors.Is(err, c.kind) {
			t.Errorf("%s: the error is %v, want one of kind %v", c.name, err, c.kind)
			continue
		}
		if e := vm.AsError(err); e.Subject != c.subject || !strings.Contains(e.Msg, c.says) {
			t.Errorf("%s: the error is about %q and says %q, want %q and %q in it", c.name, e.Subject, e.Msg, c.subject, c.says)
		}
	}
}

// FuzzParse: whatever is accepted obeys the limits.
func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte(`{"image": "a", "forwardPorts": [1,], "postCreateCommand": ["a"]} // end`))
	f.Add([]byte(`{"build": {"dockerfile": "D"}, "workspaceFolder": "${localWorkspaceFolder}"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse("f", "p", text)
		if err != nil {
			return
		}
		if c.Image == "" && c.Build == nil {
			t.Errorf("%q: accepted without an image", text)
		}
		if !strings.HasPrefix(c.Folder, "/") || strings.Contains(c.Folder, "/../") {
			t.Errorf("%q: the folder %q is accepted", text, c.Folder)
		}
		for _, p := range c.Ports {
			if p < 1 || p > 65535 {
				t.Errorf("%q: the port %d is accepted", text, p)
			}
		}
	})
}
