// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package intercept

import (
	"io"
	"slices"
	"strings"
	"testing"
)

// pieces is a stream of which each read returns one piece.
type pieces []string

func (p *pieces) Read(b []byte) (int, error) {
	if len(*p) == 0 {
		return 0, io.EOF
	}
	n := copy(b, (*p)[0])
	*p = (*p)[1:]
	return n, nil
}

// arrives returns what a reader of an answer sees, read by read.
func arrives(t *testing.T, r io.Reader) (parts []string) {
	t.Helper()
	b := make([]byte, filterChunk)
	for {
		n, err := r.Read(b)
		if n > 0 {
			parts = append(parts, string(b[:n]))
		}
		if err == io.EOF {
			return parts
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func sizes(parts []string) (list []int) {
	for _, p := range parts {
		list = append(list, len(p))
	}
	return list
}

func testMask(src io.Reader) io.Reader {
	e := &exchange{}
	e.hide(value, holder)
	return newMask(src, e.secret, e.shown, e.hold)
}

func testFrames(src io.Reader) io.Reader {
	e := &exchange{}
	e.hide(value, holder)
	return newServerFrames(src, e.secret, e.shown, e.hold)
}

// What arrives of an answer, and when, is the same for a right and a wrong guess of the
// value: whoever chooses an answer's end learns nothing of the value.
func TestAnswersTellNothing(t *testing.T) {
	big := strings.Repeat("x", 3000)
	for _, before := range []string{"", "data: 1\n", "data: ", big, "\n" + big} {
		for n := range len(value) {
			guess := func(c byte) (answer, socket []int) {
				end := value[:n] + string(c)
				p := &pieces{before + end, "tail\n", end, end, "\nmore", "end"}
				answer = sizes(arrives(t, testMask(p)))
				text := before + end
				open := "\x01\x7e" + string([]byte{byte(len(text) >> 8), byte(len(text))}) + text
				p = &pieces{open, "\x00\x04tail", "\x00" + string([]byte{byte(len(end))}) + end, "\x89\x00", "\x80\x03end"}
				return answer, sizes(arrives(t, testFrames(p)))
			}
			rightAnswer, rightSocket := guess(value[n])
			wrongAnswer, wrongSocket := guess('~')
			if !slices.Equal(rightAnswer, wrongAnswer) {
				t.Errorf("an answer that ends with %d right bytes arrives in parts of %v, one with a wrong byte in %v", n+1, rightAnswer, wrongAnswer)
			}
			if !slices.Equal(rightSocket, wrongSocket) {
				t.Errorf("a WebSocket's message that ends with %d right bytes arrives in parts of %v, one with a wrong byte in %v", n+1, rightSocket, wrongSocket)
			}
		}
	}
}

// A line passes when it is complete, text without an end waits for what follows, and the
// value is replaced however it is cut.
func TestMask(t *testing.T) {
	got := arrives(t, testMask(&pieces{"data: 1\n", "data: 2\r\n\r\nid", ": 3\n", "[1]"}))
	if want := []string{"data: 1\n", "data: 2\r\n\r\n", "id: 3\n", "[1]"}; !slices.Equal(got, want) {
		t.Errorf("lines arrive as %q, want %q", got, want)
	}
	text := "a " + value + " b\n" + value + "\x00" + value
	for size := 1; size <= len(text); size++ {
		got := strings.Join(arrives(t, testMask(&sizedReader{text, size})), "")
		if want := strings.ReplaceAll(text, value, string(sized(holder, len(value)))); got != want {
			t.Errorf("in reads of %d the value is shown as %q, want %q", size, got, want)
		}
	}
}

// The value is replaced in a message also if two frames have it, with a control frame
// between them; a message passes at its end.
func TestServerFrames(t *testing.T) {
	a, b := value[:10], value[10:]
	frame := func(first byte, text string) string { return string([]byte{first, byte(len(text))}) + text }
	text := frame(0x01, "x"+a) + frame(0x89, "ping") + frame(0x80, b+"y") + frame(0x81, value) + frame(0x8a, value) + "\x82\x7e\x01\x00" + strings.Repeat("z", 256)
	shown := string(sized(holder, len(value)))
	want := frame(0x01, "x"+shown[:10]) + frame(0x89, "ping") + frame(0x80, shown[10:]+"y") + frame(0x81, shown) + frame(0x8a, shown) + "\x82\x7e\x01\x00" + strings.Repeat("z", 256)
	for size := 1; size <= len(text); size++ {
		if got := strings.Join(arrives(t, testFrames(&sizedReader{text, size})), ""); got != want {
			t.Errorf("in reads of %d the frames are %q, want %q", size, got, want)
		}
	}
	parts := arrives(t, testFrames(&pieces{frame(0x81, "one"), frame(0x81, "two")}))
	if !slices.Equal(parts, []string{frame(0x81, "one"), frame(0x81, "two")}) {
		t.Errorf("two messages arrive as %q, want each when it has come", parts)
	}
	for name, bad := range map[string]string{
		"an extension": frame(0xc1, "x"), "an unknown kind": frame(0x83, "x"), "a mask": "\x81\x81\x00\x00\x00\x00x", "no frames": value,
		"a control frame in parts": frame(0x09, "x"), "pings without end": frame(0x01, "x") + strings.Repeat(frame(0x89, ""), maxMarks),
	} {
		if got, err := io.ReadAll(testFrames(&sizedReader{bad, filterChunk})); err != errFrames { //nolint:errorlint // it is not wrapped
			t.Errorf("%s: %d bytes pass, with %v", name, len(got), err)
		}
	}
}

// A stream is filtered the same, however it is cut into reads.
func TestFilter(t *testing.T) {
	needles := [][]byte{[]byte("abcabd"), []byte("bd")}
	with := [][]byte{[]byte("------"), []byte("++")}
	for text, want := range map[string]string{"": "", "xabcabd": "x------", "abcabcabd": "abc------", "bdbd": "++++", "abcab": "abcab", "aabcabdb": "a------b"} {
		for size := 1; size <= len(text)+1; size++ {
			got, err := io.ReadAll(newFilter(&sizedReader{text, size}, needles, with))
			if err != nil || string(got) != want {
				t.Errorf("%q in reads of %d is %q, %v, want %q", text, size, got, err, want)
			}
			got, err = io.ReadAll(newFilter(&sizedReader{text, size}, needles[:1], nil))
			if strings.Contains(text, "abcabd") {
				if err != errFound || strings.Contains(string(got), "abcabd") { //nolint:errorlint // it is not wrapped
					t.Errorf("%q in reads of %d passes as %q, %v", text, size, got, err)
				}
			} else if err != nil || string(got) != text {
				t.Errorf("%q in reads of %d is %q, %v", text, size, got, err)
			}
		}
	}
}

type sizedReader struct {
	text string
	size int
}

func (r *sizedReader) Read(p []byte) (int, error) {
	if r.text == "" {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), r.size)], r.text)
	r.text = r.text[n:]
	return n, nil
}
