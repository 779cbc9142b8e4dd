// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package usernet

import (
	"context"
	"net"

	"github.com/warren-vm/warren/internal/egress"
	"github.com/warren-vm/warren/vm"
)

// Interceptor ends the TLS of hosts whose requests must be read: hosts with a secret, and
// hosts with a rule about methods or paths.
type Interceptor interface {
	// Wants reports whether TLS connections to a name and port are intercepted under p.
	Wants(p vm.NetworkPolicy, name string, port uint16) bool
	// Serve takes over a connection of the guest, whose TLS greeting is still to be read
	// from c, and closes it at its end.
	Serve(c net.Conn, d Intercepted)
}

// Intercepted is one connection that an Interceptor serves. Its functions may be called
// from any goroutine until the connection is closed.
type Intercepted struct {
	Name string // that the guest's greeting names, in normal form
	Port uint16
	// Dial connects to an address of Name that the policy allows. The caller closes it.
	Dial func(ctx context.Context) (net.Conn, error)
	// Policy returns the policy in force.
	Policy func() vm.NetworkPolicy
	// Judge judges one request. path is as it stands in the request line, without the query.
	// A change of the policy judges it again until the caller calls done.
	Judge func(method, path string) (v egress.Verdict, done func())
	// Note says how the connection is carried (vm.NetIntercepted, vm.NetInjected) and which
	// secrets were put in, each in the place of the Placeholder of its use. The connection is
	// cut when the policy has such a use no longer.
	Note func(how string, used ...vm.SecretUse)
	// Refuse records a refused request.
	Refuse func(method, path string, v egress.Verdict)
}
