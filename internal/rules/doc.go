// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package rules holds the rules of this repository as tests: which package
// may import which, what a file begins with, how long a page may be. It has
// no code that runs in the product.
package rules
