// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package kvm tests capture and fork under real hardware virtualisation, with
// package qemu as the product uses it and a guest of 512 bytes: that runs also
// where a stock kernel does not, as on many hosts with nested virtualisation. It
// needs the build tag kvm; without a /dev/kvm that opens it is skipped.
package kvm
