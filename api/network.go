// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"time"

	"github.com/warren-vm/warren/vm"
)

// Network answers GET network: what a VM may reach.
type Network struct {
	Mode       vm.NetworkMode `json:"mode"`
	Rules      []vm.NetRule   `json:"rules"`      // in the order in which they are tried
	Policies   []string       `json:"policies"`   // that the VM uses; their rules are in rules
	Registries []vm.Registry  `json:"registries"` // that mode packages allows
	Secrets    []NetworkUse   `json:"secrets"`    // that its network puts in
	Digest     string         `json:"digest"`     // of the policy, as audit records have it
}

// NetworkUse is one use of a secret.
type NetworkUse struct {
	Name    string   `json:"name"`
	Host    string   `json:"host"`
	Port    int      `json:"port"`
	Header  string   `json:"header"`
	Methods []string `json:"methods,omitempty"`
	Paths   []string `json:"paths,omitempty"`
}

// SetNetwork is the body of PUT network. It replaces the policy. Either Network or the
// other members say it.
type SetNetwork struct {
	Mode     vm.NetworkMode `json:"mode,omitempty"`
	Policies []string       `json:"policies,omitempty"`
	Rules    []vm.NetRule   `json:"rules,omitempty"`
	Network  vm.NetworkSpec `json:"network,omitempty"` // as on create
	DryRun   bool           `json:"dryRun,omitempty"`  // change nothing
	Force    bool           `json:"force,omitempty"`   // even if it cuts the VM's connection to the server
}

// ChangeNetwork is the body of PATCH network. Rules are removed first, then the mode is set,
// then rules are added at the end, or with First before all others.
type ChangeNetwork struct {
	Mode   vm.NetworkMode `json:"mode,omitempty"`
	Allow  []vm.NetRule   `json:"allow,omitempty"`  // to may be a text such as udp:192.0.2.1:53
	Deny   []vm.NetRule   `json:"deny,omitempty"`   //
	Remove []string       `json:"remove,omitempty"` // ids or targets of rules, or names of policies
	First  bool           `json:"first,omitempty"`
	For    vm.Seconds     `json:"forSeconds,omitempty"` // after which the new rules end; 0 = never
	DryRun bool           `json:"dryRun,omitempty"`
	Force  bool           `json:"force,omitempty"`
}

// ChangedNetwork answers PUT and PATCH network.
type ChangedNetwork struct {
	VM
	Policy      Network         `json:"policy"`      // that the VM has now, or would have
	Widens      []string        `json:"widens"`      // what is newly allowed, in words
	Cut         int             `json:"cut"`         // open connections that were closed, or would be
	Connections []vm.Connection `json:"connections"` // those
	DryRun      bool            `json:"dryRun,omitempty"`
}

// NetRefusals answers GET network/refusals.
type NetRefusals struct {
	Refusals []vm.NetRefusal `json:"refusals"`
}

// Policy is a named network policy of the account.
type Policy struct {
	Name      string         `json:"name"`
	Mode      vm.NetworkMode `json:"mode,omitempty"` // absent = the VM says it
	Rules     []vm.NetRule   `json:"rules"`
	Shipped   bool           `json:"shipped"` // it came with Warren
	About     string         `json:"about,omitempty"`
	CreatedAt time.Time      `json:"createdAt,omitzero"`
	UpdatedAt time.Time      `json:"updatedAt,omitzero"`
	VMs       []PolicyVM     `json:"vms"` // of this server, that use it; empty in lists
}

// PolicyVM is a VM that uses a named policy.
type PolicyVM struct {
	ID   vm.ID  `json:"id"`
	Name string `json:"name,omitempty"`
	Why  string `json:"why,omitempty"` // it has not the present rules yet, because
}

// PolicyList answers GET /v1/policies.
type PolicyList struct {
	Policies []Policy `json:"policies"`
}

// SetPolicy is the body of PUT /v1/policies/{policy}.
type SetPolicy struct {
	Network vm.NetworkSpec `json:"network"` // as on create
}

// ChangedPolicy answers PUT /v1/policies/{policy}. The VMs of the policy have its rules,
// except those with a reason, which get them soon.
type ChangedPolicy struct {
	Policy
	Cut int `json:"cut"` // open connections that were closed
}
