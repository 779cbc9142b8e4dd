// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vt

import (
	"slices"
	"strconv"
	"strings"
)

// keyFlags are the flags of kitty's keyboard protocol, as a stack whose last
// element applies. The empty one is a single 0.
type keyFlags []byte

const (
	maxKeyFlags = 16 // entries of a stack; then the oldest is dropped
	allKeyFlags = 31
)

// now returns the stack with the current flags as its last ones.
func (k *keyFlags) now() *byte {
	if len(*k) == 0 {
		*k = append(*k, 0)
	}
	return &(*k)[len(*k)-1]
}

// obey carries out CSI with the prefix > (push), < (pop) or = (change) and the
// final u.
func (k *keyFlags) obey(mark byte, p params) {
	top := k.now()
	flags := byte(p.at(0, 0) & allKeyFlags)
	switch mark {
	case '>':
		if len(*k) == maxKeyFlags {
			*k = slices.Delete(*k, 0, 1)
		}
		*k = append(*k, flags)
	case '<':
		*k = (*k)[:max(0, len(*k)-p.at(0, 1))]
	case '=':
		switch p.at(1, 1) {
		case 1:
			*top = flags
		case 2:
			*top |= flags
		case 3:
			*top &^= flags
		}
	}
}

// draw makes a terminal's stack equal to this one.
func (k keyFlags) draw(d *drawing) {
	d.put("\x1b[<" + strconv.Itoa(maxKeyFlags) + "u")
	for i, f := range k {
		switch {
		case i > 0:
			d.put("\x1b[>" + strconv.Itoa(int(f)) + "u")
		case f != 0:
			d.put("\x1b[=" + strconv.Itoa(int(f)) + ";1u")
		}
	}
}

// colors are the terminal's colours that a program has set: by the index of the
// palette, then foreground, background and cursor.
type colors struct {
	changed bool // it was set at some time
	of      map[int]string
}

const (
	dynamic  = 256 // foreground; then background and cursor
	maxColor = dynamic + 2
	// maxColorName bounds the stored text of a colour.
	maxColorName = 32
)

// osc carries out a sequence about colours; ok is false for others.
func (c *colors) osc(number int, rest string) {
	switch {
	case number == 4:
		for list := strings.Split(rest, ";"); len(list) > 1; list = list[2:] {
			if n, err := strconv.Atoi(list[0]); err == nil && n >= 0 && n < dynamic {
				c.set(n, list[1])
			}
		}
	case number >= 10 && number <= 12:
		for i, name := range strings.Split(rest, ";") {
			c.set(dynamic+number-10+i, name)
		}
	case number == 104 && rest == "":
		c.changed = true
		for n := range dynamic {
			delete(c.of, n)
		}
	case number == 104:
		c.changed = true
		for s := range strings.SplitSeq(rest, ";") {
			if n, err := strconv.Atoi(s); err == nil && n < dynamic {
				delete(c.of, n)
			}
		}
	case number >= 110 && number <= 112:
		c.changed = true
		delete(c.of, dynamic+number-110)
	}
}

// set notes a colour; a query changes none.
func (c *colors) set(n int, name string) {
	other := func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune("#:/.", r)
	}
	if n > maxColor || name == "" || len(name) > maxColorName || strings.ContainsFunc(name, other) {
		return
	}
	if c.of == nil {
		c.of = make(map[int]string)
	}
	c.changed, c.of[n] = true, name
}

// draw makes a terminal's colours equal to these. Colours that the program never
// set keep the user's values.
func (c *colors) draw(d *drawing) {
	if !c.changed {
		return
	}
	d.put("\x1b]104\x07\x1b]110\x07\x1b]111\x07\x1b]112\x07")
	for n := range maxColor + 1 {
		name, ok := c.of[n]
		switch {
		case !ok:
		case n < dynamic:
			d.put("\x1b]4;" + strconv.Itoa(n) + ";" + name + "\x07")
		default:
			d.put("\x1b]" + strconv.Itoa(n-dynamic+10) + ";" + name + "\x07")
		}
	}
}
