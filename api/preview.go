// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"time"

	"github.com/warren-vm/warren/vm"
)

// Preview is one port of a VM at the preview gateway.
type Preview struct {
	VM     vm.ID  `json:"vm"`
	Port   uint16 `json:"port"`
	Public bool   `json:"public"`
	URL    string `json:"url"` // "" when the gateway is off
}

// PreviewList is the answer to GET /v1/vms/{vm}/previews.
type PreviewList struct {
	Previews []Preview `json:"previews"`
}

// SetPreview is the body of PUT /v1/vms/{vm}/previews/{port}.
type SetPreview struct {
	Public bool `json:"public"`
}

// NewLink is the body of POST /v1/vms/{vm}/previews/{port}/links.
type NewLink struct {
	For   vm.Seconds `json:"forSeconds,omitempty"` // 0 = an hour
	Watch bool       `json:"watch,omitempty"`      // of the screen's port, 5900: only to watch it
}

// PreviewLink opens a private preview until it expires; a ticket opens it once.
type PreviewLink struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expiresAt"`
}

// Domain is the body of a request about a domain.
type Domain struct {
	Domain           string `json:"domain,omitempty"`
	ID               string `json:"id,omitempty"`
	VerificationCode string `json:"verificationCode,omitempty"`
}

// Verification is a domain whose ownership is being proved.
type Verification struct {
	ID               string       `json:"id"`
	Domain           string       `json:"domain"`
	AccountID        vm.AccountID `json:"accountId"`
	VerificationCode string       `json:"verificationCode"`
	CreatedAt        time.Time    `json:"createdAt"`
}

// OwnedDomain is one row of GET /domains/v1/domains.
type OwnedDomain struct {
	ID                 string       `json:"id"`
	Domain             string       `json:"domain"`
	AccountID          vm.AccountID `json:"accountId"`
	CreatedAt          time.Time    `json:"createdAt"`
	VerifiedDNS        bool         `json:"verifiedDns"`
	ImplicitlyOwned    bool         `json:"implicitlyOwned"`
	DeployToDomain     bool         `json:"deployToDomain"`
	ManageDNS          bool         `json:"manageDns"`
	DeployToSubdomains bool         `json:"deployToSubdomains"`
}

// NewMapping is the body of POST /domains/v1/mappings/{domain}.
type NewMapping struct {
	Domain       string `json:"domain,omitempty"`
	VM           string `json:"vmId,omitempty"`
	Port         int    `json:"vmPort,omitempty"`
	DeploymentID string `json:"deploymentId,omitempty"`
}

// Mapping is a domain that leads to a port of a VM.
type Mapping struct {
	ID          string    `json:"id"`
	Domain      string    `json:"domain"`
	VM          vm.ID     `json:"vmId"`
	Port        uint16    `json:"vmPort"`
	OwnershipID string    `json:"ownershipId"`
	CreatedAt   time.Time `json:"createdAt"`
	URL         string    `json:"url,omitempty"`         // ours, like the next
	Certificate string    `json:"certificate,omitempty"` // text: until when it is valid, or why it is missing
}

// VMDomain is one of the domains that create maps.
type VMDomain struct {
	Domain string `json:"domain"`
	Port   int    `json:"vmPort,omitempty"`
}

// DNSRecord is a record of a domain's zone.
type DNSRecord struct {
	Kind     string `json:"kind"`
	Name     string `json:"name"`
	Value    string `json:"value"`
	TTL      string `json:"ttl,omitempty"`
	Priority *int   `json:"priority,omitempty"`
	Managed  bool   `json:"managed"`
}

// DNSRecords is the answer to GET /dns/v1/records.
type DNSRecords struct {
	Records []DNSRecord `json:"records"` // never null
}

// NewDNSRecord is the body of POST /dns/v1/records.
type NewDNSRecord struct {
	Domain string    `json:"domain"`
	Record DNSRecord `json:"record"`
}
