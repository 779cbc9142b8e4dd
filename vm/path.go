// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

// PathAction is what a path rule does with the paths that it matches.
type PathAction string

// The actions of path rules.
const (
	PathAllow    PathAction = "allow"
	PathReadOnly PathAction = "read-only" // reading is allowed, changing is not
	PathAsk      PathAction = "ask"       // the access waits for a decision
	PathDeny     PathAction = "deny"      // the name is visible, the content is not
	PathHide     PathAction = "hide"      // as if it did not exist
)

// PathActions are all actions.
var PathActions = []PathAction{PathAllow, PathReadOnly, PathAsk, PathDeny, PathHide}

// PathRule is one rule about paths of a VM. The first rule that matches a path decides; if
// none does, the path is allowed. A rule that matches a directory matches all that is below it.
type PathRule struct {
	// ID names the rule in its VM: "p-" and 6 lower-case letters or digits. The server
	// chooses it.
	ID     string     `json:"id,omitempty"`
	Action PathAction `json:"action"`
	// Path is an absolute pattern in the guest. "*" stands for a part of one name, "?" for
	// one character, "**" as a whole name for any number of directories.
	Path string `json:"path"`
	// From is where the rule comes from, such as an ask; "" = the account wrote it.
	From string `json:"from,omitempty"`
}

// NewPathRuleID returns a fresh random id of a path rule.
func NewPathRuleID() string { return "p-" + randomID(6) }

// The kinds of places to which path rules apply.
const (
	PathInFolder = "folder" // a directory of the host, or objects
	PathInVolume = "volume"
	PathOnDisk   = "disk" // of the VM
)

// PathPlace says how far a path rule holds in one place.
type PathPlace struct {
	Kind string `json:"kind"` // folder, volume or disk
	Path string `json:"path"` // of the mount in the guest; "/" = the VM's disk
	// Void says that programs in the guest are not held to the rule. Why says the reason.
	Void bool   `json:"void"`
	Why  string `json:"why,omitempty"`
}

// PathRuleShown is a rule with the places that it reaches.
type PathRuleShown struct {
	PathRule
	Places []PathPlace `json:"places"`
}

// PathQuestion asks for a decision about a path that a rule with PathAsk matches.
type PathQuestion struct {
	Path  string `json:"path"`
	Write bool   `json:"write,omitempty"`
}

// PathDecision is the answer to a PathQuestion.
type PathDecision struct {
	Allowed bool `json:"allowed"`
	Seconds int  `json:"seconds,omitempty"` // how long it holds; 0 = until the rules change or the folder is unmounted
}
