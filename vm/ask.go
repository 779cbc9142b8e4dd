// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import "time"

// AskKind is what an ask is about.
type AskKind string

// The kinds of asks.
const (
	AskNetwork AskKind = "network" // a program in a VM proposes a rule of its network policy
	AskAction  AskKind = "action"  // an identity's call waits for a decision
	AskTrust   AskKind = "trust"   // a recipe or repository is to be used for the first time
)

// AskState is how far an ask is.
type AskState string

// The states of asks. All but AskPending are final.
const (
	AskPending  AskState = "pending"
	AskApproved AskState = "approved"
	AskDenied   AskState = "denied"
	AskExpired  AskState = "expired" // its deadline passed without a decision, which counts as no
	AskEnded    AskState = "ended"   // who asked has left, or the VM is gone
)

// Ask waits for the decision of a person or a program. What it shows is what runs: nothing
// of it is cut without saying so.
type Ask struct {
	ID       string     `json:"id"` // "ask-" and 12 lower-case letters or digits
	Kind     AskKind    `json:"kind"`
	Account  AccountID  `json:"account"`
	VM       ID         `json:"vm,omitempty"`
	Identity IdentityID `json:"identity,omitempty"` // who asks; "" = a program in the VM, or the account
	Verb     Op         `json:"verb,omitempty"`     // of an action
	What     string     `json:"what"`               // the command, path or source, at most 4 KiB
	// Digest is the hex SHA-256 of all that would be done. Size counts its bytes.
	Digest string `json:"digest,omitempty"`
	Size   int    `json:"size,omitempty"`
	// Details are further facts that matter for the decision, such as env and cwd.
	Details map[string]string `json:"details,omitempty"`
	Rule    *NetRule          `json:"rule,omitempty"`   // that is proposed
	Widens  []string          `json:"widens,omitempty"` // what the rule would newly allow, in words
	// Why is what the asker gave as a reason. A guest may have written it.
	Why       string    `json:"why,omitempty"`
	State     AskState  `json:"state"`
	CreatedAt time.Time `json:"createdAt"`
	Deadline  time.Time `json:"deadline"`
	DecidedAt time.Time `json:"decidedAt,omitzero"`
	DecidedBy string    `json:"decidedBy,omitempty"` // account, identity or "policy"
	Note      string    `json:"note,omitempty"`      // of who decided
	Host      string    `json:"host,omitempty"`      // id of the server that it belongs to
}
