// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"bytes"
	"compress/gzip"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os/exec"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/warren-vm/warren/vm"
)

const maxVmlinux = 512 << 20

// extractVmlinux extracts the ELF kernel from a bzImage and checks that it
// boots by PVH. Kinds: Corrupt, Unsupported.
func extractVmlinux(ctx context.Context, bz []byte) ([]byte, error) {
	payload, err := bzPayload(bz)
	if err != nil {
		return nil, err
	}
	out, err := decompress(ctx, payload)
	if err != nil {
		return nil, err
	}
	if err := checkPVH(out); err != nil {
		return nil, err
	}
	return out, nil
}

// Offsets in the setup header of a bzImage, from the Linux boot protocol.
const (
	bzSetupSects    = 0x1f1
	bzMagic         = 0x202
	bzVersion       = 0x206
	bzPayloadOffset = 0x248
	bzPayloadLength = 0x24c
	bzHeaderEnd     = 0x250
)

func bzPayload(bz []byte) ([]byte, error) {
	if len(bz) < bzHeaderEnd || string(bz[bzMagic:bzMagic+4]) != "HdrS" {
		return nil, vm.Errorf(vm.Corrupt, "kernel", "not a bzImage")
	}
	if v := binary.LittleEndian.Uint16(bz[bzVersion:]); v < 0x208 {
		return nil, vm.Errorf(vm.Unsupported, "kernel", "boot protocol %#x names no payload", v)
	}
	setup := uint64(bz[bzSetupSects])
	if setup == 0 {
		setup = 4
	}
	start := (setup+1)*512 + uint64(binary.LittleEndian.Uint32(bz[bzPayloadOffset:]))
	end := start + uint64(binary.LittleEndian.Uint32(bz[bzPayloadLength:]))
	if end > uint64(len(bz)) || end-start < 8 {
		return nil, vm.Errorf(vm.Corrupt, "kernel", "payload of %d bytes at %d lies outside the file of %d bytes", end-start, start, len(bz))
	}
	return bz[start:end], nil
}

// decompress recognises the format by its first bytes. The last four bytes of
// a payload are its unpacked size.
func decompress(ctx context.Context, payload []byte) ([]byte, error) {
	body := payload[:len(payload)-4]
	size := binary.LittleEndian.Uint32(payload[len(payload)-4:])
	if size > maxVmlinux {
		return nil, vm.Errorf(vm.Corrupt, "kernel", "claims to be %d bytes unpacked", size)
	}
	var out []byte
	var err error
	switch {
	case bytes.HasPrefix(payload, []byte{0x02, 0x21, 0x4c, 0x18}):
		out, err = unLZ4Legacy(body, int(size))
	case bytes.HasPrefix(payload, []byte{0x1f, 0x8b}):
		out, err = unGzip(body)
	case bytes.HasPrefix(payload, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		out, err = unZstd(body)
	case bytes.HasPrefix(payload, []byte{0xfd, '7', 'z', 'X', 'Z'}):
		out, err = unXZ(ctx, body)
	case bytes.HasPrefix(payload, []byte(elf.ELFMAG)):
		return payload, nil
	default:
		return nil, vm.Errorf(vm.Unsupported, "kernel", "compressed in an unknown way (%x)", payload[:6])
	}
	if err != nil {
		return nil, vm.Errorf(vm.Corrupt, "kernel", "does not unpack: %w", err)
	}
	if len(out) != int(size) {
		return nil, vm.Errorf(vm.Corrupt, "kernel", "unpacked %d bytes, %d announced", len(out), size)
	}
	return out, nil
}

// unLZ4Legacy unpacks the legacy frame format: a magic, then blocks of up to 8
// MiB, each after its packed size.
func unLZ4Legacy(body []byte, size int) ([]byte, error) {
	const block = 8 << 20
	out := make([]byte, 0, size)
	buf := make([]byte, block)
	for rest := body[4:]; len(rest) > 0; {
		if len(rest) < 4 {
			return nil, io.ErrUnexpectedEOF
		}
		n := binary.LittleEndian.Uint32(rest)
		rest = rest[4:]
		if uint64(n) > uint64(len(rest)) {
			return nil, fmt.Errorf("lz4 block of %d bytes, %d left", n, len(rest))
		}
		got, err := lz4.UncompressBlock(rest[:n], buf)
		if err != nil {
			return nil, err
		}
		if len(out)+got > size {
			return nil, errors.New("larger than announced")
		}
		out = append(out, buf[:got]...)
		rest = rest[n:]
	}
	return out, nil
}

func unGzip(body []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Multistream(false)
	return io.ReadAll(io.LimitReader(r, maxVmlinux))
}

func unZstd(body []byte) ([]byte, error) {
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxVmlinux))
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.DecodeAll(body, nil)
}

// unXZ runs xz, which every Debian host has.
func unXZ(ctx context.Context, body []byte) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "xz", "--decompress", "--stdout", "--single-stream")
	cmd.Stdin = bytes.NewReader(body)
	return cmd.Output()
}

// pvhEntry is XEN_ELFNOTE_PHYS32_ENTRY.
const pvhEntry = 18

// checkPVH makes sure that QEMU can start the kernel directly.
func checkPVH(vmlinux []byte) error {
	f, err := elf.NewFile(bytes.NewReader(vmlinux))
	if err != nil {
		return vm.Errorf(vm.Corrupt, "kernel", "not an ELF file: %w", err)
	}
	if f.Machine != elf.EM_X86_64 {
		return vm.Errorf(vm.Unsupported, "kernel", "is for %s", f.Machine)
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_NOTE {
			continue
		}
		notes, err := io.ReadAll(io.LimitReader(p.Open(), 1<<20))
		if err == nil && hasNote(notes, "Xen\x00", pvhEntry) {
			return nil
		}
	}
	return vm.Errorf(vm.Unsupported, "kernel", "has no PVH entry").
		WithHint("use a kernel that was built with CONFIG_PVH, as Debian's are")
}

func hasNote(notes []byte, name string, kind uint32) bool {
	align := func(n uint32) uint64 { return (uint64(n) + 3) &^ 3 }
	for len(notes) >= 12 {
		nameSize, descSize := binary.LittleEndian.Uint32(notes), binary.LittleEndian.Uint32(notes[4:])
		typ := binary.LittleEndian.Uint32(notes[8:])
		end := 12 + align(nameSize) + align(descSize)
		if end > uint64(len(notes)) {
			return false
		}
		if typ == kind && string(notes[12:12+nameSize]) == name {
			return true
		}
		notes = notes[end:]
	}
	return false
}
