// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

// TestDiffOverHTTP: a question in the query and one in the body have the same answer; a
// patch is text; a question that is none is refused.
func TestDiffOverHTTP(t *testing.T) {
	b := newBench(t)
	b.create(`{"name":"box"}`)
	b.do("PUT", "/v1/vms/box/raw//work/new", []byte("new")).ok(t)
	var get, post vm.Diff
	b.do("GET", "/v1/vms/box/diff?from=image&path=/work&hunks=true", nil).lacks(t, ":null").into(t, &get)
	b.do("POST", "/v1/vms/box/diff", vm.DiffRequest{From: "image", Paths: []vm.GuestPath{"/work"}}).into(t, &post)
	if len(get.Changes) != 1 || get.Changes[0].Path != "/work/new" || get.Changes[0].Verb != vm.FileAdded {
		t.Errorf("the changes are %+v, want the new file", get.Changes)
	}
	if post.Manifest != get.Manifest || get.Manifest == "" {
		t.Errorf("the manifests are %q and %q, want them alike", get.Manifest, post.Manifest)
	}
	a := b.do("GET", "/v1/vms/box/diff/patch?from=image", nil).ok(t)
	if kind := a.header.Get("Content-Type"); !strings.HasPrefix(kind, "text/") {
		t.Errorf("the patch is of type %q, want text", kind)
	}
	b.do("GET", "/v1/vms/box/diff?hunks=perhaps", nil).wants(t, 400, "INVALID_REQUEST")
	b.do("GET", "/v1/vms/box/diff?path=work", nil).wants(t, 400, "INVALID_REQUEST")
	b.do("GET", "/v1/vms/box/diff?from=none", nil).wants(t, 404, "SNAPSHOT_NOT_FOUND")
	b.do("GET", "/v1/vms/none/diff", nil).wants(t, 404, "VM_NOT_FOUND")
}
