// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"crypto/sha1" //nolint:gosec // the format has no other; it protects nothing
	"encoding/binary"
	"encoding/pem"
	"strconv"
)

// javaTrust writes certificates in PEM as a trust store in Java's format JKS, with Java's usual
// password.
func javaTrust(bundle []byte) []byte {
	var entries []byte
	n := 0
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		entries = binary.BigEndian.AppendUint32(entries, 2) // a trusted certificate
		entries = javaText(entries, "ca"+strconv.Itoa(n))
		entries = binary.BigEndian.AppendUint64(entries, 0) // made in 1970
		entries = javaText(entries, "X.509")
		entries = binary.BigEndian.AppendUint32(entries, uint32(len(block.Bytes)))
		entries = append(entries, block.Bytes...)
		n++
	}
	out := binary.BigEndian.AppendUint32(nil, 0xfeedfeed)
	out = binary.BigEndian.AppendUint32(out, 2)
	out = binary.BigEndian.AppendUint32(out, uint32(n))
	out = append(out, entries...)
	h := sha1.New() //nolint:gosec // see above
	for _, c := range "changeit" {
		h.Write([]byte{byte(c >> 8), byte(c)})
	}
	h.Write([]byte("Mighty Aphrodite"))
	h.Write(out)
	return h.Sum(out)
}

// javaText appends a text in ASCII with its length.
func javaText(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}
