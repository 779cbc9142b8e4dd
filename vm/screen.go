// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

// ScreenPort is the port of a guest at which the VNC server of its screen listens.
const ScreenPort = 5900

// ScreenVerb is something that can be done with the screen of a VM.
type ScreenVerb string

// The verbs.
const (
	ScreenMove   ScreenVerb = "move"
	ScreenClick  ScreenVerb = "click"
	ScreenScroll ScreenVerb = "scroll"
	ScreenType   ScreenVerb = "type"
	ScreenKey    ScreenVerb = "key"
)

// ScreenAction is one action of the pointer or the keyboard on the screen of a VM.
type ScreenAction struct {
	Do     ScreenVerb
	X, Y   int    // of move, click and scroll; 0,0 is the upper left corner
	Button int    // of click: 1 left, 2 middle, 3 right; 0 = 1
	Count  int    // clicks, 0 = 1; steps to scroll down, negative ones up
	Text   string // of type
	Keys   string // of key, such as Return or ctrl+l
}

// ScreenSize is the size of a screen in pixels.
type ScreenSize struct {
	Width  int `json:"width"`
	Height int `json:"height"`
}
