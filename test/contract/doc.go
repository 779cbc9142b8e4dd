// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package contract holds the tests of the HTTP contract: scripts that drive the
// unmodified npm packages freestyle 0.1.63 and freestyle-sandboxes 0.1.46
// against a server that FREESTYLE_API_URL and FREESTYLE_API_KEY name, and Go
// tests that run the scripts against the API over simulated machines and compare
// Warren's error codes with the packages' own. It holds no code of the product.
package contract
