// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package api

// SSHInfo answers GET /v1/ssh.
type SSHInfo struct {
	Address string `json:"address"` // where the gateway listens; "" = nowhere, only through the API
	HostKey string `json:"hostKey"` // type and key, in the format of known_hosts
}
