// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package screen

import (
	"bytes"
	"strings"
	"testing"

	"github.com/warren-vm/warren/vm"
)

const greeting = version + "\x01\x00"

func TestWatchPasses(t *testing.T) {
	for name, msg := range map[string]string{
		"pixel format": "\x00" + strings.Repeat("p", 19),
		"encodings":    "\x02\x00\x00\x02aaaabbbb",
		"update":       "\x03\x01" + strings.Repeat("u", 8),
		"continuous":   "\x96\x01" + strings.Repeat("c", 8),
		"fence":        "\xf8\x00\x00\x00\x00\x00\x00\x01\x03fff",
	} {
		var out bytes.Buffer
		if err := Watch(&out, strings.NewReader(greeting+msg)); err != nil {
			t.Errorf("%s: the viewer is cut off: %v", name, err)
		}
		if want := version + "\x01\x01" + msg; out.String() != want {
			t.Errorf("%s: the server got %q, not %q", name, out.String(), want)
		}
	}
}

func TestWatchDrops(t *testing.T) {
	const after = "\x03\x01xxxxyyyy"
	for name, msg := range map[string]string{
		"key":           "\x04\x01\x00\x00\x00\x00\x00a",
		"pointer":       "\x05\x01\x00\x10\x00\x10",
		"text":          "\x06\x00\x00\x00\x00\x00\x00\x05\x04\x05\x04\x05\x04",
		"extended text": "\x06\x00\x00\x00\xff\xff\xff\xfc\x04\x05\x04\x05",
		"key of QEMU":   "\xff\x00\x00\x01\x00\x00\x00a\x00\x00\x00\x1e",
		"shutdown":      "\xfa\x00\x01\x02",
		"size":          "\xfb\x00\x04\x00\x03\x00\x01\x00" + strings.Repeat("\x05", 16),
	} {
		var out bytes.Buffer
		if err := Watch(&out, strings.NewReader(greeting+msg+after)); err != nil {
			t.Errorf("%s: the viewer is cut off: %v", name, err)
		}
		if want := version + "\x01\x01" + after; out.String() != want {
			t.Errorf("%s: the server got %q, not %q", name, out.String(), want)
		}
	}
}

func TestWatchRefuses(t *testing.T) {
	for name, in := range map[string]string{
		"an old protocol":   "RFB 003.003\n",
		"a password":        version + "\x02",
		"an unknown type":   greeting + "\x63",
		"a long fence":      greeting + "\xf8\x00\x00\x00\x00\x00\x00\x00\xff",
		"many encodings":    greeting + "\x02\x00\xff\xff",
		"a key after these": greeting + "\x63\x04\x01\x00\x00\x00\x00\x00a",
	} {
		var out bytes.Buffer
		if err := Watch(&out, strings.NewReader(in)); vm.KindOf(err) != vm.Denied {
			t.Errorf("%s: the error is %v", name, err)
		}
		if strings.Contains(out.String(), "a") {
			t.Errorf("%s: the server got %q", name, out.String())
		}
	}
}
