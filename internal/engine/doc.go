// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package engine holds Warren's use cases: what each verb does to a virtual machine, in
// which order, and what is undone when a step fails. Only the engine changes a VM's
// state. It starts no process, opens no socket and parses no request itself: it declares
// the interfaces it needs (ports.go), and the doors (httpd, gateways) call its methods.
//
// Each method takes a context, which limits waiting, and a *vm.Call, which identifies the
// caller. A caller cannot see that VMs of other accounts exist.
package engine
