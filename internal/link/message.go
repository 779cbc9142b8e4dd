// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// The messages of the handshake, and the guest's good-bye. Each is
//
//	magic [8] · host nonce [16] · guest nonce [16] · HMAC-SHA256 of all before [32]
//
// The guest nonce of a SYN is zero, and so are both of a BYE. READY is the
// last message before the first byte of the multiplexer from the guest, GO the
// last from the host. NAK is a guest's answer to a SYN whose key it does not hold:
// it carries the HMAC of that SYN instead of its own, and so says which it was.
// SYN, WAKE and BYE are also looked for inside a session, which
// they end: neither end sees the other's program die by the port alone.
//
// WAKE and WOKE are followed by words and the HMAC of all before it, again; the
// length of the words [4, big endian] begins the guest nonce. A host sends WAKE before its first SYN to
// a guest that was just restored: the guest does what the words say and answers
// with WOKE before anything of a multiplexer exists. Under emulation that is half
// of the time to a child's first answer. A guest that does not know WAKE skips it.
const (
	magicSyn   = "\xa5WRNSYN\n"
	magicAck   = "\xa5WRNACK\n"
	magicGo    = "\xa5WRNGO_\n"
	magicReady = "\xa5WRNRDY\n"
	magicBye   = "\xa5WRNBYE\n"
	magicNak   = "\xa5WRNNAK\n"
	magicWake  = "\xa5WRNWAK\n"
	magicWoke  = "\xa5WRNWOK\n"

	magicSize   = 8
	nonceSize   = 16
	messageSize = magicSize + 2*nonceSize + sha256.Size

	// maxWords limits the words of a WAKE or WOKE.
	maxWords = 64 << 10
)

// lead is the first byte of every magic.
const lead = 0xa5

type nonce [nonceSize]byte

// message is one handshake message.
type message struct {
	magic string
	host  nonce
	guest nonce
	key   []byte // the key of its HMAC; nil = none of ours
	sum   []byte // the HMAC, if key is nil
	words []byte // of WAKE and WOKE
}

// size returns the length of the message in the stream.
func (m message) size() int {
	if worded(m.magic) {
		return messageSize + len(m.words) + sha256.Size
	}
	return messageSize
}

// worded reports whether messages of this magic carry words.
func worded(magic string) bool { return magic == magicWake || magic == magicWoke }

// encode encodes a message without words, signed with key.
func encode(magic string, host, guest nonce, key []byte) []byte {
	b := make([]byte, 0, messageSize)
	b = append(b, magic...)
	b = append(b, host[:]...)
	b = append(b, guest[:]...)
	return append(b, sum(key, b)...)
}

// encodeWords encodes a WAKE or a WOKE, signed with key.
func encodeWords(magic string, host nonce, words, key []byte) []byte {
	var length nonce
	binary.BigEndian.PutUint32(length[:], uint32(len(words)))
	b := append(encode(magic, host, length, key), words...)
	return append(b, sum(key, b)...)
}

func sum(key, b []byte) []byte {
	m := hmac.New(sha256.New, key)
	m.Write(b)
	return m.Sum(nil)
}

// nak encodes the answer to a SYN with an unknown key.
func nak(m message) []byte {
	b := make([]byte, 0, messageSize)
	b = append(b, magicNak...)
	b = append(b, m.host[:]...)
	b = append(b, m.guest[:]...)
	return append(b, m.sum...)
}

