// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/warren-vm/warren/vm"
)

// The verbs of every start (hello, reset, exec) use a plain list of names and
// values instead of JSON: in a guest that was just restored under emulation
// every instruction runs for the first time, and a decoder with reflection takes
// tens of milliseconds. Unknown names are skipped, so either end may add names.

// fields is a list being built: [uvarint length, name, uvarint length, value]...
type fields []byte

func (f *fields) put(name, value string) {
	b := binary.AppendUvarint(*f, uint64(len(name)))
	b = append(b, name...)
	b = binary.AppendUvarint(b, uint64(len(value)))
	*f = append(b, value...)
}

// field binds a name on the wire to a variable, for both directions: a pointer to a string,
// []byte, number, bool, time, or a list of strings or of variables. Zero values are not sent.
type field struct {
	name string
	at   any
}

// encodeFields encodes the variables of a list.
func encodeFields(list []field) []byte {
	var f fields
	for _, e := range list {
		switch at := e.at.(type) {
		case *string:
			f.text(e.name, *at)
		case *[]byte:
			f.text(e.name, string(*at))
		case *int:
			f.num(e.name, int64(*at))
		case *int64:
			f.num(e.name, *at)
		case *bool:
			if *at {
				f.put(e.name, "1")
			}
		case *time.Time:
			f.num(e.name, at.UnixNano())
		case *time.Duration:
			f.num(e.name, int64(*at))
		case *vm.Millis:
			f.num(e.name, time.Duration(*at).Milliseconds())
		case **int:
			if *at != nil {
				f.put(e.name, strconv.Itoa(**at))
			}
		case **time.Time:
			if *at != nil {
				f.num(e.name, (*at).UnixNano())
			}
		case *[]string:
			for _, v := range *at {
				f.put(e.name, v)
			}
		case *map[string]string:
			for k, v := range *at {
				f.put(e.name, k+"="+v)
			}
		}
	}
	return f
}

// decoded decodes a list into the variables of a new T.
func decoded[T any](b []byte, of func(*T) []field) (T, error) {
	var v T
	list := of(&v)
	err := each(b, func(name, value string) error { return take(list, name, value) })
	return v, err
}

// take decodes one value; it skips a name that is not in the list.
func take(list []field, name, value string) error {
	for i := range list {
		if list[i].name != name {
			continue
		}
		switch at := list[i].at.(type) {
		case *string:
			*at = value
		case *[]byte:
			*at = []byte(value)
		case *int:
			return number(at, value)
		case *int64:
			return number(at, value)
		case *bool:
			*at = true
		case *time.Time:
			return instant(at, value)
		case *time.Duration:
			return number(at, value)
		case *vm.Millis:
			return at.UnmarshalJSON([]byte(value))
		case **int:
			*at = new(int)
			return number(*at, value)
		case **time.Time:
			*at = new(time.Time)
			return instant(*at, value)
		case *[]string:
			*at = append(*at, value)
		case *map[string]string:
			return variable(at, value)
		}
		return nil
	}
	return nil
}

// text adds a value unless it is empty.
func (f *fields) text(name, value string) {
	if value != "" {
		f.put(name, value)
	}
}

func (f *fields) num(name string, n int64) {
	if n != 0 {
		f.put(name, strconv.FormatInt(n, 10))
	}
}

// maxFields limits the elements of a list; the kernel accepts fewer arguments of a command.
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

// number parses a decimal into *to.
func number[T ~int | ~int64](to *T, s string) error {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || int64(T(n)) != n {
		return errFields
	}
	*to = T(n)
	return nil
}

// instant parses nanoseconds since 1970 into *to.
func instant(to *time.Time, s string) error {
	var n int64
	err := number(&n, s)
	*to = time.Unix(0, n).UTC()
	return err
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
