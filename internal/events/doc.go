// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

// Package events is a host's event log: append-only segment files, which can be
// read from any event that is still kept and followed live. Ids rise by one and are
// never used twice, also across restarts and crashes. The log does not know who may
// see an event; its reader filters.
package events
