// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package screen

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/warren-vm/warren/vm"
)

// named are the keys that have no character, by their names in X11, in lower case.
var named = map[string]uint32{
	"return": 0xff0d, "enter": 0xff0d, "tab": 0xff09, "escape": 0xff1b, "esc": 0xff1b, "backspace": 0xff08, "delete": 0xffff, "insert": 0xff63,
	"home": 0xff50, "end": 0xff57, "page_up": 0xff55, "page_down": 0xff56, "pageup": 0xff55, "pagedown": 0xff56,
	"left": 0xff51, "up": 0xff52, "right": 0xff53, "down": 0xff54, "space": 0x20, "plus": '+', "minus": '-', "menu": 0xff67, "print": 0xff61, "pause": 0xff13,
	"ctrl": 0xffe3, "control": 0xffe3, "shift": 0xffe1, "alt": 0xffe9, "super": 0xffeb, "meta": 0xffe7, "cmd": 0xffeb,
}

// runeSym returns the key symbol of a character.
func runeSym(r rune) uint32 {
	switch {
	case r == '\n' || r == '\r':
		return named["return"]
	case r == '\t':
		return named["tab"]
	case r >= 0x20 && r <= 0x7e || r >= 0xa0 && r <= 0xff:
		return uint32(r)
	}
	return 0x01000000 | uint32(r)
}

// parseKeys returns the symbols of one key or of several joined by +, such as ctrl+shift+t.
func parseKeys(text string) ([]uint32, error) {
	var out []uint32
	for word := range strings.SplitSeq(text, "+") {
		sym, ok := keySym(word)
		if !ok || len(out) == 8 {
			return nil, vm.Errorf(vm.Invalid, text, "%q is not a key", word).WithCode("SCREEN_KEY_UNKNOWN", "key", word).
				WithHint("give a character, a name such as Return, Tab, Escape, BackSpace, Page_Down, Left or F5, or several joined by +: ctrl+l")
		}
		out = append(out, sym)
	}
	return out, nil
}

func keySym(word string) (uint32, bool) {
	if utf8.RuneCountInString(word) == 1 {
		r, _ := utf8.DecodeRuneInString(word)
		return runeSym(r), r != utf8.RuneError && r >= 0x20
	}
	low := strings.ToLower(word)
	if sym, ok := named[low]; ok {
		return sym, true
	}
	if n, err := strconv.Atoi(strings.TrimPrefix(low, "f")); err == nil && low[0] == 'f' && n >= 1 && n <= 24 {
		return 0xffbe + uint32(n) - 1, true
	}
	return 0, false
}

// checkText refuses a text that cannot be typed.
func checkText(text string) error {
	if !utf8.ValidString(text) || text == "" || len(text) > MaxText {
		return vm.Errorf(vm.Invalid, "text", "a text to type is UTF-8 and has 1 to %d bytes", MaxText).WithCode("SCREEN_TEXT_INVALID", "maxBytes", MaxText)
	}
	for _, r := range text {
		if r < 0x20 && r != '\n' && r != '\r' && r != '\t' || r == 0x7f {
			return vm.Errorf(vm.Invalid, "text", "the control character %q cannot be typed", r).WithCode("SCREEN_TEXT_INVALID", "maxBytes", MaxText).
				WithHint("press keys with `warren screen key`")
		}
	}
	return nil
}
