// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package proxy lets programs inside a VM reach services of the host by name, such as
// https://git.warren.internal, without a secret in the guest.
//
// The VM's monitor has a Proxy: the VM's own network hands it the guest's connections. It
// ends TLS with a certificate of the host's Authority, and passes each request to the
// handler of its name. Upstream is the handler that forwards to the server.
//
// The server has a Door, a socket that only processes of its own user may open. A monitor
// says for which VM it speaks, and the door checks that: the kernel names the process at
// the other end, and it must be that VM's monitor. A guest cannot choose: it never sees
// the socket, and the monitor replaces the header.
package proxy
