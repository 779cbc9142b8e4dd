// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"github.com/warren-vm/warren/vm"
)

// seal is the end of an archive: a zstd frame that decompressors skip.
type seal struct {
	manifestAt int64             // offset of the frame with the manifest
	size       int64             // bytes before the seal
	manifest   [sha256.Size]byte // digest of the manifest
	archive    [sha256.Size]byte // digest of all bytes before the seal
	signer     ed25519.PublicKey
	signature  []byte
}

const (
	sealFrame = 0x184D2A57 // a skippable frame
	sealMagic = "WARRENA1"
	// signedSize is the part of the frame that is signed; with the header of the frame and
	// the signature it has sealSize bytes.
	signedSize = 8 + 8 + 8 + 2*sha256.Size + ed25519.PublicKeySize
	sealSize   = 8 + signedSize + ed25519.SignatureSize
	// context is put before what is signed, so that no other use of the key can give a
	// signature that is valid here.
	context = "warren archive 1\n"
)

func (s seal) signed() []byte {
	b := append(make([]byte, 0, sealSize), sealMagic...)
	b = binary.BigEndian.AppendUint64(b, uint64(s.manifestAt))
	b = binary.BigEndian.AppendUint64(b, uint64(s.size))
	b = append(b, s.manifest[:]...)
	b = append(b, s.archive[:]...)
	return append(b, s.signer...)
}

func (s seal) encode(key ed25519.PrivateKey) []byte {
	s.signer = key.Public().(ed25519.PublicKey)
	signed := s.signed()
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, sealSize), sealFrame)
	b = binary.LittleEndian.AppendUint32(b, uint32(sealSize-8))
	b = append(b, signed...)
	return append(b, ed25519.Sign(key, append([]byte(context), signed...))...)
}

// notWhole is the error for what has no valid seal.
func notWhole(why string) *vm.Error {
	return vm.Errorf(vm.Corrupt, "archive", "%s", why).
		WithHint("it was cut off or changed, or is no archive of Warren's: copy it again, or use another one")
}

// decodeSeal reads and checks the seal of an archive with size bytes.
func decodeSeal(b []byte, size int64) (s seal, err error) {
	head := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, sealFrame), uint32(sealSize-8))
	if len(b) != sealSize || !bytes.HasPrefix(b, append(head, sealMagic...)) {
		return s, notWhole("it does not end with a seal")
	}
	b = b[8:]
	signed, signature := b[:signedSize], b[signedSize:]
	s.manifestAt = int64(binary.BigEndian.Uint64(signed[8:]))
	s.size = int64(binary.BigEndian.Uint64(signed[16:]))
	copy(s.manifest[:], signed[24:])
	copy(s.archive[:], signed[24+sha256.Size:])
	s.signer = bytes.Clone(signed[24+2*sha256.Size:])
	s.signature = signature
	if !ed25519.Verify(s.signer, append([]byte(context), signed...), signature) {
		return s, notWhole("its signature is not valid")
	}
	if s.size != size-sealSize || s.manifestAt < 0 || s.manifestAt > s.size {
		return s, notWhole("its size is not the one that was signed")
	}
	return s, nil
}

// Fingerprint identifies a public key, as SSH does: SHA256: and base64.
func Fingerprint(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return "SHA256:" + base64.RawStdEncoding.EncodeToString(sum[:])
}

// FingerprintOf is the Fingerprint of a private key's public half.
func FingerprintOf(key ed25519.PrivateKey) string {
	return Fingerprint(key.Public().(ed25519.PublicKey))
}
