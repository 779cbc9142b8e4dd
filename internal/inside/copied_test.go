// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package inside_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"testing"

	"github.com/warren-vm/warren/internal/engine"
	"github.com/warren-vm/warren/internal/inside"
	"github.com/warren-vm/warren/vm"
)

func hexSum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}

// TestCopiedOut: the audit record of a copy has the digest of the file, or of a tree's
// files, and where the caller puts it. A copy that was broken off has no digest.
func TestCopiedOut(t *testing.T) {
	s, e, c := site(t)
	create(t, e, c, engine.CreateRequest{Name: "box", Workdir: "/work"})
	sh(t, e, c, "box", "mkdir d; echo one > d/a; echo two > d/b")
	newest := func() map[string]any {
		t.Helper()
		list, err := s.Audit.List(t.Context(), vm.AuditFilter{Limit: 1})
		if err != nil || len(list) != 1 || list[0].Op != vm.OpRead {
			t.Fatalf("the newest audit record is %+v, %v, want that of the copy", list, err)
		}
		return list[0].Detail
	}
	to := &vm.Call{Actor: c.Actor, To: "laptop:/home/me/a"}
	_, file, err := e.OpenFile(t.Context(), to, "box", "", "d/a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(file); err != nil || file.Close() != nil {
		t.Fatalf("the file is not read: %v", err)
	}
	if d := newest(); d["sha256"] != hexSum("one\n") || d["to"] != to.To {
		t.Errorf("the record of a file has the detail %v, want its digest and %s", d, to.To)
	}
	tree, err := e.TarDown(t.Context(), to, "box", "", "d")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(tree); err != nil || tree.Close() != nil {
		t.Fatalf("the tree is not read: %v", err)
	}
	lines := []string{hexSum("one\n") + "  ./a\n", hexSum("two\n") + "  ./b\n"}
	if lines[1] < lines[0] {
		lines[0], lines[1] = lines[1], lines[0]
	}
	if d := newest(); d["treeSha256"] != hexSum(lines[0]+lines[1]) || fmt.Sprint(d["files"]) != "2" {
		t.Errorf("the record of a tree has the detail %v, want the digest of what sha256sum prints of its 2 files", d)
	}
	_, cut, err := e.OpenFile(t.Context(), to, "box", "", "d/a")
	if err != nil {
		t.Fatal(err)
	}
	if err := cut.Close(); err != nil {
		t.Fatal(err)
	}
	if d := newest(); d["sha256"] != nil {
		t.Errorf("the record of a copy that was broken off has the detail %v, want no digest", d)
	}
}

// TestTreeSum: a guest's stream that is no archive, or a cut one, has no digest; hard links
// and odd names count as sha256sum shows them in the copy.
func TestTreeSum(t *testing.T) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range []tar.Header{
		{Name: "./", Typeflag: tar.TypeDir},
		{Name: "./a\nb", Typeflag: tar.TypeReg, Size: 3},
		{Name: "./hard", Typeflag: tar.TypeLink, Linkname: "./a\nb"},
		{Name: "./link", Typeflag: tar.TypeSymlink, Linkname: "hard"},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			_, _ = io.WriteString(w, "one") // Close tells
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	one := hexSum("one")
	if got, files := inside.TreeSum(out.Bytes()); got != hexSum(one+"  ./hard\n"+"\\"+one+"  ./a\\nb\n") || files != 2 {
		t.Errorf("the digest of %d files is %s, want that of 2 lines of sha256sum", files, got)
	}
	for what, data := range map[string][]byte{"no archive": bytes.Repeat([]byte("x"), 4096), "a cut archive": out.Bytes()[:700]} {
		if got, _ := inside.TreeSum(data); got != "" {
			t.Errorf("%s has the digest %s, want none", what, got)
		}
	}
}
