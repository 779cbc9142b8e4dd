// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package devcontainer reads devcontainer.json, which describes the container that a project is
// worked on in (https://containers.dev). It takes the part that means something for a VM, and
// names every other key, so that nothing is left out silently. It opens no file and runs
// nothing. The text is the project's and is hostile: its size, depth and lists are bounded.
package devcontainer
