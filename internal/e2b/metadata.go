// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package e2b

import (
	"net/http"
	"strings"

	"github.com/warren-vm/warren/vm"
)

// Metadata of a file are its extended attributes user.e2b.KEY, and travel as headers X-Metadata-KEY.
const (
	metadataAttr   = "e2b."
	metadataHeader = "X-Metadata-"
	maxMetadata    = 4096 // bytes of all keys and values of a file
)

// attrsOf returns the attributes that the headers of an upload ask for.
func attrsOf(h http.Header) (map[string]string, error) {
	var out map[string]string
	total := 0
	for name, values := range h {
		key, ok := strings.CutPrefix(name, metadataHeader)
		if !ok {
			continue
		}
		key, value := strings.ToLower(key), values[0]
		if strings.ContainsFunc(key+value, func(r rune) bool { return r < ' ' || r > '~' }) {
			return nil, invalid(name, "metadata is printable ASCII")
		}
		if key == "" {
			return nil, invalid(name, "metadata needs a key")
		}
		if total += len(key) + len(value); total > maxMetadata {
			return nil, invalid(name, "the metadata of a file is longer than %d bytes", maxMetadata)
		}
		if out == nil {
			out = map[string]string{}
		}
		out[metadataAttr+key] = value
	}
	return out, nil
}

// fileMetadata returns a file's metadata; nil = it has none.
func fileMetadata(i vm.FileInfo) map[string]string {
	var out map[string]string
	for name, value := range i.Attrs {
		if key, ok := strings.CutPrefix(name, metadataAttr); ok {
			if out == nil {
				out = map[string]string{}
			}
			out[key] = value
		}
	}
	return out
}
