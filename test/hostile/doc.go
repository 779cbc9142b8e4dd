// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package hostile plays a guest whose root has taken over the agent's end of the
// link: raw messages, endless lists, forged errors. It has only tests, and no
// guest: what a guest can send is sent to the host's packages themselves.
package hostile
