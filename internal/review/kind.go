// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package review

import (
	"bytes"
	"debug/elf"
)

// headBytes of a file decide whether it is text, as in git.
const headBytes = 8000

// magics are the kinds of binary files that are named, by their first bytes.
var magics = []struct {
	at    int
	bytes string
	kind  string
}{
	{0, "\x89PNG\r\n\x1a\n", "PNG image"},
	{0, "\xff\xd8\xff", "JPEG image"},
	{0, "GIF8", "GIF image"},
	{8, "WEBP", "WebP image"},
	{0, "BM", "BMP image"},
	{0, "\x00\x00\x01\x00", "icon"},
	{0, "%PDF-", "PDF document"},
	{0, "\x1f\x8b", "gzip data"},
	{0, "BZh", "bzip2 data"},
	{0, "\xfd7zXZ\x00", "xz data"},
	{0, "\x28\xb5\x2f\xfd", "zstd data"},
	{0, "\x04\x22\x4d\x18", "lz4 data"},
	{0, "7z\xbc\xaf\x27\x1c", "7-Zip archive"},
	{0, "PK\x03\x04", "Zip archive"},
	{0, "PK\x05\x06", "Zip archive"},
	{257, "ustar", "tar archive"},
	{0, "!<arch>\n", "ar archive"},
	{0, "SQLite format 3\x00", "SQLite database"},
	{0, "\x37\x7f\x06\x82", "SQLite write-ahead log"},
	{0, "\x37\x7f\x06\x83", "SQLite write-ahead log"},
	{0, "\x00asm", "WebAssembly module"},
	{0, "\xca\xfe\xba\xbe", "Java class"},
	{0, "MZ", "Windows program"},
	{0, "\xcf\xfa\xed\xfe", "macOS program"},
	{0, "PACK", "git pack"},
	{0, "\xfftOc", "git pack index"},
	{0, "DIRC", "git index"},
	{0, "LPKSHHRH", "systemd journal"},
	{0, "\x00\x01\x00\x00\x00", "TrueType font"},
	{0, "OTTO", "OpenType font"},
	{0, "wOFF", "web font"},
	{0, "wOF2", "web font"},
	{4, "ftyp", "MP4 video"},
	{0, "ID3", "MP3 audio"},
	{0, "OggS", "Ogg media"},
	{8, "WAVE", "WAV audio"},
	{0, "LUKS\xba\xbe", "LUKS volume"},
	{0, "QFI\xfb", "qcow2 disk"},
	{0, "PAR1", "Parquet table"},
	{0, "\xff\xfe", "UTF-16 text"},
	{0, "\xfe\xff", "UTF-16 text"},
}

// kindOf names the content that begins with head; "" = text.
func kindOf(head []byte) string {
	head = head[:min(len(head), headBytes)]
	if bytes.HasPrefix(head, []byte(elf.ELFMAG)) {
		return elfKind(head)
	}
	if bytes.IndexByte(head, 0) < 0 && !bytes.HasPrefix(head, []byte("%PDF-")) {
		return ""
	}
	for _, m := range magics {
		if len(head) > m.at && bytes.HasPrefix(head[m.at:], []byte(m.bytes)) {
			return m.kind
		}
	}
	return "data"
}

// elfKind names an ELF file by its type.
func elfKind(head []byte) string {
	if len(head) < 18 {
		return "ELF file"
	}
	t := uint16(head[16]) | uint16(head[17])<<8
	if head[5] == byte(elf.ELFDATA2MSB) {
		t = uint16(head[17]) | uint16(head[16])<<8
	}
	switch elf.Type(t) {
	case elf.ET_EXEC, elf.ET_DYN:
		return "ELF program or library"
	case elf.ET_REL:
		return "ELF object"
	case elf.ET_CORE:
		return "ELF core dump"
	}
	return "ELF file"
}
