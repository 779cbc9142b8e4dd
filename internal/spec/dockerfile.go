// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// debian are the tags of the distribution that Warren's image is made of.
var debian = []string{"", "latest", "stable", "stable-slim", "12", "12-slim", "bookworm", "bookworm-slim"}

// Dockerfile reads the part of a Dockerfile that Warren supports: FROM an image,
// and RUN. known reports whether the host has an image of a name. The result is the
// image ("" = the default) and the commands.
func Dockerfile(text string, known func(string) bool) (image string, run []string, err error) {
	from := false
	lines := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		at := i + 1
		word, rest, _ := strings.Cut(line, " ")
		switch word = strings.ToUpper(word); {
		case word == "FROM" && from:
			return "", nil, buildFailed(at, "a second FROM: builds in stages are not supported")
		case word == "FROM":
			if image, err = baseImage(strings.TrimSpace(rest), known); err != nil {
				return "", nil, err
			}
			from = true
		case !from:
			return "", nil, buildFailed(at, "the first instruction must be FROM")
		case word == "RUN":
			var command string
			if command, i, err = runCommand(lines, i); err != nil {
				return "", nil, err
			}
			run = append(run, command)
		default:
			return "", nil, buildFailed(at, word+" is not supported: only FROM and RUN are; use additionalFiles, users, workdir and systemd of the spec")
		}
	}
	if !from {
		return "", nil, buildFailed(1, "there is no FROM")
	}
	return image, run, nil
}

// baseImage maps the name of a container image to one of this host.
func baseImage(name string, known func(string) bool) (string, error) {
	name = strings.TrimPrefix(strings.TrimPrefix(name, "docker.io/"), "library/")
	if known(name) {
		return name, nil
	}
	repo, tag, _ := strings.Cut(name, ":")
	if repo == "debian" && slices.Contains(debian, tag) {
		return "", nil
	}
	return "", vm.Errorf(vm.Unsupported, name, "there is no image of this name, and Warren does not read container images").
		WithCode("UNSUPPORTED_OS", "os", name).WithHint("use FROM debian:12, or an image of `warren image ls`")
}

var heredoc = regexp.MustCompile(`^<<-?\s*(['"]?)([A-Za-z_][A-Za-z0-9_]*)['"]?$`)

// runCommand reads the RUN that begins at line i and returns its last line.
func runCommand(lines []string, i int) (string, int, error) {
	at := i + 1
	_, rest, _ := strings.Cut(strings.TrimSpace(lines[i]), " ")
	rest = strings.TrimSpace(rest)
	if m := heredoc.FindStringSubmatch(rest); m != nil {
		for end := i + 1; end < len(lines); end++ {
			if strings.TrimSpace(lines[end]) == m[2] {
				return strings.Join(lines[i+1:end], "\n"), end, nil
			}
		}
		return "", i, buildFailed(at, "the end of the here-document is missing: "+m[2])
	}
	switch {
	case strings.HasPrefix(rest, "["), strings.HasPrefix(rest, "--"), strings.HasPrefix(rest, "<<"):
		return "", i, buildFailed(at, "this form of RUN is not supported; use a shell command")
	}
	for strings.HasSuffix(rest, `\`) && i+1 < len(lines) {
		i++
		rest += "\n" + strings.TrimSpace(lines[i])
	}
	if rest == "" {
		return "", i, buildFailed(at, "RUN has no command")
	}
	return rest, i, nil
}

func buildFailed(line int, why string) error {
	text := fmt.Sprintf("Dockerfile, line %d: %s", line, why)
	return vm.Errorf(vm.Unsupported, "baseImage", "%s", text).WithCode("BUILD_FAILED", "exitCode", 1, "stderr", text)
}
