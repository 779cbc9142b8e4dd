// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"archive/tar"
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"math"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"

	"github.com/warren-vm/warren/vm"
)

func newKey(t *testing.T) ed25519.PrivateKey {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

type file struct{ path, text string }

// archive writes an archive with these files.
func archive(t *testing.T, key ed25519.PrivateKey, list ...file) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, Manifest{Kind: OfVM, Server: "here", At: time.Unix(1700000000, 0).UTC()}, key)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range list {
		if err := w.Add(Entry{Path: f.path, Kind: "test", Mode: 0o600, Size: int64(len(f.text))}, strings.NewReader(f.text)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Close(map[string]int{"answer": 42}); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// read opens an archive and returns all its files.
func read(t *testing.T, data []byte) (*Archive, []file, error) {
	t.Helper()
	a, err := Open(bytes.NewReader(data), int64(len(data)), Own)
	if err != nil {
		return nil, nil, err
	}
	var list []file
	err = a.Each(t.Context(), func(e Entry, r io.Reader) error {
		text, err := io.ReadAll(r)
		list = append(list, file{e.Path, string(text)})
		return err
	})
	return a, list, err
}

func noise(n int) string {
	b := make([]byte, n)
	src := mathrand.NewChaCha8([32]byte{1})
	_, _ = src.Read(b) // it never fails
	return string(b)
}

var sample = []file{{"a", "first"}, {"dir/b", strings.Repeat("zeros\x00", 5000)}, {"dir/" + strings.Repeat("long", 40), noise(500)}, {"empty", ""}}

// TestRoundTrip: an archive gives back every file, its manifest says what it contains and
// who signed it, and tar lists it.
//
// 001-23
func TestRoundTrip(t *testing.T) {
	key := newKey(t)
	data := archive(t, key, sample...)
	a, got, err := read(t, data)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, sample) {
		t.Errorf("it gives back %d files that are not those that were written", len(got))
	}
	if want := Fingerprint(key.Public().(ed25519.PublicKey)); a.Signer != want {
		t.Errorf("it is signed by %s, want %s", a.Signer, want)
	}
	if m := a.Manifest; m.Server != "here" || string(m.Facts) != `{"answer":42}` || m.Entries[1].Size != 30000 {
		t.Errorf("the manifest is %+v", m)
	}
	path := filepath.Join(t.TempDir(), "x.tar.zst")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("tar", "--zstd", "-tf", path).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "a\ndir/b\n") || !strings.HasSuffix(string(out), "empty\nmanifest.json\n") {
		t.Errorf("tar lists it as %q, %v", out, err)
	}
}

// TestFlippedBit: an archive in which any one bit is flipped is refused with kind Corrupt,
// whichever bit it is.
func TestFlippedBit(t *testing.T) {
	data := archive(t, newKey(t), sample...)
	for at := range data {
		bad := slices.Clone(data)
		bad[at] ^= 1 << (at % 8)
		if _, _, err := read(t, bad); err == nil {
			t.Fatalf("bit %d of byte %d of %d may be flipped", at%8, at, len(data))
		} else if k := vm.KindOf(err); k != vm.Corrupt {
			t.Fatalf("bit %d of byte %d flipped gives kind %s: %v", at%8, at, k, err)
		}
	}
}

// TestTruncated: an archive that ends early, or to which something was added, is refused.
func TestTruncated(t *testing.T) {
	data := archive(t, newKey(t), sample...)
	for n := range data {
		if _, _, err := read(t, data[:n]); vm.KindOf(err) != vm.Corrupt {
			t.Fatalf("cut to %d of %d bytes it gives %v, want kind %s", n, len(data), err, vm.Corrupt)
		}
	}
	if _, _, err := read(t, append(slices.Clone(data), 0)); vm.KindOf(err) != vm.Corrupt {
		t.Errorf("with one more byte it gives %v, want kind %s", err, vm.Corrupt)
	}
	swapped := append(slices.Clone(data[:len(data)-sealSize]), archive(t, newKey(t), file{"a", "other"})[len(data)%7:]...)
	if _, _, err := read(t, swapped); vm.KindOf(err) != vm.Corrupt {
		t.Errorf("with the end of another archive it gives %v, want kind %s", err, vm.Corrupt)
	}
}

