// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package seal compresses and encrypts files that are at rest: memory and
// device state of generations that are cold or leave the host. The encryption
// is age's (X25519, ChaCha20-Poly1305 in chunks), nothing of it is made here.
// A key is kept only wrapped by the host's key; deleting the wrapped key is the
// erase. It does not decide what is sealed when, nor where wrapped keys are
// kept. For the engine's wiring and, by its keys, for volumes.
package seal
