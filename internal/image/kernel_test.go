// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cavaliergopher/cpio"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/vm"
)

// The dependencies are those of a real kernel, shortened.
const modulesDep = `kernel/drivers/virtio/virtio_pci.ko: kernel/drivers/virtio/virtio_pci_modern_dev.ko kernel/drivers/virtio/virtio_pci_legacy_dev.ko kernel/drivers/virtio/virtio_ring.ko kernel/drivers/virtio/virtio.ko
kernel/drivers/virtio/virtio_pci_modern_dev.ko:
kernel/drivers/virtio/virtio_pci_legacy_dev.ko:
kernel/drivers/virtio/virtio.ko:
kernel/drivers/virtio/virtio_ring.ko: kernel/drivers/virtio/virtio.ko
kernel/drivers/block/virtio_blk.ko.xz: kernel/drivers/virtio/virtio_ring.ko kernel/drivers/virtio/virtio.ko
kernel/drivers/net/virtio_net.ko: kernel/drivers/net/net_failover.ko kernel/net/core/failover.ko kernel/drivers/virtio/virtio_ring.ko kernel/drivers/virtio/virtio.ko
kernel/drivers/net/net_failover.ko: kernel/net/core/failover.ko
kernel/net/core/failover.ko:
kernel/drivers/char/hw_random/virtio-rng.ko: kernel/drivers/virtio/virtio_ring.ko kernel/drivers/virtio/virtio.ko
kernel/fs/fuse/fuse.ko:
`

func TestModuleOrder(t *testing.T) {
	builtin := "kernel/drivers/char/virtio_console.ko\n"
	got, err := moduleOrder(modulesDep, builtin, wantedModules)
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]int{}
	for i, f := range got {
		if _, twice := at[f]; twice {
			t.Errorf("%s twice", f)
		}
		at[f] = i + 1
	}
	for _, line := range strings.Split(strings.TrimSpace(modulesDep), "\n") {
		file, deps, _ := strings.Cut(line, ":")
		if at[file] == 0 {
			if !strings.HasSuffix(file, "fuse.ko") {
				t.Errorf("%s is missing", file)
			}
			continue
		}
		for _, d := range strings.Fields(deps) {
			if at[d] == 0 || at[d] > at[file] {
				t.Errorf("%s comes before %s, which it needs", file, d)
			}
		}
	}
	if list := orderFile(got); strings.Contains(list, "/") || strings.Contains(list, ".xz") || strings.Contains(list, "fuse") {
		t.Errorf("order file:\n%s", list)
	}
}

func TestModuleOrderErrors(t *testing.T) {
	for _, c := range []struct {
		name, dep string
		wanted    []string
		want      vm.Kind
	}{
		{"no such module", "a.ko:\n", []string{"b"}, vm.Unsupported},
		{"optional one", "a.ko:\n", []string{"a", "virtio_mmio"}, ""},
		{"dependency that is nowhere", "a.ko: b.ko\n", []string{"a"}, vm.Corrupt},
		{"circle", "a.ko: b.ko\nb.ko: a.ko\n", []string{"a"}, vm.Corrupt},
	} {
		if got, err := moduleOrder(c.dep, "", c.wanted); vm.KindOf(err) != c.want {
			t.Errorf("%s: %q, %v, want %q", c.name, got, err, c.want)
		}
	}
}

