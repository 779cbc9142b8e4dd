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
	// Epoch is part of every signed link; raising it revokes the existing links.
	Epoch     int       `json:"epoch,omitempty"`
	ChangedAt time.Time `json:"changedAt,omitzero"`
}

// Site is the target of a host name at the preview gateway: a port of a VM.
type Site struct {
	VM      ID
	Account AccountID
	Name    string
	Port    uint16
	Public  bool
	Epoch   int
	Domain  string // the mapped domain that leads to it; "" = a preview's own name
	// Label is the name that leads to it, if another account could get that name
	// next: the VM's name, or a mapped one below the preview domain; "" = none.
	Label    string
	Instance string // changes with each start of the machine
	Started  time.Time
}

// ShownName records which account last showed pages under a name that is first
// come, first served: a VM's, or one below the preview domain. Browsers keep data
// of those pages, so no other account may show pages there for ShownNameLasts.
type ShownName struct {
	Name    string    `json:"name"`
	Account AccountID `json:"account"`
	SeenAt  time.Time `json:"seenAt"` // to the day
}

// ShownNameLasts is how long a name is reserved for the account that last showed pages under it.
const ShownNameLasts = 90 * 24 * time.Hour

// Domain is a domain that an account claims; Verified says that a TXT record
// has proved it. Names below a verified domain belong to the account, too.
type Domain struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Account   AccountID `json:"account"`
	Code      string    `json:"code"` // required value of the TXT record
	Verified  bool      `json:"verified"`
	CreatedAt time.Time `json:"createdAt"`
}

// VerificationName returns the name of the TXT record that verifies a domain.
func VerificationName(domain string) string { return "_freestyle_custom_hostname." + domain }

// Mapping opens a port of a VM to everybody at a host name.
type Mapping struct {
	ID        string    `json:"id"`
	Domain    string    `json:"domain"`
	Account   AccountID `json:"account"`
	VM        ID        `json:"vm"`
	Host      string    `json:"host,omitempty"` // id of the server that has the VM; "" = written by an older warren
	Port      uint16    `json:"port"`
	Ownership string    `json:"ownership"` // id of the Domain; a separate one below the preview domain
	Implicit  bool      `json:"implicit"`  // below the preview domain: first come, first served
	CreatedAt time.Time `json:"createdAt"`
}

// maxHostName is the longest name in DNS.
const maxHostName = 253

// HostName returns a host name in the form that Warren compares: lower case,
// without a final dot. It refuses names that are not valid in DNS.
func HostName(s string) (string, error) {
	name := strings.ToLower(strings.TrimSuffix(s, "."))
	if name == "" || len(name) > maxHostName {
		return "", Errorf(Invalid, s, "is not a host name").WithCode("INVALID_DOMAIN", "domain", s)
	}
	letters := false
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return "", Errorf(Invalid, s, "is not a host name").WithCode("INVALID_DOMAIN", "domain", s)
		}
		letters = false // in the last label: an address has none
		for _, c := range label {
			switch {
			case c >= 'a' && c <= 'z' || c == '-':
				letters = true
			case c >= '0' && c <= '9' || c == '_':
			default:
				return "", Errorf(Invalid, s, "is not a host name").WithCode("INVALID_DOMAIN", "domain", s).
					WithHint("write other scripts in their xn-- form")
			}
		}
	}
	if !letters {
		return "", Errorf(Invalid, s, "is an address, not a host name").WithCode("INVALID_DOMAIN", "domain", s)
	}
	return name, nil
}
