// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"
)

// NetworkMode says what a guest may reach when no rule of its policy decides.
type NetworkMode string

// The network modes.
const (
	NetClosed   NetworkMode = "closed"   // nothing
	NetPackages NetworkMode = "packages" // the registries the image's own package managers use
	NetOpen     NetworkMode = "open"     // the public internet, never private or host addresses
)

// NetworkPolicy is what one VM may reach. The first rule that matches a request decides; if
// none does, the mode decides.
type NetworkPolicy struct {
	Mode NetworkMode `json:"mode"`
	// Hosts are the hosts that mode packages allows, from the image.
	Hosts []Registry `json:"hosts,omitempty"`
	Rules []NetRule  `json:"rules,omitempty"`
	// Named are the policies of the account that the policy was made from, in the order in
	// which they were named. Their rules are in Rules, with their name in From.
	Named []string `json:"named,omitempty"`
	// Secrets are the uses of secrets that its network puts in for the guest. They hold no
	// secret.
	Secrets []SecretUse `json:"secrets,omitempty"`
}

// Digest names a policy by its content: 64 hex digits, the SHA-256 of its JSON.
func (p NetworkPolicy) Digest() string {
	data, err := json.Marshal(p)
	if err != nil {
		return "" // it has only types that JSON can write
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// NetAction is what a rule does with a request that it matches.
type NetAction string

// The actions of rules.
const (
	NetAllow NetAction = "allow"
	NetDeny  NetAction = "deny"
)

// NetRule is one rule of a network policy.
type NetRule struct {
	// ID names the rule in its policy: "r-" and 6 lower-case letters or digits. The server
	// chooses it.
	ID     string    `json:"id,omitempty"`
	Action NetAction `json:"action"`
	// To is an exact host name, "*." and a domain (every name below it, not the domain
	// itself), an IP address, a CIDR, or "*" (every public address).
	To string `json:"to"`
	// Ports that the rule is about; none = 80 and 443 for names and "*", all for addresses.
	// A rule that denies and names no port is about all ports of all protocols.
	Ports []PortRange `json:"ports,omitempty"`
	// Proto is "tcp" or "udp"; "" = tcp.
	Proto string `json:"proto,omitempty"`
	// Methods are the HTTP methods in upper case, and Paths the patterns of the paths, that
	// the rule is about; none = all. In a pattern, "*" stands for a part of one segment and
	// "**" at the end for the rest. A host with such a rule is intercepted on TLS ports.
	Methods []string `json:"methods,omitempty"`
	Paths   []string `json:"paths,omitempty"`
	Limit   NetLimit `json:"limit,omitzero"`
	// Until is when the rule ends; zero = never.
	Until time.Time `json:"until,omitzero"`
	// From is the named policy that the rule belongs to, or the ask that it came from; "" =
	// the VM's own.
	From string `json:"from,omitempty"`
}

// HTTP reports whether the rule is about requests of HTTP, not whole connections.
func (r NetRule) HTTP() bool { return len(r.Methods) > 0 || len(r.Paths) > 0 }

// PortRange is the ports from First to Last, both included.
type PortRange struct {
	First int `json:"first"`
	Last  int `json:"last"`
}

// NetLimit limits what one rule of one VM lets through; a zero field is no limit.
type NetLimit struct {
	Connections int   `json:"connections,omitempty"` // open at once
	Bytes       int64 `json:"bytes,omitempty"`       // both ways, in all connections, since the rule was made or the machine started
	Rate        int64 `json:"rate,omitempty"`        // bytes a second, each way
}

// SecretUse says where the network of a VM puts a secret in. The guest holds the placeholder.
type SecretUse struct {
	ID          string `json:"id"`          // of the secret: a later secret with its name is another one
	Name        string `json:"name"`        // of the secret, in the VM's account
	Env         string `json:"env"`         // environment variable in the guest that holds the placeholder
	Placeholder string `json:"placeholder"` // of this VM alone
	// Prefix is the beginning of the placeholder that is the secret's own, such as ghp_.
	Prefix string `json:"prefix,omitempty"`
	// Inherited are placeholders of the VMs that this one was forked from, the newest last:
	// programs that were running at the fork hold them in memory.
	Inherited []string `json:"inherited,omitempty"`
	Host      string   `json:"host"`   // exact, lower case
	Port      int      `json:"port"`   // 443 unless the secret says otherwise
	Header    string   `json:"header"` // the one header, in canonical form
	Methods   []string `json:"methods,omitempty"`
	Paths     []string `json:"paths,omitempty"`
}

// Registry is one package registry that an image's package manager is
// configured for.
type Registry struct {
	Host    string `json:"host"`    // lower case DNS name, without a port
	Port    int    `json:"port"`    // TCP port
	Manager string `json:"manager"` // apt, npm, pip, go, cargo
}

// ParseNetworkMode checks s. The error has kind Invalid.
func ParseNetworkMode(s string) (NetworkMode, error) {
	switch m := NetworkMode(s); m {
	case NetClosed, NetPackages, NetOpen:
		return m, nil
	}
	return "", Errorf(Invalid, s, "is not a network mode").WithHint("use closed, packages or open")
}

// How the network carried a connection.
const (
	NetPassed      = "passed"      // its bytes were not changed
	NetIntercepted = "intercepted" // its requests were read, with a certificate of the VM's own CA
	NetInjected    = "injected"    // intercepted, and a secret was put into a request
	NetRefused     = "refused"
)

// Connection is one connection of a guest to the outside, or one HTTP request that was
// refused, and the decision of the egress policy.
type Connection struct {
	Time     time.Time     `json:"time"`
	Proto    string        `json:"proto"` // tcp, udp, dns, icmp
	Dest     string        `json:"dest"`  // address and port, or the requested name
	Name     string        `json:"name,omitempty"`
	Allowed  bool          `json:"allowed"`
	Reason   string        `json:"reason"`           // why it was allowed or refused, for people
	How      string        `json:"how,omitempty"`    // passed, intercepted, injected or refused
	Rule     string        `json:"rule,omitempty"`   // id of the rule that decided; "" = the mode
	Policy   string        `json:"policy,omitempty"` // digest of the policy that decided
	Method   string        `json:"method,omitempty"` // of a refused HTTP request
	Path     string        `json:"path,omitempty"`   // of a refused HTTP request, without its query
	Secrets  []string      `json:"secrets,omitempty"`
	Up       int64         `json:"up"`   // bytes from the guest
	Down     int64         `json:"down"` // bytes to the guest
	Duration time.Duration `json:"duration,omitempty"`
}

// NetQuestion asks what a policy says of a request, without making it.
type NetQuestion struct {
	Host   string `json:"host"`             // a host name or an IP address
	Port   int    `json:"port,omitempty"`   // 0 = 443
	Proto  string `json:"proto,omitempty"`  // tcp or udp; "" = tcp
	Method string `json:"method,omitempty"` // "" = the whole connection
	Path   string `json:"path,omitempty"`   // "" = the whole connection
}

// NetAnswer is what a policy says of a request.
type NetAnswer struct {
	Allowed bool     `json:"allowed"`
	Reason  string   `json:"reason"`           // for people
	Rule    *NetRule `json:"rule,omitempty"`   // that decides; nil = the mode
	How     string   `json:"how"`              // passed, intercepted, injected or refused
	Policy  string   `json:"policy,omitempty"` // digest
	Next    string   `json:"next,omitempty"`   // what to do about a refusal
}