// forge writes an archive whose manifest and tar may say different things, signed
// properly: whoever has a key can make one.
func forge(t *testing.T, change func(m *Manifest), headers ...*tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := NewWriter(&out, Manifest{Kind: OfVM}, newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		if err := w.tar.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := w.tar.Write(make([]byte, h.Size)); err != nil {
				t.Fatal(err)
			}
		}
	}
	change(&w.man)
	if _, err := w.Close(nil); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// sum4 is the digest of four zeros.
const sum4 = "df3f619804a92fdb4057192dc43dd748ea778adc52bc498ce80524c014b81119"

// TestHostile: an archive that was signed but that does not fit its manifest, or that
// names files outside of itself, is refused.
func TestHostile(t *testing.T) {
	regular := func(name string) *tar.Header {
		return &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: 4, Mode: 0o600}
	}
	entry := func(name string) Entry { return Entry{Path: name, Size: 4, SHA256: sum4} }
	list := func(entries ...Entry) func(*Manifest) { return func(m *Manifest) { m.Entries = entries } }
	if _, got, err := read(t, forge(t, list(entry("a")), regular("a"))); err != nil || len(got) != 1 {
		t.Fatalf("a forged archive without a fault: %v", err)
	}
	for name, data := range map[string][]byte{
		"a path that leads out":           forge(t, list(entry("../a")), regular("../a")),
		"a path that leads out inside":    forge(t, list(entry("a/../../b")), regular("a/../../b")),
		"an absolute path":                forge(t, list(entry("/etc/passwd")), regular("/etc/passwd")),
		"an empty path":                   forge(t, list(entry(""))),
		"a dot":                           forge(t, list(entry("."))),
		"a control character":             forge(t, list(entry("a\nb")), regular("a\nb")),
		"a backslash":                     forge(t, list(entry(`a\b`)), regular(`a\b`)),
		"a long path":                     forge(t, list(entry(strings.Repeat("a/", 600)+"a"))),
		"a long name":                     forge(t, list(entry(strings.Repeat("a", 300)))),
		"the same path twice":             forge(t, list(entry("a"), entry("a")), regular("a"), regular("a")),
		"a file as a directory":           forge(t, list(entry("a"), entry("a/b")), regular("a"), regular("a/b")),
		"a directory as a file":           forge(t, list(entry("a/b"), entry("a")), regular("a/b"), regular("a")),
		"a second manifest":               forge(t, list(entry(manifestName)), regular(manifestName)),
		"an entry that is only in tar":    forge(t, list(entry("a")), regular("a"), regular("b")),
		"an entry that is not in tar":     forge(t, list(entry("a"), entry("b")), regular("a")),
		"entries in another order":        forge(t, list(entry("b"), entry("a")), regular("a"), regular("b")),
		"another name":                    forge(t, list(entry("b")), regular("a")),
		"another size":                    forge(t, list(Entry{Path: "a", Size: 5, SHA256: sum4}), regular("a")),
		"a negative size":                 forge(t, list(Entry{Path: "a", Size: -1, SHA256: sum4}), regular("a")),
		"sizes beyond any":                forge(t, list(Entry{Path: "a", Size: math.MaxInt64, SHA256: sum4}, Entry{Path: "b", Size: math.MaxInt64, SHA256: sum4})),
		"another digest":                  forge(t, list(Entry{Path: "a", Size: 4, SHA256: strings.Repeat("0", 64)}), regular("a")),
		"no digest":                       forge(t, list(Entry{Path: "a", Size: 4}), regular("a")),
		"a symbolic link":                 forge(t, list(Entry{Path: "a", SHA256: sum4}), &tar.Header{Typeflag: tar.TypeSymlink, Name: "a", Linkname: "/etc/passwd"}),
		"a hard link":                     forge(t, list(Entry{Path: "a", SHA256: sum4}), &tar.Header{Typeflag: tar.TypeLink, Name: "a", Linkname: "/etc/passwd"}),
		"a device":                        forge(t, list(Entry{Path: "a", SHA256: sum4}), &tar.Header{Typeflag: tar.TypeBlock, Name: "a"}),
		"a directory":                     forge(t, list(Entry{Path: "a", SHA256: sum4}), &tar.Header{Typeflag: tar.TypeDir, Name: "a/"}),
		"an unknown kind":                 forge(t, func(m *Manifest) { m.Kind = "poem" }),
		"a version that is not known yet": forge(t, func(m *Manifest) { m.Version = 2 }),
	} {
		_, _, err := read(t, data)
		if k := vm.KindOf(err); err == nil || k == vm.Internal {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
}

// TestLimits: an uploaded archive can have no more entries and bytes than the reader
// allows, whatever it says.
func TestLimits(t *testing.T) {
	data := archive(t, newKey(t), sample...)
	for name, lim := range map[string]Limits{
		"entries":  {Entries: 3, Manifest: 1 << 20, Bytes: 1 << 20},
		"manifest": {Entries: 10, Manifest: 100, Bytes: 1 << 20},
		"bytes":    {Entries: 10, Manifest: 1 << 20, Bytes: 30000},
	} {
		if _, err := Open(bytes.NewReader(data), int64(len(data)), lim); !errors.Is(err, vm.Limit) {
			t.Errorf("too many %s: %v, want kind %s", name, err, vm.Limit)
		}
	}
}

// TestShortEntry: an entry whose file got shorter while it was read leaves an archive that
// nobody takes for whole.
func TestShortEntry(t *testing.T) {
	var out bytes.Buffer
	w, err := NewWriter(&out, Manifest{Kind: OfVM}, newKey(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add(Entry{Path: "a", Size: 10}, strings.NewReader("short")); !errors.Is(err, vm.Corrupt) {
		t.Fatalf("it gives %v, want kind %s", err, vm.Corrupt)
	}
	if _, err := w.Close(nil); err == nil {
		t.Error("the archive was completed all the same")
	}
	if _, _, err := read(t, out.Bytes()); err == nil {
		t.Error("a reader takes it for whole")
	}
}

// TestEncrypted: an encrypted archive opens only with the identity or passphrase that it
// was encrypted for, and a flipped bit is found.
func TestEncrypted(t *testing.T) {
	id, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	other, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	data := archive(t, newKey(t), sample...)
	for name, c := range map[string]struct {
		recipients []string
		passphrase string
		good, bad  Keys
	}{
		"a recipient":  {recipients: []string{id.Recipient().String()}, good: Keys{Identities: id.String() + "\n"}, bad: Keys{Identities: other.String()}},
		"a passphrase": {passphrase: "open sesame", good: Keys{Passphrase: "open sesame"}, bad: Keys{Passphrase: "open barley"}},
	} {
		var out bytes.Buffer
		w, err := Encrypt(&out, c.recipients, c.passphrase)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		open := func(b []byte, k Keys) error {
			r, n, err := Decrypt(bytes.NewReader(b), int64(len(b)), k)
			if err != nil {
				return err
			}
			a, err := Open(r, n, Own)
			if err != nil {
				return err
			}
			return a.Verify(t.Context())
		}
		if err := open(out.Bytes(), c.good); err != nil {
			t.Errorf("%s does not open it: %v", name, err)
		}
		for what, k := range map[string]Keys{"another": c.bad, "none": {}} {
			if err := open(out.Bytes(), k); !errors.Is(err, vm.Denied) {
				t.Errorf("%s in place of %s gives %v, want kind %s", what, name, err, vm.Denied)
			}
		}
		bad := slices.Clone(out.Bytes())
		bad[len(bad)/2] ^= 4
		if err := open(bad, c.good); !errors.Is(err, vm.Corrupt) {
			t.Errorf("%s, with a flipped bit: %v, want kind %s", name, err, vm.Corrupt)
		}
	}
	if _, err := Encrypt(io.Discard, []string{"ssh-rsa AAAA"}, ""); !errors.Is(err, vm.Invalid) {
		t.Errorf("something else as a recipient gives %v, want kind %s", err, vm.Invalid)
	}
}
