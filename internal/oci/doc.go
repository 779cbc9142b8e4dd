// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package oci gets container images and makes one tree of their layers. An image comes from a
// registry, from a directory in the OCI layout, or from an archive; its parts are kept in a
// cache and checked against their digests. Flatten turns the layers into one tar that is safe
// to unpack: an image is hostile, and no program but this package reads its layers. Package
// image makes disks of these trees.
package oci
