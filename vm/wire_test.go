// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"encoding/json"
	"os"
	"testing"
)

func TestErrorCrossesTheWire(t *testing.T) {
	in := Errorf(GuestFault, "x", "why: %w", os.ErrNotExist).WithHint("do this").WithCode("CODE", "a", "b")
	data, err := json.Marshal(ToWire(in))
	if err != nil {
		t.Fatal(err)
	}
	var w WireError
	if err := json.Unmarshal(data, &w); err != nil {
		t.Fatal(err)
	}
	out := w.Error()
	for what, pair := range map[string][2]any{
		"kind": {in.Kind, out.Kind}, "hint": {in.Hint, out.Hint}, "code": {in.Code, out.Code},
		"text": {in.Error(), out.Error()}, "field": {in.Fields["a"], out.Fields["a"]},
	} {
		if pair[0] != pair[1] {
			t.Errorf("the %s %q became %q", what, pair[0], pair[1])
		}
	}
}

// TestErrorOfOlderMonitor: a monitor that an older server started still runs,
// and writes the message under another name.
func TestErrorOfOlderMonitor(t *testing.T) {
	var w WireError
	if err := json.Unmarshal([]byte(`{"op":"start","kind":"busy","subject":"x","message":"taken"}`), &w); err != nil {
		t.Fatal(err)
	}
	if got := w.Error().Error(); got != "start: x: taken" {
		t.Errorf("the error reads %q", got)
	}
}

// TestWireErrorWithoutJSON: an error with a field that cannot be JSON is not lost.
func TestWireErrorWithoutJSON(t *testing.T) {
	w := ToWire(Errorf(Busy, "x", "taken").WithCode("CODE", "f", func() {}))
	if _, err := json.Marshal(w); err != nil {
		t.Error(err)
	}
	if w.Msg != "taken" {
		t.Errorf("the message is %q", w.Msg)
	}
}
