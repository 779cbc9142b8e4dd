// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package repo

import "time"

// SetPauses sets the pauses between the tries of a webhook's call. Call it before the
// first push.
func (r *Repo) SetPauses(p []time.Duration) { r.hooks.pauses = p }
