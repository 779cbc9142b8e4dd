// Copyright 2026 The Warren Authors
// SPDX-License-Identifier: Apache-2.0

package outside

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/warren-vm/warren/vm"
)

// The headers of a webhook's call. The signature is "sha256=" and the HMAC-SHA256 of the
// body in hex, by the webhook's secret.
const (
	headerEvent     = "X-Warren-Event"
	headerDelivery  = "X-Warren-Delivery"
	headerSignature = "X-Warren-Signature-256"
)

// hookTime bounds one call of a webhook.
const hookTime = 15 * time.Second

// Pauses are those before the second and every further try of a webhook's call.
var Pauses = []time.Duration{10 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour}

// Hook is one call of a webhook.
type Hook struct {
	URL    string
	Secret string // signs the body
	Event  string
	ID     string // the same in every try
	Body   []byte // JSON
}

// Post calls a webhook once. status is 0 without an answer. It blocks for at most 15 s. An
// answer other than 2xx is an error. No error has the URL, which may hold a password.
func (h Hook) Post(ctx context.Context, client *http.Client) (status int, err error) {
	ctx, stop := context.WithTimeout(ctx, hookTime)
	defer stop()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.URL, bytes.NewReader(h.Body))
	if err != nil {
		return 0, plainCause(ctx, err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "warren-webhook")
	req.Header.Set(headerEvent, h.Event)
	req.Header.Set(headerDelivery, h.ID)
	req.Header.Set(headerSignature, sign(h.Secret, h.Body))
	resp, err := client.Do(req)
	if err != nil {
		return 0, plainCause(ctx, err)
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	if resp.StatusCode/100 != 2 {
		return resp.StatusCode, fmt.Errorf("the endpoint answered %d", resp.StatusCode)
	}
	return resp.StatusCode, nil
}

// plainCause leaves the URL out of an error.
func plainCause(ctx context.Context, err error) error {
	var refused *vm.Error
	switch {
	case errors.As(err, &refused):
		return refused
	case ctx.Err() != nil:
		return fmt.Errorf("no answer within %s", hookTime)
	}
	if u := errors.Unwrap(err); u != nil {
		return u
	}
	return err
}

// sign returns the value of the signature's header.
func sign(secret string, body []byte) string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write(body)
	return "sha256=" + hex.EncodeToString(m.Sum(nil))
}
