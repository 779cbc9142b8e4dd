// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vmtest

import (
	"archive/tar"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/warren-vm/warren/internal/bundle"
)

// ArchiveFile is one file of an archive.
type ArchiveFile struct{ Path, Text string }

// Archive writes a backup or a bundle by docs/adr/0010-archives.md alone, properly signed,
// with whatever paths and contents it is given: what somebody with a trusted key can make.
func Archive(key ed25519.PrivateKey, kind string, facts any, files ...ArchiveFile) ([]byte, error) {
	var out bytes.Buffer
	comp, err := zstd.NewWriter(&out, zstd.WithWindowSize(1<<20))
	if err != nil {
		return nil, err
	}
	t := tar.NewWriter(comp)
	m := bundle.Manifest{Version: bundle.Version, Kind: kind, Server: "elsewhere", At: time.Unix(1_700_000_000, 0).UTC()}
	if m.Facts, err = json.Marshal(facts); err != nil {
		return nil, err
	}
	add := func(path, text string) error {
		err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path, Size: int64(len(text)), Mode: 0o600})
		if err == nil {
			_, err = t.Write([]byte(text))
		}
		return err
	}
	for _, f := range files {
		if err := add(f.Path, f.Text); err != nil {
			return nil, err
		}
		sum := sha256.Sum256([]byte(f.Text))
		m.Entries = append(m.Entries, bundle.Entry{Path: f.Path, Kind: "test", Mode: 0o600, Size: int64(len(f.Text)), SHA256: hex.EncodeToString(sum[:])})
	}
	if err := t.Flush(); err != nil {
		return nil, err
	}
	if err := comp.Close(); err != nil {
		return nil, err
	}
	at := out.Len()
	comp.Reset(&out)
	manifest, err := json.Marshal(m)
	if err == nil {
		err = add("manifest.json", string(manifest))
	}
	if err == nil {
		err = t.Close()
	}
	if err == nil {
		err = comp.Close()
	}
	return append(out.Bytes(), archiveSeal(key, at, out.Bytes(), manifest)...), err
}

// archiveSeal is the end of an archive.
func archiveSeal(key ed25519.PrivateKey, manifestAt int, before, manifest []byte) []byte {
	digest, all := sha256.Sum256(manifest), sha256.Sum256(before)
	signed := binary.BigEndian.AppendUint64([]byte("WARRENA1"), uint64(manifestAt))
	signed = binary.BigEndian.AppendUint64(signed, uint64(len(before)))
	signed = append(append(signed, digest[:]...), all[:]...)
	signed = append(signed, key.Public().(ed25519.PublicKey)...)
	signed = append(signed, ed25519.Sign(key, append([]byte("warren archive 1\n"), signed...))...)
	head := binary.LittleEndian.AppendUint32(nil, 0x184D2A57)
	return append(binary.LittleEndian.AppendUint32(head, uint32(len(signed))), signed...)
}