// tinyELF is an x86-64 ELF file with one note, of the type given.
func tinyELF(t *testing.T, noteType uint32) []byte {
	t.Helper()
	var note bytes.Buffer
	for _, v := range []any{uint32(4), uint32(4), noteType, []byte("Xen\x00"), uint32(0x1000)} {
		if err := binary.Write(&note, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	head := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64}
	copy(head.Ident[:], elf.ELFMAG+"\x02\x01\x01")
	prog := elf.Prog64{Type: uint32(elf.PT_NOTE), Off: 120, Filesz: uint64(note.Len()), Memsz: uint64(note.Len())}
	var out bytes.Buffer
	for _, v := range []any{head, prog, note.Bytes(), bytes.Repeat([]byte("kernel "), 1000)} {
		if err := binary.Write(&out, binary.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

// bzImage wraps a packed kernel.
func bzImage(packed []byte, size int) []byte {
	const setup = 3
	out := make([]byte, (setup+1)*512+100)
	out[bzSetupSects] = setup
	copy(out[bzMagic:], "HdrS")
	binary.LittleEndian.PutUint16(out[bzVersion:], 0x20f)
	binary.LittleEndian.PutUint32(out[bzPayloadOffset:], 100)
	binary.LittleEndian.PutUint32(out[bzPayloadLength:], uint32(len(packed)+4))
	out = append(out, packed...)
	out = binary.LittleEndian.AppendUint32(out, uint32(size))
	return append(out, "the rest"...)
}

func packLZ4(t *testing.T, data []byte) []byte {
	t.Helper()
	out := []byte{0x02, 0x21, 0x4c, 0x18}
	for len(data) > 0 {
		n := min(len(data), 8<<20)
		buf := make([]byte, lz4.CompressBlockBound(n))
		got, err := lz4.CompressBlock(data[:n], buf, nil)
		if err != nil || got == 0 {
			t.Fatalf("lz4: %d, %v", got, err)
		}
		out = binary.LittleEndian.AppendUint32(out, uint32(got))
		out = append(out, buf[:got]...)
		data = data[n:]
	}
	return out
}

func TestExtractVmlinux(t *testing.T) {
	kernel := append(tinyELF(t, pvhEntry), make([]byte, 9<<20)...) // more than one lz4 block
	var gz bytes.Buffer
	zw := gzip.NewWriter(&gz)
	if _, err := zw.Write(kernel); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, packed := range map[string][]byte{"lz4": packLZ4(t, kernel), "gzip": gz.Bytes(), "zstd": enc.EncodeAll(kernel, nil)} {
		got, err := extractVmlinux(t.Context(), bzImage(packed, len(kernel)))
		if err != nil || !bytes.Equal(got, kernel) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}

func TestExtractVmlinuxErrors(t *testing.T) {
	kernel := tinyELF(t, pvhEntry)
	good := bzImage(packLZ4(t, kernel), len(kernel))
	change := func(f func([]byte)) []byte {
		c := bytes.Clone(good)
		f(c)
		return c
	}
	start := 4*512 + 100
	noPVH := tinyELF(t, 1)
	for _, c := range []struct {
		name string
		bz   []byte
		want vm.Kind
	}{
		{"good", good, ""},
		{"empty", nil, vm.Corrupt},
		{"something else", bytes.Repeat([]byte("x"), 4096), vm.Corrupt},
		{"cut", good[:start+40], vm.Corrupt},
		{"old protocol", change(func(b []byte) { b[bzVersion+1] = 1 }), vm.Unsupported},
		{"payload outside", change(func(b []byte) { binary.LittleEndian.PutUint32(b[bzPayloadOffset:], 1<<31) }), vm.Corrupt},
		{"no payload", change(func(b []byte) { binary.LittleEndian.PutUint32(b[bzPayloadLength:], 3) }), vm.Corrupt},
		{"unknown packing", change(func(b []byte) { b[start] = 'B' }), vm.Unsupported},
		{"block too long", change(func(b []byte) { b[start+7] = 0x7f }), vm.Corrupt},
		{"garbage in a block", change(func(b []byte) { copy(b[start+8:], "\xff\xff\xff\xff\xff\xff\xff\xff") }), vm.Corrupt},
		{"smaller than announced", bzImage(packLZ4(t, kernel), len(kernel)+1), vm.Corrupt},
		{"larger than announced", bzImage(packLZ4(t, kernel), len(kernel)-1), vm.Corrupt},
		{"absurd size", bzImage(packLZ4(t, kernel), 1<<31), vm.Corrupt},
		{"no ELF", bzImage(packLZ4(t, bytes.Repeat([]byte("no"), 500)), 1000), vm.Corrupt},
		{"no PVH entry", bzImage(packLZ4(t, noPVH), len(noPVH)), vm.Unsupported},
	} {
		if _, err := extractVmlinux(t.Context(), c.bz); vm.KindOf(err) != c.want {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func FuzzExtractVmlinux(f *testing.F) {
	f.Add(make([]byte, 4096))
	head := bzImage([]byte{0x02, 0x21, 0x4c, 0x18, 1, 0, 0, 0, 0}, 0)
	f.Add(head)
	f.Fuzz(func(t *testing.T, data []byte) {
		if bytes.Contains(data, []byte("7zXZ")) {
			return // would start a program each time
		}
		if _, err := extractVmlinux(t.Context(), data); err != nil && vm.KindOf(err) == vm.Internal {
			t.Fatalf("kind of %v", err)
		}
	})
}

// The initial file system is the same for the same input, and holds what the
// guest's init expects.
func TestInitramfs(t *testing.T) {
	dir, err := layout.Open(filepath.Join(t.TempDir(), "d"))
	if err != nil {
		t.Fatal(err)
	}
	agent := filepath.Join(t.TempDir(), "agent")
	img := vm.Image{ID: "im-abcdefghijklmnop", Kernel: "6.1.0-1-cloud-amd64"}
	mods := layout.ImageDir(dir.Image(img.ID))
	if err := os.MkdirAll(mods.Modules(), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{
		agent: "#!agent", mods.ModuleOrder(): "virtio.ko\nvirtio_blk.ko\n",
		mods.Modules() + "/virtio.ko": "one", mods.Modules() + "/virtio_blk.ko": "second", mods.Modules() + "/other.ko": "no",
	} {
		if err := os.WriteFile(name, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first, err := Initramfs(dir, img, agent, "aa")
	if err != nil {
		t.Fatal(err)
	}
	a, err := os.ReadFile(first)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Initramfs(dir, img, "/nonexistent", "aa"); err != nil || again != first {
		t.Errorf("not cached: %q, %v", again, err)
	}
	second, err := Initramfs(dir, img, agent, "bb")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(second); err != nil || !bytes.Equal(a, b) {
		t.Errorf("same input, other bytes (%v)", err)
	}
	if len(a)%512 != 0 {
		t.Errorf("length %d is no multiple of 512", len(a))
	}
	want := map[string]string{
		"dev": "40755", "dev/console": "20600", "dev/null": "20666", "init": "100755#!agent", "modules": "40755",
		"modules/order": "100644virtio.ko\nvirtio_blk.ko\n", "modules/virtio.ko": "100644one", "modules/virtio_blk.ko": "100644second",
	}
	r := cpio.NewReader(bytes.NewReader(a))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.ToLower(octal(uint32(h.Mode))) + string(body); got != want[h.Name] {
			t.Errorf("%s: %q, want %q", h.Name, got, want[h.Name])
		}
		delete(want, h.Name)
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
	if err := os.WriteFile(mods.Modules()+"/virtio.ko", []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	if third, err := Initramfs(dir, img, agent, "aa"); err != nil || third == first {
		t.Errorf("other modules, the same file (%v)", err)
	}
	if err := os.Remove(mods.Modules() + "/virtio.ko"); err != nil {
		t.Fatal(err)
	}
	if _, err := Initramfs(dir, img, agent, "aa"); !errors.Is(err, vm.Corrupt) {
		t.Errorf("a module is missing: %v", err)
	}
}

func octal(n uint32) string {
	var out string
	for ; n > 0; n /= 8 {
		out = string(rune('0'+n%8)) + out
	}
	return out
}

func TestCmdline(t *testing.T) {
	img := vm.Image{Cmdline: baseCmdline}
	kvm, tcg := Cmdline(img, vm.KVM), Cmdline(img, vm.TCG)
	if strings.Contains(kvm, "mitigations") || strings.Contains(kvm, "nokaslr") {
		t.Errorf("KVM without its protections: %s", kvm)
	}
	if !strings.HasPrefix(tcg, baseCmdline+" ") || !strings.Contains(tcg, "mitigations=off") || !strings.Contains(tcg, "tsc=reliable") {
		t.Errorf("TCG: %s", tcg)
	}
}
