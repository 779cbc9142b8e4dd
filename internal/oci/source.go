// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"path/filepath"
	"regexp"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/warren-vm/warren/vm"
)

// Kind says where an image comes from.
type Kind string

// The kinds of sources, which are also the words before the colon.
const (
	Registry Kind = "oci"
	Layout   Kind = "layout"
	Archive  Kind = "archive"
)

// A Source names an image.
type Source struct {
	Kind Kind
	// Place is NAME[:TAG|@DIGEST] of a registry, or a path, with #TAG where a directory or an
	// archive holds more than one image.
	Place string
}

// String returns the text that Parse reads.
func (s Source) String() string { return string(s.Kind) + ":" + s.Place }

// IsSource reports whether an argument has the form of a source.
func IsSource(arg string) bool {
	kind, _, ok := strings.Cut(arg, ":")
	return ok && (Kind(kind) == Registry || Kind(kind) == Layout || Kind(kind) == Archive)
}

// Parse reads oci:NAME[:TAG|@DIGEST], layout:DIR[#TAG] or archive:FILE[#TAG]. A text without such a
// word is a name in a registry.
func Parse(arg string) (Source, error) {
	s := Source{Kind: Registry, Place: arg}
	if IsSource(arg) {
		kind, place, _ := strings.Cut(arg, ":")
		s = Source{Kind: Kind(kind), Place: place}
	}
	if s.Place == "" || strings.ContainsAny(s.Place, "\x00\n\r") {
		return Source{}, badReference(arg, "names no image")
	}
	if s.Kind == Registry {
		if _, err := name.ParseReference(s.Place); err != nil {
			return Source{}, badReference(arg, "is no name of a container image")
		}
	}
	return s, nil
}

func badReference(arg, why string) error {
	return vm.Errorf(vm.Invalid, vm.Clip(arg, 200), "%s", why).WithCode("OCI_BAD_REFERENCE").
		WithHint("write oci:NAME:TAG, oci:NAME@sha256:DIGEST, layout:DIR or archive:FILE")
}

// path splits the place of a directory or an archive into its path and a tag.
func (s Source) path() (file, tag string) {
	file, tag, _ = strings.Cut(s.Place, "#")
	return file, tag
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// Name proposes a name for the image: the last part of the reference, without tag and digest.
func (s Source) Name() string {
	place := s.Place
	if s.Kind == Registry {
		place, _, _ = strings.Cut(place, "@")
		if i := strings.LastIndexByte(place, ':'); i > strings.LastIndexByte(place, '/') {
			place = place[:i]
		}
	} else {
		place, _ = s.path()
		for _, ext := range []string{".gz", ".tgz", ".tar", ".oci"} {
			place = strings.TrimSuffix(place, ext)
		}
	}
	n := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(filepath.Base(place)), "-"), "-")
	if n == "" || n[0] < 'a' {
		n = strings.TrimSuffix("oci-"+n, "-")
	}
	return n[:min(len(n), 40)]
}
