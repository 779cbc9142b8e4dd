// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package imagefile writes an image into one signed file, and adds images from such files to a
// data directory. A file has the disk, the kernel and its modules, and the recipe. It has no
// warm generation, which belongs to one agent and one QEMU: the importer's caller makes one.
//
// What another server wrote is hostile: the signer must be trusted, every name and size is
// checked, every byte has the sum that was signed, and the image appears whole or not at all.
package imagefile
