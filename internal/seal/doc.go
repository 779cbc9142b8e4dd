// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package seal compresses and encrypts files at rest: memory and device state of
// generations that are cold or leave the host. Package age does the encryption
// (X25519, ChaCha20-Poly1305 in chunks). A key is stored only wrapped by the host's
// key; deleting the wrapped key erases the data. This package does not decide what
// is sealed when, nor where wrapped keys are kept. For the engine's wiring and, by
// its keys, for volumes.
package seal
