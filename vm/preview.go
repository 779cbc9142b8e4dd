// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"strings"
	"time"
)

// Preview is the access setting of one port at the preview gateway, in a VM's
// record. A port without one is private.
type Preview struct {
	Port   uint16 `json:"port"`
	Public bool   `json:"public"`
	// Epoch is part of every signed link; raising it ends those that were made.
	Epoch     int       `json:"epoch,omitempty"`
	ChangedAt time.Time `json:"changedAt,omitzero"`
}

// Site is what the preview gateway finds for a host name: a port of a VM.
type Site struct {
	VM      ID
	Account AccountID
	Name    string
	Port    uint16
	Public  bool
	Epoch   int
	Domain  string // the mapped name that led to it; "" = a preview's own
	// Label is the name that led to it when another account could have it next:
	// the VM's, or a mapped one below the preview domain; "" = there is none.
	Label    string
	Instance string // changes with each start of the machine
	Started  time.Time
}

// ShownName says which account last showed pages under a name that is first come,
// first served: a VM's, or one below the preview domain. Browsers keep what those
// pages stored, so for ShownNameLasts no other account shows any there.
type ShownName struct {
	Name    string    `json:"name"`
	Account AccountID `json:"account"`
	SeenAt  time.Time `json:"seenAt"` // to the day

	Revision int64 `json:"-"`
}

// ShownNameLasts is how long a name stays with the account that showed pages
// under it last.
const ShownNameLasts = 90 * 24 * time.Hour

// Domain is what an account has said to be its own, and with Verified has shown
// to be by a TXT record. Names below a verified one are its too.
type Domain struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Account   AccountID `json:"account"`
	Code      string    `json:"code"` // what the TXT record must say
	Verified  bool      `json:"verified"`
	CreatedAt time.Time `json:"createdAt"`

	Revision int64 `json:"-"`
}

// VerificationName is where the TXT record of a domain is looked for.
func VerificationName(domain string) string { return "_freestyle_custom_hostname." + domain }

// Mapping shows a port of a VM under a host name, to everybody.
type Mapping struct {
	ID        string    `json:"id"`
	Domain    string    `json:"domain"`
	Account   AccountID `json:"account"`
	VM        ID        `json:"vm"`
	Host      string    `json:"host,omitempty"` // id of the server that has the VM; "" = written by an older warren
	Port      uint16    `json:"port"`
	Ownership string    `json:"ownership"` // id of the Domain; its own below the preview domain
	Implicit  bool      `json:"implicit"`  // below the preview domain: first come, first served
	CreatedAt time.Time `json:"createdAt"`

	Revision int64 `json:"-"`
}

// maxHostName is the longest name that DNS has.
const maxHostName = 253

// HostName returns a host name in the one form that Warren compares: lower
// case, without a last dot. It refuses what is no DNS name.
func HostName(s string) (string, error) {
	name := strings.ToLower(strings.TrimSuffix(s, "."))
	if name == "" || len(name) > maxHostName {
		return "", Errorf(Invalid, s, "not a host name").WithCode("INVALID_DOMAIN", "domain", s)
	}
	letters := false
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return "", Errorf(Invalid, s, "not a host name").WithCode("INVALID_DOMAIN", "domain", s)
		}
		letters = false // of the last label: an address has none
		for _, c := range label {
			switch {
			case c >= 'a' && c <= 'z' || c == '-':
				letters = true
			case c >= '0' && c <= '9' || c == '_':
			default:
				return "", Errorf(Invalid, s, "not a host name").WithCode("INVALID_DOMAIN", "domain", s).
					WithHint("write other scripts in their xn-- form")
			}
		}
	}
	if !letters {
		return "", Errorf(Invalid, s, "an address, not a host name").WithCode("INVALID_DOMAIN", "domain", s)
	}
	return name, nil
}
