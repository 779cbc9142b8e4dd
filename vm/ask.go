// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"slices"
	"strings"
	"time"
)

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

// AskRight is a part of an identity's rights on a VM that may depend on approval.
type AskRight string

// The rights that may depend on approval.
const (
	AskExec     AskRight = "exec"     // commands, terminals, signals, services, sockets
	AskEdit     AskRight = "edit"     // changes of files
	AskCopyOut  AskRight = "copy-out" // contents of files
	AskPublish  AskRight = "publish"  // objects
	AskCommit   AskRight = "commit"   // commits to repositories
	AskMount    AskRight = "mount"    // volumes; without approval only the account may
	AskSnapshot AskRight = "snapshot" // snapshots, which without approval only the account may take, and turns
)

// AskRights are all rights that may depend on approval.
var AskRights = []AskRight{AskExec, AskEdit, AskCopyOut, AskPublish, AskCommit, AskMount, AskSnapshot}

// ReadOnlyAsks are the rights that depend on approval when an identity may otherwise only
// look at a VM and read its files.
var ReadOnlyAsks = []AskRight{AskExec, AskEdit, AskPublish, AskCommit}

// AskRightOf returns the right that a verb uses; "" = none that may depend on approval. A verb
// with an audit record always needs it. Of OpDial, only a connection to a port that the caller
// chose does: the preview gateway does not ask.
func AskRightOf(verb Op) AskRight {
	switch verb {
	case OpExec, OpTerminal, OpSignal, OpService, OpSocket, OpDial:
		return AskExec
	case OpWrite, OpMkdir, OpRename, OpRemove, OpChmod, OpSymlink, OpObjectFetch:
		return AskEdit
	case OpRead:
		return AskCopyOut
	case OpPublish:
		return AskPublish
	case OpCommit:
		return AskCommit
	case OpMount:
		return AskMount
	case OpSnapshot, OpTurn:
		return AskSnapshot
	}
	return ""
}

// CheckAskRights returns the rights in the order of AskRights, each once; none = nil. Kind
// Invalid.
func CheckAskRights(list []AskRight) (out []AskRight, err error) {
	for _, r := range list {
		if !slices.Contains(AskRights, r) {
			names := make([]string, len(AskRights))
			for i, r := range AskRights {
				names[i] = string(r)
			}
			return nil, Errorf(Invalid, Clip(string(r), 40), "is not a right that can depend on approval").WithCode("INVALID_REQUEST").
				WithHint("use %s", strings.Join(names, ", "))
		}
	}
	for _, r := range AskRights {
		if slices.Contains(list, r) {
			out = append(out, r)
		}
	}
	return out, nil
}

// MaxAskText is how many bytes an ask stores of each text.
const MaxAskText = 4 << 10
