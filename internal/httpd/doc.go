// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package httpd is the HTTP door: one table of routes with the right that each needs, and
// handlers that decode, call the engine and encode. It changes no state and decides
// nothing about a VM. Its JSON follows the HTTP contract of the npm packages `freestyle`
// 0.1.63 and `freestyle-sandboxes` 0.1.46. Warren's own routes have the same style.
package httpd
