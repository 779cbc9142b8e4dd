// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package vm defines Warren's terms: the nouns of the product, their ids, the states of a virtual
// machine and which verb is allowed in which state, and the kinds of failure. It touches no disk,
// process or network, imports only the standard library, and every other package may import it.
package vm
