// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package seal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/warren-vm/warren/vm"
)

// openBytes opens data as a sealed file and wants that nothing is left behind
// when that fails. A file that was there before stays.
func openBytes(t testing.TB, data []byte, key Key, want vm.File) error {
	t.Helper()
	dir := t.TempDir()
	src, dst := filepath.Join(dir, "sealed"), filepath.Join(dir, "opened")
	if err := os.WriteFile(src, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dst, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := openWhole(t.Context(), src, dst, key, want)
	list, _ := os.ReadDir(dir)
	if got, _ := os.ReadFile(dst); err != nil && (string(got) != "before" || len(list) != 2) {
		t.Errorf("after %v: %d files, and the one that was there before has %d bytes", err, len(list), len(got))
	}
	if bad := checkFile(t.Context(), src, key, want); vm.KindOf(bad) != vm.KindOf(err) {
		t.Errorf("opening says %v, checking says %v", err, bad)
	}
	return err
}

func sealBytes(t testing.TB, key Key, size int64, pieces ...piece) ([]byte, vm.File) {
	t.Helper()
	dir := t.TempDir()
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	writeSparse(t, src, size, pieces...)
	f, err := sealWhole(t.Context(), src, dst, key)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(dst)
	if err != nil {
		t.Fatal(err)
	}
	if err := openBytes(t, data, key, f); err != nil {
		t.Fatal(err)
	}
	return data, f
}

// Each byte of a small file, in turn, is changed.
func TestEveryByteCounts(t *testing.T) {
	key := newKey(t)
	data, f := sealBytes(t, key, 2*mib+9, piece{5, random(1, 30)}, piece{2 * mib, []byte("123456789")})
	// Opening and checking are one function but for the writing: opening is
	// tried with some, checking with all.
	try := func(i int, data []byte) error {
		if i%8 == 0 {
			return openBytes(t, data, key, f)
		}
		src := filepath.Join(t.TempDir(), "s")
		if err := os.WriteFile(src, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return checkFile(t.Context(), src, key, f)
	}
	for i := range data {
		bad := bytes.Clone(data)
		bad[i] ^= 1 << (i % 8)
		if err := try(i, bad); vm.KindOf(err) != vm.Corrupt || vm.AsError(err).Msg == "" {
			t.Fatalf("byte %d of %d changed: %v", i, len(data), err)
		}
	}
	for i := range data {
		if err := try(i, data[:i]); vm.KindOf(err) != vm.Corrupt {
			t.Fatalf("cut off at %d of %d: %v", i, len(data), err)
		}
	}
	for _, tail := range []string{"\x00", "x", string(data)} {
		wantKind(t, "something behind it", openBytes(t, append(bytes.Clone(data), tail...), key, f), vm.Corrupt)
	}
}

// A larger file's regions are changed, dropped, doubled and exchanged.
func TestRegions(t *testing.T) {
	const chunk = 64<<10 + 16 // of age
	key := newKey(t)
	data, f := sealBytes(t, key, 3*mib, piece{0, random(2, 3*mib)})
	second, _ := sealBytes(t, key, 3*mib, piece{0, random(3, 3*mib)})
	start := bytes.Index(data, []byte("\n--- "))
	start += bytes.IndexByte(data[start+1:], '\n') + 2 + 16 // the payload's nonce
	n := (len(data) - start) / chunk
	at := func(d []byte, i int) []byte { return d[start+i*chunk : start+(i+1)*chunk] }
	for i := range n - 1 {
		bad := bytes.Clone(data)
		copy(at(bad, i), at(data, i+1))
		copy(at(bad, i+1), at(data, i))
		wantKind(t, "chunks exchanged", openBytes(t, bad, key, f), vm.Corrupt)
	}
	for _, i := range []int{0, 1, n / 2, n - 1} {
		flipped := bytes.Clone(data)
		at(flipped, i)[chunk/2] ^= 0x10
		other := bytes.Clone(data)
		copy(at(other, i), at(second, i))
		for what, bad := range map[string][]byte{
			"flipped":      flipped,
			"dropped":      append(bytes.Clone(data[:start+i*chunk]), data[start+(i+1)*chunk:]...),
			"doubled":      append(bytes.Clone(data[:start+(i+1)*chunk]), data[start+i*chunk:]...),
			"of another":   other,
			"the last one": data[:start+(i+1)*chunk],
		} {
			if err := openBytes(t, bad, key, f); vm.KindOf(err) != vm.Corrupt {
				t.Errorf("chunk %d %s: %v", i, what, err)
			}
		}
	}
	wantKind(t, "another file of the same key", openBytes(t, second, key, f), vm.Corrupt)
}

// What is recorded must be what the file says.
func TestOtherRecord(t *testing.T) {
	key := newKey(t)
	data, f := sealBytes(t, key, 2*mib+9, piece{5, random(1, 300)})
	for what, change := range map[string]func(*vm.File){
		"longer":            func(f *vm.File) { f.Size++ },
		"shorter":           func(f *vm.File) { f.Size-- },
		"a sum less":        func(f *vm.File) { f.CRC32C = f.CRC32C[:2] },
		"no sums":           func(f *vm.File) { f.CRC32C = nil },
		"another sum":       func(f *vm.File) { f.CRC32C[0]++ },
		"data for a hole":   func(f *vm.File) { f.CRC32C[1]++ },
		"of another length": func(f *vm.File) { f.Size, f.CRC32C = mib, f.CRC32C[:1] },
	} {
		other := f
		other.CRC32C = slices.Clone(f.CRC32C)
		change(&other)
		if err := openBytes(t, data, key, other); vm.KindOf(err) != vm.Corrupt {
			t.Errorf("opening a file recorded as %s: %v, want corrupt", what, err)
		}
	}
}

// encrypt makes a sealed file of any contents, as only a holder of the key can.
func encrypt(t testing.TB, key Key, parts ...[]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := age.Encrypt(&out, key.id.Recipient())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		if _, err := w.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func head(size uint64) []byte { return binary.LittleEndian.AppendUint64([]byte(magic), size) }

func record(t testing.TB, i uint32, pages []int, data []byte) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil, zstd.WithWindowSize(mib), zstd.WithSingleSegment(false))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	var there [mapLen]byte
	for _, p := range pages {
		there[p/8] |= 1 << (p % 8)
	}
	packed := z.EncodeAll(data, nil)
	b := append(binary.LittleEndian.AppendUint32(nil, i), there[:]...)
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(packed))), packed...)
}

