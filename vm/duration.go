// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"time"
)

// MaxDuration is the longest duration that a caller may give: a hundred years.
const MaxDuration = 100 * 366 * 24 * time.Hour

// Seconds is a setting that JSON has as a whole number of seconds. In Go every
// duration is a time.Duration; this type and Millis only say how one is written for
// others. Results that are measured, such as cpuSeconds and pauseMs, stay numbers.
type Seconds time.Duration

// String is the number of seconds, as JSON has it.
func (s Seconds) String() string { return count(s, time.Second) }

// MarshalJSON writes the number of seconds.
func (s Seconds) MarshalJSON() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalJSON reads a number of seconds. One that is too large for a time.Duration
// becomes the longest duration, which no setting accepts.
func (s *Seconds) UnmarshalJSON(data []byte) error { return readCount(s, data, time.Second) }

// Millis is a setting that JSON has as a whole number of milliseconds; see Seconds.
type Millis time.Duration

// String is the number of milliseconds, as JSON has it.
func (m Millis) String() string { return count(m, time.Millisecond) }

// MarshalJSON writes the number of milliseconds.
func (m Millis) MarshalJSON() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalJSON reads a number of milliseconds; see Seconds.UnmarshalJSON.
func (m *Millis) UnmarshalJSON(data []byte) error { return readCount(m, data, time.Millisecond) }

func count[T ~int64](d T, unit time.Duration) string {
	return strconv.FormatInt(int64(d)/int64(unit), 10)
}

func readCount[T ~int64](d *T, data []byte, unit time.Duration) error {
	var n int64
	if err := json.Unmarshal(data, &n); err != nil {
		return err
	}
	most := math.MaxInt64 / int64(unit)
	*d = T(min(max(n, -most), most) * int64(unit))
	return nil
}

// Optional is a JSON member that may be absent, null or given, where the three differ.
// The zero value is absent: give the member the option omitzero.
type Optional[T any] struct {
	Set   bool // it was given, perhaps as null
	Null  bool
	Value T
}

// Some returns a given value.
func Some[T any](v T) Optional[T] { return Optional[T]{Set: true, Value: v} }

// Null returns an explicit null.
func Null[T any]() Optional[T] { return Optional[T]{Set: true, Null: true} }

// UnmarshalJSON is called only when the member is there.
func (o *Optional[T]) UnmarshalJSON(data []byte) error {
	o.Set, o.Null = true, bytes.Equal(data, []byte("null"))
	return json.Unmarshal(data, &o.Value)
}

// MarshalJSON writes null or the value.
func (o Optional[T]) MarshalJSON() ([]byte, error) {
	if o.Null {
		return []byte("null"), nil
	}
	return json.Marshal(o.Value)
}
