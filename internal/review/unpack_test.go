// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review_test

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"

	"github.com/warren-vm/warren/internal/review"
	"github.com/warren-vm/warren/vm"
)

// A secret is found in compressed data and in the history of a repository, after the
// commit that deletes it. // 000-49
func TestSecretInArchivesAndHistory(t *testing.T) {
	key := "K=AK" + "IA" + strings.Repeat("Q7ZX", 4) + "\n"
	var packed, zipped bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte(key)); err != nil || z.Close() != nil {
		t.Fatal("gzip fails")
	}
	archive := zip.NewWriter(&zipped)
	w, err := archive.Create("inner/.env")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(key)); err != nil || archive.Close() != nil {
		t.Fatal("zip fails")
	}
	p := newGitTree(t)
	p.git("add", ".")
	p.git("commit", "-qm", "first")
	was := format(t, p.dir)
	p.put("out.gz", packed.String())
	p.put("out.zip", zipped.String())
	p.put("leak", key)
	p.git("add", "leak")
	p.git("commit", "-qm", "leaks")
	p.git("rm", "-q", "leak")
	p.git("commit", "-qm", "hides it")
	d := report(t, was, format(t, p.dir), review.Options{Hunks: true})
	for _, name := range []string{"out.gz", "out.zip"} {
		if c := changeOf(t, d, "/work/app/"+name); len(c.Secrets) != 1 || c.Secrets[0].Kind != "AWS access key" {
			t.Errorf("in %s found is %+v", name, c.Secrets)
		}
	}
	wantAlert(t, d, "secret", "3 possible secrets", "in the history of /work/app")
	if strings.Contains(fmt.Sprintf("%+v", d), strings.TrimSpace(key[2:])) {
		t.Error("the key stands somewhere in the report")
	}
}

// A pack that came is not searched, and the report says so; one that was there before is
// no news. // 000-49
func TestPacksAreNamed(t *testing.T) {
	p := newGitTree(t)
	p.git("add", ".")
	p.git("commit", "-qm", "first")
	was := format(t, p.dir)
	p.git("repack", "-qad")
	packed := format(t, p.dir)
	about := func(d *vm.Diff) string { return strings.Join(d.NotCompared, "; ") }
	if s := about(report(t, was, packed, review.Options{})); !strings.Contains(s, "secrets in the history that 1 new pack of git (") {
		t.Errorf("after a repack, not compared is %q, want the new pack", s)
	}
	p.put("more", "text\n")
	if s := about(report(t, packed, format(t, p.dir), review.Options{})); strings.Contains(s, "pack") {
		t.Errorf("without a new pack, not compared is %q", s)
	}
}
