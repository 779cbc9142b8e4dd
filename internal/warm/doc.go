// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package warm makes the warm generation of an image, on which all its VMs start,
// and finds the accelerator that works on this host by booting a guest. It starts
// machines through a monitor.Launcher and keeps no records: a warm generation is
// found by its key. The wiring of `serve`, `warren image build` and `warren doctor`
// may call it.
package warm
