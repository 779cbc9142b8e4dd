// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package engine holds Warren's use cases: what each verb does to a virtual
// machine, in which order, and what is taken back when a step fails. It is
// the only place that changes a VM's state. It starts no process, opens no
// socket and parses no request itself: it declares the interfaces it needs
// (ports.go), and the doors (httpd, gateways) call its methods.
//
// Each method takes a context, which limits waiting, and a *vm.Call, which
// says who asks. A VM of another account does not exist for the caller.
package engine
