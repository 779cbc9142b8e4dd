// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import "time"

// The words of a trigger in the HTTP contract.
const (
	EventPush     = "push"
	ActionWebhook = "webhook"
)

// TriggerOn says which pushes a trigger is for.
type TriggerOn struct {
	Event    string   `json:"event"`              // push
	Branches []string `json:"branches,omitempty"` // patterns, see MatchBranch; none = every branch
	Globs    []string `json:"globs,omitempty"`    // of changed files; none = any
}

// TriggerDoes says what a trigger does.
type TriggerDoes struct {
	Action   string `json:"action"`   // webhook
	Endpoint string `json:"endpoint"` // an http or https URL
}

// Trigger calls a URL when branches of a repository change.
type Trigger struct {
	ID        string      `json:"id"` // a UUID
	Repo      string      `json:"repo"`
	Account   AccountID   `json:"account"`
	On        TriggerOn   `json:"on"`
	Does      TriggerDoes `json:"does"`
	Secret    string      `json:"secret"` // signs the deliveries
	CreatedAt time.Time   `json:"createdAt"`
	Host      string      `json:"host,omitempty"` // id of the server that has the repository
}

// The states of a delivery.
const (
	DeliveryPending = "pending"
	DeliveryDone    = "delivered"
	DeliveryFailed  = "failed" // no further try will be made
)

// RefChange is the change of one ref. A commit id is "" where there is none: before, when
// the ref was made; after, when it was deleted.
type RefChange struct {
	Ref    string `json:"ref"` // full: refs/heads/main
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// Delivery is one call of a trigger's URL, with its tries.
type Delivery struct {
	ID        string    `json:"id"` // a UUID
	Trigger   string    `json:"trigger"`
	Repo      string    `json:"repo"`
	Change    RefChange `json:"change"`
	Pusher    string    `json:"pusher"` // an account or identity
	CreatedAt time.Time `json:"createdAt"`
	State     string    `json:"state"`
	Tries     int       `json:"tries"`
	NextAt    time.Time `json:"nextAt,omitzero"`   // of the next try
	LastAt    time.Time `json:"lastAt,omitzero"`   // of the last try
	Status    int       `json:"status,omitempty"`  // of the last answer; 0 = there was none
	Problem   string    `json:"problem,omitempty"` // why the last try failed
	Host      string    `json:"host,omitempty"`    // id of the server that makes the calls
}
