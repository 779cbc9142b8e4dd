// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package vm is Warren's dictionary: the nouns of the product, their ids,
// the states a virtual machine can be in and which verb is legal in which
// state, and the kinds of failure. It holds no behaviour that touches a disk,
// a process or a network, imports only the standard library, and may be
// imported by every other package.
package vm
