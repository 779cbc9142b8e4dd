// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package image builds Debian images from recipes, without root, and manages the finished
// ones: list, find, remove. It also composes the initial file system of an image and an
// agent. It runs mmdebstrap, mke2fs and qemu-img, but never a virtual machine: a caller
// that wants a warm generation passes a function that makes one. It writes only below
// DATA/images, DATA/cache and DATA/bin. cmd/warren and the engine use it.
package image
