// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/warren-vm/warren/internal/asks"
	"github.com/warren-vm/warren/internal/layout"
	"github.com/warren-vm/warren/internal/outside"
	"github.com/warren-vm/warren/vm"
)

// askWebhook returns where asks are announced. The secret that signs the calls is made once.
func askWebhook(url string, dir layout.Dir) (asks.Webhook, error) {
	if url == "" {
		return asks.Webhook{}, nil
	}
	if _, err := outside.CheckURL(url); err != nil {
		return asks.Webhook{}, err
	}
	name := dir.AskWebhookSecret()
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		data = []byte("whs_" + vm.NewSecret() + "\n")
		err = layout.WriteFile(name, data, 0o600)
	}
	if err != nil {
		return asks.Webhook{}, vm.Errorf(vm.Internal, name, "%w", err)
	}
	secret := strings.TrimSpace(string(data))
	if len(secret) < 16 {
		return asks.Webhook{}, vm.Errorf(vm.Corrupt, name, "the secret has fewer than 16 characters").WithHint("remove the file, and the server makes another one")
	}
	return asks.Webhook{URL: url, Secret: secret}, nil
}
