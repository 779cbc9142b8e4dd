// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package scan judges uploads: what they are by their first bytes, whether that fits their
// names, and whether an archive would unpack to too much or outside its directory. What opens
// archives runs in a confined program, and limits everything that it decodes. It knows no
// viruses.
package scan

import (
	"bytes"
	"path"
	"slices"
	"strings"
)

// Type is what bytes are, by their first ones.
type Type string

// The types that are told apart.
const (
	Unknown Type = ""
	ELF     Type = "an ELF program"
	PE      Type = "a Windows program"
	MachO   Type = "a macOS program"
	Script  Type = "a script"
	HTML    Type = "an HTML page"
	PDF     Type = "a PDF"
	PNG     Type = "a PNG image"
	JPEG    Type = "a JPEG image"
	GIF     Type = "a GIF image"
	WebP    Type = "a WebP image"
	MP4     Type = "an MP4 video"
	Zip     Type = "a zip archive"
	Gzip    Type = "gzip data"
	Zstd    Type = "zstd data"
	Bzip2   Type = "bzip2 data"
	XZ      Type = "xz data"
	Tar     Type = "a tar archive"
	SevenZ  Type = "a 7z archive"
	Rar     Type = "a rar archive"
)

// magics are the first bytes of types.
var magics = []struct {
	at   int
	text string
	is   Type
}{
	{0, "\x7fELF", ELF},
	{0, "MZ", PE},
	{0, "\xcf\xfa\xed\xfe", MachO},
	{0, "\xce\xfa\xed\xfe", MachO},
	{0, "\xfe\xed\xfa\xcf", MachO},
	{0, "\xca\xfe\xba\xbe", MachO},
	{0, "#!", Script},
	{0, "%PDF-", PDF},
	{0, "\x89PNG\r\n\x1a\n", PNG},
	{0, "\xff\xd8\xff", JPEG},
	{0, "GIF87a", GIF},
	{0, "GIF89a", GIF},
	{8, "WEBP", WebP},
	{4, "ftyp", MP4},
	{0, "PK\x03\x04", Zip},
	{0, "PK\x05\x06", Zip},
	{0, "\x1f\x8b", Gzip},
	{0, "\x28\xb5\x2f\xfd", Zstd},
	{0, "BZh", Bzip2},
	{0, "\xfd7zXZ\x00", XZ},
	{257, "ustar", Tar},
	{0, "7z\xbc\xaf\x27\x1c", SevenZ},
	{0, "Rar!\x1a\x07", Rar},
}

// Detect tells the type by the first bytes.
func Detect(head []byte) Type {
	for _, m := range magics {
		if len(head) >= m.at+len(m.text) && string(head[m.at:m.at+len(m.text)]) == m.text {
			return m.is
		}
	}
	start := bytes.TrimLeft(head[:min(len(head), 512)], " \t\r\n\xef\xbb\xbf")
	for _, tag := range []string{"<!doctype html", "<html", "<script", "<svg"} {
		if len(start) >= len(tag) && strings.EqualFold(string(start[:len(tag)]), tag) {
			return HTML
		}
	}
	return Unknown
}

// claims are the types that a name's ending or a content type promise. A text may be
// anything that is no program and no archive.
var claims = map[string][]Type{
	".pdf": {PDF}, "application/pdf": {PDF},
	".png": {PNG}, "image/png": {PNG}, ".jpg": {JPEG}, ".jpeg": {JPEG}, "image/jpeg": {JPEG}, ".gif": {GIF}, "image/gif": {GIF}, ".webp": {WebP}, "image/webp": {WebP},
	".mp4": {MP4}, "video/mp4": {MP4},
	".zip": {Zip}, "application/zip": {Zip}, ".jar": {Zip}, ".whl": {Zip}, ".docx": {Zip}, ".xlsx": {Zip}, ".pptx": {Zip}, ".odt": {Zip}, ".ods": {Zip}, ".epub": {Zip},
	".gz": {Gzip}, ".tgz": {Gzip}, "application/gzip": {Gzip}, ".zst": {Zstd}, "application/zstd": {Zstd}, ".bz2": {Bzip2}, ".xz": {XZ}, ".tar": {Tar}, "application/x-tar": {Tar}, ".7z": {SevenZ}, ".rar": {Rar},
	".txt": {Script, HTML, PDF}, ".csv": {}, ".json": {}, ".md": {HTML}, ".log": {}, ".xml": {HTML}, ".yaml": {}, "text/plain": {Script, HTML}, "text/csv": {}, "application/json": {},
	".svg": {HTML}, "image/svg+xml": {HTML},
}

// texts promise no bytes that a type is told by: anything unknown fits.
func fits(claim string, is Type) bool {
	want, known := claims[claim]
	return !known || is == Unknown || slices.Contains(want, is)
}

// archives are the types that are opened.
var archives = []Type{Zip, Gzip, Zstd, Bzip2, Tar}

// Input is what is known of an upload.
type Input struct {
	Key         string `json:"key"`
	ContentType string `json:"contentType,omitempty"`
	Size        int64  `json:"size"`
	Head        []byte `json:"head,omitempty"`
}

// Verdict is what a scan says.
type Verdict struct {
	Refused string `json:"refused,omitempty"` // why; "" = it is not refused
	More    bool   `json:"more,omitempty"`    // all bytes must be read to tell
	Note    string `json:"note,omitempty"`    // what was not looked at
}

// Quick judges an upload by its name and its first bytes. It runs in the server, for every
// upload: it only compares bytes at fixed places with constants, and follows no length and no
// offset that the upload names, so that there is nothing to take over. Sending each upload to
// the confined program took longer than storing a small one. What decodes anything belongs
// into Whole.
func Quick(in Input) Verdict {
	if why := badName(in.Key); why != "" {
		return Verdict{Refused: why}
	}
	is := Detect(in.Head)
	ending := strings.ToLower(path.Ext(in.Key))
	kind, _, _ := strings.Cut(strings.ToLower(in.ContentType), ";")
	switch {
	case !fits(ending, is):
		return Verdict{Refused: "its name ends with " + ending + ", and it is " + string(is)}
	case !fits(strings.TrimSpace(kind), is):
		return Verdict{Refused: "its content type is " + strings.TrimSpace(kind) + ", and it is " + string(is)}
	case slices.Contains(archives, is):
		return Verdict{More: true}
	case is == SevenZ || is == Rar || is == XZ:
		return Verdict{Note: string(is) + " is not opened"}
	}
	return Verdict{}
}

// badName finds what makes a name deceive the people who read it: characters that are not
// seen or that turn the text around. "" = nothing.
func badName(name string) string {
	for _, r := range name {
		switch {
		case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069, r == 0x200e, r == 0x200f, r == 0x061c:
			return "its name has characters that turn text around"
		case r == 0x200b, r == 0x2060, r == 0xfeff, r == 0xad:
			return "its name has characters that are not seen"
		}
	}
	return ""
}
