// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
)

// The verbs on the way of every start (hello, reset, exec) use a plain list
// of names and values instead of JSON: in a guest that has just been restored
// under emulation every instruction runs for the first time, and a reflecting
// decoder costs tens of milliseconds. Unknown names are skipped, so both ends
// may add some.

// fields is a list under construction: [uvarint length, name, uvarint length, value]...
type fields []byte

func (f *fields) put(name, value string) {
	b := binary.AppendUvarint(*f, uint64(len(name)))
	b = append(b, name...)
	b = binary.AppendUvarint(b, uint64(len(value)))
	*f = append(b, value...)
}

// opt puts a value unless it is empty.
func (f *fields) opt(name, value string) {
	if value != "" {
		f.put(name, value)
	}
}

func (f *fields) num(name string, n int64) {
	if n != 0 {
		f.put(name, strconv.FormatInt(n, 10))
	}
}

func (f *fields) flag(name string, on bool) {
	if on {
		f.put(name, "1")
	}
}

// maxFields bounds a list: the arguments of a command that a kernel takes are
// fewer.
const maxFields = 256 << 10

var (
	errFields = errors.New("link: malformed field list")
	errMany   = errors.New("link: a field list has too many elements")
)

// each calls take for each name and value.
func each(b []byte, take func(name, value string) error) error {
	next := func() (string, bool) {
		n, w := binary.Uvarint(b)
		if w <= 0 || n > uint64(len(b)-w) {
			return "", false
		}
		s := string(b[w : w+int(n)])
		b = b[w+int(n):]
		return s, true
	}
	for n := 0; len(b) > 0; n++ {
		if n == maxFields {
			return errMany
		}
		name, ok := next()
		if !ok {
			return errFields
		}
		value, ok := next()
		if !ok {
			return errFields
		}
		if err := take(name, value); err != nil {
			return err
		}
	}
	return nil
}

// number reads a decimal into *to.
func number[T int | int64](to *T, s string) error {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || int64(T(n)) != n {
		return errFields
	}
	*to = T(n)
	return nil
}

// variable adds NAME=VALUE to *env.
func variable(env *map[string]string, s string) error {
	k, v, ok := strings.Cut(s, "=")
	if !ok {
		return errFields
	}
	if *env == nil {
		*env = make(map[string]string)
	}
	(*env)[k] = v
	return nil
}
