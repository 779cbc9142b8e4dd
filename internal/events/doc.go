// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package events is a host's stream of events: an append-only log in segment
// files, read from any point that is still kept and followed live. Ids rise by
// one and are never given twice, over restarts and crashes too. It knows
// nothing of who may see an event; its reader filters.
package events
