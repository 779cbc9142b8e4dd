// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package api

// MoveScreen is the body of POST /v1/vms/{vm}/screen/move.
type MoveScreen struct {
	X int `json:"x"`
	Y int `json:"y"`
}

// ClickScreen is the body of POST /v1/vms/{vm}/screen/click.
type ClickScreen struct {
	X      int `json:"x"`
	Y      int `json:"y"`
	Button int `json:"button,omitempty"` // 1 left, 2 middle, 3 right; absent = 1
	Count  int `json:"count,omitempty"`  // absent = 1
}

// ScrollScreen is the body of POST /v1/vms/{vm}/screen/scroll.
type ScrollScreen struct {
	X     int `json:"x"`
	Y     int `json:"y"`
	Steps int `json:"steps"` // of the wheel; negative = up
}

// TypeScreen is the body of POST /v1/vms/{vm}/screen/type.
type TypeScreen struct {
	Text string `json:"text"`
}

// KeyScreen is the body of POST /v1/vms/{vm}/screen/key.
type KeyScreen struct {
	Keys string `json:"keys"` // such as Return or ctrl+l
}