// decode decodes the message at the beginning of b. It returns false if b is too short, has
// no magic, or was signed with none of the keys and is neither a SYN nor a NAK. The words of
// the message share memory with b. more says that b may become a message with more bytes.
func decode(b []byte, keys [][]byte) (m message, more, ok bool) {
	if len(b) < messageSize || b[0] != lead {
		return m, maybeMagic(b), false
	}
	switch magic := string(b[:magicSize]); magic {
	case magicSyn, magicAck, magicGo, magicReady, magicBye, magicNak, magicWake, magicWoke:
		m.magic = magic
	default:
		return m, false, false
	}
	copy(m.host[:], b[magicSize:])
	copy(m.guest[:], b[magicSize+nonceSize:])
	body, got := b[:messageSize-sha256.Size], b[messageSize-sha256.Size:messageSize]
	for _, k := range keys {
		if hmac.Equal(sum(k, body), got) {
			m.key = k
			break
		}
	}
	switch {
	case m.key == nil:
		m.sum = bytes.Clone(got)
		return m, false, m.magic == magicSyn || m.magic == magicNak
	case worded(m.magic):
		return m.decodeWords(b)
	}
	return m, false, true
}

// decodeWords decodes the words after an authenticated message.
func (m message) decodeWords(b []byte) (_ message, more, ok bool) {
	n := binary.BigEndian.Uint32(m.guest[:])
	if n > maxWords {
		return m, false, false
	}
	end := messageSize + int(n)
	if len(b) < end+sha256.Size {
		return m, true, false
	}
	m.words = b[messageSize:end]
	return m, false, hmac.Equal(sum(m.key, b[:end]), b[end:end+sha256.Size])
}

// scanner finds messages in a byte stream with other contents. The zero value is ready.
type scanner struct {
	buf []byte
}

// feed adds bytes that were read.
func (s *scanner) feed(b []byte) { s.buf = append(s.buf, b...) }

// next returns the next message and drops everything up to its end. If there
// is none, it returns false and keeps only bytes that may begin a message.
func (s *scanner) next(keys [][]byte) (message, bool) {
	for {
		i := bytes.IndexByte(s.buf, lead)
		if i < 0 {
			s.buf = s.buf[:0]
			return message{}, false
		}
		s.buf = s.buf[i:]
		m, more, ok := decode(s.buf, keys)
		if ok {
			if m.key == nil {
				s.buf = s.buf[1:] // it may be no message, and a true one may begin later
			} else {
				s.buf = s.buf[m.size():]
			}
			return m, true
		}
		if more {
			s.buf = append([]byte(nil), s.buf...) // frees the old array
			return message{}, false
		}
		s.buf = s.buf[1:]
	}
}

// rest returns and drops the unconsumed bytes.
func (s *scanner) rest() []byte {
	b := s.buf
	s.buf = nil
	return b
}

// maybeMagic reports whether b may be the beginning of a message.
func maybeMagic(b []byte) bool {
	n := min(len(b), magicSize)
	for _, m := range [...]string{magicSyn, magicAck, magicGo, magicReady, magicBye, magicNak, magicWake, magicWoke} {
		if m[:n] == string(b[:n]) {
			return true
		}
	}
	return false
}

// lookout finds a message that ends a session in its bytes.
type lookout struct {
	magics []string
	tail   []byte // the last bytes, which may begin it
}

// saw reports whether b, after the bytes before it, completes such a message.
// rest are the bytes from its beginning.
func (l *lookout) saw(b []byte, keys func() [][]byte) (rest []byte, ok bool) {
	if len(l.tail) == 0 && !l.maybe(b) {
		return nil, false
	}
	s := scanner{buf: append(l.tail, b...)}
	for {
		whole := s.buf
		m, ok := s.next(keys())
		if !ok {
			break
		}
		if slices.Contains(l.magics, m.magic) && m.key != nil {
			return append([]byte(nil), whole[len(whole)-len(s.buf)-m.size():]...), true
		}
	}
	l.tail = append(l.tail[:0:0], s.buf...)
	return nil, false
}

// maybe reports whether b holds such a magic, or ends with a part that may become one.
func (l *lookout) maybe(b []byte) bool {
	for _, magic := range l.magics {
		if bytes.Contains(b, []byte(magic)) {
			return true
		}
	}
	end := b[max(0, len(b)-magicSize+1):]
	i := bytes.LastIndexByte(end, lead)
	return i >= 0 && maybeMagic(end[i:])
}