// A writer that is wrong, or holds the key and is hostile, does no harm.
func TestMalformedContents(t *testing.T) {
	key := newKey(t)
	const size = mib + page + 10
	content := make([]byte, size)
	copy(content, random(1, page))
	copy(content[mib+page:], "0123456789")
	want := vm.File{Name: "ram", Size: size, CRC32C: []uint32{crc32.Checksum(content[:mib], castagnoli), crc32.Checksum(content[mib:], castagnoli)}}
	first, last := record(t, 0, []int{0}, content[:page]), record(t, 1, []int{1}, content[mib+page:])
	if err := openBytes(t, encrypt(t, key, head(size), last, first), key, want); err != nil {
		t.Fatalf("in another order: %v", err)
	}
	length := func(n uint32) []byte {
		b := bytes.Clone(first)
		binary.LittleEndian.PutUint32(b[recLen-4:], n)
		return b
	}
	h := head(size)
	for what, parts := range map[string][][]byte{
		"nothing":                  nil,
		"half a head":              {h[:10]},
		"another kind":             {[]byte("warren-sealed-2\n12345678"), first, last},
		"another size":             {head(size + 1), first, last},
		"a huge size":              {head(1 << 63), first, last},
		"no records":               {h},
		"the last is missing":      {h, first},
		"the first is missing":     {h, last},
		"one comes twice":          {h, first, first, last},
		"behind the end":           {h, first, last, record(t, 2, []int{0}, content[:page])},
		"far behind the end":       {h, first, last, record(t, 1<<32-1, []int{0}, content[:page])},
		"half a record":            {h, first, last[:20]},
		"no contents":              {h, first, last[:recLen]},
		"half its contents":        {h, last, first[:len(first)-3]},
		"length of 4 GiB":          {h, last, length(1<<32 - 1)},
		"length of nothing":        {h, last, length(0)},
		"another page":             {h, last, record(t, 0, []int{1}, content[:page])},
		"a page too few":           {h, last, record(t, 0, []int{0, 1}, content[:page])},
		"a page too many":          {h, last, record(t, 0, []int{0}, content[:2*page])},
		"no pages":                 {h, last, record(t, 0, nil, nil)},
		"a page behind the end":    {h, first, record(t, 1, []int{1, 2}, content[mib+page:])},
		"a last page that is full": {h, first, record(t, 1, []int{1}, append([]byte("0123456789"), make([]byte, page-10)...))},
		"no zstd":                  {h, last, append(length(4)[:recLen], "none"...)},
	} {
		if err := openBytes(t, encrypt(t, key, parts...), key, want); vm.KindOf(err) != vm.Corrupt {
			t.Errorf("opening a file with %s: %v, want corrupt", what, err)
		}
	}
	bomb := encrypt(t, key, h, last, record(t, 0, []int{0}, make([]byte, 64*mib)))
	if err := openBytes(t, bomb, key, want); !errors.Is(err, zstd.ErrDecoderSizeExceeded) || vm.KindOf(err) != vm.Corrupt {
		t.Errorf("64 MiB as a page: %v", err)
	}
}

// FuzzContents opens anything that is encrypted with the right key: it is an
// error of kind Corrupt or exactly what is recorded.
func FuzzContents(f *testing.F) {
	key := newKey(f)
	content := make([]byte, 2*page+10)
	copy(content[page:], "warren")
	want := vm.File{Size: int64(len(content)), CRC32C: []uint32{crc32.Checksum(content, castagnoli)}}
	good := append(head(uint64(len(content))), record(f, 0, []int{1}, content[page:2*page])...)
	f.Add(good)
	f.Add(good[:headLen])
	f.Add(append(bytes.Clone(good), record(f, 0, []int{2}, []byte("0123456789"))...))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		src, dst := filepath.Join(dir, "s"), filepath.Join(dir, "d")
		if err := os.WriteFile(src, encrypt(t, key, data), 0o600); err != nil {
			t.Fatal(err)
		}
		err := openWhole(t.Context(), src, dst, key, want)
		got, _ := os.ReadFile(dst)
		switch {
		case err == nil && !bytes.Equal(got, content):
			t.Error("opened to something else")
		case err != nil && (vm.KindOf(err) != vm.Corrupt || got != nil):
			t.Errorf("%v, and %d bytes left", err, len(got))
		}
	})
}

// FuzzSealed opens any bytes as a sealed file.
func FuzzSealed(f *testing.F) {
	key := newKey(f)
	data, want := sealBytes(f, key, 5000, piece{0, []byte("warren")})
	f.Add(data)
	f.Add(data[:100])
	f.Add([]byte("age-encryption.org/v1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if bytes.Equal(b, data) {
			return
		}
		wantKind(t, "any bytes", openBytes(t, b, key, want), vm.Corrupt)
	})
}
