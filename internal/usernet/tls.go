// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/crypto/cryptobyte"

	"github.com/warren-vm/warren/internal/egress"
)

const (
	recordHandshake = 22
	maxHello        = 64 << 10

	extServerName   = 0
	extECH          = 0xfe0d
	handshakeHello  = 1
	serverNameIsDNS = 0
)

// accessDenied is the fatal TLS alert of that name: tools print it.
var accessDenied = []byte{21, 3, 1, 0, 2, 2, 49}

// clientHello is what a TLS greeting says.
type clientHello struct {
	ServerName string // lower case; "" = none
	Encrypted  bool   // has the encrypted_client_hello extension
}

// readClientHello reads the TLS records of a client's first message and
// returns them as they came.
func readClientHello(r io.Reader) (clientHello, []byte, error) {
	var raw, msg []byte
	for {
		var h [5]byte
		if _, err := io.ReadFull(r, h[:]); err != nil {
			return clientHello{}, raw, errors.New("it ended early")
		}
		size := int(h[3])<<8 | int(h[4])
		if h[0] != recordHandshake || h[1] != 3 || size == 0 || len(msg)+size > maxHello {
			return clientHello{}, raw, errors.New("it is not a TLS handshake")
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(r, body); err != nil {
			return clientHello{}, raw, errors.New("it ended early")
		}
		raw = append(append(raw, h[:]...), body...)
		msg = append(msg, body...)
		if len(msg) < 4 {
			continue
		}
		if msg[0] != handshakeHello {
			return clientHello{}, raw, errors.New("it is not a client's greeting")
		}
		total := 4 + (int(msg[1])<<16 | int(msg[2])<<8 | int(msg[3]))
		if total > maxHello {
			return clientHello{}, raw, errors.New("it is too long")
		}
		if len(msg) >= total {
			hello, err := parseClientHello(msg[4:total])
			return hello, raw, err
		}
	}
}

func parseClientHello(b []byte) (clientHello, error) {
	var out clientHello
	malformed := errors.New("it is malformed")
	s := cryptobyte.String(b)
	var session, suites, compression, extensions cryptobyte.String
	if !s.Skip(2+32) || !s.ReadUint8LengthPrefixed(&session) || !s.ReadUint16LengthPrefixed(&suites) || !s.ReadUint8LengthPrefixed(&compression) {
		return out, malformed
	}
	if s.Empty() {
		return out, nil
	}
	if !s.ReadUint16LengthPrefixed(&extensions) || !s.Empty() {
		return out, malformed
	}
	named := false
	for !extensions.Empty() {
		var kind uint16
		var body cryptobyte.String
		if !extensions.ReadUint16(&kind) || !extensions.ReadUint16LengthPrefixed(&body) {
			return out, malformed
		}
		switch kind {
		case extECH:
			out.Encrypted = true
		case extServerName:
			if named {
				return out, errors.New("it names two servers")
			}
			named = true
			name, err := parseServerName(body)
			if err != nil {
				return out, err
			}
			out.ServerName = name
		}
	}
	return out, nil
}

func parseServerName(body cryptobyte.String) (string, error) {
	var names, name cryptobyte.String
	var kind uint8
	if !body.ReadUint16LengthPrefixed(&names) || !body.Empty() ||
		!names.ReadUint8(&kind) || kind != serverNameIsDNS || !names.ReadUint16LengthPrefixed(&name) || !names.Empty() {
		return "", errors.New("its server name is malformed")
	}
	if !egress.ValidName(string(name)) {
		return "", fmt.Errorf("its server name %q is not a host name", string(name))
	}
	return egress.Normal(string(name)), nil
}
