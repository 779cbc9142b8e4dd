// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/warren-vm/warren/api"
	"github.com/warren-vm/warren/vm"
)

// TestParseObject: s3://BUCKET/KEY names an object, and nothing else does.
func TestParseObject(t *testing.T) {
	for arg, want := range map[string]objectRef{"s3://a/b": {"a", "b"}, "s3://a/b/c": {"a", "b/c"}, "s3://a/ x": {"a", " x"}} {
		if got, err := parseObject(arg, true); err != nil || got != want {
			t.Errorf("%s names %+v, %v, want %+v", arg, got, err, want)
		}
	}
	for _, arg := range []string{"", "a/b", "s3:/a/b", "s3://", "s3:///b", "s3://a", "s3://a/", "app:/x"} {
		if got, err := parseObject(arg, true); err == nil {
			t.Errorf("%s names %+v", arg, got)
		}
	}
	if got, err := parseObject("s3://a", false); err != nil || got.bucket != "a" {
		t.Errorf("s3://a names %+v, %v, want the bucket", got, err)
	}
}

// TestArtifactOutput: keys and reasons that others wrote are shown safely, and a wrong
// command line says what is missing.
func TestArtifactOutput(t *testing.T) {
	f := newFake(t)
	f.on("GET /v1/objects/buckets/box/objects", api.ObjectList{Objects: []vm.Object{{Key: "evil \x1b[2J", Size: 2048, At: time.Now(), Scan: vm.Clean}}, Prefixes: []string{"dir/"}})
	r := run(t, f, Local{}, "", "artifact", "ls", "s3://box")
	if r.code != 0 || strings.Contains(r.out, "\x1b") || !strings.Contains(r.out, "dir/") || !strings.Contains(r.out, "2 KiB") {
		t.Errorf("artifact ls ends with %d and prints %q", r.code, r.out)
	}
	f.on("GET /v1/objects/buckets/box/versions", api.ObjectList{Objects: []vm.Object{
		{Key: "k", Version: "v2", Deleted: true, Latest: true}, {Key: "k", Version: "v1", Scan: vm.Refused, Hold: true}, {Key: "k2", Version: "other"},
	}})
	r = run(t, f, Local{}, "", "artifact", "versions", "s3://box/k")
	if r.code != 0 || !strings.Contains(r.out, "latest deleted") || !strings.Contains(r.out, "refused hold") || strings.Contains(r.out, "other") {
		t.Errorf("artifact versions ends with %d and prints %q", r.code, r.out)
	}
	exit := api.RowOf("invalid").Exit
	run(t, f, Local{}, "", "artifact", "get", "box/k").wants(t, exit, "write s3://BUCKET/KEY")
	run(t, f, Local{}, "", "artifact", "retain", "s3://box/k").wants(t, exit, "--for 90d")
	run(t, f, Local{}, "", "artifact", "put", "-", "s3://box/k", "--tag", "x").wants(t, exit, "NAME=VALUE")
	run(t, f, Local{}, "", "bucket", "grant", "box").wants(t, exit, "--identity IDENTITY or --vm NAME")
	run(t, f, Local{}, "", "bucket", "lifecycle", "box", "--expire", "3d").wants(t, exit, "--rule NAME")
	run(t, f, Local{}, "", "bucket", "retain", "box").wants(t, exit, "--none")
	run(t, f, Local{}, "", "key", "create", "--identity", "x").wants(t, exit, "--s3")
}

// TestBundleOutput: what the writer of a bundle says of its VM is shown safely.
func TestBundleOutput(t *testing.T) {
	local := Local{BundleInspect: func(context.Context, string, []string) (BundleInfo, error) {
		return BundleInfo{Path: "x", VM: "id\x1b[2J", Name: "name\x1b[2J", State: "state\x1b[2J", Server: "here\x1b[2J", Entries: []BundleEntry{{Path: "a\x1b[2J"}}}, nil
	}}
	r := run(t, newFake(t), local, "", "bundle", "inspect", "x")
	if r.code != 0 || strings.Contains(r.out+r.stderr, "\x1b") || !strings.Contains(r.out, "state") {
		t.Errorf("bundle inspect ends with %d and prints %q, %q", r.code, r.out, r.stderr)
	}
}
