// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

//go:build system

package system

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// TestEvidenceObject: a server stores its checkpoints as objects of another server. Nobody
// can remove them there, and they show that the log was cut together with its signatures.
func TestEvidenceObject(t *testing.T) {
	t.Parallel()
	far := newS3Host(t)
	far.ok("bucket", "create", "anchors")
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, fmt.Appendf(nil, "AWS_ACCESS_KEY_ID=%s\nAWS_SECRET_ACCESS_KEY=%s\n", far.access, far.secret), 0o600); err != nil {
		t.Fatal(err)
	}
	h := newS3Host(t, "--audit-anchor", "object:"+far.url+"/anchors/one", "--audit-credentials", keys)
	h.ok("bucket", "create", "work")
	h.stopServer() // signs the end of the log, and stores that checkpoint

	c := far.aws(far.access, far.secret)
	list, err := c.ListObjectVersions(t.Context(), &s3.ListObjectVersionsInput{Bucket: aws.String("anchors"), Prefix: aws.String("one/")})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Versions) == 0 {
		t.Fatalf("no checkpoint is stored\n%s", h.log)
	}
	var all strings.Builder
	for _, v := range list.Versions {
		o, err := c.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("anchors"), Key: v.Key, VersionId: v.VersionId})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(&all, o.Body); err != nil {
			t.Fatal(err)
		}
		o.Body.Close()
		_, err = c.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: aws.String("anchors"), Key: v.Key, VersionId: v.VersionId, BypassGovernanceRetention: aws.Bool(true)})
		refused(t, "the removal of a checkpoint by the owner of the keys", err, "AccessDenied", "ObjectLocked", "InvalidRequest")
	}
	anchors := filepath.Join(t.TempDir(), "anchors.jsonl")
	if err := os.WriteFile(anchors, []byte(all.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	audit := filepath.Join(h.data, "audit")
	if r := h.run("audit", "verify", "--dir", audit, "--anchors", anchors); r.code != 0 {
		t.Errorf("the whole log does not verify against its objects: %s", r)
	}
	copied := filepath.Join(t.TempDir(), "audit")
	if err := os.CopyFS(copied, os.DirFS(audit)); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(copied, "000000.jsonl")
	whole, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(whole), "\n")
	for name, text := range map[string]string{log: first + "\n", filepath.Join(copied, "anchors.jsonl"): ""} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if r := h.run("audit", "verify", "--dir", copied, "--anchors", anchors); r.code == 0 || !strings.Contains(r.stdout+r.stderr, "the tail is cut") {
		t.Errorf("a log that was cut with its signatures verifies as %s, want a cut tail", r)
	}
	h.serve() // for the clean-up
}
