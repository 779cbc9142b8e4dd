// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package rules holds the rules of this repository as tests: who may import
// whom, what a file begins with, how long a page may be. It has no code that
// runs in the product.
package rules
