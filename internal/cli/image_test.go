// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

var anImage = vm.Image{ID: "im-0123456789abcdef", Name: "tools", Kernel: "6.1.0", DiskMiB: 1024}

// TestImageLs shows the digest, and what an image has of its own.
func TestImageLs(t *testing.T) {
	local := Local{
		ImageList: func(context.Context, string) ([]vm.Image, error) { return []vm.Image{anImage}, nil },
		ImageUse: func(context.Context, string) (map[vm.ImageID]vm.Bytes, error) {
			return map[vm.ImageID]vm.Bytes{anImage.ID: {Unique: 300 << 20, Shared: 40 << 20}}, nil
		},
	}
	r := run(t, newFake(t), local, "", "image", "ls")
	for _, want := range []string{"OWN", "SHARED", "300 MiB", "40 MiB", anImage.Digest()[:19]} {
		if !strings.Contains(r.out, want) {
			t.Errorf("image ls does not say %q:\n%s", want, r.out)
		}
	}
	var got []map[string]any
	r = run(t, newFake(t), local, "", "image", "ls", "--json")
	if err := json.Unmarshal([]byte(r.out), &got); err != nil || len(got) != 1 {
		t.Fatalf("image ls --json is no list of one image: %v: %s", err, r.out)
	}
	if got[0]["digest"] != anImage.Digest() || got[0]["ownBytes"] != float64(300<<20) || got[0]["sharedBytes"] != float64(40<<20) || got[0]["name"] != "tools" {
		t.Errorf("image ls --json says %v, want digest and sizes of the image", got[0])
	}
}

// TestImageFiles: the verbs pass on what was written, and refuse what they cannot do.
func TestImageFiles(t *testing.T) {
	var exported ImageExport
	var in ImageImportFile
	local := Local{
		ImageExport: func(_ context.Context, o ImageExport) (ExportedImage, error) {
			exported = o
			return ExportedImage{Path: o.Path, Bytes: 5 << 20, Image: anImage, Digest: anImage.Digest(), Signer: "SHA256:abc"}, nil
		},
		ImageImportFile: func(_ context.Context, o ImageImportFile) (vm.Image, error) {
			in = o
			o.Progress("files", 1, 2)
			return anImage, nil
		},
	}
	path := filepath.Join(t.TempDir(), "f")
	r := run(t, newFake(t), local, "", "image", "export", "tools", path)
	if r.code != 0 || exported.Image != "tools" || exported.Path != path || !strings.Contains(r.out, "SHA256:abc") {
		t.Errorf("image export ends with %d, says %q and asks for %+v, want the image in the file, and who signed it", r.code, r.out, exported)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := run(t, newFake(t), local, "", "image", "export", "tools", path); r.code == 0 {
		t.Error("image export replaces a file")
	}
	r = run(t, newFake(t), local, "", "image", "import", "file:"+path, "--trust", "SHA256:x")
	if r.code != 0 || in.Path != path || !slices.Equal(in.Trust, []string{"SHA256:x"}) || !strings.Contains(r.out, anImage.Digest()) {
		t.Errorf("image import ends with %d, says %q and asks for %+v, want the file, the signer and the digest", r.code, r.out, in)
	}
	run(t, newFake(t), local, "", "image", "import", "file:").wants(t, 2, "no file")
	run(t, newFake(t), Local{}, "", "image", "import", "file:x").wants(t, 9, "cannot do that")
}

// TestImageImportLogin: the login of a registry is passed on, its password comes from a file or standard input, and
// one that makes no sense is refused.
func TestImageImportLogin(t *testing.T) {
	var in ImportOptions
	local := Local{ImageImport: func(_ context.Context, o ImportOptions) (vm.Image, error) {
		in = o
		return anImage, nil
	}}
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatalf("no file: %v", err)
	}
	run(t, newFake(t), local, "", "image", "import", "oci:ghcr.io/me/app", "--user", "me", "--password-file", path).wants(t, 0, "")
	if in.User != "me" || in.Password != "s3cret" {
		t.Errorf("the login is %q, %q, want that of the flags", in.User, in.Password)
	}
	run(t, newFake(t), local, "typed\n", "image", "import", "ghcr.io/me/app", "--user", "me").wants(t, 0, "")
	if in.Password != "typed" {
		t.Errorf("the password is %q, want that of standard input", in.Password)
	}
	run(t, newFake(t), local, "", "image", "import", "oci:app").wants(t, 0, "")
	if in.User+in.Password != "" {
		t.Errorf("without a login it is %q, %q", in.User, in.Password)
	}
	run(t, newFake(t), local, "", "image", "import", "oci:app", "--user", "me").wants(t, 2, "--password-file")
	run(t, newFake(t), local, "", "image", "import", "oci:app", "--password-file", path).wants(t, 2, "--user")
	run(t, newFake(t), local, "", "image", "import", "archive:a.tar", "--user", "me", "--password-file", path).wants(t, 2, "registry")
}
