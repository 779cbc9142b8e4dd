// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package vmtest simulates a host: machines that keep their state while engines come and
// go, guests with a file tree and a small shell, images, a clock. It is for tests of
// engine, httpd and cli only. Simulators hold state rather than expectations. Tests make
// them fail, hang or die at a named step.
package vmtest
