// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package receipt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"unicode/utf16"
)

// Canonical returns the canonical JSON of v (RFC 8785). Numbers must be integers below
// 2^53: receipts have no others.
func Canonical(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return canonicalBytes(data)
}

// canonicalBytes returns the canonical form of a JSON text. A name that an object has
// twice is an error.
func canonicalBytes(data []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := read(d)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("something follows the JSON text")
	}
	return write(nil, v)
}

// read reads one value and refuses names that occur twice.
func read(d *json.Decoder) (any, error) {
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := read(d)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.Token()
		return list, err
	case json.Delim('{'):
		object := map[string]any{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			key, _ := name.(string) // the decoder lets nothing else stand here
			if _, ok := object[key]; ok {
				return nil, fmt.Errorf("the name %q occurs twice", key)
			}
			if object[key], err = read(d); err != nil {
				return nil, err
			}
		}
		_, err = d.Token()
		return object, err
	}
	return t, nil
}

const maxInteger = 1 << 53

func write(out []byte, v any) (_ []byte, err error) {
	switch v := v.(type) {
	case nil:
		return append(out, "null"...), nil
	case bool:
		return strconv.AppendBool(out, v), nil
	case json.Number:
		n, err := v.Int64()
		if err != nil || n >= maxInteger || n <= -maxInteger {
			return nil, fmt.Errorf("%s is no integer below 2^53", v)
		}
		return strconv.AppendInt(out, n, 10), nil
	case string:
		return quote(out, v), nil
	case []any:
		out = append(out, '[')
		for i, e := range v {
			if i > 0 {
				out = append(out, ',')
			}
			if out, err = write(out, e); err != nil {
				return nil, err
			}
		}
		return append(out, ']'), nil
	case map[string]any:
		names := make([]string, 0, len(v))
		for n := range v {
			names = append(names, n)
		}
		slices.SortFunc(names, func(a, b string) int {
			return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
		})
		out = append(out, '{')
		for i, n := range names {
			if i > 0 {
				out = append(out, ',')
			}
			if out, err = write(append(quote(out, n), ':'), v[n]); err != nil {
				return nil, err
			}
		}
		return append(out, '}'), nil
	}
	return nil, fmt.Errorf("%T is no JSON", v)
}

// quote writes a string as RFC 8785 wants it: as few escapes as possible.
func quote(out []byte, s string) []byte {
	out = append(out, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			out = append(out, '\\', byte(r))
		case r >= ' ':
			out = append(out, string(r)...)
		default:
			if i := bytes.IndexByte([]byte("\b\t\n\f\r"), byte(r)); i >= 0 {
				out = append(out, '\\', "btnfr"[i])
			} else {
				out = fmt.Appendf(out, `\u%04x`, r)
			}
		}
	}
	return append(out, '"')
}
