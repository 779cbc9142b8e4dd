// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package warm makes the warm generation of an image, on which every VM of it
// is started, and finds out by booting a guest which accelerator this host
// really has. It starts machines through a monitor.Launcher as everyone does
// and keeps no records: a warm generation is found again by its key. The
// wiring of `serve` and `warren image build` and `warren doctor` may call it.
package warm
