// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package dockerfile

import (
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

const example = `# syntax=docker/dockerfile:1
ARG VERSION=12
ARG REGISTRY
FROM ${REGISTRY:-docker.io}/library/debian:${VERSION} AS build
RUN apt-get update && \
    apt-get install -y gcc
COPY --from=golang:1.24 /usr/local/go /usr/local/go
FROM scratch
COPY --from=build /bin/true /true
COPY --from=0 /bin/false /false
RUN --mount=type=bind,from=alpine:3,target=/a --mount=type=cache,target=/c /true
FROM build
RUN echo last
`

func TestImagesOfDockerfile(t *testing.T) {
	s, err := Parse("Dockerfile", []byte(example), map[string]string{"VERSION": "13"})
	if err != nil {
		t.Fatal("the example is refused:", err)
	}
	want := []string{"alpine:3", "docker.io/library/debian:13", "docker/dockerfile:1", "golang:1.24"}
	if !slices.Equal(s.Images, want) {
		t.Errorf("the images are %q, not %q", s.Images, want)
	}
}

func TestParseRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, subject, said string }{
		"empty":               {"", "Dockerfile", "no instructions"},
		"only comments":       {"# nothing\n", "Dockerfile:1", "no instructions"},
		"no FROM":             {"ARG A=1\n", "Dockerfile", "has no FROM"},
		"RUN first":           {"ARG A=1\nRUN true\nFROM scratch\n", "Dockerfile:2", "RUN comes before the first FROM"},
		"FROM without a name": {"\nFROM\n", "Dockerfile:2", "FROM needs the name of an image"},
		"FROM an unset ARG":   {"ARG A\nFROM $A\n", "Dockerfile:2", "a variable in it has no value"},
		"unfinished heredoc":  {"FROM scratch\nRUN <<END\ntrue\n", "Dockerfile:2", "unterminated heredoc"},
		"too large":           {"FROM scratch\n#" + strings.Repeat("x", maxSource), "Dockerfile", "is larger than"},
	} {
		_, err := Parse("Dockerfile", []byte(c.text), nil)
		e := vm.AsError(err)
		if err == nil || e.Kind != vm.Invalid || e.Code != "DOCKERFILE_INVALID" {
			t.Errorf("%s: the error is %v, not DOCKERFILE_INVALID", name, err)
			continue
		}
		if e.Subject != c.subject {
			t.Errorf("%s: the error is about %s, not %s", name, e.Subject, c.subject)
		}
		if !strings.Contains(e.Msg, c.said) {
			t.Errorf("%s: the error says %q, not %q", name, e.Msg, c.said)
		}
	}
}

func TestLocate(t *testing.T) {
	s, err := Parse("Dockerfile", []byte(example), nil)
	if err != nil {
		t.Fatal("the example is refused:", err)
	}
	for name, c := range map[string]struct {
		output string
		line   int
		text   string
	}{
		"a RUN over two lines": {"#1 transferring dockerfile: 208B done\n#7 ERROR: x\n------\n > [build 2/3] RUN apt-get update &&     apt-get install -y gcc:\n------\n", 5, "RUN apt-get update && apt-get install -y gcc"},
		"the last":             {"------\n > [stage-2 2/2] RUN echo last:\n------\n", 13, "RUN echo last"},
		"by the parser":        {"failed to solve: dockerfile parse error line 6: unknown instruction: FOO\n", 6, "RUN apt-get update && apt-get install -y gcc"},
		"nothing":              {"error: out of paper\n", 0, ""},
	} {
		line, text := s.Locate(c.output)
		if line != c.line {
			t.Errorf("%s: line %d, not %d", name, line, c.line)
		}
		if text != c.text {
			t.Errorf("%s: the instruction is %q, not %q", name, text, c.text)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(example))
	f.Add([]byte("FROM scratch\nRUN <<A <<B\nx\nA\ny\nB\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse("Dockerfile", text, nil)
		if err != nil {
			if vm.KindOf(err) != vm.Invalid {
				t.Errorf("an error of kind %s: %v", vm.KindOf(err), err)
			}
			return
		}
		if !slices.IsSorted(s.Images) {
			t.Errorf("the images are not sorted: %q", s.Images)
		}
	})
}
