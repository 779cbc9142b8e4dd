// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// The bounds of network policies. A policy is written whole into the audit record of each
// change.
const (
	MaxNetRules      = 200      // of one VM
	MaxNetPolicy     = 24 << 10 // bytes of one VM's policy as JSON
	MaxNamedPolicies = 100      // of an account
)

// NetworkSpec asks for a network: either words, such as "packages,api.example.com:443", or
// the JSON of a NetworkRequest. "" asks for the default. As JSON it is a string or an object.
type NetworkSpec string

// NetworkRequest is the long form of a NetworkSpec.
type NetworkRequest struct {
	Mode     NetworkMode `json:"mode,omitempty"` // "" = the mode of a named policy, else closed
	Policies []string    `json:"policies,omitempty"`
	// Rules come after those of the policies. To may hold a protocol and a port, as in
	// "udp:1.1.1.1:53". The action "" allows.
	Rules []NetRule `json:"rules,omitempty"`
}

// Spec returns the request as a NetworkSpec.
func (r NetworkRequest) Spec() NetworkSpec {
	data, err := json.Marshal(r)
	if err != nil {
		return "" // it has only types that JSON can write
	}
	return NetworkSpec(data)
}

// Long reports whether a spec is the JSON of a NetworkRequest.
func (s NetworkSpec) Long() bool { return strings.HasPrefix(string(s), "{") }

// MarshalJSON writes a string or an object.
func (s NetworkSpec) MarshalJSON() ([]byte, error) {
	if s.Long() {
		return []byte(s), nil
	}
	return json.Marshal(string(s))
}

// UnmarshalJSON reads a string or an object. It refuses members that it does not know.
func (s *NetworkSpec) UnmarshalJSON(data []byte) error {
	if !bytes.HasPrefix(data, []byte("{")) {
		var words string
		if err := json.Unmarshal(data, &words); err != nil {
			return err
		}
		if strings.HasPrefix(words, "{") {
			return Errorf(Invalid, "network", "is neither words nor an object")
		}
		*s = NetworkSpec(words)
		return nil
	}
	r, err := ParseNetworkRequest(data)
	if err == nil {
		*s = r.Spec()
	}
	return err
}

// ParseNetworkRequest decodes the JSON of a NetworkRequest; kind Invalid.
func ParseNetworkRequest(data []byte) (r NetworkRequest, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		return r, Errorf(Invalid, "network", "is not an object of mode, policies and rules: %w", err)
	}
	return r, nil
}

// NamedPolicy is a network policy of an account that VMs use by its name.
type NamedPolicy struct {
	Name    string      `json:"name"`
	Account AccountID   `json:"account,omitempty"`
	Mode    NetworkMode `json:"mode,omitempty"` // "" = the VM says it
	Rules   []NetRule   `json:"rules,omitempty"`
	// Shipped says that the policy came with Warren: every account has it, and nobody can
	// change it.
	Shipped   bool      `json:"shipped,omitempty"`
	About     string    `json:"about,omitempty"` // for people
	CreatedAt time.Time `json:"createdAt,omitzero"`
	UpdatedAt time.Time `json:"updatedAt,omitzero"`
}

var policyName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,38}$`)

// CheckPolicyName refuses what is no name of a policy: lower-case letters, digits and "-",
// at most 39, a letter first. A name has no dot, so that it is no host name.
func CheckPolicyName(s string) error {
	if !policyName.MatchString(s) {
		return Errorf(Invalid, s, "is not a name of a policy").WithHint("use lower-case letters, digits and -, a letter first, at most 39")
	}
	return nil
}

// NewRuleID returns the id of a new network rule.
func NewRuleID() string { return "r-" + randomID(6) }

// Text writes what a rule is about, as in api.example.com:443 or udp:192.0.2.1:53, with its
// methods before it and its paths after it.
func (r NetRule) Text() string {
	s := r.To
	if len(r.Ports) > 0 {
		if strings.Contains(s, ":") {
			s = "[" + s + "]"
		}
		list := make([]string, len(r.Ports))
		for i, p := range r.Ports {
			if list[i] = strconv.Itoa(p.First); p.Last != p.First {
				list[i] += "-" + strconv.Itoa(p.Last)
			}
		}
		s += ":" + strings.Join(list, ",")
	}
	if r.Proto == "udp" {
		s = "udp:" + s
	}
	if len(r.Methods) > 0 {
		s = strings.Join(r.Methods, ",") + " " + s
	}
	if len(r.Paths) > 0 {
		s += " " + strings.Join(r.Paths, ",")
	}
	return s
}

// NetworkChanged is what a change of a VM's network policy did.
type NetworkChanged struct {
	VM VM
	// Policy is the policy of the VM after the change; with a dry run, the one that it
	// would have.
	Policy NetworkPolicy
	Widens []string     // what is allowed now and was not before, in words
	Cut    []Connection // open connections that the change closed
	DryRun bool         // nothing was changed
}

// NetRefusal is what a VM's network refused, told to people: requests to the same place for
// the same reason are one.
type NetRefusal struct {
	Last   time.Time `json:"last"`
	Count  int       `json:"count"`
	Proto  string    `json:"proto"`
	Host   string    `json:"host"` // a name, else an address
	Port   int       `json:"port,omitempty"`
	Method string    `json:"method,omitempty"`
	Path   string    `json:"path,omitempty"`
	Reason string    `json:"reason"`         // as recorded then
	Now    NetAnswer `json:"now"`            // what the policy says at present
	Rule   string    `json:"rule,omitempty"` // that would allow it, as text; "" = no rule can
}
