// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package image builds Debian images from recipes, without root, and keeps the
// ones that were built: list, find, remove. It also composes the
// initial file system of an image and an agent. It runs mmdebstrap, mke2fs and
// qemu-img, and never a virtual machine: who wants a warm generation of an
// image passes a function that makes one. It writes only below DATA/images,
// DATA/cache and DATA/bin. For cmd/warren and the engine.
package image
