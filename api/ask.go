// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package api

import "github.com/warren-vm/warren/vm"

// HeaderAskTimeout is how many seconds a call waits for an approval that it needs.
const HeaderAskTimeout = "Warren-Ask-Timeout"

// AskList answers GET /v1/asks.
type AskList struct {
	Asks []vm.Ask `json:"asks"`
}

// ApproveAsk is the body of POST /v1/asks/{ask}/approve.
type ApproveAsk struct {
	For  vm.Seconds `json:"forSeconds,omitempty"` // how long a rule stays in force; 0 = until it is removed
	Note string     `json:"note,omitempty"`
}

// DenyAsk is the body of POST /v1/asks/{ask}/deny.
type DenyAsk struct {
	Note string `json:"note,omitempty"` // the asker is told it
}
